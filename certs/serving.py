"""The TLS context of a server, whose certificate can be replaced while it serves.

Loading a new pair into a live context is unsafe: a mismatched pair breaks every later handshake, and a pair of another
key type leaves the old one in its slot. So a new pair is loaded into a context of its own, checked, and put into
force by one assignment; the front context, which the listener has, hands each handshake over to it. Its callback is
called for clients that send no server name, too.
"""

import datetime as dt
import os
import ssl
from collections.abc import Collection, Sequence
from typing import Final

from cryptography import x509

from certs.x509 import SERVING_CERTIFICATE, UnusablePairError, ca_of, why_unusable

ALPN: Final = ["http/1.1"]
"""Never h2: clients use it if it is offered, and the server behind does not support it. API servers request 1.1."""

CIPHERS: Final = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""For TLS 1.2 only: forward secrecy and authenticated encryption, as in Mozilla's intermediate profile."""


class Serving:
    """A server's TLS context (`context`) and the pair that it serves; until the first `swap`, every handshake fails.

    With `client_cas` (PEM), clients need a certificate under one of these.
    """

    def __init__(self, client_cas: bytes | None = None) -> None:
        self._in_force: tuple[ssl.SSLContext, x509.Certificate] | None = None
        self._client_cas = client_cas
        # The front context needs no pair: its callback is called before a certificate is chosen.
        self.context = _context(client_cas)
        self.context.sni_callback = self._hand_over

    def _hand_over(self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> int | None:
        if self._in_force is None:
            return ssl.ALERT_DESCRIPTION_INTERNAL_ERROR
        connection.context, _ = self._in_force
        return None

    def swap(
        self,
        chain_pem: bytes,
        key_pem: bytes,
        now: dt.datetime,
        names: Collection[str] = (),
        cas: Sequence[x509.Certificate] | None = None,
    ) -> None:
        """Serve another pair from the next handshake on: the serving certificate, then intermediates, and its unencrypted key.

        Its key may be of any type that clients accept; `cas` are those that clients trust, as far as they are known.

        Raises:
            UnusablePairError: the two do not match, cannot be decoded, are not valid now, or not for these names or CAs; the
                previous pair stays in force.
        """
        context = _context(self._client_cas)
        _load(context, chain_pem, key_pem)
        certificate, *intermediates = x509.load_pem_x509_certificates(chain_pem)
        if why := why_unusable(certificate, names, now):
            raise UnusablePairError(SERVING_CERTIFICATE, why)
        if cas is not None:
            ca_of(certificate, intermediates, cas, now)
        self._in_force = context, certificate

    @property
    def certificate(self) -> x509.Certificate | None:
        """The serving certificate in force; None if there is none yet."""
        return None if self._in_force is None else self._in_force[1]

    def failure(self, now: dt.datetime) -> str | None:
        """Why no client can be served at a moment; None if clients can be."""
        if self.certificate is None:
            return "no certificate is served yet"
        why = why_unusable(self.certificate, (), now)
        return None if why is None else f"{SERVING_CERTIFICATE} {why}"


def _context(client_cas: bytes | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(CIPHERS)
    context.set_alpn_protocols(ALPN)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    if client_cas is not None:
        # In the front context, too: a handshake keeps its verify mode when it is handed over.
        context.verify_mode = ssl.CERT_REQUIRED
        # A resumed session would not be verified again, although its certificate may have expired.
        context.num_tickets = 0
        context.options |= ssl.OP_NO_TICKET
        try:
            context.load_verify_locations(cadata=client_cas.decode("ascii"))
        except (ssl.SSLError, ValueError):
            raise UnusablePairError("the CAs of clients", "are not valid PEM") from None
    return context


def _load(context: ssl.SSLContext, chain_pem: bytes, key_pem: bytes) -> None:
    # Python passes only files to OpenSSL. A memory file leaves no key on disk, needs no writable disk, and never blocks.
    file = os.memfd_create("pair")
    try:
        os.pwrite(file, key_pem + b"\n" + chain_pem, 0)
        context.load_cert_chain(f"/proc/self/fd/{file}", password=_no_password)
    except ssl.SSLError as error:
        # A key of another type goes into another slot of the context, which then has no certificate.
        mismatch = error.reason in {"KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH", "NO_CERTIFICATE_ASSIGNED"}
        why = "a key that belongs to another certificate" if mismatch else "a certificate or key that is not valid PEM"
        raise UnusablePairError(SERVING_CERTIFICATE, f"has {why}") from None
    finally:
        os.close(file)


def _no_password() -> str:
    # Without this, OpenSSL would prompt on the terminal.
    raise UnusablePairError(SERVING_CERTIFICATE, "has an encrypted key")
