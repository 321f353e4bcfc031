"""The connection against a server of our own that does what servers and networks do; its values and errors."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web
from kubernetes.aio.client.api_client import ApiClient
from kubernetes.aio.client.configuration import Configuration

import webhook
from tests.waiting import PATIENCE, running_ahead, turns
from webhook.cluster import connection
from webhook.cluster.client import (
    MAX_UNREAD,
    Answer,
    ConfigurationError,
    OversizeError,
    SilenceError,
    StatusError,
    UnreachableError,
    UnreadableError,
    why,
)
from webhook.cluster.connection import IDENTITY, Connection, in_cluster_namespace
from webhook.pod import UNDECODABLE

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def served(handler: Handler, header: Callable[[], str | None] = lambda: None) -> AsyncIterator[Connection]:
    """Serve every path with a handler, and connect to it; each read of the credentials returns a header."""
    app = web.Application(client_max_size=10_000_000)
    app.router.add_route("*", "/{path:.*}", handler)
    # A handler that waits must not outlive its client: it would outlive the test.
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()

    async def load() -> ApiClient:
        value = header()
        return ApiClient(
            Configuration(f"http://127.0.0.1:{site.port}/prefix/", {} if value is None else {IDENTITY: value})
        )

    opened = Connection(load, await load())
    try:
        yield opened
    finally:
        await opened.close()
        await runner.cleanup()


async def test_what_is_sent() -> None:
    """A request arrives with prefix, parameters, body, type, credentials and our name."""
    seen: list[web.Request] = []
    bodies: list[bytes] = []

    async def handler(request: web.Request) -> web.Response:
        seen.append(request)
        bodies.append(await request.read())
        return web.Response(status=418, body=b"{}", headers={"Retry-After": "3"})

    async with served(handler, lambda: "Bearer secret") as api:
        answer = await api.request("GET", "/api/v1/pods", query={"continue": "a+/= b", "labelSelector": "x=true"})
        patch = await api.request("PATCH", "/api/v1/pods/a", body=[], content_type="application/json-patch+json")
    assert (answer.status, answer.body, answer.retry_after) == (418, b"{}", 3.0)
    assert patch.status == 418
    get, patched = seen
    assert (get.path, dict(get.query)) == ("/prefix/api/v1/pods", {"continue": "a+/= b", "labelSelector": "x=true"})
    assert get.headers["Authorization"] == "Bearer secret"
    assert get.headers["User-Agent"] == f"vgpu-webhook/{webhook.__version__}"
    assert get.headers["Accept-Encoding"] == "identity"
    assert (patched.method, patched.headers["Content-Type"]) == ("PATCH", "application/json-patch+json")
    assert bodies == [b"", b"[]"]


async def test_credentials_stay_here() -> None:
    """A redirect does not send them elsewhere."""
    came: list[str | None] = []
    elsewhere = ""

    async def there(request: web.Request) -> web.Response:
        nonlocal elsewhere
        came.append(request.headers.get("Authorization"))
        elsewhere = str(request.url)
        return web.Response()

    async def here(request: web.Request) -> web.Response:
        raise web.HTTPFound(elsewhere)

    async with served(there, lambda: "Bearer secret") as other, served(here, lambda: "Bearer secret") as api:
        await other.request("GET", "/api")
        assert (await api.request("GET", "/api")).status == 200
    assert came == ["Bearer secret", None]


async def test_only_our_own_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that the environment names for addresses that it excepts as Go does, and Python does not, is not used."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "127.0.0.0/8")

    async def handler(request: web.Request) -> web.Response:
        return web.Response()

    async with served(handler) as api:
        assert (await api.request("GET", "/api")).status == 200
        assert api.unread.maxlen == MAX_UNREAD


async def test_no_answer() -> None:
    """Silence, a broken connection and no server: each is reported within the time limit."""

    async def silent(request: web.Request) -> web.Response:
        await asyncio.Event().wait()
        raise AssertionError

    async def breaks(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "10"})
        await response.prepare(request)
        await response.write(b"12345")
        assert request.transport is not None
        request.transport.abort()
        return response

    async with served(silent) as api:
        with pytest.raises(UnreachableError, match=r"GET /api: no answer within 0\.1 s"):
            await api.request("GET", "/api", seconds=0.1)
    async with served(breaks) as api:
        with pytest.raises(UnreachableError, match="GET /api: "):
            await api.request("GET", "/api")
    with pytest.raises(UnreachableError, match="has been closed"):  # and no new one is made in secret
        await api.request("GET", "/api")


async def test_an_answer_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading stops at an answer larger than the bound."""
    monkeypatch.setattr(connection, "MAX_BODY", 1000)

    async def handler(request: web.Request) -> web.Response:
        return web.Response(body=b"x" * 1001)

    async with served(handler) as api:
        with pytest.raises(OversizeError, match="more than 1000 bytes"):
            await api.request("GET", "/api")


def sending(*chunks: bytes | asyncio.Event, end: bool = True) -> Handler:
    """Make a watch that sends chunks, each for itself, or waits for events, and ends or goes silent."""

    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for chunk in chunks:
            if isinstance(chunk, asyncio.Event):
                await chunk.wait()
            else:
                await response.write(chunk)
                await turns()
        if not end:
            await asyncio.Event().wait()
        return response

    return handler


async def read(api: Connection, *, seconds: float = PATIENCE, silence: float = PATIENCE) -> list[bytes]:
    """Read a watch to its end."""
    async with api.lines("/api", query={"watch": "true"}, seconds=seconds, silence=silence) as lines:
        return [line async for line in lines]


async def fail_while_reading(api: Connection) -> None:
    """Open a watch, and fail at its first line."""
    async with api.lines("/api", query={}, seconds=PATIENCE, silence=PATIENCE) as lines:
        async for _ in lines:
            raise TimeoutError("mine")


async def test_lines() -> None:
    """Lines come whole, however long, and end with the watch."""
    large = b"x" * 5_000_000
    async with served(sending(b'{"a"', b": 1}\n{}\n", large, b"\n")) as api:
        assert await read(api) == [b'{"a": 1}', b"{}", large]


async def test_lines_that_do_not_end_well() -> None:
    """Half a line, silence and a watch that continues forever are all reported."""
    async with served(sending(b"{}\n{")) as api:
        with pytest.raises(UnreachableError, match="ended within a line"):
            await read(api)
    async with served(sending(b"{}\n", end=False)) as api:
        with pytest.raises(SilenceError, match=r"nothing received in 0\.1 s"):
            await read(api, silence=0.1)
    async with served(sending(*[b"{}\n"] * 1_000_000)) as api:
        with pytest.raises(SilenceError, match=r"not ended after 0\.3 s"):
            await read(api, seconds=0.3)


async def test_a_long_line_and_then_silence() -> None:
    """The line is read at once, and the silence after it is noticed."""
    line = b"x" * 10 * 1024 * 1024
    later = running_ahead()
    async with (
        served(sending(line, b"\n", end=False)) as api,
        api.lines("/api", query={}, seconds=3 * PATIENCE, silence=PATIENCE) as lines,
    ):
        assert await anext(lines) == line
        waiting = asyncio.ensure_future(anext(lines))
        await later(PATIENCE + 1)
        with pytest.raises(SilenceError, match="nothing received in 60 s"):
            await waiting


async def test_a_line_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading stops at a line beyond the bound, before all of it is in memory."""
    monkeypatch.setattr(connection, "MAX_LINE", 100_000)
    async with served(sending(b"x" * 99_999 + b"\n", *[b"x" * 30_000] * 5, end=False)) as api:
        with pytest.raises(UnreadableError, match="a line of more than 100000 bytes"):
            await read(api)


async def test_a_watch_that_is_refused() -> None:
    """A watch that the server rejects raises before the first line, with the server's message."""

    async def handler(request: web.Request) -> web.Response:
        return web.json_response({"kind": "Status", "code": 410, "reason": "Expired", "message": "old"}, status=410)

    async with served(handler) as api:
        with pytest.raises(StatusError, match="410 Expired: old"):
            await read(api)


async def test_a_reader_may_leave() -> None:
    """A reader that leaves, fails or is cancelled leaves nothing behind, and its own errors are its own."""
    reached, gone = asyncio.Event(), asyncio.Event()

    async def handler(request: web.Request) -> web.StreamResponse:
        reached.set()
        try:
            return await sending(b"{}\n", end=False)(request)
        finally:
            gone.set()

    async with served(handler) as api:
        with pytest.raises(TimeoutError, match="mine"):
            await fail_while_reading(api)
        await asyncio.wait_for(gone.wait(), PATIENCE)
        reached.clear()
        gone.clear()
        task = asyncio.create_task(read(api))
        await reached.wait()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        await asyncio.wait_for(gone.wait(), PATIENCE)


async def test_credentials_are_read_again_when_refused() -> None:
    """A token that has been replaced costs one more try, for all requests together, and disturbs no watch."""
    tokens = iter(["old", "new"])
    calls: list[str] = []
    valid = "old"
    watched, replaced = asyncio.Event(), asyncio.Event()

    async def handler(request: web.Request) -> web.StreamResponse:
        token = request.headers["Authorization"]
        calls.append(token)
        if token != valid:
            return web.Response(status=401)
        if "watch" in request.query:
            watched.set()
            return await sending(b"{}\n", replaced, b"{}\n")(request)
        return web.Response(body=b"{}")

    async with served(handler, lambda: next(tokens)) as api:
        watch, former = asyncio.create_task(read(api)), api._session  # noqa: SLF001
        await watched.wait()
        valid = "new"
        answers = await asyncio.gather(*(api.request("GET", "/api") for _ in range(5)))
        assert {answer.status for answer in answers} == {200}
        replaced.set()
        assert await watch == [b"{}", b"{}"]
        assert calls.count("new") == 5
        # There is no third token: were credentials read again so soon, that would show.
        valid = "newest"
        assert (await api.request("GET", "/api")).status == 401
        assert former.closed
        assert not api._session.closed  # noqa: SLF001


async def test_credentials_that_cannot_be_read() -> None:
    """When there is nothing new to be had, the server's refusal is the answer."""
    first = iter(["old"])

    def header() -> str:
        try:
            return next(first)
        except StopIteration:
            raise ConfigurationError("/kubeconfig", "does not exist") from None

    async def handler(request: web.Request) -> web.Response:
        return web.Response(status=401)

    async with served(handler, header) as api:
        assert (await api.request("GET", "/api")).status == 401


def test_accepted() -> None:
    """A success returns its body; anything else raises an error with the server's message."""
    assert Answer(200, b"{}").accepted() == b"{}"
    assert Answer(201, b"").accepted() == b""
    body = b'{"kind":"Status","code":409,"reason":"Conflict","message":"changed","details":{"retryAfterSeconds":2}}'
    with pytest.raises(StatusError) as raised:
        Answer(409, body).accepted()
    error = raised.value
    assert (error.status, error.reason, error.message, error.retry_after) == (409, "Conflict", "changed", 2)
    assert str(error) == "409 Conflict: changed"


@pytest.mark.parametrize(
    "body", [b"", b"<html>" + b"x" * 10_000, b"\xff\xfe", b"[]", b'{"details": null, "message": "no"}']
)
def test_a_refusal_of_somebody_else(body: bytes) -> None:
    """A body that is no Status is reported too, but not all of it."""
    with pytest.raises(StatusError) as raised:
        Answer(302, body, 3.0).accepted()
    assert raised.value.status == 302
    assert raised.value.retry_after == 3.0
    assert len(raised.value.message) <= 256


@pytest.mark.parametrize(
    "body, reason",
    [
        (b'{"name": ', "invalid JSON"),
        (b'{"name": "\xff"}', "invalid UTF-8"),
        (b'{"name": "", "more": ' + b"[" * 100_000, "nested too deeply"),
        (b'{"name": 1}', "Expected `str`, got `int` - at `$.name`"),
    ],
)
def test_why_something_cannot_be_decoded(body: bytes, reason: str) -> None:
    """In words of our own, or the decoder's where they name the place."""
    with pytest.raises(UNDECODABLE) as raised:
        msgspec.json.decode(body, type=Named)
    assert why(raised.value) == reason


class Named(msgspec.Struct):
    """An object with a name."""

    name: str
    more: Any = None


def test_namespace_of_the_pod(tmp_path: Path) -> None:
    """In a pod it stands in a file; outside there is none."""
    assert in_cluster_namespace(tmp_path) is None
    (tmp_path / "namespace").write_text("")
    assert in_cluster_namespace(tmp_path) is None
    (tmp_path / "namespace").write_text("gpu-system\n")
    assert in_cluster_namespace(tmp_path) == "gpu-system"
