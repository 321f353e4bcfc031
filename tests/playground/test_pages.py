"""The pages of the playground over real sockets: who is answered, with which headers, and what the files contain."""

import asyncio
import io
import re
import signal
import socket
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import structlog
from click.testing import CliRunner

from tests.waiting import PATIENCE, until
from webhook.cli import main
from webhook.cli.pages import FOLDER, PATH, Pages, PageState, Playground
from webhook.cli.policy_source import SourcedPolicy
from webhook.mapping.load import load_policy
from webhook.server.http import Connections, Endpoint, dispatcher, listening
from webhook.server.limits import Limits

SOURCED = SourcedPolicy("of the test", load_policy())
ROOT = Path(__file__).parents[2]
FILES = {name: (FOLDER / name).read_text() for name in ("page.html", "page.css", "page.js", "icon.svg")}
FORBIDDEN = 403


@asynccontextmanager
async def serving(
    playground: Playground | None = None, limits: Limits | None = None
) -> AsyncIterator[aiohttp.ClientSession]:
    """A client of the pages, with their address as its base."""
    limits = limits or Limits()
    handler = dispatcher(Pages(playground or Playground(SOURCED), limits).routes(), limits)
    watchdog, log = Connections(limits, limits.plain_connections), structlog.get_logger()
    async with (
        listening(handler, Endpoint("127.0.0.1", 0), watchdog, log) as endpoint,
        aiohttp.ClientSession(f"http://{endpoint}") as client,
    ):
        yield client


async def test_what_binds_the_page() -> None:
    """Every answer, an error too, forbids scripts from elsewhere, guessed types, frames and referrers."""
    async with serving() as client:
        paths = ["", "page.css", "page.js", "icon.svg", "start"]
        for path in paths:
            async with client.get(PATH + path) as answer:
                assert answer.status == 200
                checked_headers(answer.headers)
        async with client.post(f"{PATH}answer", json={}) as answer:
            assert answer.status == 200
            checked_headers(answer.headers)
        async with client.get(f"{PATH}answer") as answer:
            assert answer.status == 405
        async with client.get(PATH, headers={"Host": "evil.example"}) as answer:
            checked_headers(answer.headers)
        async with client.get(PATH.removesuffix("/"), allow_redirects=False) as answer:
            assert (answer.status, answer.headers["Location"]) == (308, PATH)


def checked_headers(headers: Any) -> None:
    """Check the headers of one answer."""
    policy = dict(part.split(" ", 1) for part in headers["Content-Security-Policy"].split("; "))
    assert policy["default-src"] == policy["base-uri"] == policy["form-action"] == policy["frame-ancestors"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cache-Control"] == "no-store"
    assert not [name for name in headers if name.lower().startswith("access-control-")]


@pytest.mark.parametrize(
    "headers, allowed",
    [
        ({}, True),
        ({"Host": "localhost:9"}, True),
        ({"Host": "LOCALHOST"}, True),
        ({"Host": "[::1]:80"}, True),
        ({"Host": "127.0.0.1:80", "Origin": "http://127.0.0.1:80", "Sec-Fetch-Site": "same-origin"}, True),
        ({"Host": "evil.example"}, False),
        ({"Host": "127.0.0.1.evil.example:80"}, False),
        ({"Host": "localhost.evil.example"}, False),
        ({"Host": "localhost:80@evil.example"}, False),
        ({"Host": ""}, False),
        ({"Host": "localhost:80", "Origin": "http://localhost:81"}, False),
        ({"Origin": "https://evil.example"}, False),
        ({"Origin": "null"}, False),
        ({"Sec-Fetch-Site": "cross-site"}, False),
        ({"Sec-Fetch-Site": "same-site"}, False),
    ],
)
async def test_names_and_origins(headers: dict[str, str], *, allowed: bool) -> None:
    """A foreign page, and a foreign name for this machine, get nothing (CSRF, DNS rebinding)."""
    async with serving() as client, client.post(f"{PATH}answer", json={}, headers=headers) as answer:
        assert answer.status == (200 if allowed else FORBIDDEN)
        assert ("policy" in await answer.text()) is allowed


@pytest.mark.parametrize("media_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
async def test_only_json_is_taken(media_type: str) -> None:
    """What a form of a foreign page can send is none; a browser asks before it sends JSON to another origin."""
    async with serving() as client:
        async with client.post(f"{PATH}answer", data=b"{}", headers={"Content-Type": media_type}) as answer:
            assert answer.status == 415
        async with client.options(f"{PATH}answer", headers={"Origin": "https://evil.example"}) as answer:
            assert answer.status == 405


@pytest.mark.parametrize(
    "body, status",
    [
        (b"{", 400),
        (b"[]", 400),
        (b'{"manifest": 1}', 400),
        (b'{"manifest": "", "other": ""}', 400),
        (b'{"manifest": "\xff"}', 400),
        (b'{"manifest": ' + b"[" * 100_000, 400),
        (b'{"manifest": "%b"}' % (b"a" * Limits().body), 413),
    ],
    ids=["half", "list", "number", "unknown", "no text", "deep", "large"],
)
async def test_bodies_are_bounded(body: bytes, status: int) -> None:
    """As those of reviews: 7 MiB, and nothing but what the page sends."""
    async with serving() as client:
        headers = {"Content-Type": "application/json"}
        async with client.post(f"{PATH}answer", data=io.BytesIO(body), headers=headers) as answer:
            assert answer.status == status
            assert (await answer.json())["kind"] == "Status"
        async with client.post(f"{PATH}answer", json={}) as answer:
            assert answer.status == 200


class Slow(Playground):
    """Gives as many answers as are released."""

    def __init__(self) -> None:
        super().__init__(SOURCED)
        self.released = threading.Semaphore(0)
        self.running = self.most = 0

    def answer(self, state: PageState) -> dict[str, Any]:
        self.running += 1
        self.most = max(self.most, self.running)
        assert self.released.acquire(timeout=PATIENCE)
        self.running -= 1
        return {"manifest": state.manifest}


async def test_one_answer_at_a_time() -> None:
    """Others wait for it; the page itself does not."""
    slow = Slow()
    async with serving(slow) as client:
        asked = [asyncio.create_task(_posted(client)) for _ in range(3)]
        await until(lambda: slow.running == 1)
        async with client.get(PATH) as answer:
            assert answer.status == 200
        slow.released.release(3)
        assert await asyncio.gather(*asked) == 3 * [200]
    assert slow.most == 1


async def _posted(client: aiohttp.ClientSession) -> int:
    async with client.post(f"{PATH}answer", json={}) as answer:
        return answer.status


async def test_the_command() -> None:
    """It prints which policy it shows, and where; Ctrl-C ends it."""
    command = [sys.executable, "-m", "webhook", "playground", "--port", "0", "--values", "examples/values/hami.yaml"]
    process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        policy, ready = [(await asyncio.wait_for(process.stdout.readline(), PATIENCE)).decode() for _ in range(2)]
        assert policy == "policy: examples/values/hami.yaml over the chart's values\n"
        [url] = re.findall(r"^ready: (http://127\.0\.0\.1:\d+/)playground/ \(Ctrl-C ends it\)$", ready)
        async with aiohttp.ClientSession(url) as client:
            async with client.get("/") as answer:
                assert await answer.text() == FILES["page.html"]
            async with client.post(f"{PATH}answer", json={}) as answer:
                assert (await answer.json())["policy"]["title"] in policy
            async with client.get("/metrics") as answer:
                assert answer.status == 404
        process.send_signal(signal.SIGINT)
        assert await asyncio.wait_for(process.wait(), PATIENCE) == 0
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


def test_a_port_in_use() -> None:
    """It is named."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        result = CliRunner().invoke(main, ["playground", "--port", port])
    assert result.exit_code == 1
    assert f"--port {port}: " in result.stderr


def test_nothing_of_the_page_comes_from_elsewhere() -> None:
    """No address, no style or script inside the page, and nothing that makes elements or code of texts."""
    for name, text in FILES.items():
        assert re.findall(r"(?:https?:)?//[\w.-]+\.\w+", text.replace("http://www.w3.org/2000/svg", "")) == [], name
    assert (
        re.findall(r"<style|style=|\son\w+=|<script(?! type=\"module\" src=\"page\.js\"></script>)", FILES["page.html"])
        == []
    )
    unsafe = (
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|DOMParser|srcdoc|localStorage"
    )
    assert re.findall(unsafe, FILES["page.js"]) == []
    assert "@import" not in FILES["page.css"]
    assert "url(" not in FILES["page.css"]
