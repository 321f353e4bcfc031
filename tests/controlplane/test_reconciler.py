"""Reconcilers on a real API server: two replicas, and hands that undo their work."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from unittest.mock import patch

import pytest
import structlog

from tests.waiting import alongside
from tests.waiting import until_there as until
from webhook.cluster.client import Api
from webhook.cluster.connection import connect
from webhook.cluster.registration.names import matched_names_of, names_set
from webhook.cluster.registration.stored import Stored, read_stored
from webhook.cluster.registration.wanted import API_VERSION, NAME, Site, Wanted, registration
from webhook.cluster.registration.writer import RegistrationMatter, RegistrationNotice, Writer, watch_registration
from webhook.mapping.load import load_policy

from .client import Object
from .objects import role
from .plane import ControlPlane
from .test_registration import CONFIGURATIONS, DEAD, OWN_LABEL

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(1200), pytest.mark.once("loss")]

SITE = Site(DEAD, b"-----BEGIN CERTIFICATE-----\n", "reconciler-own")
OLD = Wanted("0" * 12, matched_names_of(load_policy()), OWN_LABEL)
NEW = Wanted("1" * 12, names_set(prefixes=["c.example/"], keys=["c.example/y"]), OWN_LABEL)
QUIET = 1.0
ROLE = "reconciler-release"
RBAC = "rbac.authorization.k8s.io/v1"


@dataclass(frozen=True, slots=True)
class Replica:
    """A running writer, and its reports."""

    writer: Writer
    reports: list[RegistrationNotice]


class Cluster:
    """The webhook configuration as it stands, and what hands do to it."""

    def __init__(self, plane: ControlPlane) -> None:
        self._client = plane.client

    def found(self) -> Object | None:
        """The current content; None too while it is made, for it is filled a moment later."""
        answer = self._client.get(API_VERSION, CONFIGURATIONS, NAME)
        found = None if answer.status == 404 else answer.accepted()
        return found if found is not None and found.get("webhooks") else None

    def read(self) -> Stored:
        return read_stored(self.found() or {}, OWN_LABEL)

    def delete(self) -> None:
        self._client.delete(API_VERSION, CONFIGURATIONS, NAME)

    def change(self, change: Callable[[Object], None]) -> None:
        while True:
            found = self.found()
            assert found is not None
            change(found)
            path = f"/apis/{API_VERSION}/{CONFIGURATIONS}/{NAME}"
            answer = self._client.call("PUT", path, found)
            if answer.status != 409:
                answer.accepted()
                return


@pytest.fixture
def cluster(control_plane: ControlPlane) -> Iterator[Cluster]:
    """The API server without a webhook configuration, before and after."""
    cluster = Cluster(control_plane)
    cluster.delete()
    yield cluster
    cluster.delete()


@pytest.fixture
async def api(control_plane: ControlPlane) -> AsyncIterator[Api]:
    """The way to the API server that the webhook goes."""
    api = await connect(control_plane.kubeconfig)
    try:
        yield api
    finally:
        await api.close()


@asynccontextmanager
async def running(api: Api, want: Wanted, owner: str | None = None) -> AsyncIterator[Replica]:
    """A replica: a writer, and the watch that wakes it."""
    reports: list[RegistrationNotice] = []
    with patch.multiple("webhook.cluster.registration.writer", QUIET=QUIET, REPAIR_PAUSES=(0.1, 60.0)):
        writer = Writer(api, SITE, want, reports.append, owner=owner)
        watch = watch_registration(api, writer.check, structlog.get_logger())
        async with alongside(writer.run(), watch.run()):
            await watch.synced.wait()
            yield Replica(writer, reports)


async def test_policies_a_second_apart(api: Api, cluster: Cluster) -> None:
    """Both policies are served at once; when both replicas hold the new one and all is quiet, it stands alone."""
    async with running(api, OLD) as first, running(api, OLD) as other:
        await until(lambda: cluster.read().made_from == OLD, "created")
        first.writer.adopt(NEW)
        await until(
            lambda: cluster.read().made_from == replace(NEW, matched_names=OLD.matched_names | NEW.matched_names),
            "widened",
        )
        await until(lambda: len([*first.reports, *other.reports]) == 2, "told of both")
        other.writer.adopt(NEW)
        await until(lambda: cluster.read().made_from == NEW, "narrowed")
        # What is written is seen a moment before its writer hears of it.
        await until(lambda: len([*first.reports, *other.reports]) == 3, "told")
    assert {notice.matter for notice in (*first.reports, *other.reports)} == {RegistrationMatter.WRITTEN}


async def test_a_forged_note_keeps_nobody_out(api: Api, cluster: Cluster) -> None:
    """Whatever version a hand says that it is: what no version writes is taken out, and named with its writer."""

    def narrow(found: Object) -> None:
        found["metadata"]["annotations"]["vgpu-webhook.io/written-by"] = "99.0 0123456789ab"
        found["webhooks"][0]["matchConditions"] = [{"name": "never", "expression": "false"}]

    def right() -> bool:
        found = cluster.found()
        return found is not None and found["webhooks"] == registration(OLD, SITE)["webhooks"]

    async with running(api, OLD) as replica:
        await until(right, "created")
        await asyncio.to_thread(cluster.change, narrow)
        await until(right, f"repaired: {[str(notice) for notice in replica.reports]}")
        await asyncio.to_thread(cluster.delete)
        await until(right, "made again")
        message, *_ = [each.message for each in replica.reports if each.matter is RegistrationMatter.REPAIRED]
    assert "foreign match condition, never" in message
    assert "changed by " in message


async def test_it_goes_with_its_release(api: Api, cluster: Cluster, controllers: ControlPlane) -> None:
    """The role of the release is deleted while no replica runs: the garbage collector takes the webhook configuration."""
    made = await asyncio.to_thread(controllers.client.create, role(ROLE))
    async with running(api, OLD, owner=ROLE):
        found = await until(cluster.found, "created")
    [owner] = found["metadata"]["ownerReferences"]
    assert owner["uid"] == made.accepted()["metadata"]["uid"]
    await asyncio.to_thread(controllers.client.delete, RBAC, "clusterroles", ROLE)
    await until(lambda: cluster.found() is None, "collected")
