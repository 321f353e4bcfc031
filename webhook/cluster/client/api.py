"""What is asked of a Kubernetes API server, and what can go wrong.

ApiError                    base of all errors of this package
├── ConfigurationError      nothing says where the API server is, or what says it cannot be used
│   .place, .why            file or variable, and the end of the sentence
├── UnreachableError        no answer: refused, timed out, broken off half-way, not the server it should be
│   └── SilenceError        a watch that nothing came from for too long, or that nobody ended
└── StatusError             an answer that says no
    .status, .reason, .message, .retry_after
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, Protocol, Self, TypeAlias

import msgspec

from webhook.mapping.document.problem import shown

Object: TypeAlias = dict[str, Any]
"""A Kubernetes object, as its JSON."""

FIELD_MANAGER: Final = "vgpu-webhook"
"""By whom an object says that it was written."""

APPLY: Final = "application/apply-patch+yaml"
"""The content type of a server-side apply: by a PATCH of its name an object is made, so that a Role can permit just that."""

SHOWN: Final = 256
"""Characters of a body without a Status that are told: it may be a proxy's page."""


class ApiError(Exception):
    """Base of all errors of this package."""


class ConfigurationError(ApiError):
    """Nothing says how to reach an API server, or what says it cannot be used."""

    def __init__(self, place: str, why: str) -> None:
        self.place = place
        self.why = why
        super().__init__(f"{place}: {why}")


class UnreachableError(ApiError):
    """There is no answer, or no whole one; what was asked may have been done all the same."""


class SilenceError(UnreachableError):
    """A watch that nothing came from for too long, or that nobody ended: perhaps nobody is there, perhaps it is quiet."""


class _Details(msgspec.Struct):
    retry_after: float | None = msgspec.field(default=None, name="retryAfterSeconds")


class _Status(msgspec.Struct):
    """The part of a ``metav1.Status`` that is told."""

    code: int = 0
    reason: str = ""
    message: str = ""
    details: _Details | None = None


_decode_status = msgspec.json.Decoder(_Status).decode


class StatusError(ApiError):
    """An answer other than what was needed.

    Attributes:
        status: the HTTP status, or the code of a Status that came within a watch.
        reason: one word for programs, such as ``Forbidden``; empty if there was none.
        message: the server's own sentence for people, cut in its middle if it is long.
        retry_after: seconds that the server asks to wait before the next try, None if it doesn't.
    """

    def __init__(self, status: int, reason: str, message: str, retry_after: float | None = None) -> None:
        self.status = status
        self.reason = reason
        # It may quote all that was sent; what is wrong with that stands at the end.
        self.message = shown(message, 4 * SHOWN)
        self.retry_after = retry_after
        told = shown(message, 2 * SHOWN)
        super().__init__(f"{status} {reason}: {told}" if reason else f"{status}: {told}")

    @classmethod
    def read(cls, body: bytes, status: int = 0, retry_after: float | None = None) -> Self:
        """The error that a body tells; without a `status` it is the code in the body."""
        try:
            told = _decode_status(body)
        except msgspec.DecodeError:
            told = _Status(message=body[: 4 * SHOWN].decode(errors="replace")[:SHOWN])
        if retry_after is None and told.details is not None:
            retry_after = told.details.retry_after
        return cls(status or told.code, told.reason, told.message, retry_after)


@dataclass(frozen=True, slots=True)
class Answer:
    """What the API server said to one request.

    Attributes:
        status: the HTTP status, any.
        body: as it came: JSON, but for errors of a proxy in between.
        retry_after: seconds that the server asks to wait, None if it doesn't.
    """

    status: int
    body: bytes
    retry_after: float | None = None

    def accepted(self) -> bytes:
        """The body of a request that succeeded (2xx).

        Raises:
            StatusError: it did not.
        """
        if HTTPStatus.OK <= self.status < HTTPStatus.MULTIPLE_CHOICES:
            return self.body
        raise StatusError.read(self.body, self.status, self.retry_after)


class Api(Protocol):
    """A way to one API server."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
        seconds: float = 10.0,
    ) -> Answer:
        """Make one request, and give its answer whatever the status.

        Args:
            method: the HTTP method.
            path: from the root of the API: ``/api/v1/namespaces``.
            query: parameters, not yet quoted.
            body: what is sent, encoded.
            content_type: of the body; a patch is told by it.
            seconds: how long all of it may take.

        Raises:
            UnreachableError: no answer within that time.
        """
        ...

    def lines(
        self, path: str, *, query: Mapping[str, str], seconds: float, silence: float
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Open a watch: its lines, each whole, without the line break; they end when the server ends them.

        Args:
            path: of the collection that is watched.
            query: parameters, not yet quoted; ``watch`` is the caller's to set.
            seconds: how long all of it may take.
            silence: seconds without a byte after which nobody is believed to be there.

        Raises:
            StatusError: the server refuses.
            UnreachableError: no answer, a line that breaks off or has no end; on the way in or while lines are read.
            SilenceError: silence, or time over, while lines are read.
        """
        ...

    async def close(self) -> None:
        """End what is under way."""
        ...
