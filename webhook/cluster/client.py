"""What a Kubernetes API server is asked, and how its answers are read, whatever it stores; its errors."""

import asyncio
import re
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from http import HTTPStatus
from typing import Any, Final, Generic, NamedTuple, Protocol, Self, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from webhook.pod import UNDECODABLE
from webhook.text import shorten, without_middle

Object: TypeAlias = dict[str, Any]
"""A Kubernetes object, as its JSON."""

K = TypeVar("K")


def found_at(data: object, kind: type[K], *path: str) -> K | None:
    """What is at a path of plain data; None if nothing of this kind is there, whatever others have written."""
    for key in path:
        data = data.get(key) if isinstance(data, dict) else None
    return data if isinstance(data, kind) else None


def each_at(data: object, *path: str) -> list[Object]:
    """The objects of the list at a path of plain data."""
    return [each for each in found_at(data, list, *path) or () if isinstance(each, dict)]


def annotations_of(data: Object) -> Object:
    """The annotations of an object."""
    return found_at(data, dict, "metadata", "annotations") or {}


Body: TypeAlias = Object | list[Any] | None
"""What is sent, as JSON; a list is a JSON Patch."""

FIELD_MANAGER: Final = "vgpu-webhook"
"""The field manager of everything that we write."""

AS_MANAGER: Final = {"fieldManager": FIELD_MANAGER}
"""The query of what writes."""

SHOWN: Final = 256
"""Characters shown of a body that is not a Status, but possibly a proxy's page."""


class ObjectMetadata(msgspec.Struct, frozen=True, rename="camel"):
    """``metav1.ObjectMeta``: the fields that are read; missing ones are empty. Texts of times (RFC 3339, UTC) sort by time."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class PlainObject(msgspec.Struct, frozen=True):
    """An object of any kind: the metadata that matter, and the rest as plain data."""

    metadata: ObjectMetadata = ObjectMetadata()
    spec: Object = {}
    status: Object = {}


class ApiError(Exception):
    """Base of all errors of this package."""


class ConfigurationError(ApiError):
    """No API server is configured, or the configuration cannot be used."""

    def __init__(self, place: str, why: str) -> None:
        super().__init__(f"{place}: {why}")


class UnreachableError(ApiError):
    """There is no complete answer; the request may have been carried out nevertheless."""


class SilenceError(UnreachableError):
    """A watch sent nothing for too long, or did not end in time: the server may be gone, or nothing has changed."""


class OversizeError(UnreachableError):
    """An answer is too large to be read at once."""


class UnreadableError(ApiError):
    """What the API server stores cannot be read; the message says why, and quotes none of it; `cause` was raised."""

    def __init__(self, message: str, cause: Exception | None = None) -> None:
        super().__init__(message)
        self.cause = cause or self


class _Details(msgspec.Struct):
    retry_after: float | None = msgspec.field(default=None, name="retryAfterSeconds")


class _Status(msgspec.Struct):
    """The part of a ``metav1.Status`` that is used."""

    code: int = 0
    reason: str = ""
    message: str = ""
    details: _Details | None = None


_decode_status = msgspec.json.Decoder(_Status).decode


class StatusError(ApiError):
    """An answer with an error status, or a Status within a watch.

    Attributes:
        reason: a CamelCase word for programs, such as ``Forbidden``; empty if there was none.
        message: the server's own, cut in the middle if it is long.
        retry_after: seconds to wait before a retry, if the server requested some.
    """

    def __init__(self, status: int, reason: str, message: str, retry_after: float | None = None) -> None:
        self.status = status
        self.reason = reason
        # A message may quote the whole request, and explain only at its end what is wrong.
        self.message = without_middle(message, 4 * SHOWN)
        self.retry_after = retry_after
        short = without_middle(message, 2 * SHOWN)
        super().__init__(f"{status} {reason}: {short}" if reason else f"{status}: {short}")

    @classmethod
    def read(cls, body: bytes, status: int = 0, retry_after: float | None = None) -> Self:
        """Decode the error in a body; `status` defaults to the code in the body."""
        try:
            decoded = decode_stored(body, _decode_status)[0]
        except UnreadableError:
            decoded = _Status(message=body[: 4 * SHOWN].decode(errors="replace")[:SHOWN])
        if retry_after is None and decoded.details is not None:
            retry_after = decoded.details.retry_after
        return cls(status or decoded.code, decoded.reason, decoded.message, retry_after)


def is_temporary(error: ApiError) -> bool:
    """Whether the same request may succeed later without anybody's help."""
    if isinstance(error, UnreadableError):
        return False
    return not isinstance(error, StatusError) or (
        error.status >= HTTPStatus.INTERNAL_SERVER_ERROR
        or error.status in {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.CONFLICT, HTTPStatus.REQUEST_TIMEOUT}
    )


RETRY_PAUSES: Final = (1.0, 60.0)
"""Seconds between attempts to write in the background: after the first failure, and at most."""


class Answer(Struct, frozen=True):
    """The API server's answer to one request: undecoded JSON, or anything else if a proxy in between answers with an error."""

    status: int
    body: bytes
    retry_after: float | None = None

    def accepted(self) -> bytes:
        """The body of a successful answer (2xx); any other one is a `StatusError`."""
        if HTTPStatus.OK <= self.status < HTTPStatus.MULTIPLE_CHOICES:
            return self.body
        raise StatusError.read(self.body, self.status, self.retry_after)

    def object(self) -> Object:
        """The object in a successful answer; a `StatusError` if there is none."""
        try:
            return decode_stored(self.accepted(), _decode_object)[0]
        except UnreadableError as error:
            raise StatusError(self.status, "", f"not a JSON object: {error}") from None


_decode_object = msgspec.json.Decoder(Object).decode


class Api(Protocol):
    """One API server; paths are from its root, such as ``/api/v1/namespaces``, and parameters are not yet quoted.

    `unread` has what `object_pages` has left out, in part or as a whole; the last `MAX_UNREAD`.
    """

    unread: "deque[Unread]"

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Body = None,
        content_type: str = "application/json",
        seconds: float = 10.0,
    ) -> Answer:
        """Make one request within so many seconds, and return its answer whatever the status.

        An `UnreachableError` says that there is no complete answer.
        """
        ...

    def lines(
        self, path: str, *, query: Mapping[str, str], seconds: float, silence: float
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Open a watch, and yield its complete lines without line breaks until the server ends it.

        The watch may last for so many seconds; after `silence` without a byte, the server is considered gone.

        Raises:
            StatusError: the server answers with an error.
            UnreachableError: there is no answer, or a line is cut off; on entry or while lines are read.
            UnreadableError: a line is too long.
            SilenceError: one of the two limits is exceeded while lines are read.
        """
        ...

    async def close(self) -> None: ...


MAX_UNREAD: Final = 1024
"""Objects that cannot be read and are remembered."""

PAGE: Final = 500
"""Objects in one answer to a list, as kubectl requests them."""

LIST_SECONDS: Final = 30.0
"""The time limit of one page: the API server ends a request after 60 s, and a page takes it some milliseconds."""


T = TypeVar("T")
V = TypeVar("V")


class ListMetadata(msgspec.Struct):
    """The metadata of a list; ``continue`` is the token of its next page, empty on the last one."""

    resource_version: str = msgspec.field(name="resourceVersion")
    more: str = msgspec.field(default="", name="continue")


class _Page(msgspec.Struct, Generic[T]):
    metadata: ListMetadata
    items: list[T]


class Unread(NamedTuple):
    """An object that was not read, or only `partly`: as far as it can be told which one, and why, without a quote."""

    kind: str
    namespace: str
    name: str
    version: str
    why: str
    partly: bool
    error: Exception

    @property
    def key(self) -> str:
        """As `key_of` of its metadata."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    def __str__(self) -> str:
        return f"{self.kind} {self.key or '(unknown)'}: {'in part ' if self.partly else ''}not read: {self.why}"


class _Identity(msgspec.Struct):
    metadata: dict[str, msgspec.Raw]


_decode_identity = msgspec.json.Decoder(_Identity).decode


_WHY: Final[Mapping[type[Exception], str]] = {
    msgspec.DecodeError: "invalid JSON",
    UnicodeError: "invalid UTF-8",
    RecursionError: "nested too deeply",
    MemoryError: "too large",
}


def why(error: Exception) -> str:
    """Return why something cannot be decoded, without a part of it."""
    if isinstance(error, msgspec.ValidationError):
        return str(error)
    return next((text for kind, text in _WHY.items() if isinstance(error, kind)), type(error).__name__)


def decode_stored(body: bytes, decoder: Callable[[bytes], T]) -> tuple[T, Exception | None]:
    """Decode whatever the API server sent: the only place where that may fail.

    Returns what was decoded, and what is wrong with the part of it that was left out, if there is one. An `UnreadableError`
    says that it cannot be decoded even without that part.
    """
    try:
        return decoder(body), None
    except Exception as error:  # noqa: BLE001  (what a cluster stores ends nothing)
        first = error
    try:
        return decoder(mended(body)), first
    except Exception as error:
        raise UnreadableError(why(error), error) from error


class ObjectReader(Generic[T, V]):
    """Reads the objects of one kind, and takes what is needed of each; one that cannot be read keeps none from being read."""

    def __init__(self, path: str, kind: type[T], take: Callable[[T], V]) -> None:
        # Not in threads: msgspec 0.22 crashes if two threads use a type for the first time at the same moment.
        self._page = msgspec.json.Decoder(_Page[kind]).decode  # type: ignore[valid-type]
        self._bare = msgspec.json.Decoder(_Page[msgspec.Raw]).decode
        self._object = msgspec.json.Decoder(kind).decode
        self._kind = path.rpartition("/")[2]
        self._take = take

    def page(self, body: bytes) -> "Page[V]":
        """Read one answer to a list, object by object where that is necessary."""
        try:
            whole: _Page[T] = self._page(body)
            return Page(whole.metadata, [self._take(each) for each in whole.items], [])
        except Exception:  # noqa: BLE001  (`object` says why)
            head, items = split(body)
        metadata = decode_stored(head, self._bare)[0].metadata
        found: list[V] = []
        unread: list[Unread] = []
        for item in items:
            read, left_out = self.object(item)
            found += () if read is None else read
            unread += () if left_out is None else (left_out,)
        return Page(metadata, found, unread)

    def object(self, text: bytes, left_out: Exception | None = None) -> tuple[tuple[V] | None, Unread | None]:
        """Read one object, of which a part may be left out: what is needed of it, if it can be read; and what could not be."""
        try:
            read, error = decode_stored(text, lambda body: self._take(self._object(body)))
        except UnreadableError as unreadable:
            return None, self.unread(text, unreadable.cause)
        error = error or left_out
        return (read,), None if error is None else self.unread(text, error, partly=True)

    def unread(self, text: bytes, error: Exception, *, partly: bool = False) -> Unread:
        """Say which object could not be read, as far as it can be told."""
        try:
            metadata = _decode_identity(mended(text)).metadata
        except UNDECODABLE:
            metadata = {}
        if isinstance(error, UNDECODABLE):
            error = error.with_traceback(None)  # its frames have the whole page
        namespace, name, version = (_text(metadata.get(key)) for key in ("namespace", "name", "resourceVersion"))
        return Unread(self._kind, namespace, name, version, why(error), partly, error)


def _text(raw: msgspec.Raw | None) -> str:
    """A short text of JSON; empty for anything else."""
    try:
        return "" if raw is None else shorten(msgspec.json.decode(raw, type=str), SHOWN)
    except UNDECODABLE:
        return ""


class Page(NamedTuple, Generic[V]):
    """One answer to a list: what was read of its objects, and those that were not, or not as a whole."""

    metadata: ListMetadata
    items: list[V]
    unread: list[Unread]


SMALLER: Final = 8
"""Where a page is too large, by how much the next attempt is smaller."""


async def pages(
    api: Api, path: str, reader: ObjectReader[T, V], query: Mapping[str, str] | None = None, size: int = PAGE
) -> AsyncGenerator[Page[V], None]:
    """Yield every page of a list, smaller ones where the objects are large."""
    more = ""
    while True:
        parameters = {**(query or {}), "limit": str(size), **({"continue": more} if more else {})}
        try:
            answer = await api.request("GET", path, query=parameters, seconds=LIST_SECONDS)
        except OversizeError:
            if size == 1:
                raise
            size = max(1, size // SMALLER)
            continue
        page = await asyncio.to_thread(reader.page, answer.accepted())
        yield page
        more = page.metadata.more
        if not more:
            return


async def read_object(api: Api, path: str, kind: type[T], seconds: float = LIST_SECONDS) -> T:
    """Read one object, within so many seconds."""
    answer = await api.request("GET", path, seconds=seconds)
    return read_as(path, answer.accepted(), msgspec.json.Decoder(kind).decode)


def read_as(path: str, body: bytes, decoder: Callable[[bytes], T]) -> T:
    """Decode the object at a path."""
    try:
        return decode_stored(body, decoder)[0]
    except UnreadableError as error:
        raise UnreadableError(f"{path}: {error}") from error.__cause__


class NamedObject(Struct, frozen=True):
    """An object of a known name that several replicas write, without a leader.

    A Role can permit to read it, to make it without content and to replace it, and no other.
    """

    api: Api
    path: str

    async def read(self) -> Object | None:
        answer = await self.api.request("GET", self.path)
        return None if answer.status == HTTPStatus.NOT_FOUND else answer.object()

    async def create(self, bare: Object) -> Object | None:
        """Make it without content and return it, or what another replica has made; None if that was at the same moment.

        By a server-side apply, a PATCH of its name: unlike for other requests that create, a Role can permit just that.
        It is filled afterwards, by `replace`: an apply would overwrite what another replica has just written.
        """
        answer = await self.api.request(
            "PATCH", self.path, query=AS_MANAGER, body=bare, content_type="application/apply-patch+yaml"
        )
        return None if answer.status == HTTPStatus.CONFLICT else answer.object()

    async def replace(self, changed: Object) -> Object | None:
        """Replace it, if it still has the version in the metadata of what replaces it; None if it has not, or is gone."""
        answer = await self.api.request("PUT", self.path, query=AS_MANAGER, body=changed)
        return None if answer.status in {HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND} else answer.object()


async def object_pages(
    api: Api, path: str, kind: type[T], query: Mapping[str, str] | None = None
) -> AsyncGenerator[list[T], None]:
    """Yield the objects of each page of a list; those that cannot be read are noted in `Api.unread`."""
    reader: ObjectReader[T, T] = ObjectReader(path, kind, lambda each: each)
    async for page in pages(api, path, reader, query):
        api.unread += page.unread
        yield page.items


async def list_objects(api: Api, path: str, kind: type[T], query: Mapping[str, str] | None = None) -> list[T]:
    """Read every object of a list, as `object_pages`."""
    return [each async for page in object_pages(api, path, kind, query) for each in page]


CLUSTER_ROLES: Final = "/apis/rbac.authorization.k8s.io/v1/clusterroles"


async def owner_reference(api: Api, role: str | None) -> Object | None:
    """Make an owner reference to a role as it is now: with the UID of an earlier one, the dependents would be deleted.

    A ClusterRole owns all that a release writes, because only a cluster-wide object may own the webhook configuration. So
    uninstalling a release leaves nothing behind, even if no replica is left to clean up. None without a release, or if
    there is no such role, or reading it is forbidden.
    """
    if role is None:
        return None
    answer = await api.request("GET", f"{CLUSTER_ROLES}/{role}")
    if answer.status in {HTTPStatus.NOT_FOUND, HTTPStatus.FORBIDDEN}:
        return None
    uid = answer.object()["metadata"]["uid"]
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "name": role, "uid": uid}


# What a cluster stores and a decoder refuses: an API server stores thousands of levels, and parts of an object
# (``RawExtension``, ``FieldsV1``) byte by byte as they were sent (``k8s.io/apimachinery/pkg/runtime/extension.go``,
# ``pkg/apis/meta/v1/fields_proto.go``). Nothing below recurses.

MAX_DEPTH: Final = 256
"""Levels that are kept: far beyond those of any field that is read, and far below Python's stack."""

_TOKEN: Final = re.compile(rb'"(?:[^"\\]++|\\.?)*+(?:"|\Z)|[\[\]{}]', re.DOTALL)
_SURROGATES: Final = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
)
_PAIR: Final = len(r"\ud83d\ude00")
_OPENING, _CLOSING, _QUOTE = b"[{", b"]}", b'"'
_ITEM: Final = 3
"""The level of the items of a list."""


def _tokens(text: bytes) -> Iterator[tuple[int, int, re.Match[bytes]]]:
    """Every string and bracket, each with its level and its first byte; both brackets of a pair have the same level."""
    level = 0
    for token in _TOKEN.finditer(text):
        first = text[token.start()]
        level += first in _OPENING
        yield level, first, token
        level -= first in _CLOSING


def mended(text: bytes) -> bytes:
    """JSON without what is nested deeper than `MAX_DEPTH` levels, and with a replacement for each invalid character."""
    parts: list[bytes] = []
    kept = 0
    for level, first, token in _tokens(text):
        if level == MAX_DEPTH + 1 and first in _OPENING:
            parts += (text[kept : token.start()], b"null")
        elif level == MAX_DEPTH + 1 and first in _CLOSING:
            kept = token.end()
    shallow = b"".join([*parts, text[kept:]]) if parts else text
    valid = shallow.decode("utf-8", "replace").encode()
    return _SURROGATES.sub(lambda found: found[0] if len(found[0]) == _PAIR else rb"\ufffd", valid)


def split(text: bytes) -> tuple[bytes, list[bytes]]:
    """A list of the API without its items, and each of them."""
    items: list[bytes] = []
    key = b""
    array = begin = 0
    for level, first, token in _tokens(text):
        if first in _QUOTE:
            key = token[0]
        elif level == _ITEM and array:
            if first in _CLOSING:
                items.append(text[begin : token.end()])
            begin = token.start()
        elif level == _ITEM - 1 and array:
            return text[:array] + b"[]" + text[token.end() :], items
        elif level == _ITEM - 1 and key == b'"items"' and first in _OPENING:
            array = token.start()
    return text, []
