"""HTTP answers other than a review: a status, and a body like a Kubernetes ``Status``.

HttpError               raised where a request cannot be answered with a review
    .status, .message, .headers
FAREWELL                the last answer on an idle connection
"""

from collections.abc import Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import Final

import msgspec
from aiohttp import web

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
