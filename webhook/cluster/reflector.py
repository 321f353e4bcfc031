"""What a replica remembers of an API server, bounded in bytes whatever is sent: objects that it watches, and answers.

A `Reflector` stores part of every object of a kind, and keeps it up to date: one list, then a watch. While the API server
cannot be reached, the last known objects stay, and readers do not notice.

- A list replaces everything, so an object that vanished between two watches is gone after the next list.
- A watch continues from the version of the last event or bookmark. The server ends it from time to time. If
  the server no longer has that version (410), or a retry would not help for another reason, the objects are listed again.
- An object that cannot be read is left out, reported and counted; the others are stored. What cannot be read of a watch
  does not end it.
- Every retry follows a pause, even after a normal end: when an API server restarts, all watches of a cluster end at
  once. The pauses grow up to a limit, and are reset once a watch has lasted for a while.
"""

import asyncio
import heapq
import itertools
import math
import random
import sys
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Hashable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec
from msgspec import Struct
from structlog.typing import FilteringBoundLogger

from certs.upkeep import Backoff
from webhook.cluster.client import (
    MAX_UNREAD,
    PAGE,
    Api,
    ObjectMetadata,
    ObjectReader,
    PlainObject,
    SilenceError,
    StatusError,
    UnreachableError,
    Unread,
    UnreadableError,
    decode_stored,
    pages,
)
from webhook.pod import UNDECODABLE
from webhook.request import MIB
from webhook.text import error_fields

A = TypeVar("A")
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

ENTRY: Final = 200
"""Bytes of an entry in two dicts."""


def deep_size(value: Any) -> int:
    """The bytes of plain data, tuples and structs; a text that occurs twice counts twice."""
    size, left = 0, [value]
    while left:
        each = left.pop()
        size += sys.getsizeof(each)
        if type(each) is str:  # nearly always
            continue
        if isinstance(each, Mapping):
            left += each.keys()
            left += each.values()
        elif isinstance(each, tuple | list | set | frozenset):
            left += each
        elif isinstance(each, Struct):
            left += [getattr(each, name) for name in each.__struct_fields__]
    return size


class Bounded(Generic[K, V]):
    """Values by key, the oldest first, of at most so many bytes together.

    Beyond that, whoever has the most loses its oldest ones until a tenth is free: nobody displaces those that have little.
    `owner` tells whose a value is by its key, and `size` its bytes.
    """

    __slots__ = ("_most", "_owner", "_size", "_sizes", "bytes", "values")

    def __init__(
        self, most: int, owner: Callable[[K], Hashable] = lambda _: None, size: Callable[[V], int] = deep_size
    ) -> None:
        self.values: dict[K, V] = {}
        self.bytes = 0
        self._sizes: dict[K, int] = {}
        self._most = most
        self._owner = owner
        self._size = size

    def __len__(self) -> int:
        return len(self.values)

    def put(self, key: K, value: V) -> list[K]:
        """Store a value as the newest; return the keys that are gone for it, perhaps its own."""
        self.drop(key)
        self.values[key] = value
        self._sizes[key] = size = ENTRY + deep_size(key) + self._size(value)
        self.bytes += size
        return list(self._shrink()) if self.bytes > self._most else []

    def drop(self, key: K) -> bool:
        """Forget a key; return whether there was one."""
        if key not in self.values:
            return False
        del self.values[key]
        self.bytes -= self._sizes.pop(key)
        return True

    def _shrink(self) -> Iterator[K]:
        totals: dict[Hashable, int] = {}
        keys: dict[Hashable, list[K]] = {}
        for key, size in self._sizes.items():
            owner = self._owner(key)
            totals[owner] = totals.get(owner, 0) + size
            keys.setdefault(owner, []).append(key)
        # The number decides among equals, so that nothing else is compared.
        most = [(-totals[owner], number, iter(keys[owner])) for number, owner in enumerate(totals)]
        heapq.heapify(most)
        while self.bytes > self._most - self._most // 10:
            total, number, oldest = most[0]
            key = next(oldest)
            heapq.heapreplace(most, (total + self._sizes[key], number, oldest))
            self.drop(key)
            yield key


GRACE: Final = 30.0
"""Seconds after which the client ends a watch that the server should have ended."""

RETRYABLE: Final = {
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.FORBIDDEN,
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.SERVICE_UNAVAILABLE,
}
"""Errors of a watch that have nothing to do with its version: it can continue from there."""

MOST: Final = 16 * MIB
"""Bytes of the stored parts of all objects of a kind; a list is read beside what it replaces."""


class WatchConfig(Struct, frozen=True):
    """The times of a reflector, in seconds, and the number of objects in one answer to a list.

    Attributes:
        watch: the shortest and longest time after which the server is requested to end a watch, as in Go's clients.
        silence: a watch is reopened after that time without a byte. Bookmarks arrive every minute, the first one within
            two minutes (measured on Kubernetes 1.36).
        first: the first pause; short, because it delays all changes.
        longest: the longest pause; with it, three kinds on three replicas make less than one request a second in total.
        settled: a watch that has lasted that long resets the pauses.
    """

    page: int = PAGE
    watch: tuple[int, int] = (300, 600)
    silence: float = 150.0
    first: float = 0.2
    longest: float = 15.0
    settled: float = 10.0


USUAL: Final = WatchConfig()


class WatchedObject(Protocol):
    """A msgspec struct with the fields of a kind that are decoded."""

    @property
    def metadata(self) -> ObjectMetadata: ...


T = TypeVar("T", bound=WatchedObject)


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


_decode_event = msgspec.json.Decoder(_Event).decode
_decode_bookmark = msgspec.json.Decoder(PlainObject).decode


def key_of(metadata: ObjectMetadata) -> str:
    """The key of an object: ``namespace/name``, or its name if it is cluster-wide."""
    return f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name


@dataclass(eq=False)
class Reflector(Generic[T, V]):
    """Stores the part of each object of one kind that `view` returns.

    Attributes:
        changed: called with the keys of what was added, changed or removed, after every list and every event; not for
            an object whose stored part is the same as before.
        replaced: called with the key and the stored part of an object that was changed, before `changed`.
        most: bytes of all stored parts; beyond them the namespace with the most, or the largest cluster-wide object, is not
            stored, as if it were not there.
        synced: set after the first complete list.
        last_contact: when the server last sent something, by `clock`; None if it never has.
        unreadable: how many objects could not be read, or not as a whole.
        bugs: how many unforeseen errors there were.
    """

    _api: Api
    _path: str
    _kind: type[T]
    _view: Callable[[T], V]
    _log: FilteringBoundLogger
    _: KW_ONLY
    changed: Callable[[Collection[str]], None] = lambda _: None
    replaced: Callable[[str, V], None] = lambda _key, _view: None
    query: Mapping[str, str] = field(default_factory=dict)
    most: int = MOST
    config: WatchConfig = USUAL
    clock: Callable[[], float] = time.monotonic
    chance: Callable[[], float] = random.random
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    def __post_init__(self) -> None:
        self.synced = asyncio.Event()
        self.last_contact: float | None = None
        self.unreadable = 0
        self.bugs = 0
        self._log = self._log.bind(resource=self._path)
        self._reader: ObjectReader[T, tuple[ObjectMetadata, V]] = ObjectReader(
            self._path, self._kind, lambda each: (each.metadata, self._view(each))
        )
        self._unread: dict[str, str] = {}
        self._stored: Bounded[str, V] = self._nothing()
        self._overfull = False
        self._version: str | None = None
        self._backoff = Backoff(self.config.first, self.config.longest, self.chance)
        self._trouble = ""

    @property
    def objects(self) -> Mapping[str, V]:
        """The stored objects, by key. A list replaces the mapping; an event changes it."""
        return self._stored.values

    @property
    def age(self) -> float | None:
        """Seconds since the server last sent something; None if it never has."""
        return None if self.last_contact is None else self.clock() - self.last_contact

    async def run(self) -> None:
        """List and watch until cancelled; no error ends it."""
        while True:
            least = 0.0
            try:
                if self._version is None:
                    self._version = await self._list()
                await self._watch(self._version)
            except StatusError as error:
                if error.status not in RETRYABLE:
                    self._version = None
                self._failed(str(error.status), error)
                least = min(error.retry_after or 0.0, self.config.longest)
            except SilenceError as error:
                # Perhaps nothing has changed; if the server is gone, the next attempt fails.
                self._log.debug("watch_silent", error=str(error))
            except UnreachableError as error:
                self._failed("unreachable", error)
            except UnreadableError as error:
                self._version = None
                self._failed("unreadable", error)
            except Exception as error:  # noqa: BLE001  (what is stored stays up to date)
                self._version = None
                self._bug(error)
            await self.sleep(max(self._backoff.failed(), least))

    async def _list(self) -> str:
        """List all objects, and return the version of the list."""
        found = self._nothing()
        self._overfull = False
        version = ""
        unread: dict[str, str] = {}
        async for page in pages(self._api, self._path, self._reader, self.query, self.config.page):
            self.last_contact = self.clock()
            for metadata, view in page.items:
                self._put(found, key_of(metadata), view)
            version = page.metadata.resource_version
            for each in page.unread:
                self._note(each)
            unread |= {each.key: each.why for each in page.unread}
        self._unread = {key: reason for key, reason in self._unread.items() if key in unread}
        self._replace(found)
        self.synced.set()
        return version

    async def _watch(self, version: str) -> None:
        """Follow all events after a version until the server ends the watch."""
        least, most = self.config.watch
        lasting = least + int(self.chance() * (most - least))
        query = {
            **self.query,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(lasting),
        }
        watch = self._api.lines(self._path, query=query, seconds=lasting + GRACE, silence=self.config.silence)
        async with watch as lines:
            self.last_contact = self.clock()
            settling = asyncio.get_running_loop().call_later(self.config.settled, self._settled)
            try:
                async for line in lines:
                    self.last_contact = self.clock()
                    self._version = self._apply(line) or self._version
            finally:
                settling.cancel()

    def _apply(self, line: bytes) -> str:
        """Apply an event, and return its version; empty if that cannot be read."""
        try:
            event, left_out = decode_stored(line, _decode_event)
            about = bytes(event.object)
            if event.type == "BOOKMARK":
                return decode_stored(about, _decode_bookmark)[0].metadata.resource_version
        except UnreadableError as error:
            self._note(self._reader.unread(line, error.cause))
            return ""
        if event.type == "ERROR":
            raise StatusError.read(about)
        read, unread = self._reader.object(about, left_out)
        metadata = ObjectMetadata() if read is None else read[0][0]
        key, version = (key_of(metadata), metadata.resource_version) if unread is None else (unread.key, unread.version)
        if event.type == "DELETED" or unread is None:
            self._unread.pop(key, None)
        else:
            self._note(unread)
        if event.type == "DELETED" or read is None:
            self._forget(key)
        else:
            self._store(key, read[0][1])
        return version

    def _forget(self, key: str) -> None:
        if self._stored.drop(key):
            self._tell((key,))

    def _store(self, key: str, view: V) -> None:
        objects = self._stored.values
        before = {key: objects[key]} if key in objects else {}
        if before != {key: view}:
            self._tell((key, *self._put(self._stored, key, view)), before)

    def _nothing(self) -> Bounded[str, V]:
        return Bounded(self.most, lambda key: key.partition("/")[0])

    def _put(self, stored: Bounded[str, V], key: str, view: V) -> list[str]:
        """Store a part, and return the keys of those that give way."""
        gone = stored.put(key, view)
        if gone and not self._overfull:
            self._overfull = True
            self._log.warning("watch_overfull", bytes=self.most, left_out=gone[0])
        return gone

    def _replace(self, found: Bounded[str, V]) -> None:
        before, self._stored = self._stored.values, found
        now = found.values
        gone = before.keys() - now.keys()
        changed = {key for key, view in now.items() if key not in before or before[key] != view}
        if gone or changed:
            self._tell(gone | changed, {key: before[key] for key in changed & before.keys()})

    def _tell(self, keys: Collection[str], replaced: Mapping[str, V] = MappingProxyType({})) -> None:
        try:
            for key, view in replaced.items():
                self.replaced(key, view)
            self.changed(keys)
        except Exception as error:  # noqa: BLE001  (the next event is another matter)
            self._bug(error)

    def _bug(self, error: Exception) -> None:
        self.bugs += 1
        self._log.error("bug", **error_fields(error))

    def _note(self, unread: Unread) -> None:
        """Count an object that cannot be read and log it, unless that was done already."""
        if unread.key and self._unread.get(unread.key) == unread.why:
            return
        self.unreadable += 1
        if len(self._unread) >= MAX_UNREAD and unread.key not in self._unread:
            del self._unread[next(iter(self._unread))]
        self._unread[unread.key] = unread.why
        self._log.warning(
            "object_unreadable",
            kind=unread.kind,
            namespace=unread.namespace,
            name=unread.name,
            why=unread.why,
            partly=unread.partly,
            **({} if isinstance(unread.error, UNDECODABLE) else error_fields(unread.error)),
        )

    def _settled(self) -> None:
        self._backoff.reset()
        if self._trouble:
            self._trouble = ""
            self._log.info("watch_restored")

    def _failed(self, trouble: str, error: Exception) -> None:
        """Log a failure, unless the same one was logged last."""
        if trouble == self._trouble:
            return
        self._trouble = trouble
        if trouble == str(int(HTTPStatus.GONE)):
            self._log.info("watch_expired", error=str(error))
        elif isinstance(error, StatusError) and error.status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
            self._log.error("watch_forbidden", status=error.status, error=error.message)
        else:
            self._log.warning("watch_failed", error=str(error))


MAX_ANSWERED: Final = MIB
"""Bytes of the answers that hold at a time."""

TASK: Final = 2048
"""Bytes of a request that is over, with its error and the traceback of that."""


def _size_of_answer(answered: "tuple[float, asyncio.Task[Any]]") -> int:
    task = answered[1]
    return TASK + (deep_size(task.result()) if task.exception() is None else deep_size(str(task.exception())))


class SharedRequests(Generic[A]):
    """Requests, each made once for all that wait for it; an answer, also an error that is one, holds for a while."""

    def __init__(self, seconds: float, is_answer: Callable[[BaseException], bool], clock: Callable[[], float]) -> None:
        self._seconds = seconds
        self._is_answer = is_answer
        self._clock = clock
        self._running: dict[str, asyncio.Task[A]] = {}
        self._answered: Bounded[str, tuple[float, asyncio.Task[A]]] = Bounded(MAX_ANSWERED, size=_size_of_answer)

    def answered(self, key: str) -> asyncio.Task[A] | None:
        """The request whose answer holds; None if there is none."""
        until, task = self._answered.values.get(key, (-math.inf, None))
        return task if self._clock() < until else None

    def get(self, key: str) -> asyncio.Task[A] | None:
        """The request without an answer yet, or else the one whose answer holds."""
        return self._running.get(key) or self.answered(key)

    def forget(self, key: str) -> None:
        """What was answered no longer holds."""
        self._answered.drop(key)

    def start(self, key: str, request: Coroutine[Any, Any, A]) -> asyncio.Task[A]:
        """Make a request. One waiter that is cancelled must not cancel it for the others."""
        task = self._running[key] = asyncio.create_task(request, name=f"request for {key}")
        task.add_done_callback(lambda done: self._done(key, done))
        return task

    def _done(self, key: str, task: asyncio.Task[A]) -> None:
        del self._running[key]
        now = self._clock()
        # In the order of insertion, so the first ones expire first.
        answered = self._answered.values
        for old in tuple(itertools.takewhile(lambda old: answered[old][0] <= now, answered)):
            self._answered.drop(old)
        if not task.cancelled() and ((error := task.exception()) is None or self._is_answer(error)):
            self._answered.put(key, (now + self._seconds, task))
