"""Making up for templates while API servers refuse or are silent; the rest is tested on a real one."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from tests.waiting import alongside
from webhook.cluster.claim_templates import GROUP, PODS, RESOURCE, RETRY, ClaimTemplates, RefusedError
from webhook.cluster.client.api import UnreachableError
from webhook.labels import CLAIM
from webhook.request import ClaimTemplate

from .fake_api import FakeApi
from .things import refusal

TEMPLATE = ClaimTemplate.of({"metadata": {}, "spec": {"devices": {}}})
CREATE = f"{GROUP}/namespaces/team/{RESOURCE}"
READ = "/api/v1/namespaces/team/pods/{}"


def pod(name: str) -> dict[str, Any]:
    """A pod that waits for the template."""
    claims = [{"name": "gpu", "resourceClaimTemplateName": TEMPLATE.name}]
    metadata = {"name": name, "namespace": "team", "resourceVersion": "1", "labels": {CLAIM: "true"}}
    return {"metadata": metadata, "spec": {"resourceClaims": claims}}


@asynccontextmanager
async def followed(answers: dict[str, Any], clock: list[float]) -> AsyncIterator[tuple[FakeApi, ClaimTemplates]]:
    """Templates of which none is known, and two pods that wait."""
    pods = [pod("a"), pod("b")]
    api = FakeApi({PODS: pods, f"{GROUP}/{RESOURCE}": [], **{READ.format(each): pod(each) for each in "ab"}, **answers})
    templates = ClaimTemplates(api, structlog.get_logger(), lambda _: [TEMPLATE], clock=lambda: clock[0])
    async with alongside(templates.pods.run()):
        await templates.pods.synced.wait()
        yield api, templates


@pytest.mark.parametrize("refused", [refusal(403, "Forbidden"), refusal(422, "Invalid")])
async def test_what_is_refused_is_tried_once_a_minute(refused: Any) -> None:
    """However often it is looked at, and with a line in the log each time."""
    clock = [0.0]
    async with followed({CREATE: refused}, clock) as (api, templates):
        with capture_logs() as logs:
            for seconds in (0.0, 5.0, RETRY - 10):
                clock[0] += seconds
                await templates.repair()
        assert [each["event"] for each in logs] == ["template_not_repaired"] * 2
        clock[0] += RETRY
        api.requests.clear()
        await templates.repair()
        assert sorted(each.what for each in api.requests) == ["GET a", "GET b", f"POST {RESOURCE}"]


async def test_a_silent_api_server_is_not_asked_for_each_pod() -> None:
    """Its watches say what is wrong."""
    silent = UnreachableError("no answer")
    async with followed({READ.format("a"): silent, READ.format("b"): silent}, [0.0]) as (api, templates):
        api.requests.clear()
        with capture_logs() as logs:
            await templates.repair()
        assert len(api.requests) == 1
        assert logs == []


async def test_what_the_api_server_changes_is_refused_and_deleted() -> None:
    """Without a feature gate it drops the capacities: a share would become a whole device."""
    stored = {"metadata": {"name": TEMPLATE.name, "uid": "made"}, "spec": {"metadata": {}, "spec": {}}}
    api = FakeApi({CREATE: stored, f"{CREATE}/{TEMPLATE.name}": stored})
    templates = ClaimTemplates(api, structlog.get_logger(), lambda _: [])
    with pytest.raises(RefusedError, match="DRAConsumableCapacity may be off"):
        await templates.provide("team", [TEMPLATE])
    assert [each.what for each in api.requests] == [f"POST {RESOURCE}", f"DELETE {TEMPLATE.name}"]
