"""The policy of a cluster, which follows its ConfigMaps, on a real API server."""

import asyncio
import itertools
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from click.testing import CliRunner

from tests.captured_log import CapturedLog
from tests.cluster.config_maps import WITHOUT_SETTINGS, rejections, vendor
from tests.waiting import alongside
from tests.waiting import until_there as until
from webhook.cluster.client import Api
from webhook.cluster.connection import connect
from webhook.cluster.events import EventQueue
from webhook.cluster.policy.documents import LAST_GOOD_NAME, MAPPING_KEY, SETTINGS_KEY, SETTINGS_NAME
from webhook.cluster.policy.live import LivePolicy
from webhook.mapping.model.policy import Policy

from .client import Object
from .objects import config_map, mapping, namespace
from .plane import ControlPlane

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(1200)]

NUMBER = itertools.count()
BAD = vendor("acme", about="bad", kesy="{}")


class Place:
    """A namespace of one test, with its ConfigMaps."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self.name = f"policy-{next(NUMBER)}"
        plane.create_namespace(namespace(self.name))

    def write(self, name: str, text: str, key: str = MAPPING_KEY) -> None:
        manifest = self.manifest(name, text, key)
        if self.plane.client.create(manifest, self.name).status == 409:
            self.plane.client.patch("v1", "configmaps", name, manifest, self.name).accepted()

    def manifest(self, name: str, text: str, key: str = MAPPING_KEY) -> Object:
        return mapping(name, text) if key == MAPPING_KEY else config_map(name, {key: text})

    def remove(self, name: str) -> None:
        self.plane.client.delete("v1", "configmaps", name, self.name).accepted()

    def recorded(self) -> dict[str, str]:
        return {name: text for name, text in self._record().items() if not name.startswith("_")}

    def _record(self) -> dict[str, str]:
        answer = self.plane.client.get("v1", "configmaps", LAST_GOOD_NAME, self.name)
        if answer.status == 404:
            return {}
        data: dict[str, str] = answer.accepted().get("data", {})
        return data

    def events(self, name: str) -> list[tuple[str, str]]:
        """What `kubectl describe` shows of a ConfigMap: type and reason, sorted."""
        found = self.plane.client.list("v1", "events", self.name)
        ours = [event for event in found if event["involvedObject"]["name"] == name]
        return sorted((our["type"], our["reason"]) for our in ours)


class Replica:
    """A running live policy, and its reports."""

    def __init__(self, api: Api, namespace: str) -> None:
        self.captured = CapturedLog()
        self.policies: list[Policy] = []
        self.events = EventQueue(api, self.captured.log)
        self.live = LivePolicy(api, namespace, self.captured.log, self.events, in_force=self.policies.append)

    @property
    def about(self) -> str | None:
        found = self.policies[-1].vendors.get("acme")
        return found.about if found is not None else None

    def describes(self, about: str) -> Callable[[], bool]:
        return lambda: bool(self.policies) and self.about == about

    @property
    def verdicts(self) -> dict[str, bool]:
        """Whether the document in each ConfigMap is in force."""
        assert self.live.outcome is not None
        return {verdict.config_map.name: verdict.accepted for verdict in self.live.outcome.verdicts}

    @property
    def rejected(self) -> set[str]:
        assert self.live.outcome is not None
        return set(rejections(self.live.outcome))


@asynccontextmanager
async def replica(place: Place, *, ready: bool = True) -> AsyncIterator[Replica]:
    """Run a live policy; it is ready when the block begins."""
    api = await connect(place.plane.kubeconfig)
    first = Replica(api, place.name)
    async with alongside(first.live.run(), first.events.run()):
        if ready:
            await until(first.live.ready.is_set, "ready")
        yield first
    await api.close()


async def do(work: Callable[..., Any], *arguments: Any) -> Any:
    """What takes its time, without holding up the loop."""
    return await asyncio.to_thread(work, *arguments)


@pytest.fixture
def place(control_plane: ControlPlane) -> Place:
    """A namespace for one test."""
    return Place(control_plane)


async def test_follows(place: Place) -> None:
    """What is created, changed and deleted is in force soon after; so are the settings."""
    async with replica(place) as first:
        assert first.policies[0].digest == WITHOUT_SETTINGS.digest
        assert await do(place.recorded) == {}
        await do(place.write, "acme", vendor("acme", about="one"))
        await until(lambda: first.about == "one", "created")
        await do(place.write, "acme", vendor("acme", about="two"))
        await until(lambda: first.about == "two", "changed")
        await do(place.write, SETTINGS_NAME, "timeoutSeconds: 7\n", SETTINGS_KEY)
        await until(lambda: first.policies[-1].settings.timeout_seconds == 7, "settings")
        await until(lambda: set(place.recorded()) == {"acme", SETTINGS_NAME}, "kept")
        assert first.verdicts == {SETTINGS_NAME: True, "acme": True}
        await do(place.remove, "acme")
        await do(place.remove, SETTINGS_NAME)
        await until(lambda: first.policies[-1].digest == WITHOUT_SETTINGS.digest, "deleted")
        await until(lambda: not place.recorded(), "no longer kept")
        assert "mapping_rejected" not in first.captured.logged
        assert first.captured.logged.count("settings_missing") == 2, "at first, and deleted"


@pytest.mark.once("loss")
async def test_last_good_across_restarts_and_replicas(place: Place) -> None:
    """A replica that starts while a document is invalid uses its last good version; nothing is reported twice."""
    async with replica(place) as first, replica(place) as two:
        await do(place.write, "acme", vendor("acme", about="one"))
        await until(lambda: first.about == two.about == "one", "created")
        await until(place.recorded, "kept")
        await do(place.write, "acme", BAD)
        await until(lambda: first.rejected and two.rejected, "rejected")
        await until(lambda: place.events("acme"), "event")
    async with replica(place) as three:
        assert three.about == "one"
        assert three.rejected == {"acme"}
        # Events are written one after the other: what is to be told of acme is told before what comes later.
        await do(place.write, "later", vendor("later", kesy="{}"))
        await until(lambda: place.events("later"), "a later event")
        assert await do(place.events, "acme") == [("Warning", "MappingRejected")]
        await do(place.remove, "later")
        await do(place.write, "acme", BAD + "# again\n")
        await until(lambda: place.events("acme") == 2 * [("Warning", "MappingRejected")], "another")
        await do(place.remove, "acme")
        await until(lambda: three.about is None, "deleted")


def test_the_command_shows_what_is_in_force(place: Place) -> None:
    """From which ConfigMap each vendor is, and what is not in force; one document as a whole."""
    from webhook.cli import main

    place.write("ours", "extends: nvidia\ndefaults: {memory: 8000Mi}\n")
    place.write("acme", BAD)
    place.write(SETTINGS_NAME, "target: nvidia\n", SETTINGS_KEY)
    stored = place.manifest(LAST_GOOD_NAME, "") | {"data": {"acme": vendor("acme", about="one")}}
    place.plane.client.create(stored, place.name).accepted()
    where = ["--cluster", "--kubeconfig", str(place.plane.kubeconfig), "--release-namespace", place.name]
    result = CliRunner().invoke(main, ["vendors", *where], catch_exceptions=False)
    assert result.exit_code == 0
    heads = [line for line in result.stdout.splitlines() if re.match(r"[a-z-]+: ", line)]
    assert [line for line in heads if line.startswith("nvidia: ") and line.endswith(", configmap/ours")]
    assert [line for line in heads if line.startswith("acme: ") and line.endswith(", configmap/acme (last good)")]
    assert [
        line for line in heads if line.startswith("vcuda: ") and "target nvidia" in line and line.endswith(", built-in")
    ]
    assert result.stderr.splitlines() == [
        "warning: configmap/acme: rejected; in force: its last good version",
        "warning:   configmap/acme/mapping.yaml:9: kesy: unknown key 'kesy' (did you mean `keys`?)",
    ]
    result = CliRunner().invoke(main, ["vendors", "nvidia", *where], catch_exceptions=False)
    assert result.stdout.startswith("# configmap/ours/mapping.yaml\n")
    assert "\n  memory: 8000Mi\n" in result.stdout
