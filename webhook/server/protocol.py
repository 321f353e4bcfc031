"""aiohttp's protocol with a `Watch` for each connection, and errors as Kubernetes reads them.

HTTP answers other than a review: a status, and a body like a Kubernetes ``Status``.

HttpError               raised where a request cannot be answered with a review
    .status, .message, .headers
FAREWELL                the last answer on an idle connection
"""

import asyncio
from collections.abc import Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import Final, cast

import msgspec
from aiohttp import web
from structlog.typing import FilteringBoundLogger

from webhook.server.limits import Limits
from webhook.server.logs import error_fields
from webhook.server.watchdog import Watch

JSON: Final = "application/json"
NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})

RETRY_AFTER: Final = MappingProxyType({"Retry-After": "1"})
"""The API server repeats a call that is answered with this header, within the time limit of the call, and, because the
connection is closed, at another replica. Only for errors that another replica may not have: it repeats a 500 with it, too."""

STOPPING: Final = "this replica is stopping"

_REASONS: Final = {
    HTTPStatus.BAD_REQUEST: "BadRequest",
    HTTPStatus.NOT_FOUND: "NotFound",
    HTTPStatus.METHOD_NOT_ALLOWED: "MethodNotAllowed",
    HTTPStatus.REQUEST_TIMEOUT: "Timeout",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "RequestEntityTooLarge",
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: "UnsupportedMediaType",
    HTTPStatus.INTERNAL_SERVER_ERROR: "InternalError",
    HTTPStatus.SERVICE_UNAVAILABLE: "ServiceUnavailable",
}


class HttpError(Exception):
    """A request that is not answered with a review."""

    def __init__(self, status: HTTPStatus, message: str, headers: Mapping[str, str] = NO_HEADERS) -> None:
        self.status = status
        self.message = message
        self.headers = headers
        super().__init__(message)


def error_response(error: HttpError) -> web.Response:
    """The response for an error."""
    headers = {"Content-Type": JSON, **error.headers}
    response = web.Response(status=error.status, body=_body(error), headers=headers)
    if error.status is HTTPStatus.SERVICE_UNAVAILABLE:
        response.force_close()
    return response


def _body(error: HttpError) -> bytes:
    return msgspec.json.encode(
        {
            "apiVersion": "v1",
            "kind": "Status",
            "status": "Failure",
            "code": error.status.value,
            "reason": _REASONS[error.status],
            "message": error.message,
        }
    )


def _farewell() -> bytes:
    error = HttpError(HTTPStatus.SERVICE_UNAVAILABLE, STOPPING, RETRY_AFTER)
    body = _body(error)
    headers = {"Content-Type": JSON, **error.headers, "Content-Length": str(len(body)), "Connection": "close"}
    lines = ["HTTP/1.1 503 Service Unavailable", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    return "\r\n".join(lines).encode() + body


FAREWELL: Final = _farewell()
"""What an idle connection is sent before it is closed. A request that is on its way meanwhile would have no answer but the
end of the connection, after which a POST is not repeated; so it is answered with this, and repeated elsewhere. A client
without a request ignores it (RFC 9112 §9.5 lets it close the connection; Go's client does)."""


class HttpProtocol(web.RequestHandler):
    """One connection; overrides what aiohttp has no settings for."""

    __slots__ = ("_log", "watch")

    def __init__(self, server: web.Server, limits: Limits, watch: Watch, log: FilteringBoundLogger) -> None:
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            access_log=None,  # type: ignore[arg-type]  # it would cost half as much as a review
            auto_decompress=False,
            keepalive_timeout=limits.keepalive,
            lingering_time=0,  # ours ends with the connection; aiohttp's would go on
        )
        self._log = log
        self.watch = watch

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.watch.opened(cast("asyncio.Transport", transport))
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        self.watch.closed()
        super().connection_lost(exc)
        for message, _ in self._messages:
            # Errors of what followed on bytes that are no HTTP, as in `handle_error`.
            error = getattr(message, "exc", None)
            if error is not None:
                error.__traceback__ = None

    def data_received(self, data: bytes) -> None:
        self.watch.received(len(data))
        super().data_received(data)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = HTTPStatus.INTERNAL_SERVER_ERROR,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer what is no HTTP, and errors that no handler has caught: aiohttp would quote what was sent."""
        del message
        if status == HTTPStatus.BAD_REQUEST:
            self._log.debug("http_error", status=status, error=type(exc).__name__)
            if exc is not None:
                # Breaks a reference cycle of 0.2 MiB, which would stay until the garbage collector runs.
                exc.__traceback__ = None
            error = HttpError(HTTPStatus.BAD_REQUEST, "no HTTP/1.1 request")
        else:
            self._log.error("bug", **({} if exc is None else error_fields(exc)))
            error = HttpError(HTTPStatus.INTERNAL_SERVER_ERROR, "an error of the webhook itself")
        if request.writer.output_size > 0:
            raise ConnectionError("the answer has already begun")
        response = error_response(error)
        response.force_close()
        return response
