"""The HTTP response with a review: one write, with the headers that it needs and no others."""

import functools
import time
from email.utils import formatdate

from aiohttp import HttpVersion11, web

from webhook.server.http_error import JSON


class Answer(web.StreamResponse):
    """A response 200 whose whole body is known.

    aiohttp builds headers as a multidict, for handlers that add some, and encodes them: an eighth of a review's time. The
    version, status, ``Date``, length and end of the connection are as RFC 9112 §§3-9 and RFC 9110 §6.6.1 require them.
    """

    def __init__(self, body: bytes) -> None:
        super().__init__()
        self._text = body
        self._sent = False
        self._persists = False

    @property
    def prepared(self) -> bool:
        """Whether it was written."""
        return self._sent

    @property
    def keep_alive(self) -> bool:
        """Whether the connection serves further requests."""
        return self._persists

    async def prepare(self, request: web.BaseRequest) -> None:
        """Write the response, once.

        Raises:
            ConnectionError: the client has closed the connection.
        """
        if self._sent:
            return
        self._sent = True
        forced = super().keep_alive is False
        self._persists = request.keep_alive and request.version >= HttpVersion11 and not forced
        close = b"" if self._persists else b"Connection: close\r\n"
        date, length = _date(int(time.time())), len(self._text)
        head = b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\nContent-Length: %d\r\nDate: %b\r\n%b\r\n"
        await request.writer.write(head % (JSON.encode(), length, date, close) + self._text)
        # A client that sends requests and reads no responses must not fill the memory with them.
        await request.writer.drain()

    async def write_eof(self, data: bytes = b"") -> None:
        """Do nothing: `prepare` has written everything."""
        del data


@functools.lru_cache(maxsize=1)
def _date(seconds: int) -> bytes:
    return formatdate(seconds, usegmt=True).encode()
