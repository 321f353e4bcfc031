"""The body of a request, however it arrives, and the answer to a review."""

import asyncio
import functools
import time
from email.utils import formatdate
from http import HTTPStatus
from typing import Final, cast

from aiohttp import HttpVersion11, hdrs, web

from webhook.server.http import JSON, RETRY_AFTER, HttpError, HttpProtocol
from webhook.server.limits import BodyReading, InFlight, Limits


class ReviewAnswer(web.StreamResponse):
    """A response 200 whose whole body is known.

    aiohttp builds headers as a multidict, for handlers that add some, and encodes them: an eighth of a review's time. The
    version, status, ``Date``, length and end of the connection are as RFC 9112 §§3-9 and RFC 9110 §6.6.1 require them.
    """

    def __init__(self, body: bytes) -> None:
        # Without that of aiohttp, which makes the multidict: nothing here has a status or headers to change.
        self._text = body
        self._sent = False
        self._persists = False

    @property
    def prepared(self) -> bool:
        return self._sent

    @property
    def keep_alive(self) -> bool:
        return self._persists

    async def prepare(self, request: web.BaseRequest) -> None:
        """Write the response, once."""
        if self._sent:
            return
        self._sent = True
        forced = super().keep_alive is False
        self._persists = request.keep_alive and request.version >= HttpVersion11 and not forced
        text = self._text
        await request.writer.write(_head(int(time.time()), persists=self._persists) % len(text) + text)
        # A client that sends requests and reads no responses must not fill the memory with them.
        if request.protocol.writing_paused:
            await request.writer.drain()

    async def write_eof(self, data: bytes = b"") -> None:
        """Do nothing: `prepare` has written everything."""
        del data


@functools.lru_cache(maxsize=2)
def _head(seconds: int, *, persists: bool) -> bytes:
    """The lines before a body, whose length is still to be filled in."""
    close = "" if persists else "Connection: close\r\n"
    date = formatdate(seconds, usegmt=True)
    return f"HTTP/1.1 200 OK\r\nContent-Type: {JSON}\r\nDate: {date}\r\n{close}Content-Length: %d\r\n\r\n".encode()


MAX_HEAD: Final = 256 * 1024
"""The most bytes of what says what a review is about; groups of a user are the most of it."""


class LargeBodyError(HttpError):
    """A body that is larger than any that is decoded (413), and its beginning, if all of it was received."""

    def __init__(self, limits: Limits, head: bytes = b"") -> None:
        super().__init__(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the body is larger than {limits.body} bytes")
        self.head = head


async def body_of(request: web.BaseRequest, limits: Limits, in_flight: InFlight) -> bytes:
    """Return the body of a JSON request, and count its bytes as in flight.

    An `HttpError` says that it is not JSON (415), too slow (408), incomplete (400), too large, or one of too many (503).
    """
    headers = request.headers
    media_type = headers.get(hdrs.CONTENT_TYPE, "")
    if media_type != JSON and media_type.partition(";")[0].strip().lower() != JSON:
        raise HttpError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"the content type must be {JSON}")
    if hdrs.CONTENT_ENCODING in headers:
        # The API server never compresses, and a small compressed body may need much memory.
        raise HttpError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "compressed bodies are not supported")
    content = request.content
    if content.is_eof():  # nearly always: it has arrived together with the headers
        body = content.read_nowait()
        if len(body) > limits.body:
            raise LargeBodyError(limits, body[:MAX_HEAD])
    elif (request.content_length or 0) > limits.drained:
        raise LargeBodyError(limits)
    else:
        body = await _received(request, limits, in_flight)
    in_flight.bodies += len(body)
    return body


async def _received(request: web.BaseRequest, limits: Limits, in_flight: InFlight) -> bytes:
    """Receive a body that arrives in parts; raises what `body_of` raises."""
    connection = cast("HttpProtocol", request.protocol)
    reading = BodyReading(asyncio.timeout(limits.body_time))
    in_flight.readings[reading] = None
    connection.heed(waited_for=True)
    try:
        async with reading.deadline:
            chunks = []
            while chunk := await request.content.readany():
                chunks.append(chunk)
                if reading.size + len(chunk) > limits.body:
                    head, received = b"".join(chunks)[:MAX_HEAD], reading.size + len(chunk)
                    chunks.clear()
                    in_flight.end(reading)
                    raise await _drained(request, head, received, limits)
                in_flight.grow(reading, len(chunk), limits.bodies)
            return b"".join(chunks)
    except TimeoutError:
        if reading.crowded_out:
            raise HttpError(HTTPStatus.SERVICE_UNAVAILABLE, "too many large requests at once", RETRY_AFTER) from None
        raise HttpError(HTTPStatus.REQUEST_TIMEOUT, f"the body took longer than {limits.body_time:g} s") from None
    except (web.RequestPayloadError, ConnectionError):
        raise HttpError(HTTPStatus.BAD_REQUEST, "the body is incomplete") from None
    finally:
        in_flight.end(reading)
        connection.heed(waited_for=False)


async def _drained(request: web.BaseRequest, head: bytes, received: int, limits: Limits) -> LargeBodyError:
    """Receive the rest of a body that is too large: a client that is still sending misses the answer."""
    while received <= limits.drained:
        chunk = await request.content.readany()
        if not chunk:
            return LargeBodyError(limits, head)
        received += len(chunk)
    return LargeBodyError(limits)
