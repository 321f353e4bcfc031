"""Every namespace of the cluster, in memory, so that no review waits for the API server; few are requested once more.

A pod may arrive before the watch shows its namespace. Such a namespace is requested directly, once for all waiting pods.

API servers call only for pods of namespaces that have opted in. A call for a namespace that has not, as far as the watch
shows, means that its label is newer than the watch, or that the webhook configuration does not select by labels. Only the
API server knows, and only a request made after the call counts: the label may have been set just before the call.
"""

import asyncio
import itertools
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from functools import lru_cache
from http import HTTPStatus
from types import MappingProxyType
from typing import Final
from urllib.parse import quote

import msgspec
from structlog.typing import FilteringBoundLogger

from webhook.admission.decision import Namespace
from webhook.cluster.client import Api, ApiError, ObjectMetadata, StatusError, read_object
from webhook.cluster.reflector import USUAL, Bounded, Reflector, SharedRequests, WatchConfig
from webhook.labels import ENABLED, PREFIX
from webhook.request import MIB

PATH: Final = "/api/v1/namespaces"

MAX_VALUE: Final = 256
"""The characters of an annotation that are stored: no valid value is longer, and a truncated one stays invalid."""

FETCH_SECONDS: Final = 1.0
"""The time limit of one request: a fifth of the time that the API server allows for a review."""

FETCHED_SECONDS: Final = 1.0
"""How long an answer is remembered, including a 404: at most one request per second for each namespace."""

MAX_STORED: Final = 32 * MIB
"""Bytes of all namespaces, as if they had no texts in common: some ten thousand. Others are requested for each review."""

MAX_REPLACED: Final = MIB
"""Bytes of the former states that are kept."""

NOTHING: Final[Mapping[str, str]] = MappingProxyType({})
"""Shared by the many namespaces that have no annotations of ours."""


class _Namespace(msgspec.Struct):
    metadata: ObjectMetadata


@dataclass(eq=False)
class Namespaces:
    """Every namespace of a cluster; `changed` is called whenever any of them changed, and `reflector` has to be run."""

    api: Api
    _log: FilteringBoundLogger
    _: KW_ONLY
    config: WatchConfig = USUAL
    clock: Callable[[], float] = time.monotonic
    changed: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        self.reflector: Reflector[_Namespace, Namespace] = Reflector(
            self.api,
            PATH,
            _Namespace,
            _view,
            self._log,
            config=self.config,
            clock=self.clock,
            changed=lambda _: self.changed(),
            replaced=self._note,
            most=MAX_STORED,
        )
        self._requests: SharedRequests[Namespace] = SharedRequests(FETCHED_SECONDS, _is_absence, self.clock)
        self._numbers = itertools.count()
        self._replaced: Bounded[tuple[str, int], tuple[float, Namespace]] = Bounded(MAX_REPLACED, lambda key: key[0])

    def replaced(self, name: str, since: float) -> list[Namespace]:
        """The former states of a namespace that were replaced since a time of the clock."""
        return [view for at, view in self._replaced.values.values() if at >= since and view.name == name]

    def _note(self, _key: str, view: Namespace) -> None:
        self._replaced.put((view.name, next(self._numbers)), (self.clock(), view))

    def opted_in(self, label: str) -> list[Mapping[str, str]]:
        """The labels of each namespace that opts in by a label of this key."""
        namespaces = self.reflector.objects.values()
        return [namespace.labels for namespace in namespaces if namespace.labels.get(label) == ENABLED]

    def lookup(self, name: str) -> Namespace | None:
        """The stored namespace; None if it is unknown and has to be requested with `fetch`."""
        known = self.reflector.objects.get(name)
        if known is not None:
            return known
        request = self._requests.answered(name)
        return request.result() if request is not None and request.exception() is None else None

    async def fetch(self, name: str) -> Namespace:
        """Request an unknown namespace, within `FETCH_SECONDS`, and once for all callers that wait for it.

        An `ApiError` says that nothing is known; a `StatusError` with 404 that there is no such namespace.
        """
        known = self.lookup(name)
        if known is not None:
            return known
        absence = None if (answered := self._requests.answered(name)) is None else answered.exception()
        if isinstance(absence, StatusError):  # another one: every call would add to the traceback of the same
            raise StatusError(absence.status, absence.reason, absence.message, absence.retry_after)
        return await asyncio.shield(self._requests.get(name) or self._requests.start(name, self.request(name)))

    async def request(self, name: str) -> Namespace:
        """Request a namespace now, even if it is known; raises what `fetch` raises."""
        # The name is from a review, and a slash in it would make this another request.
        return _view(await read_object(self.api, f"{PATH}/{quote(name, safe='')}", _Namespace, FETCH_SECONDS))


def _is_absence(error: BaseException) -> bool:
    return isinstance(error, StatusError) and error.status == HTTPStatus.NOT_FOUND


def _view(namespace: _Namespace) -> Namespace:
    """What is stored of a namespace: all labels, because the opt-in label can be configured, and our own annotations."""
    metadata = namespace.metadata
    ours = {key: value[:MAX_VALUE] for key, value in (metadata.annotations or {}).items() if key.startswith(PREFIX)}
    return Namespace(metadata.name, _shared(metadata.labels, metadata.name), _shared(ours, metadata.name))


def _shared(texts: Mapping[str, str] | None, name: str) -> Mapping[str, str]:
    """The same texts, with each string only once in memory: namespaces differ in little but their names."""
    if not texts:
        return NOTHING
    return {_same(key): name if value == name else _same(value) for key, value in texts.items()}


@lru_cache(maxsize=4096)
def _same(text: str) -> str:
    """The first of equal texts; `sys.intern` would keep them for ever in Python 3.12."""
    return text


INTERVAL: Final = 0.1
"""Seconds for which calls for one namespace are collected: they share the request that is made then."""

MAX_PER_SECOND: Final = 20
"""The most requests per second for all namespaces: about as many labels as a tool writes in a second."""


class RecheckError(ApiError):
    """Too many namespaces have to be read again at once."""


@dataclass(eq=False)
class NamespaceRechecks:
    """Reads namespaces from the API server again, a few per second.

    It counts how often the call was right, and the watch behind (`stale`); how often the watch was right (`confirmed`); how
    often there was no answer, or no request was made (`unanswered`).
    """

    get: Callable[[str], Awaitable[Namespace]]
    _: KW_ONLY
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self.counts = {"stale": 0, "confirmed": 0, "unanswered": 0}
        self._pending: dict[str, asyncio.Task[Namespace]] = {}
        self._tasks: set[asyncio.Task[Namespace]] = set()
        self._recent: deque[float] = deque(maxlen=MAX_PER_SECOND)

    async def recheck(self, name: str, agrees: Callable[[Namespace], bool]) -> Namespace:
        """Read a namespace again, by a request that is made after this call; `agrees` says whether it agrees with the call."""
        try:
            task = self._pending.get(name) or self._start(name)
            # One waiter that is cancelled does not cancel the request for the others.
            found = await asyncio.shield(task)
        except ApiError:
            self.counts["unanswered"] += 1
            raise
        self.counts["stale" if agrees(found) else "confirmed"] += 1
        return found

    def _start(self, name: str) -> asyncio.Task[Namespace]:
        now = self.clock()
        if len(self._recent) == MAX_PER_SECOND and now - self._recent[0] < 1:
            raise RecheckError("too many calls are for namespaces that have not opted in, as far as is known")
        self._recent.append(now)
        task = self._pending[name] = asyncio.create_task(self._request(name), name=f"recheck of namespace {name}")
        # The loop itself holds only weak references to tasks.
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    async def _request(self, name: str) -> Namespace:
        try:
            await asyncio.sleep(INTERVAL)
        finally:
            del self._pending[name]
        return await self.get(name)

    def _done(self, task: asyncio.Task[Namespace]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            # Retrieved in case nobody waits for it anymore; asyncio reports an error that nobody retrieves.
            task.exception()
