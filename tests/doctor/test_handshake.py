"""Handshakes with a real server: what is verified, what is not, and what cannot be reached."""

import asyncio
import datetime as dt
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from certs.ca import Pair, issue, make_ca
from webhook.doctor.collect import handshake

NOW = dt.datetime.now(dt.UTC)
DAY = dt.timedelta(days=1)
AUTHORITY = make_ca("one", NOW - DAY)
OTHER = make_ca("other", NOW - DAY)
NAME = "webhook.gpu.svc"


@asynccontextmanager
async def server(folder: Path, leaf: Pair | None) -> AsyncIterator[int]:
    """A server with this certificate, or without TLS; its port."""
    context = None
    if leaf is not None:
        (folder / "tls.crt").write_bytes(leaf.certificate_pem)
        (folder / "tls.key").write_bytes(leaf.key_pem)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "tls.crt", folder / "tls.key")

    async def plainly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if leaf is None:
            writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await reader.read()
        writer.close()

    listening = await asyncio.start_server(plainly, "127.0.0.1", 0, ssl=context)
    async with listening:
        yield listening.sockets[0].getsockname()[1]


@pytest.mark.parametrize(
    "make,authorities,end,why",
    [
        (lambda: issue(AUTHORITY, [NAME], NOW), AUTHORITY.certificate_pem, "verified", ""),
        (
            lambda: issue(AUTHORITY, [NAME], NOW),
            OTHER.certificate_pem + AUTHORITY.certificate_pem,
            "verified",
            "",
        ),
        (lambda: issue(AUTHORITY, [NAME], NOW), OTHER.certificate_pem, "untrusted", ""),
        (lambda: issue(AUTHORITY, [NAME], NOW), b"", "untrusted", ""),
        (lambda: issue(AUTHORITY, [NAME], NOW), b"nonsense", "untrusted", "caBundle cannot be read"),
        (lambda: issue(AUTHORITY, ["elsewhere"], NOW), AUTHORITY.certificate_pem, "untrusted", "ostname"),
        (lambda: issue(AUTHORITY, [NAME], NOW - 100 * DAY), AUTHORITY.certificate_pem, "untrusted", "expired"),
        (lambda: None, AUTHORITY.certificate_pem, "no TLS", ""),
    ],
)
async def test_ends(tmp_path: Path, make: Callable[[], Pair | None], authorities: bytes, end: str, why: str) -> None:
    """How it ends, and the certificate also where it is not trusted."""
    leaf = make()
    async with server(tmp_path, leaf) as port:
        shown = await handshake("127.0.0.1", port, NAME, authorities, seconds=30)
    assert (shown.handshake, why in shown.why) == (end, True), shown
    assert shown.address == f"127.0.0.1:{port}"
    assert shown.certificate == (None if leaf is None else leaf.certificate)


async def test_nobody_there() -> None:
    """A port that nobody listens on refuses; one that never answers is not reached."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
    assert (await handshake("127.0.0.1", port, NAME, b"", seconds=30)).handshake == "refused"
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        shown = await handshake("127.0.0.1", silent.getsockname()[1], NAME, b"", seconds=0.2)
    assert shown.handshake == "unreachable"
    assert "0.2 s" in shown.why
