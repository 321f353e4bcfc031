"""ConfigMaps that vanished without a deletion stay in force in replicas that start afterwards: the record says which."""

from typing import Any

import pytest

from tests.cluster.config_maps import vendor
from tests.cluster.fake_api import PLACE, FakeApi
from tests.cluster.test_keeping_up import (
    MAPPINGS,
    MAPS,
    RECORD,
    Changing,
    config_map,
    entries,
    following,
    request_count,
    until,
)
from webhook.cluster.configuration.config_maps import LAST_GOOD_NAME, SETTINGS_NAME
from webhook.cluster.configuration.last_good import MAX_DATA, LastGood, within_limit
from webhook.cluster.configuration.reporter import RESTORED, WITHHELD

SETTINGS = "timeoutSeconds: 7\n"
DEFAULT = 5
CREATED = "2026-01-01T00:00:00Z"
LOST = f"acme {CREATED}\n{SETTINGS_NAME} {CREATED}"


def record(lost: str | None = LOST, settings: str = SETTINGS) -> dict[str, Any]:
    """The record of two documents, and which of their ConfigMaps are lost."""
    data = {"acme": vendor("acme", about="one"), SETTINGS_NAME: settings}
    return {
        "metadata": {"name": LAST_GOOD_NAME, "namespace": PLACE},
        "data": data if lost is None else data | {"_lost": lost},
    }


def messages(api: FakeApi) -> list[str]:
    """The messages of Events about losses."""
    return [each["message"] for each in api.objects.values() if each.get("reason") == "ConfigMapsLost"]


async def test_a_replica_that_starts() -> None:
    """It uses what is lost, reports it like those that saw it, and leaves the record as it is."""
    api = FakeApi()
    api.put(RECORD, record())
    async with following(api) as follower:
        await until(lambda: messages(api) and follower.policies)
        (policy,) = follower.policies
        assert policy.settings.timeout_seconds == 7
        assert policy.vendors["acme"].document.about == "one"
        assert "config_maps_lost" in follower.logged
        assert follower.live.faults.lost == 2
        assert f"configmap/{SETTINGS_NAME}: vanished without a deletion; still in force" in follower.live.lines()
    assert api.objects[RECORD]["data"]["_lost"] == LOST
    assert RESTORED in messages(api)[0]


async def test_a_replica_that_does_not_trust_the_record() -> None:
    """It reports the same, has nothing of it in force, and keeps the record."""
    api = FakeApi()
    api.put(RECORD, record())
    async with following(api, restore=False) as follower:
        await until(lambda: messages(api) and follower.policies)
        (policy,) = follower.policies
        assert policy.settings.timeout_seconds == DEFAULT
        assert "acme" not in policy.vendors
        assert follower.live.faults.lost == 2
        assert f"configmap/{SETTINGS_NAME}: vanished without a deletion; not in force" in follower.live.lines()
    assert api.objects[RECORD]["data"] == record()["data"]
    assert WITHHELD in messages(api)[0]


async def test_deleted_while_no_replica_runs() -> None:
    """Without the mark it is a deletion, as it was for the version before: nothing of it is in force or recorded."""
    api = FakeApi()
    api.put(RECORD, record(lost=None))
    async with following(api) as follower:
        await until(lambda: api.objects[RECORD]["data"].keys() <= {"_passed"})
        assert follower.policies[-1].settings.timeout_seconds == DEFAULT
        assert follower.live.faults.lost == 0
        assert "config_maps_lost" not in follower.logged


async def test_a_mark_for_one_that_exists() -> None:
    """The ConfigMap counts, and the mark goes."""
    api = FakeApi()
    api.put(RECORD, record())
    api.put(f"{MAPS}/acme", config_map("acme", vendor("acme", about="two")))
    async with following(api) as follower:
        await until(lambda: api.objects[RECORD]["data"]["_lost"] == f"{SETTINGS_NAME} {CREATED}")
        assert follower.policies[-1].vendors["acme"].document.about == "two"
        assert list(follower.live.lost) == [SETTINGS_NAME]


async def test_the_same_document_is_written_again() -> None:
    """No policy changes, and the mark goes all the same."""
    api = Changing()
    api.put(RECORD, record(lost=f"acme {CREATED}"))
    async with following(api) as follower:
        await until(lambda: messages(api))
        api.change(MAPPINGS, f"{MAPS}/acme", config_map("acme", vendor("acme", about="one")))
        await until(lambda: "_lost" not in api.objects[RECORD]["data"])
        assert "config_maps_restored" in follower.logged
        assert len(follower.policies) == 1


async def test_a_replica_that_started_before_the_loss_was_recorded() -> None:
    """It takes the losses from the record that another replica writes."""
    api = Changing()
    async with following(api) as follower:
        await until(follower.live.ready.is_set)
        assert follower.policies[-1].settings.timeout_seconds == DEFAULT
        api.change(LAST_GOOD_NAME, RECORD, record())
        await until(lambda: follower.policies[-1].settings.timeout_seconds == 7)
        assert follower.live.faults.lost == 2
        assert follower.logged.count("config_maps_lost") == 1


async def test_a_replica_that_has_not_heard_of_it_writes_the_record() -> None:
    """Its record lacks the losses, so who knows them writes them again."""
    api = Changing()
    api.put(RECORD, record())
    async with following(api) as follower:
        await until(lambda: messages(api))
        api.change(LAST_GOOD_NAME, RECORD, {"metadata": {"name": LAST_GOOD_NAME, "namespace": PLACE}, "data": {}})
        await until(lambda: api.objects[RECORD]["data"].get("_lost") == LOST)
        assert len(follower.policies) == 1
    assert request_count(api, f"PUT {LAST_GOOD_NAME}") <= 2


@pytest.mark.parametrize("settings", ["timeoutSeconds: never\n", "["])
async def test_a_lost_document_that_is_invalid_for_this_version(settings: str) -> None:
    """It is rejected and reported like any other, and kept in the record: there may be no other copy."""
    api = FakeApi()
    api.put(RECORD, record(settings=settings))
    async with following(api) as follower:
        await until(lambda: messages(api) and follower.policies)
        assert follower.policies[-1].vendors["acme"].document.about == "one"
        assert "settings_rejected" in follower.logged
    assert api.objects[RECORD]["data"][SETTINGS_NAME] == settings
    assert api.objects[RECORD]["data"]["_lost"] == LOST


async def test_marks_in_the_record() -> None:
    """They are read as they were written; only documents that are stored have one, whoever wrote it."""
    api = FakeApi()
    big = "x" * MAX_DATA
    written = await LastGood(api, PLACE).write(entries({"a": "1", "big": big}, lost={"a": CREATED, "big": CREATED}))
    assert await LastGood(api, PLACE).read() == written
    assert written.lost == {"a": CREATED}
    (found,) = written.lost_config_maps()
    assert (found.name, found.data, found.created, found.is_mapping) == ("a", {"mapping.yaml": "1"}, CREATED, True)
    api.put(RECORD, {"metadata": {"name": LAST_GOOD_NAME}, "data": {"a": "1", "_lost": "\na\nb then\n _lost x"}})
    assert (await LastGood(api, PLACE).read()).lost == {"a": ""}


def test_marks_have_their_part_of_the_record() -> None:
    """They are counted like documents."""
    texts = {"a": "x" * 100, "b": "x" * (MAX_DATA - 102)}
    assert within_limit(texts) == texts
    assert list(within_limit(texts, {"a": CREATED})) == ["a"]
