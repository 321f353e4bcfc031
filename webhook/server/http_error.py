"""HTTP answers other than a review: a status, and a body like a Kubernetes ``Status``.

HttpError               raised where a request cannot be answered with a review
    .status, .message, .headers
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
    status = error.status
    body = msgspec.json.encode(
        {
            "apiVersion": "v1",
            "kind": "Status",
            "status": "Failure",
            "code": status.value,
            "reason": _REASONS[status],
            "message": error.message,
        }
    )
    response = web.Response(status=status, body=body, headers={"Content-Type": JSON, **error.headers})
    if status is HTTPStatus.SERVICE_UNAVAILABLE:
        response.force_close()
    return response
