"""A TLS context whose pair is changed while it serves, over real sockets."""

import asyncio
import datetime as dt
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from cryptography.hazmat.primitives import serialization

from certs.authority import issue, make_authority
from certs.pair import Pair
from certs.problem import UnusablePairError
from certs.serving import Serving

NOW = dt.datetime.now(dt.UTC)
AUTHORITY = make_authority("test", NOW)
NAMES = ["localhost", "127.0.0.1"]


def leaf(days: int = 0) -> Pair:
    """Give a leaf that was issued that many days from now."""
    return issue(AUTHORITY, NAMES, NOW + dt.timedelta(days=days), life=dt.timedelta(days=1))


def serving(pair: Pair) -> Serving:
    """Serve a pair."""
    return Serving(pair.certificate_pem, pair.key_pem, NOW)


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(100):
        writer.write(data)
    writer.close()
    await writer.wait_closed()


@asynccontextmanager
async def listening(context: ssl.SSLContext) -> AsyncIterator[int]:
    """Give the port of an echo server."""
    server = await asyncio.start_server(_echo, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await server.wait_closed()


class Client:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.tls: ssl.SSLObject = writer.get_extra_info("ssl_object")

    async def echo(self) -> None:
        """Prove that the connection works."""
        self.writer.write(b"ping")
        assert await self.reader.readexactly(4) == b"ping"

    @property
    def served(self) -> bytes | None:
        """The certificate that was shown."""
        return self.tls.getpeercert(binary_form=True)


@asynccontextmanager
async def connected(
    port: int,
    *,
    version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3,
    name: str | None = "localhost",
    alpn: str = "http/1.1",
) -> AsyncIterator[Client]:
    """Give a connection of a client that trusts the authority; without a name it sends none and checks the address."""
    context = ssl.create_default_context(cadata=AUTHORITY.certificate_pem.decode())
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    context.minimum_version = context.maximum_version = version
    context.set_alpn_protocols([alpn])
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=name or "127.0.0.1")
    try:
        yield Client(reader, writer)
    finally:
        writer.close()
        await writer.wait_closed()


def der(pair: Pair) -> bytes:
    """Give a certificate as clients see it."""
    return pair.certificate.public_bytes(serialization.Encoding.DER)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("name", ["localhost", None])
async def test_served_with_either_version_with_and_without_a_name(version: ssl.TLSVersion, name: str | None) -> None:
    """TLS 1.2 and 1.3 work, and so does a client that sends no server name."""
    pair = leaf()
    async with listening(serving(pair).context) as port, connected(port, version=version, name=name) as client:
        await client.echo()
        assert client.served == der(pair)
        assert client.tls.selected_alpn_protocol() == "http/1.1"


async def test_http2_is_never_agreed_on() -> None:
    """A client that would like h2 is not promised it."""
    async with listening(serving(leaf()).context) as port, connected(port, alpn="h2") as client:
        assert client.tls.selected_alpn_protocol() is None


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1 is deprecated:DeprecationWarning")
async def test_old_tls_is_refused() -> None:
    """There is no TLS 1.1."""
    async with listening(serving(leaf()).context) as port:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            async with connected(port, version=ssl.TLSVersion.TLSv1_1):
                pass


async def test_swap_changes_what_the_next_client_sees() -> None:
    """A new pair is served from the next handshake on, and who is connected goes on."""
    old, new = leaf(), leaf()
    tls = serving(old)
    async with listening(tls.context) as port, connected(port) as before:
        await before.echo()
        tls.swap(new.certificate_pem, new.key_pem, NOW)
        async with connected(port) as after:
            await after.echo()
            assert after.served == der(new)
        await before.echo()
        assert before.served == der(old)
    assert tls.leaf == new.certificate
    assert tls.not_after == new.not_after


ENCRYPTED = AUTHORITY.key.private_bytes(
    serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"word")
)


@pytest.mark.parametrize(
    "chain, key, why",
    [
        (leaf().certificate_pem, leaf().key_pem, "has a key that belongs to another certificate"),
        (b"", b"", "has a certificate or key that is no PEM"),
        (leaf().certificate_pem, b"garbage", "has a certificate or key that is no PEM"),
        (AUTHORITY.certificate_pem, ENCRYPTED, "has an encrypted key"),
        ((late := leaf(-3)).certificate_pem, late.key_pem, "expired at"),
        ((early := leaf(3)).certificate_pem, early.key_pem, "is not valid before"),
    ],
)
async def test_bad_pair_is_refused_and_the_old_one_served(chain: bytes, key: bytes, why: str) -> None:
    """Whatever is wrong with a new pair, the old one stays in force and works."""
    old = leaf()
    tls = serving(old)
    with pytest.raises(UnusablePairError, match=why):
        tls.swap(chain, key, NOW)
    async with listening(tls.context) as port, connected(port) as client:
        await client.echo()
        assert client.served == der(old)
