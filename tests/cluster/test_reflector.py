"""The reflector against a script: everything that an API server and a network do to a watch."""

import asyncio
import math
from collections import deque
from collections.abc import AsyncIterator, Collection, Iterable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from tests.captured_log import CapturedLog
from tests.waiting import PATIENCE, running_ahead
from webhook.cluster.client import (
    Answer,
    ObjectMetadata,
    SilenceError,
    StatusError,
    UnreachableError,
    UnreadableError,
)
from webhook.cluster.reflector import MOST, Reflector, WatchConfig

from .fake_api import END, FakeApi
from .things import LIST_PATH, bookmark, event, page, refusal, status, thing

GONE = status(410, "Expired", "too old resource version: 1 (9)")
PACE = WatchConfig(settled=3600.0)


class Thing(msgspec.Struct):
    """Something with a value, of which the value is held."""

    metadata: ObjectMetadata
    value: str = ""


def scripted(lists: Iterable[Answer | Exception], watches: Iterable[Exception | list[Any]] = ()) -> FakeApi:
    """An API of one collection."""
    return FakeApi({LIST_PATH: deque(lists)}, watches)


class Scene:
    """A reflector that runs, and what it did."""

    def __init__(self, api: FakeApi, pace: WatchConfig, most: int = MOST) -> None:
        self.captured = CapturedLog()
        self.api = api
        self.changes: list[set[str]] = []
        self.pauses: list[float] = []
        self.reflector = Reflector(
            api,
            LIST_PATH,
            Thing,
            lambda found: found.value,
            self.captured.log,
            changed=self._changed,
            query={"labelSelector": "a=b"},
            most=most,
            config=pace,
            chance=lambda: 1.0,
            sleep=self._sleep,
        )

    @property
    def held(self) -> dict[str, str]:
        return dict(self.reflector.objects)

    @property
    def queries(self) -> list[dict[str, str]]:
        return [query.query for query in self.api.requests]

    def _changed(self, keys: Collection[str]) -> None:
        self.changes.append(set(keys))

    async def _sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        await asyncio.sleep(0)


@asynccontextmanager
async def running(
    lists: Iterable[Answer | Exception],
    watches: Iterable[Exception | list[Any]] = (),
    pace: WatchConfig = PACE,
    most: int = MOST,
) -> AsyncIterator[Scene]:
    """Run a reflector until the script has been played, and through the block."""
    scene = Scene(scripted(lists, watches), pace, most)
    task = asyncio.create_task(scene.reflector.run())
    try:
        async with asyncio.timeout(PATIENCE):
            over = asyncio.ensure_future(scene.api.over.wait())
            await asyncio.wait({task, over}, return_when=asyncio.FIRST_COMPLETED)
            over.cancel()
        if task.done():
            await task
        yield scene
    finally:
        task.cancel()
        await asyncio.wait({task})
        assert scene.api.open == 0


async def test_list_then_watch() -> None:
    """Everything listed is held, then every event is followed, from the version that the list was of."""
    events = [
        event("ADDED", thing("c", 6, "three", "ns")),
        event("MODIFIED", thing("a", 7, "one!")),
        event("DELETED", thing("b", 8)),
    ]
    async with running([page(5, thing("a", 1, "one"), thing("b", 2, "two"))], [events]) as scene:
        assert scene.held == {"a": "one!", "ns/c": "three"}
        assert scene.changes == [{"a", "b"}, {"ns/c"}, {"a"}, {"b"}]
        assert scene.reflector.synced.is_set()
        assert scene.reflector.age is not None
        assert scene.reflector.age < 5
        listed, watched = scene.queries
        assert listed == {"labelSelector": "a=b", "limit": "500"}
        assert watched == {
            "labelSelector": "a=b",
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": "5",
            "timeoutSeconds": "600",
        }
        assert scene.pauses == []


async def test_pages() -> None:
    """A list in pages is in force only when it is whole; its version is that of the last page."""
    pages = [page(5, thing("a", 1), more="next+/="), page(5, thing("b", 2), more="last"), page(5, thing("c", 3))]
    async with running(pages) as scene:
        assert scene.held == {"a": "", "b": "", "c": ""}
        assert scene.changes == [{"a", "b", "c"}]
        assert [query.get("continue") for query in scene.queries] == [None, "next+/=", "last", None]


async def test_more_than_is_stored() -> None:
    """Whoever has the most is left out, in a list and later, and owners are told; it is logged once for each list."""
    lists = [page(5, thing("a", 1, "x", "small"), *(thing(f"{each}", 1, "x" * 1000, "large") for each in range(9)))]
    events = [event("ADDED", thing(f"new-{each}", 6, "x" * 1000, "large")) for each in range(3)]
    async with running([*lists, *lists], [[*events, END], [*events, event("ERROR", GONE)]], most=6000) as scene:
        listed = {"small/a", "large/6", "large/7", "large/8"}
        assert scene.held.keys() == listed
        assert scene.changes == [
            listed,
            {"large/new-0"},
            {"large/new-1", "large/6", "large/7"},
            {"large/new-2"},
            {"large/6", "large/7", "large/new-0", "large/new-1", "large/new-2"},
        ]
        assert scene.captured.logged == ["watch_overfull", "watch_expired", "watch_overfull"]


async def test_a_page_that_has_expired() -> None:
    """When the server no longer knows the rest of a list, the list starts again."""
    lists = [page(5, thing("a", 1), more="next"), refusal(410, "Expired"), page(9, thing("b", 2))]
    async with running(lists) as scene:
        assert scene.held == {"b": ""}
        assert scene.changes == [{"b"}]


async def test_end_in_good_order() -> None:
    """A watch that the server ends is taken up again where it stood, events and bookmarks counted, after a pause."""
    watches: list[Exception | list[Any]] = [[event("ADDED", thing("a", 6)), END], [bookmark(70), END], [END]]
    async with running([page(5)], watches) as scene:
        assert [query.get("resourceVersion") for query in scene.queries] == [None, "5", "6", "70", "70"]
        assert len(scene.pauses) == 3
        assert scene.captured.logged == []


@pytest.mark.parametrize(
    "end",
    [
        pytest.param([event("ERROR", GONE)], id="within the watch"),
        pytest.param(StatusError(410, "Expired", "too old"), id="instead of the watch"),
        pytest.param([event("ERROR", status(500, "InternalError")), END], id="another error within"),
        pytest.param(StatusError(504, "Timeout", "Too large resource version"), id="a version from the future"),
        pytest.param([UnreadableError("a line is too long")], id="a line that cannot be read"),
    ],
)
async def test_a_new_list_replaces_everything(end: Exception | list[Any]) -> None:
    """When a watch cannot continue from its version there is a new list, and what vanished meanwhile is gone."""
    lists = [
        page(5, thing("a", 1, "one"), thing("b", 2, "two"), thing("c", 3)),
        page(9, thing("a", 1, "one"), thing("b", 8)),
    ]
    async with running(lists, [end]) as scene:
        assert scene.held == {"a": "one", "b": ""}
        assert scene.changes == [{"a", "b", "c"}, {"b", "c"}]
        assert scene.queries[-1]["resourceVersion"] == "9"
        assert len(scene.pauses) == 1


@pytest.mark.parametrize(
    "trouble",
    [
        UnreachableError("the connection ended within a line"),
        SilenceError("nothing received in 150 s"),
        StatusError(403, "Forbidden", "no"),
        StatusError(401, "Unauthorized", "no"),
        StatusError(429, "TooManyRequests", "no"),
        StatusError(503, "ServiceUnavailable", "no"),
    ],
)
async def test_trouble_that_passes(trouble: Exception) -> None:
    """Trouble that says nothing about the version costs no list: the watch continues where it stood."""
    async with running([page(5, thing("a", 1))], [[trouble], trouble]) as scene:
        assert scene.held == {"a": ""}
        assert [query.get("resourceVersion") for query in scene.queries] == [None, "5", "5", "5"]


async def test_what_was_known_stays() -> None:
    """While lists fail, what was last known is held and the reflector stays synced."""
    lists: list[Answer | Exception] = [page(5, thing("a", 1)), *[UnreachableError("refused")] * 20]
    async with running(lists, [[event("ERROR", GONE)]]) as scene:
        assert scene.held == {"a": ""}
        assert scene.reflector.synced.is_set()
        assert scene.changes == [{"a"}]


async def test_not_synced_before_the_first_list() -> None:
    """Without a whole list nothing is held, although the server has answered."""
    async with running(
        [UnreachableError("refused"), refusal(403, "Forbidden"), page(5, thing("a", 1), more="n")]
    ) as scene:
        assert not scene.reflector.synced.is_set()
        assert scene.held == {}
        assert scene.reflector.age is not None


async def test_silence_is_no_trouble_yet() -> None:
    """A watch from which nothing came is opened again with a line of level debug; that nobody answers is a warning."""
    refused = UnreachableError("refused")
    async with running([page(5)], [[SilenceError("silent")], [SilenceError("silent")], refused]) as scene:
        assert scene.captured.logged == ["watch_silent", "watch_silent", "watch_failed"]
        assert [call.method_name for call in scene.captured.lines] == ["debug", "debug", "warning"]


@pytest.mark.parametrize(
    "lists, watches",
    [
        pytest.param([UnreachableError("refused")] * 100, [], id="tries that fail"),
        pytest.param([page(5)], [[END]] * 100, id="watches that end at once"),
    ],
)
async def test_pauses_grow_up_to_a_bound(lists: list[Answer | Exception], watches: list[Exception | list[Any]]) -> None:
    """Each doubles the pause, up to the bound; chance takes away up to half."""
    async with running(lists, watches) as scene:
        assert scene.pauses[:8] == [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 15.0]
        assert set(scene.pauses[7:]) == {15.0}


async def test_a_watch_that_held_ends_the_growth() -> None:
    """After a watch that has held for a while the next pause is the first again, and the end of trouble is reported once."""
    slow, later = WatchConfig(settled=60), running_ahead()
    lists: list[Answer | Exception] = [*[UnreachableError("refused")] * 5, page(5)]
    async with running(lists, [], slow) as scene:
        assert scene.captured.logged == ["watch_failed"]
        await later(slow.settled)
        assert scene.captured.logged == ["watch_failed", "watch_restored"]
        assert scene.pauses[-1] == 3.2


async def test_the_server_says_when_to_come_again() -> None:
    """A pause is at least what the server requests, within the bound."""
    lists = [refusal(429, "TooManyRequests", 7.0), refusal(429, "TooManyRequests", math.inf), page(5)]
    async with running(lists) as scene:
        assert scene.pauses == [7.0, 15.0]


async def test_trouble_is_reported_once_for_each_change() -> None:
    """A failure is reported once when it begins, with the server's message."""
    forbidden = refusal(403, "Forbidden")
    lists: list[Answer | Exception] = [
        forbidden,
        forbidden,
        forbidden,
        UnreachableError("refused"),
        UnreachableError("reset"),
        forbidden,
    ]
    async with running(lists) as scene:
        assert scene.captured.logged == ["watch_forbidden", "watch_failed", "watch_forbidden"]
        first = scene.captured.lines[0]
        assert first.method_name == "error"
        assert first.kwargs == {"event": "watch_forbidden", "resource": LIST_PATH, "status": 403, "error": "no"}


async def test_the_same_again_is_no_change() -> None:
    """An event that changes nothing of what is held calls nobody; nor does the end of what was not held."""
    events = [event("MODIFIED", thing("a", 6, "one")), event("DELETED", thing("b", 7)), bookmark(8)]
    async with running([page(5, thing("a", 1, "one"))], [events]) as scene:
        assert scene.changes == [{"a"}]


@pytest.mark.parametrize("turns", range(12))
async def test_cancelled_anywhere(turns: int) -> None:
    """Cancelled at any moment, it ends at once, and its watch is closed."""
    api = scripted([page(5, thing("a", 1), more="n"), page(5)], [[event("ADDED", thing("b", 6)), END], [bookmark(7)]])
    scene = Scene(api, PACE)
    task = asyncio.create_task(scene.reflector.run())
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert api.open == 0
