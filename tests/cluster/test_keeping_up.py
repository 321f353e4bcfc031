"""The record of last good documents, Events, and a live policy, when the API server makes trouble."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.captured_log import CapturedLog
from tests.cluster.config_maps import LABELS, vendor
from tests.cluster.fake_api import PLACE, FakeApi
from tests.waiting import PATIENCE, alongside, running_ahead, turns, until
from webhook.cluster import events
from webhook.cluster.client import Answer, StatusError, UnreachableError
from webhook.cluster.events import MAX_MESSAGE, EventQueue, Subject, Type, shortened, write_event
from webhook.cluster.policy import live
from webhook.cluster.policy.documents import (
    LAST_GOOD_NAME,
    MAPPING_KEY,
    MAX_DATA,
    SETTINGS_KEY,
    SETTINGS_NAME,
    DocumentCache,
    LastGood,
    Record,
    invalid_in,
    within_limit,
)
from webhook.cluster.policy.live import INVALID_RECORD, NOT_COMPILED, RECORD_FULL, RECORD_GONE, LivePolicy, PolicyFaults
from webhook.mapping.model.policy import Policy

MAPS = f"/api/v1/namespaces/{PLACE}/configmaps"
RECORD = f"{MAPS}/{LAST_GOOD_NAME}"
EVENTS = f"/api/v1/namespaces/{PLACE}/events"
MAPPINGS = "mappings"
SUBJECT = Subject("v1", "ConfigMap", PLACE, "acme", "uid", "1")


def request_count(api: FakeApi, what: str) -> int:
    """How often something was requested."""
    return sum(request.what == what for request in api.requests)


def entries(ours: dict[str, str], others: dict[str, str] | None = None) -> tuple[dict[str, str], set[str]]:
    """What to store, and what of it is in force."""
    return {**ours, **(others or {})}, {*ours}


async def test_written_once_by_all() -> None:
    """Two replicas that have accepted the same write it once; a third finds it."""
    api = FakeApi()
    ours = entries({"b": "2", "a": "1"})
    first, second = [await LastGood(api, PLACE).write(*ours) for _ in range(2)]
    assert [request.what for request in api.requests] == [
        f"{method} {LAST_GOOD_NAME}" for method in ("GET", "PATCH", "PUT", "GET")
    ]
    assert api.objects[RECORD]["data"] == {"a": "1", "b": "2"}
    again = await LastGood(api, PLACE).read()
    assert again == first == second
    assert again.texts == {"a": "1", "b": "2"}


async def test_nothing_is_written_where_nothing_is_accepted() -> None:
    """No empty ConfigMap."""
    api = FakeApi()
    await LastGood(api, PLACE).write(*entries({}))
    assert api.objects == {}


async def test_what_is_kept_counts_more_of_what_is_bad_here() -> None:
    """Another hand came first: its text stays where ours is only remembered; what is gone is dropped."""
    api = FakeApi()
    follower, two = LastGood(api, PLACE), LastGood(api, PLACE)
    await follower.write(*entries({"bad": "old", "gone": "x"}))
    await two.write(*entries({"bad": "new", "gone": "x"}))
    record = await follower.write(*entries({"good": "1"}, {"bad": "old"}))
    assert record.texts == api.objects[RECORD]["data"] == {"bad": "new", "good": "1"}


async def test_a_record_that_was_deleted_is_written_again() -> None:
    """A PUT finds nothing, and an apply makes it again."""
    api = FakeApi()
    last_good = LastGood(api, PLACE)
    await last_good.write(*entries({"a": "1"}))
    del api.objects[RECORD]
    assert (await last_good.write(*entries({"a": "2"}))).texts == {"a": "2"}


async def test_others_that_write_all_the_time() -> None:
    """Writing fails after several lost races."""
    api = FakeApi()
    api.before = lambda method, path: Answer(409, b"{}") if method == "PUT" else None
    with pytest.raises(StatusError, match="other replicas changed"):
        await LastGood(api, PLACE).write(*entries({"a": "1"}))


async def test_a_record_that_cannot_be_read() -> None:
    """As no answer."""
    api = FakeApi()
    api.before = lambda method, path: Answer(200, b"<html>")
    with pytest.raises(StatusError, match="not a JSON object"):
        await LastGood(api, PLACE).read()


def test_more_than_fits() -> None:
    """The settings come first, then the smallest documents; the limit counts bytes."""
    half = "x" * (MAX_DATA // 2)
    found = within_limit({"a": half, "b": half, "c": "small", SETTINGS_NAME: half[1000:]})
    assert list(found) == [SETTINGS_NAME, "c", "a"]
    assert list(within_limit({"é": "é" * (MAX_DATA // 2)})) == []


async def test_an_event_is_written_once() -> None:
    """Whatever replica says it of the same version; of the next version it is another one; one that has expired is new."""
    api = FakeApi()
    for version in ("1", "1", "2"):
        await write_event(api, Subject("v1", "ConfigMap", PLACE, "acme", "uid", version), "Warning", "Bad", "why")
    assert [each["involvedObject"]["resourceVersion"] for each in api.objects.values()] == ["1", "2"]
    assert {each["message"] for each in api.objects.values()} == {"why"}
    await write_event(api, SUBJECT, "Warning", "Bad", "why else")
    assert len(api.objects) == 3
    api.objects.clear()
    await write_event(api, SUBJECT, "Warning", "Bad", "why")
    assert len(api.objects) == 1


def test_events_that_wait_are_bounded() -> None:
    """While the API server is away: the namespace that has the most loses its oldest."""
    queue = EventQueue(FakeApi(), CapturedLog().log)
    queue.put(Subject("v1", "Other", "quiet", "name", "uid"), "Bad", "why")
    for number in range(3000):
        queue.put(Subject("v1", "Other", "loud", str(number), "uid"), "Bad", "m" * MAX_MESSAGE)
    names = [key[:3] for key in queue._waiting.values]  # noqa: SLF001
    assert len(names) < 1500
    assert names[0] == ("Other", "quiet", "name")
    assert names[-1] == ("Other", "loud", "2999")


async def test_events_of_what_has_no_namespace() -> None:
    """They are in `default`, and long texts are cut."""
    api = FakeApi()
    await write_event(api, Subject("v1", "Node", "", "n" * 253, "uid", "1"), "Normal", "Good", "é" * 2000)
    (path,) = api.objects
    assert path.startswith("/api/v1/namespaces/default/events/")
    assert len(path.rpartition("/")[2]) <= 253
    assert len(api.objects[path]["message"].encode()) <= MAX_MESSAGE
    assert shortened("abc", 3) == "abc"


class Overheard(EventQueue):
    """One that tells what is put into it about the record."""

    put_before: Callable[[str], None]

    def put(self, subject: Subject, reason: str, message: str, type_: Type = "Warning") -> None:
        """Tell it, and have it written."""
        if subject.name == LAST_GOOD_NAME:
            self.put_before(f"{subject.name} {reason}: {message}")
        super().put(subject, reason, message, type_)


class Following:
    """A live policy on a storing API, and its reports."""

    def __init__(self, api: FakeApi) -> None:
        self.captured = CapturedLog()
        self.policies: list[Policy] = []
        self.notices: list[str] = []
        self.events = Overheard(api, self.captured.log)
        self.events.put_before = self.notices.append
        self.live = LivePolicy(api, PLACE, self.captured.log, self.events, in_force=self.policies.append)

    async def stored(self) -> None:
        """Return when the record has what is accepted, and is adopted."""
        live = self.live
        await until(lambda: live.ready.is_set() and not live._unstored.is_set() and live._adopted.version)  # noqa: SLF001


@asynccontextmanager
async def following(api: FakeApi) -> AsyncIterator[Following]:
    """Run it until the end of the block."""
    follower = Following(api)
    async with alongside(follower.live.run(), follower.events.run()):
        yield follower


def config_map(name: str, text: str) -> dict[str, Any]:
    """A mapping ConfigMap as it is stored."""
    metadata = {"name": name, "namespace": PLACE, "labels": LABELS, "uid": f"uid-{name}"}
    return {"metadata": {**metadata, "creationTimestamp": "2026-01-01T00:00:00Z"}, "data": {MAPPING_KEY: text}}


def stored_settings(text: str) -> dict[str, Any]:
    """The settings ConfigMap as it is stored."""
    return {
        "metadata": {"name": SETTINGS_NAME, "namespace": PLACE, "uid": "uid-settings"},
        "data": {SETTINGS_KEY: text},
    }


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses are short."""
    for module in (live, events):
        monkeypatch.setattr(module, "RETRY_PAUSES", (0.01, 60.0))


async def test_a_record_that_nobody_may_read() -> None:
    """It is reported once, and so is that it cannot be written; the policy comes all the same."""
    api = FakeApi()
    api.put(f"{MAPS}/acme", config_map("acme", vendor("acme", about="one")))
    api.before = lambda method, path: Answer(403, b'{"message": "no"}') if path == RECORD or method == "POST" else None
    async with following(api) as follower:
        await until(follower.live.ready.is_set)
        assert follower.policies[-1].vendors["acme"].about == "one"
        await until(lambda: "last_good_not_written" in follower.captured.logged)
    assert follower.captured.logged.count("last_good_not_read") == 1


async def test_an_api_server_that_is_away_for_a_while() -> None:
    """What could not be read or written is, as soon as it can."""
    api = FakeApi()
    api.put(f"{MAPS}/acme", config_map("acme", vendor("acme", about="one")))
    api.put(f"{MAPS}/bad", config_map("bad", "vendor: ["))
    away = True

    def before(method: str, path: str) -> None:
        if away and (path == RECORD or method != "GET"):
            raise UnreachableError("away")

    api.before = before
    async with following(api) as follower:
        await until(lambda: "last_good_not_read" in follower.captured.logged)
        assert not follower.live.ready.is_set()
        away = False
        await until(lambda: RECORD in api.objects)
        away = True
        await until(follower.live.ready.is_set)
        await turns()
        away = False
        await until(lambda: any(path.startswith(EVENTS) for path in api.objects))
    assert "mapping_rejected" in follower.captured.logged


async def test_events_that_nobody_may_write() -> None:
    """Told once; nothing else suffers."""
    api = FakeApi()
    for name in "abc":
        api.put(f"{MAPS}/{name}", config_map(name, "vendor: ["))
    api.before = lambda method, path: Answer(403, b"{}") if path == EVENTS else None
    async with following(api) as follower:
        await until(lambda: request_count(api, "POST events") == 3)
        await turns()
    assert follower.captured.logged.count("event_not_written") == 1
    assert request_count(api, "POST events") == 3


async def test_events_while_the_api_server_is_away() -> None:
    """Of each object and reason the newest is written as soon as it can be; and then others."""
    api, captured = FakeApi(), CapturedLog()
    trouble: Exception | Answer | None = UnreachableError("away")

    def before(_method: str, _path: str) -> Answer | None:
        if isinstance(trouble, Exception):
            if request_count(api, "POST events") == 1:
                queue.put(SUBJECT, "Bad", "three")
            raise trouble
        return trouble

    api.before = before
    queue = EventQueue(api, captured.log)
    async with alongside(queue.run()):
        queue.put(SUBJECT, "Bad", "one")
        await until(lambda: request_count(api, "POST events") > 1)
        queue.put(SUBJECT, "Worse", "two")
        trouble = None
        await until(lambda: len(api.objects) == 2)
        assert [each["message"] for each in api.objects.values()] == ["three", "two"]
        for answer in (Answer(403, b"{}"), Answer(403, b"{}"), None, Answer(403, b"{}")):
            trouble = answer
            count = request_count(api, "POST events")
            queue.put(SUBJECT, "Good", str(count), "Normal")
            await until(lambda count=count: request_count(api, "POST events") > count)  # type: ignore[misc]
            await turns()
    assert captured.logged == ["event_not_written"] * 2, "again after a success"


async def test_a_bug_keeps_what_is_in_force(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is reported, and the next change is tried again."""
    from webhook.cluster.policy import live

    api = FakeApi()
    async with following(api) as follower:
        await until(follower.live.ready.is_set)
        where: list[threading.Thread] = []

        def fails(*_: object) -> object:
            where.append(threading.current_thread())
            return json.loads("[")

        monkeypatch.setattr(live, "policy_of", fails)
        follower.live._changed({"acme"})  # noqa: SLF001
        await until(lambda: "policy_not_compiled" in follower.captured.logged)
        assert follower.live.faults == PolicyFaults(not_compiled=True)
        assert threading.main_thread() not in where, "what takes long is compiled beside the event loop"
        monkeypatch.undo()
        follower.live._changed({"acme"})  # noqa: SLF001
        await until(lambda: follower.live.compilations == 2)
        assert follower.live.faults == PolicyFaults()
    assert len(follower.policies) == 1
    assert follower.notices == [f"{LAST_GOOD_NAME} PolicyNotCompiled: {NOT_COMPILED}"]


async def test_a_burst_compiles_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thirty ConfigMaps at once, however long they take to come."""
    later = running_ahead()
    async with following(FakeApi()) as follower:
        await until(follower.live.ready.is_set)
        before = follower.live.compilations
        monkeypatch.setattr(live, "QUIET", PATIENCE)
        monkeypatch.setattr(live, "LONGEST", PATIENCE)
        for number in range(30):
            follower.live._changed({f"m{number}"})  # noqa: SLF001
            await turns()
        for _ in range(2):
            await later(PATIENCE)
        await until(lambda: follower.live.compilations > before)
        assert follower.live.compilations == before + 1


def record(text: str) -> dict[str, Any]:
    """The record of last good documents, with one of them."""
    return {"metadata": {"name": LAST_GOOD_NAME, "namespace": PLACE}, "data": {"acme": text}}


class Changing(FakeApi):
    """An API server whose watches yield what `change` stores."""

    def __init__(self) -> None:
        super().__init__()
        self._changes: dict[str, asyncio.Queue[bytes]] = {
            name: asyncio.Queue() for name in (MAPPINGS, SETTINGS_NAME, LAST_GOOD_NAME)
        }

    def change(self, watch: str, path: str, body: dict[str, Any]) -> None:
        """Change an object that one of the watches is on."""
        self._happened(watch, "MODIFIED", self.put(path, body))

    def remove(self, watch: str, path: str) -> None:
        """Delete one."""
        self._happened(watch, "DELETED", self.objects.pop(path))

    def _happened(self, watch: str, kind: str, found: dict[str, Any]) -> None:
        self._changes[watch].put_nowait(json.dumps({"type": kind, "object": found}).encode())

    @asynccontextmanager
    async def lines(
        self, path: str, *, query: Mapping[str, str], seconds: float, silence: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a watch: on mappings by their label, on others by name."""
        changes = self._changes.get(query.get("fieldSelector", MAPPINGS).removeprefix("metadata.name="))
        async with super().lines(path, query=query, seconds=seconds, silence=silence) as lines:
            yield lines if changes is None else self._changed(changes)

    async def _changed(self, changes: asyncio.Queue[bytes]) -> AsyncIterator[bytes]:
        while True:
            yield await changes.get()


def recorded(api: FakeApi) -> dict[str, str]:
    """What is in the record, which is created without texts and then filled."""
    texts: dict[str, str] = api.objects.get(RECORD, {}).get("data") or {}
    return texts


async def test_a_deleted_record_is_reported() -> None:
    """By an Event, beside the log; and what is known of it is written again."""
    api = Changing()
    good = vendor("acme", about="one")
    api.put(f"{MAPS}/acme", config_map("acme", good))
    api.put(RECORD, record(good))
    async with following(api) as follower:
        await follower.stored()
        assert follower.notices == []
        api.remove(LAST_GOOD_NAME, RECORD)
        await until(lambda: "last_good_restored" in follower.captured.logged)
        await until(lambda: recorded(api).get("acme") == good)
    assert follower.notices == [f"{LAST_GOOD_NAME} LastGoodRestored: {RECORD_GONE}"]


async def test_all_is_deleted_at_once() -> None:
    """That is a deletion, too: told once, until there are settings again."""
    api = Changing()
    config_maps = {
        MAPPINGS: config_map("acme", vendor("acme", about="one")),
        SETTINGS_NAME: stored_settings("target: acme\n"),
    }
    for stored in config_maps.values():
        api.put(f"{MAPS}/{stored['metadata']['name']}", stored)
    async with following(api) as follower:
        await follower.stored()
        assert "settings_missing" not in follower.captured.logged
        api.remove(LAST_GOOD_NAME, RECORD)
        for watch, stored in config_maps.items():
            api.remove(watch, f"{MAPS}/{stored['metadata']['name']}")
        await until(lambda: "acme" not in follower.policies[-1].vendors and not follower.policies[-1].settings.target)
        assert follower.policies[-1].settings.bare_devices == "whole"
        await until(lambda: not follower.live._unstored.is_set())  # noqa: SLF001
        api.change(MAPPINGS, f"{MAPS}/acme", config_maps[MAPPINGS])
        await until(lambda: "acme" in follower.policies[-1].vendors)
        assert follower.captured.logged.count("settings_missing") == 1
        api.change(SETTINGS_NAME, f"{MAPS}/{SETTINGS_NAME}", config_maps[SETTINGS_NAME])
        await until(lambda: follower.policies[-1].settings.target == "acme")
        api.remove(SETTINGS_NAME, f"{MAPS}/{SETTINGS_NAME}")
        await until(lambda: follower.captured.logged.count("settings_missing") == 2)


async def test_deleted_while_no_replica_runs() -> None:
    """Nothing of it is in force or recorded."""
    api = FakeApi()
    api.put(RECORD, record(vendor("acme", about="one")))
    async with following(api) as follower:
        await until(lambda: not api.objects[RECORD]["data"])
        assert "acme" not in follower.policies[-1].vendors
    assert follower.captured.logged.count("settings_missing") == 1


async def test_garbage_in_the_record_is_replaced_when_the_same_document_is_valid_again() -> None:
    """Restoring the document that is in force changes no policy, but the record and the fault end."""
    api = Changing()
    good = vendor("acme", about="one")
    api.put(f"{MAPS}/acme", config_map("acme", "vendor: ["))
    api.put(RECORD, record(good))
    async with following(api) as follower:
        await follower.stored()
        api.change(LAST_GOOD_NAME, RECORD, record("{{{"))
        await until(lambda: follower.live.faults == PolicyFaults(invalid=frozenset({"acme"})))
        api.change(MAPPINGS, f"{MAPS}/acme", config_map("acme", good))
        await until(lambda: recorded(api).get("acme") == good)
        await until(lambda: follower.live.faults == PolicyFaults())
    assert len(follower.policies) == 1


async def test_garbage_in_the_record_changes_nothing_in_force() -> None:
    """What a replica remembers is in order, and what others wrote there is not; what is in order counts."""
    api = FakeApi()
    api.put(f"{MAPS}/acme", config_map("acme", "vendor: ["))
    texts = {"acme": vendor("acme", about="one")}
    api.put(RECORD, {"metadata": {"name": LAST_GOOD_NAME}, "data": texts})
    async with following(api) as follower:
        await follower.stored()
        follower.live._adopt(Record({"acme": "{{{"}))  # noqa: SLF001
        await until(lambda: follower.live.compilations == 2)
        assert [policy.vendors["acme"].about for policy in follower.policies] == ["one"]
        assert follower.captured.logged.count("last_good_invalid") == 1
        assert follower.live.faults == PolicyFaults(invalid=frozenset({"acme"}))
        assert follower.notices == [f"{LAST_GOOD_NAME} LastGoodInvalid: {INVALID_RECORD}: acme"]
        follower.live._adopt(Record({"acme": vendor("acme", about="two")}))  # noqa: SLF001
        await until(lambda: follower.live.compilations == 3)
        assert follower.live.faults == PolicyFaults()
    assert follower.policies[-1].vendors["acme"].about == "two"
    assert follower.captured.logged.count("last_good_invalid") == 1


def test_settings_in_the_record_are_looked_at_too() -> None:
    """Of what is not remembered nothing is reported: another version may know it."""
    good, bad = "timeoutSeconds: 7\n", "timeoutSeconds: never\n"
    memo = DocumentCache()
    assert invalid_in({SETTINGS_NAME: bad, "acme": "["}, {SETTINGS_NAME: good}, memo) == {SETTINGS_NAME}
    assert invalid_in({SETTINGS_NAME: good}, {SETTINGS_NAME: bad}, memo) == frozenset()
    assert invalid_in({SETTINGS_NAME: bad}, {SETTINGS_NAME: bad}, memo) == frozenset()


async def test_what_is_not_kept_is_reported() -> None:
    """The record is full: by an Event that names what is left out, beside the log."""
    api = FakeApi()
    for name in "ab":
        api.put(f"{MAPS}/{name}", config_map(name, vendor(name) + "#" * (MAX_DATA // 2)))
    async with following(api) as follower:
        await until(lambda: "last_good_full" in follower.captured.logged)
        assert follower.live.faults == PolicyFaults(left_out=1)
        follower.live._unstored.set()  # noqa: SLF001
        await until(lambda: follower.captured.logged.count("last_good_full") == 2)
    assert follower.notices == [f"{LAST_GOOD_NAME} LastGoodFull: {RECORD_FULL}: b"], "once until it is over"
