"""The reflector on a real API server, in its bad times."""

import asyncio
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from benchmarks import namespaces
from tests.captured_log import CapturedLog
from tests.waiting import alongside, turns, until
from webhook.cluster.client import Api, ObjectMetadata
from webhook.cluster.connection import connect
from webhook.cluster.reflector import Reflector, WatchConfig

from .objects import bound, config_map, namespace, role
from .own_plane import Relay, relayed
from .plane import ControlPlane

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(1200)]

PACE = WatchConfig(page=1, longest=1.0, settled=0.5)
PLACE = "reflected"
MAPS = f"/api/v1/namespaces/{PLACE}/configmaps"
SELECTOR = {"labelSelector": "watched=true"}


class ConfigMap(msgspec.Struct):
    """What is read of a ConfigMap here."""

    metadata: ObjectMetadata
    data: dict[str, str] = {}


@pytest.fixture(scope="module")
def plane(control_plane: ControlPlane) -> ControlPlane:
    """A namespace for the ConfigMaps that are watched."""
    control_plane.create_namespace(namespace(PLACE))
    return control_plane


class Follower:
    """A running reflector of ConfigMaps, and its reports."""

    def __init__(self, api: Api, pace: WatchConfig) -> None:
        self.captured = CapturedLog()
        self.reflector = Reflector(
            api,
            MAPS,
            ConfigMap,
            lambda found: found.data.get("x"),
            self.captured.log,
            query=SELECTOR,
            config=pace,
            sleep=self._sleep,
        )
        self.pauses = 0

    async def _sleep(self, _seconds: float) -> None:
        self.pauses += 1
        await turns()

    @property
    def held(self) -> dict[str, str | None]:
        return {key.removeprefix(f"{PLACE}/"): value for key, value in self.reflector.objects.items()}


@asynccontextmanager
async def following(kubeconfig: Path, pace: WatchConfig = PACE) -> AsyncIterator[Follower]:
    """Run a reflector of the ConfigMaps that are watched."""
    api = await connect(kubeconfig)
    follower = Follower(api, pace)
    async with alongside(follower.reflector.run()):
        yield follower
    await api.close()


def kubeconfig(plane: ControlPlane, path: Path, relay: Relay, token: str = "") -> Path:
    """Write the kubeconfig of a user who comes by a relay."""
    return plane.write_kubeconfig(path, token=token, server=f"https://127.0.0.1:{relay.port}")


def write(plane: ControlPlane, name: str, value: str) -> None:
    """Create or change a ConfigMap that is watched."""
    manifest = config_map(name, {"x": value}, {"watched": "true"})
    if plane.client.create(manifest, PLACE).status == 409:
        plane.client.patch("v1", "configmaps", name, manifest, PLACE).accepted()


def remove(plane: ControlPlane, *names: str) -> None:
    """Delete ConfigMaps."""
    for name in names:
        plane.client.delete("v1", "configmaps", name, PLACE).accepted()


async def test_follows(plane: ControlPlane) -> None:
    """What is created, changed and deleted is followed; what loses its label counts as deleted, what gets it as new."""
    write(plane, "before", "1")
    write(plane, "other", "1")  # on a page of its own
    async with following(plane.kubeconfig) as follower:
        await until(lambda: follower.held == {"before": "1", "other": "1"}, "what was there")
        await asyncio.to_thread(remove, plane, "other")
        await asyncio.to_thread(write, plane, "before", "2")
        await asyncio.to_thread(write, plane, "new", "x" * 900_000)
        await until(lambda: follower.held == {"before": "2", "new": "x" * 900_000}, "changes")
        label: dict[str, Any] = {"metadata": {"labels": {"watched": None}}}
        await asyncio.to_thread(plane.client.patch, "v1", "configmaps", "new", label, PLACE)
        await asyncio.to_thread(remove, plane, "before")
        await until(lambda: not follower.held, "removals")
        assert follower.captured.logged == []
    remove(plane, "new")


async def test_a_connection_goes_silent(plane: ControlPlane, tmp_path: Path) -> None:
    """A watch that goes silent without ending is opened again."""
    write(plane, "stays", "0")
    pace = replace(PACE, silence=1.0)
    async with relayed(plane) as relay, following(kubeconfig(plane, tmp_path / "relayed", relay), pace) as follower:
        await until(lambda: follower.held == {"stays": "0"}, "what was there")
        await asyncio.to_thread(write, plane, "stays", "1")
        # Only an open watch can go silent.
        await until(lambda: follower.held == {"stays": "1"}, "what the watch told")
        relay.hush()
        await asyncio.to_thread(write, plane, "stays", "2")
        await until(lambda: "watch_silent" in follower.captured.logged, "silence is noticed")
        assert follower.held == {"stays": "1"}
        _mend(relay)
        await until(lambda: follower.held == {"stays": "2"}, "changes come again")
    remove(plane, "stays")


def _mend(relay: Relay) -> None:
    # What was swallowed must not come late: a real network has lost it.
    relay.cut()
    relay.mend()


def account(plane: ControlPlane, name: str) -> str:
    """Create a service account, and give a token of it."""
    manifest = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
    plane.client.create(manifest, PLACE).accepted()
    return plane.client.account_token(name, PLACE)


def permit(plane: ControlPlane, name: str) -> None:
    """Let a service account read ConfigMaps and namespaces."""
    rule = {"apiGroups": [""], "resources": ["configmaps", "namespaces"], "verbs": ["get", "list", "watch"]}
    reader = role(name, rule)
    plane.client.create(reader)
    plane.client.create(bound(reader, {"kind": "ServiceAccount", "name": name, "namespace": PLACE})).accepted()


def forbid(plane: ControlPlane, name: str) -> None:
    """Take that away."""
    plane.client.delete("rbac.authorization.k8s.io/v1", "clusterrolebindings", name).accepted()


async def test_permission_is_taken_away_and_given_back(plane: ControlPlane, tmp_path: Path) -> None:
    """As a service account: refused it says so once, holds what it knew, and continues when it may."""
    write(plane, "stays", "1")
    token = account(plane, "reader")
    async with relayed(plane) as relay, following(kubeconfig(plane, tmp_path / "account", relay, token)) as follower:
        await until(lambda: "watch_forbidden" in follower.captured.logged, "refused without permission")
        assert not follower.reflector.synced.is_set()
        await asyncio.to_thread(permit, plane, "reader")
        await until(lambda: follower.held == {"stays": "1"}, "permitted")
        await until(lambda: follower.captured.logged[-1] == "watch_restored", "told")
        await asyncio.to_thread(forbid, plane, "reader")
        # An open watch is not asked for permission again.
        _mend(relay)
        await until(lambda: follower.captured.logged[-1] == "watch_forbidden", "refused again")
        await asyncio.to_thread(write, plane, "stays", "2")
        so_far = follower.pauses
        await until(lambda: follower.pauses > so_far + 2, "refused after that")
        assert follower.held == {"stays": "1"}
        await asyncio.to_thread(permit, plane, "reader")
        await until(lambda: follower.held == {"stays": "2"}, "permitted again")
        await until(lambda: follower.captured.logged[-1] == "watch_restored", "told again")
        assert follower.captured.logged.count("watch_forbidden") == 2
        refused = next(call for call in follower.captured.lines if call.kwargs["event"] == "watch_forbidden")
        assert refused.kwargs["status"] == 403
        assert "cannot list resource" in refused.kwargs["error"]
    remove(plane, "stays")


@pytest.mark.long
async def test_thousands_of_namespaces(plane: ControlPlane, capsys: pytest.CaptureFixture[str]) -> None:
    """They are held soon, in 10 MiB at most, and nobody waits for it; the benchmark says how it went."""
    count = 10_000
    api = await connect(plane.kubeconfig)
    await namespaces.fill(api, count)
    await api.close()
    command = [sys.executable, "-m", "benchmarks.namespaces", str(plane.kubeconfig), str(count)]
    printed = await asyncio.to_thread(subprocess.check_output, command, text=True, cwd=Path(__file__).parents[2])
    with capsys.disabled():
        print(f"\n{printed}", end="")  # noqa: T201  # the figures are what it is about
    (synced,) = re.findall(r"synced in ([\d.]+) s", printed)
    (stall,) = re.findall(r"held up (\d+) ms", printed)
    (each,) = re.findall(r"(\d+) bytes each", printed)
    # Bounds for a machine that does a lot besides: a quiet one takes 2 s and 20 ms.
    assert float(synced) < 60
    assert int(stall) < 2000
    assert int(each) * count <= 1024 * 10_000
