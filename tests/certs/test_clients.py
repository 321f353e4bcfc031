"""Servers that require client certificates."""

import ssl
from contextlib import suppress
from pathlib import Path

import pytest

from certs.store import Serving
from certs.x509 import UnusablePairError, make_ca
from tests.certs.test_serving import AUTHORITY, NOW, client_leaf, der, leaf


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
