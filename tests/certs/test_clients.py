"""A file with the CAs of clients, followed."""

import ssl
from contextlib import suppress
from pathlib import Path

import pytest

from certs.serving import Serving
from certs.upkeep import CertificateMatter, CertificateNotice, ClientCAs
from certs.x509 import StoreError, UnusablePairError, make_ca
from tests.certs.test_serving import AUTHORITY, NOW, client_leaf, der, leaf
from tests.waiting import alongside, until

FIRST, SECOND = (make_ca(name, NOW).certificate_pem for name in ("first", "second"))


class File:
    """A file that is followed, and what is reported about it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "clients.pem"
        self.path.write_bytes(FIRST)
        self.serving = Serving(FIRST)
        self.reports: list[CertificateNotice] = []
        self.clients = ClientCAs(self.path, self.serving, self.reports.append, poll=0.01)

    async def looks(self, times: int = 2) -> None:
        for _ in range(times):
            await self.clients.reconcile()


@pytest.fixture
def file(tmp_path: Path) -> File:
    """It holds the first CA."""
    return File(tmp_path)


async def test_what_stays_the_same_for_two_looks_counts(file: File) -> None:
    """A half-written file is not used, and an unchanged one is not reported."""
    await file.looks()
    assert file.reports == []
    file.path.write_bytes(FIRST + SECOND)
    await file.looks(1)
    file.path.write_bytes(SECOND)
    await file.looks(1)
    assert file.serving.client_cas == FIRST
    await file.looks(1)
    assert file.serving.client_cas == SECOND
    assert [notice.matter for notice in file.reports] == [CertificateMatter.CLIENTS]


@pytest.mark.parametrize("content", [b"", b"garbage", None])
async def test_what_is_no_ca_changes_nothing(file: File, content: bytes | None) -> None:
    """It is reported once, and so is its end."""
    if content is None:
        file.path.unlink()
    else:
        file.path.write_bytes(content)
    await file.looks(1)
    with pytest.raises(StoreError if content is None else UnusablePairError, match=r"clients.pem.*stay in force"):
        await file.looks(1)
    assert file.serving.client_cas == FIRST
    async with alongside(file.clients.run()):
        await until(lambda: file.reports)
        assert file.reports[0].matter is (CertificateMatter.STORE if content is None else CertificateMatter.INVALID)
        file.path.write_bytes(FIRST)
        await until(lambda: len(file.reports) > 1)
    assert [notice.matter for notice in file.reports[1:]] == [CertificateMatter.RECOVERED]


async def test_without_client_cas_none_can_be_added(file: File) -> None:
    """That is for the start to say."""
    with pytest.raises(ValueError, match="not required"):
        Serving().require_client_certificates(FIRST)


def handshake(tls: Serving, context: ssl.SSLContext, session: ssl.SSLSession | None) -> ssl.SSLObject:
    """The client's end of a connection that both have agreed to, without a network."""
    out, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(back, out, server_hostname="localhost", session=session)
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
def test_other_cas_of_clients(version: ssl.TLSVersion, tmp_path: Path) -> None:
    """From the next handshake on, also for who has a session from before, and before and after a swap."""
    first, second = make_ca("first", NOW), make_ca("second", NOW)
    contexts = []
    for ca in (first, second):
        shown = client_leaf(ca)
        (tmp_path / "client.pem").write_bytes(shown.key_pem + shown.certificate_pem)
        context = ssl.create_default_context(cadata=AUTHORITY.certificate_pem.decode())
        context.minimum_version = context.maximum_version = version
        context.load_cert_chain(tmp_path / "client.pem")
        contexts.append(context)
    old, new = contexts
    pair = leaf()
    tls = Serving(first.certificate_pem)
    tls.swap(pair.certificate_pem, pair.key_pem, NOW)
    session = handshake(tls, old, None).session
    with pytest.raises(ssl.SSLError, match="VERIFY"):
        handshake(tls, new, None)
    with pytest.raises(ssl.SSLError, match="PEER_DID_NOT_RETURN_A_CERTIFICATE"):
        handshake(tls, ssl.create_default_context(cadata=AUTHORITY.certificate_pem.decode()), None)
    tls.require_client_certificates(second.certificate_pem)
    assert tls.client_cas == second.certificate_pem
    for _ in range(2):
        assert handshake(tls, new, None).getpeercert(binary_form=True) == der(pair)
        for held in (None, session):
            with pytest.raises(ssl.SSLError, match="VERIFY"):
                handshake(tls, old, held)
        pair = leaf()
        tls.swap(pair.certificate_pem, pair.key_pem, NOW)
    with pytest.raises(UnusablePairError, match="the CAs of clients are not valid PEM"):
        tls.require_client_certificates(b"garbage")
    handshake(tls, new, None)
