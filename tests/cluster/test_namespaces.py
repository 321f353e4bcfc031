"""What is known of namespaces, and how one is requested that is not known yet, or is known as not opted in."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
import structlog

from tests.waiting import PATIENCE, turns
from webhook.admission.decision import Namespace
from webhook.cluster import namespaces as module
from webhook.cluster.client import Answer, StatusError, UnreachableError, UnreadableError
from webhook.cluster.namespaces import (
    FETCH_SECONDS,
    INTERVAL,
    MAX_PER_SECOND,
    NamespaceRechecks,
    Namespaces,
    RecheckError,
)

from .fake_api import FakeApi
from .things import Clock, refusal

ALL = "/api/v1/namespaces"
LABELS = {"kubernetes.io/metadata.name": "team", "vgpu-webhook.io/inject": "enabled", "acme.example/gpu": "on"}


class Single(FakeApi):
    """An API that answers single GETs on demand; its list holds one namespace, its watch is silent."""

    def __init__(self, answer: Callable[[str], Answer]) -> None:
        super().__init__({ALL: [namespace("listed")]})
        self.fetched: list[str] = []
        self.go = asyncio.Event()
        self.go.set()
        self._answer = answer

    async def request(self, method: str, path: str, **more: Any) -> Answer:
        """Answer a GET when `go` is set."""
        if path == ALL:
            return await super().request(method, path, **more)
        assert more["seconds"] == FETCH_SECONDS
        self.fetched.append(path)
        await self.go.wait()
        return self._answer(path.rpartition("/")[2])


def namespace(name: str, **more: Any) -> dict[str, Any]:
    """One as the API server has it, with more than is read."""
    metadata = {"name": name, "resourceVersion": "7", "labels": LABELS, "managedFields": [{"long": "x" * 500}]}
    return {"kind": "Namespace", "metadata": metadata | more, "spec": {"finalizers": ["kubernetes"]}}


def found(name: str) -> Answer:
    """Say that there is one of any name."""
    return Answer(200, json.dumps(namespace(name)).encode())


def made(answer: Callable[[str], Answer] = found) -> tuple[Single, Clock, Namespaces]:
    """Make what a test needs; nothing runs yet."""
    api, clock = Single(answer), Clock()
    return api, clock, Namespaces(api, structlog.get_logger(), clock=clock)


async def test_all_labels_and_our_annotations_are_held() -> None:
    """Labels are all held, for any may be the one that opts in; of annotations only ours, and not without bound."""
    annotations = {
        "vgpu-webhook.io/default-memory": "4Gi",
        "vgpu-webhook.io/shim": "x" * 10_000,
        "kubectl.kubernetes.io/last-applied-configuration": "x" * 10_000,
    }
    _, _, namespaces = made(lambda name: Answer(200, json.dumps(namespace(name, annotations=annotations)).encode()))
    view = await namespaces.fetch("team")
    assert view.name == "team"
    assert view.labels == LABELS
    assert view.annotations == {"vgpu-webhook.io/default-memory": "4Gi", "vgpu-webhook.io/shim": "x" * 256}


async def test_listed_namespaces_are_looked_up() -> None:
    """What the watch knows is there at once, and costs no request."""
    api, _, namespaces = made()
    task = asyncio.create_task(namespaces.reflector.run())
    await asyncio.wait_for(namespaces.reflector.synced.wait(), PATIENCE)
    assert namespaces.lookup("listed") == Namespace("listed", LABELS, {})
    assert namespaces.lookup("other") is None
    assert await namespaces.fetch("listed") == namespaces.lookup("listed")
    assert api.fetched == []
    task.cancel()


async def test_many_wait_for_one_request() -> None:
    """A thousand reviews of a new namespace are one request; one of them going away leaves the others waiting."""
    api, _, namespaces = made()
    api.go.clear()
    waiting = [asyncio.create_task(namespaces.fetch("new")) for _ in range(1000)]
    other = asyncio.create_task(namespaces.fetch("other"))
    await asyncio.sleep(0)
    waiting[0].cancel()
    await asyncio.sleep(0)
    api.go.set()
    views = await asyncio.gather(*waiting[1:])
    assert {view.name for view in views} == {"new"}
    assert (await other).name == "other"
    assert waiting[0].cancelled()
    assert api.fetched == ["/api/v1/namespaces/new", "/api/v1/namespaces/other"]


async def test_what_was_fetched_holds_for_a_moment() -> None:
    """Until the watch brings it, what was fetched is looked up; then it is requested again."""
    api, clock, namespaces = made()
    assert await namespaces.fetch("new") is await namespaces.fetch("new")
    assert namespaces.lookup("new") is not None
    clock.now += 1.0
    assert namespaces.lookup("new") is None
    await namespaces.fetch("new")
    assert len(api.fetched) == 2


async def test_no_such_namespace() -> None:
    """That there is none is an error, believed for a second at most."""
    answers = {"none": refusal(404, "NotFound")}
    api, clock, namespaces = made(lambda name: answers.get(name) or found(name))
    for _ in range(5):
        with pytest.raises(StatusError, match="404 NotFound"):
            await namespaces.fetch("none")
    assert namespaces.lookup("none") is None
    assert len(api.fetched) == 1
    clock.now += 1.0
    answers.clear()
    assert (await namespaces.fetch("none")).name == "none"


@pytest.mark.parametrize(
    "answer, error",
    [
        (refusal(403, "Forbidden"), StatusError),
        (refusal(503, "ServiceUnavailable", 1.0), StatusError),
        (Answer(200, b"<html>"), UnreadableError),
        (Answer(200, b"{}"), UnreadableError),
    ],
)
async def test_trouble_is_reported_and_not_remembered(answer: Answer, error: type[Exception]) -> None:
    """A failure is raised to all waiting callers, and the next call requests again."""
    api, _, namespaces = made(lambda _: answer)
    waiting = [asyncio.create_task(namespaces.fetch("new")) for _ in range(3)]
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(result) for result in results] == [error] * 3
    with pytest.raises(error):
        await namespaces.fetch("new")
    assert len(api.fetched) == 2


async def test_nobody_waits_any_more() -> None:
    """When all who waited have gone, what they waited for may fail unheard."""

    def fails(_: str) -> Answer:
        raise UnreachableError("refused")

    api, _, namespaces = made(fails)
    api.go.clear()
    waiting = asyncio.create_task(namespaces.fetch("new"))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait({waiting})
    api.go.set()
    await turns()
    with pytest.raises(UnreachableError):
        await namespaces.fetch("new")


async def test_a_name_is_only_a_name() -> None:
    """Whatever stands in a review, no other path is requested."""
    api, _, namespaces = made(lambda _: refusal(404, "NotFound"))
    with pytest.raises(StatusError):
        await namespaces.fetch("../secrets?x=y")
    assert api.fetched == ["/api/v1/namespaces/..%2Fsecrets%3Fx%3Dy"]


async def test_memory_of_what_was_fetched_is_bounded() -> None:
    """Expired entries are forgotten, even if they are never requested again."""
    _, clock, namespaces = made()
    for number in range(50):
        await namespaces.fetch(f"n{number}")
        clock.now += 0.1
    assert len(namespaces._requests._answered) <= 11  # noqa: SLF001


async def test_what_is_stored_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Labels of any length, now and before: of many namespaces some are requested, as if they were not known."""
    monkeypatch.setattr(module, "MAX_STORED", 50_000)
    monkeypatch.setattr(module, "MAX_REPLACED", 50_000)
    _, _, namespaces = made()
    stored = namespaces.reflector
    for number in range(40):
        for name in (f"n{number}", "changing"):
            stored._store(name, Namespace(name, {f"{each}": f"{number:04}{'x' * 100}" for each in range(20)}, {}))  # noqa: SLF001
    assert 5 < len(stored.objects) < 30
    assert 5 < len(namespaces.replaced("changing", 0.0)) < 30


ON = {"inject": "enabled"}


class Server:
    """The API server: its current answer, and the requests so far."""

    def __init__(self) -> None:
        self.labels: dict[str, str] = {}
        self.lookups: list[str] = []
        self.go = asyncio.Event()
        self.go.set()
        self.error: Exception | None = None

    async def get(self, name: str) -> Namespace:
        """What it says when it begins to answer, after as long as a test wants."""
        self.lookups.append(name)
        labels = dict(self.labels)
        await self.go.wait()
        if self.error is not None:
            raise self.error
        return Namespace(name, labels, {})


def is_on(view: Namespace) -> bool:
    """Whether it has opted in."""
    return view.labels == ON


@pytest.fixture
def server() -> Server:
    """One that answers at once."""
    return Server()


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which passes with what is slept."""
    moment = [1000.0]
    sleep = asyncio.sleep

    async def slept(seconds: float) -> None:
        await sleep(0)
        moment[0] += seconds

    monkeypatch.setattr("webhook.cluster.namespaces.asyncio.sleep", slept)
    return moment


def clock(now: list[float]) -> Callable[[], float]:
    """That time as a clock."""
    return lambda: now[0]


async def test_what_it_says_counts(server: Server, now: list[float]) -> None:
    """And is counted by whether the call was right."""
    rechecks = NamespaceRechecks(server.get, clock=clock(now))
    assert (await rechecks.recheck("a", is_on)).labels == {}
    server.labels = ON
    assert (await rechecks.recheck("a", is_on)).labels == ON
    server.error = UnreachableError("away")
    with pytest.raises(UnreachableError, match="away"):
        await rechecks.recheck("a", is_on)
    assert rechecks.counts == {"stale": 1, "confirmed": 1, "unanswered": 1}
    assert now[0] == pytest.approx(1000 + 3 * INTERVAL)


async def test_an_answer_from_before_the_call_says_nothing(server: Server) -> None:
    """The label may have come in between: whoever comes while a question is on its way shares the next one."""
    rechecks = NamespaceRechecks(server.get)
    server.go.clear()
    first = asyncio.create_task(rechecks.recheck("a", is_on))
    while not server.lookups:  # noqa: ASYNC110  (what is waited for has no event)
        await asyncio.sleep(0)
    server.labels = ON
    later = [asyncio.create_task(rechecks.recheck("a", is_on)) for _ in range(50)]
    await asyncio.sleep(0)
    server.go.set()
    assert (await first).labels == {}
    assert all(view.labels == ON for view in await asyncio.gather(*later))
    assert server.lookups == ["a", "a"]


async def test_who_goes_away_takes_nothing_from_the_others(server: Server) -> None:
    """One caller hangs up."""
    rechecks = NamespaceRechecks(server.get)
    server.go.clear()
    first, second = (asyncio.create_task(rechecks.recheck("a", is_on)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    server.go.set()
    assert (await second).labels == {}
    assert len(server.lookups) == 1


async def test_few_questions_whoever_calls(server: Server, now: list[float]) -> None:
    """So many in a second about all namespaces, side by side."""
    rechecks = NamespaceRechecks(server.get, clock=clock(now))
    first = [asyncio.create_task(rechecks.recheck(f"n{number}", is_on)) for number in range(MAX_PER_SECOND)]
    await asyncio.sleep(0)
    with pytest.raises(RecheckError, match="too many"):
        await rechecks.recheck("another", is_on)
    await asyncio.gather(*first)
    assert len(server.lookups) == MAX_PER_SECOND
    now[0] += 1
    await rechecks.recheck("another", is_on)
