"""aiohttp's protocol, with a `Watch` for each connection, and with our own error answers."""

import asyncio
from http import HTTPStatus
from typing import cast

from aiohttp import web
from structlog.typing import FilteringBoundLogger

from webhook.server.http_error import HttpError, error_response
from webhook.server.limits import Limits
from webhook.server.logs import error_fields
from webhook.server.watchdog import Watch


class Protocol(web.RequestHandler):
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
