"""A TLS context whose pair is changed while it serves, and that requires client certificates, over real sockets."""

import asyncio
import datetime as dt
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID

from certs.store import Serving
from certs.x509 import Pair, UnusablePairError, issue, make_ca
from tests.certs.made import intermediate_under, key_pem, root, rsa_leaf, signed

NOW = dt.datetime.now(dt.UTC)
AUTHORITY = make_ca("test", NOW)
NAMES = ["localhost", "127.0.0.1"]


def leaf(days: int = 0) -> Pair:
    """Give a serving certificate that was issued that many days from now."""
    return issue(AUTHORITY, NAMES, NOW + dt.timedelta(days=days), life=dt.timedelta(days=1))


def serving(pair: Pair) -> Serving:
    """Serve a pair."""
    tls = Serving()
    tls.swap(pair.certificate_pem, pair.key_pem, NOW)
    return tls


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
        self.writer.write(b"ping")
        assert await self.reader.readexactly(4) == b"ping"

    @property
    def served(self) -> bytes | None:
        return self.tls.getpeercert(binary_form=True)


@asynccontextmanager
async def connected(
    port: int,
    *,
    version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3,
    name: str | None = "localhost",
    alpn: str = "http/1.1",
    context: ssl.SSLContext | None = None,
) -> AsyncIterator[Client]:
    """Give a connection of a client that trusts the CA; without a name it sends none and checks the address."""
    if context is None:
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
    """A new pair is served from the next handshake on, and who is connected continues."""
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
    assert tls.certificate == new.certificate


ENCRYPTED = key_pem(AUTHORITY.key, b"word")
OTHER = make_ca("other", NOW)
EXPIRED = make_ca("old", NOW - dt.timedelta(days=20), dt.timedelta(days=10))
COMPANY = root(NOW)
INTERMEDIATE = intermediate_under(COMPANY, NOW)
ENDED = intermediate_under(COMPANY, NOW, -0.5)


def client_leaf(ca: Pair) -> Pair:
    """A pair whose certificate is only for clients."""
    made = issue(ca, NAMES, NOW)
    alternatives = x509.SubjectAlternativeName([x509.DNSName("localhost")])
    usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
    return Pair(
        signed(made.key, ca, "localhost", made.not_after, (alternatives, False), (usage, False), since=NOW), made.key
    )


Requirements = tuple[list[str], list[x509.Certificate] | None]

ANY: Requirements = ([], None)
BY_NAME: Requirements = (["localhost"], None)
UNDER: Requirements = (["localhost"], [AUTHORITY.certificate])
NO_WAY = (
    "the serving certificate is not signed by a CA of the bundle that is valid now, "
    "directly or through intermediates that are"
)


EARLY = dt.timedelta(days=3, minutes=-5)


def stamp(moment: dt.datetime) -> str:
    """As messages have it."""
    return f"{moment:%Y-%m-%d %H:%M}"


def of(pair: Pair) -> tuple[bytes, bytes]:
    """A pair as files."""
    return pair.certificate_pem, pair.key_pem


LATE, COMPANYS = leaf(-3), (["localhost"], [COMPANY.certificate])
OF_ANOTHER = "the serving certificate has a key that belongs to another certificate"
NO_PEM = "the serving certificate has a certificate or key that is not valid PEM"
NOT_YET = f"the serving certificate is not valid before {stamp(NOW + EARLY)} UTC, and the clock says {stamp(NOW)}"
NAMED = "the serving certificate is not for gpu.example, 10.0.0.1: it names localhost, 127.0.0.1"
NO_SERVER = "the serving certificate is not for servers (extendedKeyUsage serverAuth is missing)"
SHORT = rsa_leaf(ENDED, NOW)


@pytest.mark.parametrize(
    "files, requirements, message",
    [
        ((leaf().certificate_pem, leaf().key_pem), ANY, OF_ANOTHER),
        ((leaf().certificate_pem, rsa_leaf(AUTHORITY, NOW)[1]), ANY, OF_ANOTHER),
        ((b"", b""), ANY, NO_PEM),
        ((leaf().certificate_pem, b"garbage"), ANY, NO_PEM),
        ((AUTHORITY.certificate_pem, ENCRYPTED), ANY, "the serving certificate has an encrypted key"),
        (of(LATE), ANY, f"the serving certificate expired at {stamp(LATE.not_after)} UTC"),
        (of(leaf(3)), ANY, NOT_YET),
        (of(leaf()), (["localhost", "gpu.example", "10.0.0.1"], None), NAMED),
        (of(client_leaf(AUTHORITY)), BY_NAME, NO_SERVER),
        (of(issue(OTHER, NAMES, NOW)), UNDER, NO_WAY),
        (rsa_leaf(EXPIRED, NOW), (["localhost"], [EXPIRED.certificate]), NO_WAY),
        ((SHORT[0] + ENDED.certificate_pem, SHORT[1]), COMPANYS, NO_WAY),
        (rsa_leaf(INTERMEDIATE, NOW), COMPANYS, NO_WAY),
    ],
    ids=range(13),
)
async def test_bad_pair_is_refused_and_the_old_one_served(
    files: tuple[bytes, bytes], requirements: Requirements, message: str
) -> None:
    """Whatever is wrong with a new pair is reported exactly; the old one stays in force and works."""
    old = leaf()
    tls = serving(old)
    with pytest.raises(UnusablePairError) as caught:
        tls.swap(*files, NOW, *requirements)
    assert str(caught.value) == message
    async with listening(tls.context) as port, connected(port) as client:
        await client.echo()
        assert client.served == der(old)


async def test_without_a_pair_every_handshake_is_refused() -> None:
    """A listener may be there before there is anything to serve."""
    tls = Serving()
    assert tls.certificate is None
    assert tls.failure(NOW) == "no certificate is served yet"
    async with listening(tls.context) as port:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            async with connected(port):
                pass
        pair = leaf()
        tls.swap(pair.certificate_pem, pair.key_pem, NOW)
        async with connected(port) as client:
            await client.echo()
    assert tls.failure(NOW) is None
    assert tls.failure(NOW + dt.timedelta(days=2)) == f"the serving certificate expired at {stamp(pair.not_after)} UTC"
    assert "the serving certificate is not valid before" in (tls.failure(NOW - dt.timedelta(days=2)) or "")


def test_cas_of_clients_that_are_none() -> None:
    """They are refused at once."""
    for text in (b"", b"garbage", b"\xff"):
        with pytest.raises(UnusablePairError, match="the CAs of clients are not valid PEM"):
            Serving(text)


AUTHORITIES = x509.BasicConstraints(ca=True, path_length=None)
LOCALHOST = x509.SubjectAlternativeName([x509.DNSName("localhost")])
ELSEWHERE = x509.AuthorityKeyIdentifier(b"another key", None, None)
POLICY = x509.CertificatePolicies([x509.PolicyInformation(x509.ObjectIdentifier("1.2.3"), None)])
SIGNS, HANDSHAKES = (
    each.certificate.extensions.get_extension_for_class(x509.KeyUsage).value for each in (AUTHORITY, leaf())
)
ED25519, WEAK = ed25519.Ed25519PrivateKey.generate(), rsa.generate_private_key(65537, 1024)

PLAIN, OF_CA = (LOCALHOST,), (AUTHORITIES,)


def handshake(tls: Serving, context: ssl.SSLContext) -> ssl.SSLObject:
    """The client's end of a connection that both have agreed to, without a network."""
    out, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(back, out, server_hostname="localhost")
    server = tls.context.wrap_bio(out, back, server_side=True)
    pending = [client, server]
    while pending:
        for end in tuple(pending):
            with suppress(ssl.SSLWantReadError):
                end.do_handshake()
                pending.remove(end)
    server.write(b"ping")
    assert client.read(4) == b"ping"
    return client


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_cas_of_clients(version: ssl.TLSVersion, tmp_path: Path) -> None:
    """Who has a certificate under them is answered, and nobody else; after a swap, too."""
    contexts = []
    for ca in (first := make_ca("first", NOW), make_ca("second", NOW)):
        shown = client_leaf(ca)
        (tmp_path / "client.pem").write_bytes(shown.key_pem + shown.certificate_pem)
        context = ssl.create_default_context(cadata=AUTHORITY.certificate_pem.decode())
        context.minimum_version = context.maximum_version = version
        context.load_cert_chain(tmp_path / "client.pem")
        contexts.append(context)
    known, unknown = contexts
    tls = Serving(first.certificate_pem)
    for pair in (leaf(), leaf()):
        tls.swap(pair.certificate_pem, pair.key_pem, NOW)
        found = handshake(tls, known)
        assert found.getpeercert(binary_form=True) == der(pair)
        assert found.session is None or not found.session.has_ticket
        with pytest.raises(ssl.SSLError, match="VERIFY"):
            handshake(tls, unknown)
        with pytest.raises(ssl.SSLError, match="PEER_DID_NOT_RETURN_A_CERTIFICATE"):
            handshake(tls, ssl.create_default_context(cadata=AUTHORITY.certificate_pem.decode()))


def test_what_is_no_ca_is_refused() -> None:
    """At the start, where somebody reads it."""
    with pytest.raises(UnusablePairError, match="the CAs of clients are not valid PEM"):
        Serving(b"garbage")
