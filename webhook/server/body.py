"""Reading a request's body: bounded in size and time."""

import asyncio
from http import HTTPStatus

from aiohttp import web

from webhook.server.http_error import JSON, RETRY_AFTER, HttpError
from webhook.server.limits import InFlight, Limits, Reading
from webhook.server.protocol import Protocol


def arrived_body(request: web.BaseRequest, limits: Limits) -> bytes | None:
    """Return the body of a JSON request if all of it arrived together with the headers, as nearly always; otherwise None.

    Raises:
        HttpError: not JSON (415), or too large (413).
    """
    headers = request.headers
    media_type = headers.get("Content-Type", "")
    if media_type != JSON and media_type.partition(";")[0].strip().lower() != JSON:
        raise HttpError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"the content type must be {JSON}")
    if "Content-Encoding" in headers:
        # The API server never compresses, and a small compressed body may need much memory.
        raise HttpError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "compressed bodies are not supported")
    content = request.content
    if not content.is_eof():
        if (request.content_length or 0) > limits.body:
            raise _too_large(limits)
        return None
    body = content.read_nowait()
    if len(body) > limits.body:
        raise _too_large(limits)
    return body


async def read_body(request: web.BaseRequest, limits: Limits, in_flight: InFlight) -> bytes:
    """Read a body that arrives in parts.

    Raises:
        HttpError: too large (413), too slow (408), incomplete (400), or too many bodies at once (503).
    """
    watch = request.protocol.watch if isinstance(request.protocol, Protocol) else None
    reading = Reading(asyncio.timeout(limits.body_time))
    in_flight.readings[reading] = None
    if watch is not None:
        watch.reading(waits=True)
    try:
        async with reading.deadline:
            chunks = []
            while chunk := await request.content.readany():
                in_flight.grow(reading, len(chunk), limits.bodies)
                if reading.size > limits.body:
                    raise _too_large(limits)
                chunks.append(chunk)
            return b"".join(chunks)
    except TimeoutError:
        if reading.crowded_out:
            raise HttpError(HTTPStatus.SERVICE_UNAVAILABLE, "too many large requests at once", RETRY_AFTER) from None
        raise HttpError(HTTPStatus.REQUEST_TIMEOUT, f"the body took longer than {limits.body_time:g} s") from None
    except (web.RequestPayloadError, ConnectionError):
        raise HttpError(HTTPStatus.BAD_REQUEST, "the body is incomplete") from None
    finally:
        in_flight.end(reading)
        if watch is not None:
            watch.reading(waits=False)


def _too_large(limits: Limits) -> HttpError:
    return HttpError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the body is larger than {limits.body} bytes")
