"""What vanishes by an act is no longer in force; what is lost is, until it is written again."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.cluster.config_maps import vendor
from tests.cluster.fake_api import PLACE, FakeApi
from tests.cluster.test_keeping_up import (
    MAPPINGS,
    MAPS,
    RECORD,
    Changing,
    Following,
    config_map,
    following,
    request_count,
)
from tests.waiting import until
from webhook.cluster.client.api import Answer, UnreachableError
from webhook.cluster.configuration.config_maps import LAST_GOOD_NAME, SETTINGS_NAME, ConfigMap
from webhook.cluster.configuration.last_good import TOGETHER, VanishedConfigMaps
from webhook.cluster.configuration.live import MAPS_LOST
from webhook.labels import MAPPING

pytestmark = pytest.mark.slow

SETTINGS = "timeoutSeconds: 7\n"
DEFAULT = 5
ACCEPTED = {SETTINGS_NAME: "a: 1", "acme": "vendor: acme"}


class World:
    """A namespace with settings, a mapping and a record, and a replica that has seen them."""

    def __init__(self) -> None:
        self.api = FakeApi()
        self.now = 1000.0
        self.reported: list[list[str]] = []
        self.present: list[ConfigMap] = []
        self.record("1")
        self.write(SETTINGS_NAME)
        self.write("acme")
        self.lost = VanishedConfigMaps(
            self.api, PLACE, lambda names: self.reported.append(list(names)), clock=lambda: self.now, delay=0.0
        )

    def record(self, uid: str | None) -> None:
        """Make the record, or end it."""
        if uid is None:
            self.api.objects.pop(RECORD, None)
        else:
            self.api.put(RECORD, {"metadata": {"name": LAST_GOOD_NAME, "uid": uid}})

    def write(self, name: str, uid: str = "1") -> None:
        """Make a ConfigMap."""
        labels = {MAPPING: "true"}
        self.remove(name)
        self.present.append(ConfigMap(name, {"mapping.yaml": "newest, perhaps bad"}, labels, uid, f"created {name}"))

    def remove(self, *names: str) -> None:
        """End ConfigMaps."""
        self.present = [each for each in self.present if each.name not in names]

    async def look(self) -> set[str]:
        """What is in force."""
        return {each.name for each in await self.lost.completed(lambda: self.present, ACCEPTED)}


@pytest.fixture
async def world() -> World:
    """One that the replica has looked at."""
    world = World()
    world.lost.record(ConfigMap(LAST_GOOD_NAME, {}, {}, "1"))
    assert await world.look() == {SETTINGS_NAME, "acme"}
    return world


async def test_an_act(world: World) -> None:
    """One deleted by name is gone, and so are all of them, one after the other."""
    world.remove(SETTINGS_NAME)
    assert await world.look() == {"acme"}
    world.remove("acme")
    assert await world.look() == set()
    assert world.reported == []


LOSSES = pytest.mark.parametrize("record", [None, "2"], ids=["gone", "written again by another replica"])
"""What became of the record, as with its namespace."""


@LOSSES
async def test_a_loss(world: World, record: str | None) -> None:
    """Everything stays in force as it was accepted, through whatever comes, and is reported once."""
    world.record(record)
    world.remove(SETTINGS_NAME, "acme")
    for _ in range(3):
        assert await world.look() == {SETTINGS_NAME, "acme"}
        world.now += 100
    assert world.reported == [["acme", SETTINGS_NAME]]
    held = {each.name: each for each in await world.lost.completed(list, ACCEPTED)}
    assert held["acme"].data == {"mapping.yaml": "vendor: acme"}, "not what was rejected"
    assert held["acme"].created == "created acme"


@LOSSES
async def test_until_somebody_acts(world: World, record: str | None) -> None:
    """Who writes it has the last key; who then deletes it, too."""
    world.record(record)
    world.remove(SETTINGS_NAME, "acme")
    await world.look()
    world.record("3")
    world.lost.record(ConfigMap(LAST_GOOD_NAME, {}, {}, "3"))
    world.now += 100
    world.write(SETTINGS_NAME, "2")
    await world.look()
    assert list(world.lost.config_maps) == ["acme"]
    world.write("acme", "2")
    await world.look()
    assert world.reported[-1] == []
    world.now += 100
    world.remove("acme")
    assert await world.look() == {SETTINGS_NAME}


@pytest.mark.parametrize("written", [(), (SETTINGS_NAME, "acme")], ids=["the record alone", "all, by a tool"])
async def test_written_again_at_once(world: World, written: tuple[str, ...]) -> None:
    """Nothing was missing in between, and there is no reason to hold what is deleted later."""
    world.record("2")
    for name in written:
        world.write(name, "2")
    await world.look()
    world.lost.record(ConfigMap(LAST_GOOD_NAME, {}, {}, "2"))
    world.now += TOGETHER + 1
    world.remove("acme")
    assert await world.look() == {SETTINGS_NAME}


async def test_nobody_says_what_it_was(world: World) -> None:
    """A document that vanished stays in force until the API server answers."""

    def away(_method: str, _path: str) -> None:
        raise UnreachableError("away")

    world.api.before = away
    world.remove("acme")
    assert await world.look() == {SETTINGS_NAME, "acme"}
    assert world.lost.undecided
    world.now += 100
    world.api.before = lambda _method, _path: None
    assert await world.look() == {SETTINGS_NAME}
    assert not world.lost.undecided
    assert world.reported[-1] == []


async def test_who_may_not_ask(world: World) -> None:
    """Without the right to read the record, a deletion is what it seems."""
    world.api.before = lambda method, path: Answer(403, b"{}")
    world.remove("acme")
    assert await world.look() == {SETTINGS_NAME}


async def test_what_was_never_accepted_is_not_held(world: World) -> None:
    """There is nothing of it in force."""
    world.write("bad")
    await world.look()
    world.record(None)
    world.remove("bad")
    assert await world.look() == {SETTINGS_NAME, "acme"}
    assert world.reported == []


def stored_record() -> dict[str, Any]:
    """The record of settings and a mapping, as a replica has written it."""
    data = {"acme": vendor("acme", about="one"), SETTINGS_NAME: SETTINGS}
    return {"metadata": {"name": LAST_GOOD_NAME, "namespace": PLACE, "uid": "1"}, "data": data}


@asynccontextmanager
async def after_a_loss(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Changing, Following]]:
    """A replica that has seen a mapping vanish together with the record."""
    monkeypatch.setattr(VanishedConfigMaps.__init__, "__kwdefaults__", {"clock": time.monotonic, "delay": 0.01})
    api = Changing()
    api.put(f"{MAPS}/acme", config_map("acme", vendor("acme", about="one")))
    api.put(RECORD, stored_record())
    async with following(api) as follower:
        await follower.stored(api)
        refused = True
        api.before = lambda method, _path: Answer(403, b"{}") if refused and method in {"PATCH", "POST"} else None
        api.remove(LAST_GOOD_NAME, RECORD)
        api.remove(MAPPINGS, f"{MAPS}/acme")
        await until(
            lambda: (
                "last_good_not_written" in follower.captured.logged and "config_maps_lost" in follower.captured.logged
            )
        )
        tries = request_count(api, f"PATCH {LAST_GOOD_NAME}")
        await until(lambda: request_count(api, f"PATCH {LAST_GOOD_NAME}") > tries + 1)
        assert not noticed(follower), "before its namespace exists"
        refused = False
        await until(lambda: noticed(follower))
        yield api, follower


def noticed(follower: Following) -> list[str]:
    """The Events about losses."""
    return [notice for notice in follower.notices if "ConfigMapsLost" in notice]


async def test_a_replica_that_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it has in force stays; it says so once, and until somebody writes the ConfigMap again."""
    async with after_a_loss(monkeypatch) as (api, follower):
        (policy,) = follower.policies
        assert policy.vendors["acme"].document.about == "one"
        assert follower.live.faults.lost == 1
        assert "acme" in api.objects[RECORD]["data"], "there may be no other copy"
        assert noticed(follower) == [f"{LAST_GOOD_NAME} ConfigMapsLost: {MAPS_LOST}: acme"]
        api.change(MAPPINGS, f"{MAPS}/acme", config_map("acme", vendor("acme", about="two")))
        await until(lambda: "config_maps_restored" in follower.captured.logged)
        assert follower.live.faults.lost == 0
        await until(lambda: follower.policies[-1].vendors["acme"].document.about == "two")
    assert follower.captured.logged.count("config_maps_lost") == len(noticed(follower)) == 1


async def test_a_replica_that_starts_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """It knows nothing of it, and the others keep the text in the record."""
    async with after_a_loss(monkeypatch) as (api, follower):
        async with following(api) as late:
            await until(lambda: late.policies)
            assert "acme" not in late.policies[-1].vendors
            assert late.live.faults.lost == 0
            await until(lambda: "acme" not in (api.objects[RECORD]["data"] or {}))
        api.change(LAST_GOOD_NAME, RECORD, api.objects[RECORD])
        await until(lambda: "acme" in api.objects[RECORD]["data"])
        assert len(noticed(follower)) == 1


async def test_deleted_while_no_replica_runs() -> None:
    """That is a deletion: nothing of it is in force or recorded."""
    api = FakeApi()
    api.put(RECORD, stored_record())
    async with following(api) as follower:
        await until(lambda: api.objects[RECORD]["data"].keys() <= {"_passed"})
        assert follower.policies[-1].settings.timeout_seconds == DEFAULT
        assert follower.live.faults.lost == 0
        assert "config_maps_lost" not in follower.captured.logged
