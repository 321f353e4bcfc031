"""ResourceClaimTemplates on a real API server: created before an answer, refused, planted, collected."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import structlog

from tests.waiting import alongside, until
from webhook.cluster.claims import RESOURCE, ClaimTemplates, RefusedError
from webhook.cluster.client import Answer, Api
from webhook.cluster.connection import connect
from webhook.labels import CLAIM
from webhook.request import ClaimTemplate

from .client import Object
from .objects import namespace
from .plane import ControlPlane

pytestmark = [
    pytest.mark.controlplane,
    pytest.mark.kubernetes("1.36", why="older API servers drop the capacity of a claim"),
]

VERSION = "resource.k8s.io/v1"
NUMBERS = itertools.count()


def spec(memory: str = "4Gi") -> dict[str, Any]:
    """What a template says, with all that the API server would fill in."""
    exactly = {"deviceClassName": "gpu.example", "allocationMode": "ExactCount", "count": 1}
    exactly["capacity"] = {"requests": {"memory": memory}}
    return {"metadata": {}, "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}}


def template(memory: str = "4Gi") -> ClaimTemplate:
    """One with its name."""
    return ClaimTemplate.of(spec(memory))


def pod(*names: str) -> Object:
    """A pod that names templates."""
    claims = [{"name": f"gpu-{number}", "resourceClaimTemplateName": name} for number, name in enumerate(names)]
    metadata = {"name": f"claims-{next(NUMBERS)}", "labels": {CLAIM: "true"}}
    body: Object = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
    body["spec"] = {"containers": [{"name": "main", "image": "app"}], "resourceClaims": claims}
    return body


class Counted:
    """An API server whose requests are counted; `go` holds those that create back."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.requests: list[str] = []
        self.go = asyncio.Event()
        self.go.set()

    async def request(self, method: str, path: str, **more: Any) -> Answer:
        self.requests.append(f"{method} {path}")
        if method == "POST":
            await self.go.wait()
        return await self.api.request(method, path, **more)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.api, name)


@asynccontextmanager
async def running(plane: ControlPlane, **more: Any) -> AsyncIterator[tuple[Counted, ClaimTemplates]]:
    """Follow the templates and pods of a control plane."""
    api = Counted(await connect(plane.kubeconfig))
    templates = ClaimTemplates(api, structlog.get_logger(), lambda _: [template()], **more)
    async with alongside(templates.templates.run(), templates.pods.run()):
        await templates.templates.synced.wait()
        await templates.pods.synced.wait()
        yield api, templates
    await api.close()


def known(templates: ClaimTemplates, team: str) -> list[str]:
    """The templates of a namespace that are known: other tests have theirs."""
    return [key.partition("/")[2] for key in templates.templates.objects if key.startswith(f"{team}/")]


@pytest.fixture
def team(control_plane: ControlPlane) -> Iterator[str]:
    """A namespace of its own."""
    name = f"claims-{next(NUMBERS)}"
    control_plane.create_namespace(namespace(name))
    yield name
    for resource, version in (("pods", "v1"), (RESOURCE, VERSION)):
        for found in control_plane.client.list(version, resource, name):
            control_plane.client.delete(version, resource, found["metadata"]["name"], name)


def stored(plane: ControlPlane, team: str) -> list[str]:
    """The templates there."""
    return [each["metadata"]["name"] for each in plane.client.list(VERSION, RESOURCE, team)]


async def test_one_request_for_all_reviews(control_plane: ControlPlane, team: str) -> None:
    """Those that wait share it, those that follow need none; what is stored is what was sent."""
    async with running(control_plane) as (api, templates):
        await asyncio.gather(*[templates.provide(team, [template()]) for _ in range(20)])
        await templates.provide(team, [template()])
        await until(lambda: known(templates, team))
        await templates.provide(team, [template()])
        assert [each for each in api.requests if each.startswith("POST")] == [
            f"POST /apis/resource.k8s.io/v1/namespaces/{team}/{RESOURCE}"
        ]
        assert templates.templates.objects[f"{team}/{template().name}"].genuine
    assert stored(control_plane, team) == [template().name]


async def test_of_another_replica(control_plane: ControlPlane, team: str) -> None:
    """Two replicas create it at once: one of them finds that of the other."""
    async with running(control_plane) as (_, first), running(control_plane) as (_, second):
        await asyncio.gather(first.provide(team, [template()]), second.provide(team, [template()]))
        assert first.counts + second.counts == {"created": 1, "existed": 1}


async def test_a_planted_one_is_refused(control_plane: ControlPlane, team: str) -> None:
    """Before the watch shows it and after; it is left to whoever made it."""
    planted = {"apiVersion": VERSION, "kind": "ResourceClaimTemplate", "spec": spec("80Gi")}
    planted["metadata"] = {"name": template().name, "labels": {CLAIM: "true"}}
    async with running(control_plane) as (_, templates):
        await asyncio.to_thread(control_plane.client.create, planted, team)
        for _ in range(2):
            with pytest.raises(RefusedError, match="other content than its name says: delete it"):
                await templates.provide(team, [template()])
            await until(lambda: known(templates, team))
    assert stored(control_plane, team) == [template().name]


async def test_a_quota_refuses(control_plane: ControlPlane, team: str) -> None:
    """With the text of the API server; asked once a second, however many pods there are."""
    quota: Object = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"}}
    quota["spec"] = {"hard": {f"count/{RESOURCE}.resource.k8s.io": "0"}}
    made = control_plane.client.create(quota, team).accepted()
    made["status"] = {"hard": quota["spec"]["hard"], "used": {f"count/{RESOURCE}.resource.k8s.io": "0"}}
    control_plane.client.patch("v1", "resourcequotas", "none/status", {"status": made["status"]}, team).accepted()
    async with running(control_plane) as (api, templates):
        for _ in range(5):
            with pytest.raises(RefusedError, match="exceeded quota: none"):
                await templates.provide(team, [template()])
        assert sum(each.startswith("POST") for each in api.requests) == 1
