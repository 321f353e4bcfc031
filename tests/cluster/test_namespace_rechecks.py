"""Calls for namespaces that are known as not opted in: what is requested, and how often."""

import asyncio
from collections.abc import Callable

import pytest

from webhook.admission.decision import Namespace
from webhook.cluster.client import UnreachableError
from webhook.cluster.namespaces import INTERVAL, MAX_PER_SECOND, NamespaceRechecks, RecheckError

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
