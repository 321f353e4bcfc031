"""The TLS context of a server, whose certificate can be changed while it serves.

Loading a new pair into a live context is unsafe: one that doesn't match breaks every later handshake, and one of
another key type leaves the old one in its slot. So a new pair is loaded into a context of its own, checked, and put
into force by one assignment; the front context, which the listener holds, hands each handshake over to it. The callback
that does that is called for clients that send no server name, too.
"""

import datetime as dt
import os
import ssl
from dataclasses import dataclass
from typing import Final

from cryptography import x509

from certs.problem import UnusablePairError

ALPN: Final = ["http/1.1"]
"""Never h2: a client that is offered it uses it, and the server behind cannot speak it. The API server wants 1.1."""

CIPHERS: Final = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""For TLS 1.2 only: forward secrecy and authenticated encryption, as in Mozilla's intermediate profile."""


@dataclass(slots=True)
class _InForce:
    context: ssl.SSLContext
    leaf: x509.Certificate


class Serving:
    """A server's TLS context (`context`) and the pair that is served through it."""

    def __init__(self, chain_pem: bytes, key_pem: bytes, now: dt.datetime) -> None:
        """Serve a pair; the arguments and errors are those of `swap`."""
        self._in_force = _checked(chain_pem, key_pem, now)
        # It needs no pair of its own: the callback comes before a certificate is chosen.
        self.context = _context()
        self.context.sni_callback = self._hand_over

    def _hand_over(self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        connection.context = self._in_force.context

    def swap(self, chain_pem: bytes, key_pem: bytes, now: dt.datetime) -> None:
        """Serve another pair from the next handshake on; connections that are open go on with what they have.

        Args:
            chain_pem: the leaf, then intermediates if there are any.
            key_pem: the leaf's key, unencrypted.
            now: the moment, in UTC.

        Raises:
            UnusablePairError: they don't belong together, can't be read or aren't valid now; the old pair stays.
        """
        self._in_force = _checked(chain_pem, key_pem, now)

    @property
    def leaf(self) -> x509.Certificate:
        """The certificate that the next client is shown."""
        return self._in_force.leaf

    @property
    def not_after(self) -> dt.datetime:
        """Until when it is valid, in UTC."""
        return self.leaf.not_valid_after_utc


def _checked(chain_pem: bytes, key_pem: bytes, now: dt.datetime) -> _InForce:
    context = _context()
    _load(context, chain_pem, key_pem)
    leaf = x509.load_pem_x509_certificates(chain_pem)[0]
    if now < leaf.not_valid_before_utc:
        raise UnusablePairError("the leaf", f"is not valid before {leaf.not_valid_before_utc:%Y-%m-%d %H:%M} UTC")
    if now > leaf.not_valid_after_utc:
        raise UnusablePairError("the leaf", f"expired at {leaf.not_valid_after_utc:%Y-%m-%d %H:%M} UTC")
    return _InForce(context, leaf)


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(CIPHERS)
    context.set_alpn_protocols(ALPN)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    return context


def _load(context: ssl.SSLContext, chain_pem: bytes, key_pem: bytes) -> None:
    # Python hands OpenSSL files only. A memory file leaves no key on a disk, needs no writable one, and never blocks.
    file = os.memfd_create("pair")
    try:
        os.pwrite(file, key_pem + b"\n" + chain_pem, 0)
        context.load_cert_chain(f"/proc/self/fd/{file}", password=_no_password)
    except ssl.SSLError as error:
        mismatch = error.reason == "KEY_VALUES_MISMATCH"
        why = "a key that belongs to another certificate" if mismatch else "a certificate or key that is no PEM"
        raise UnusablePairError("the leaf", f"has {why}") from None
    finally:
        os.close(file)


def _no_password() -> str:
    # Without this OpenSSL would ask on the terminal.
    raise UnusablePairError("the leaf", "has an encrypted key")
