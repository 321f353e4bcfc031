"""What vanishes by an act is no longer in force; what is lost is, until it is written again."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.cluster.fake_api import PLACE, FakeApi
from webhook.cluster.client.api import Answer, UnreachableError
from webhook.cluster.configuration.config_maps import LAST_GOOD_NAME, SETTINGS_NAME, ConfigMap
from webhook.cluster.configuration.last_good import TOGETHER, VanishedConfigMaps
from webhook.labels import MAPPING

NAMESPACE = f"/api/v1/namespaces/{PLACE}"
RECORD = f"{NAMESPACE}/configmaps/{LAST_GOOD_NAME}"
ACCEPTED = {SETTINGS_NAME: "a: 1", "acme": "vendor: acme"}


class World:
    """A namespace with settings, a mapping and a record, and a replica that has seen them."""

    def __init__(self) -> None:
        self.api = FakeApi()
        self.now = 1000.0
        self.reported: list[list[str]] = []
        self.present: list[ConfigMap] = []
        self.namespace("1")
        self.record("1")
        self.write(SETTINGS_NAME)
        self.write("acme")
        self.lost = VanishedConfigMaps(
            self.api, PLACE, lambda names: self.reported.append(list(names)), clock=lambda: self.now, delay=0.0
        )

    def namespace(self, uid: str | None, **metadata: Any) -> None:
        """Make it, or end it."""
        self._keep(NAMESPACE, uid, {"name": PLACE, **metadata})

    def record(self, uid: str | None) -> None:
        """Make the record, or end it."""
        self._keep(RECORD, uid, {"name": LAST_GOOD_NAME})

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

    def _keep(self, path: str, uid: str | None, metadata: dict[str, Any]) -> None:
        if uid is None:
            self.api.objects.pop(path, None)
        else:
            self.api.put(path, {"metadata": {**metadata, "uid": uid}})


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


def ends(world: World) -> None:
    """The namespace is on its way out."""
    world.namespace("1", deletionTimestamp="2026-01-01T00:00:00Z")


def gone(world: World) -> None:
    """It is gone."""
    world.namespace(None)


def anew(world: World) -> None:
    """Another one has its name."""
    world.namespace("2")


def emptied(world: World) -> None:
    """Everything in it was deleted at once."""
    world.record(None)


def emptied_and_written(world: World) -> None:
    """The same, and another replica has written its record already."""
    world.record("2")


LOSSES = [ends, gone, anew, emptied, emptied_and_written]


@pytest.mark.parametrize("happens", LOSSES, ids=lambda each: each.__name__)
async def test_a_loss(world: World, happens: Callable[[World], None]) -> None:
    """Everything stays in force as it was accepted, through whatever comes, and is reported once."""
    happens(world)
    world.remove(SETTINGS_NAME, "acme")
    for _ in range(3):
        assert await world.look() == {SETTINGS_NAME, "acme"}
        world.now += 100
    assert world.reported == [["acme", SETTINGS_NAME]]
    held = {each.name: each for each in await world.lost.completed(list, ACCEPTED)}
    assert held["acme"].data == {"mapping.yaml": "vendor: acme"}, "not what was rejected"
    assert held["acme"].created == "created acme"


@pytest.mark.parametrize("happens", LOSSES, ids=lambda each: each.__name__)
async def test_until_somebody_acts(world: World, happens: Callable[[World], None]) -> None:
    """Who writes it has the last key; who then deletes it, too."""
    happens(world)
    world.remove(SETTINGS_NAME, "acme")
    await world.look()
    world.namespace("3")
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


async def test_written_again_at_once(world: World) -> None:
    """By a tool: nothing was missing in between, and a later act is one."""
    world.namespace("2")
    world.record("2")
    world.write(SETTINGS_NAME, "2")
    world.write("acme", "2")
    await world.look()
    world.lost.record(ConfigMap(LAST_GOOD_NAME, {}, {}, "2"))
    world.now += TOGETHER + 1
    world.remove("acme")
    assert await world.look() == {SETTINGS_NAME}


async def test_a_record_that_was_deleted_alone(world: World) -> None:
    """That is no reason to hold what is deleted later."""
    world.record("2")
    world.lost.record(ConfigMap(LAST_GOOD_NAME, {}, {}, "2"))
    world.now += TOGETHER + 1
    world.remove("acme")
    assert await world.look() == {SETTINGS_NAME}


@pytest.mark.parametrize("path", [NAMESPACE, RECORD])
async def test_nobody_says_what_it_was(world: World, path: str) -> None:
    """A document that vanished stays in force until the API server answers."""

    def away(_method: str, requested: str) -> None:
        if requested == path:
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
    """Without the right to read both, a deletion is what it seems."""
    world.api.before = lambda method, path: Answer(403, b"{}")
    world.remove("acme")
    assert await world.look() == {SETTINGS_NAME}


async def test_what_was_never_accepted_is_not_held(world: World) -> None:
    """There is nothing of it in force."""
    world.write("bad")
    await world.look()
    world.namespace(None)
    world.remove("bad")
    assert await world.look() == {SETTINGS_NAME, "acme"}
    assert world.reported == []


async def test_a_namespace_that_cannot_be_read_while_a_config_map_is_created(world: World) -> None:
    """The new document is in force all the same."""

    def away(_method: str, _path: str) -> None:
        raise UnreachableError("away")

    world.api.before = away
    world.write("more")
    assert await world.look() == {SETTINGS_NAME, "acme", "more"}
