"""The TLS context of a server, whose certificate can be changed while it serves.

Loading a new pair into a live context is unsafe: one that doesn't match breaks every later handshake, and one of
another key type leaves the old one in its slot. So a new pair is loaded into a context of its own, checked, and put
into force by one assignment; the front context, which the listener holds, hands each handshake over to it. The callback
that does that is called for clients that send no server name, too.
"""

import datetime as dt
import os
import ssl
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from cryptography import x509

from certs.chain import check_time, check_use, path_to
from certs.problem import UnusablePairError

ALPN: Final = ["http/1.1"]
"""Never h2: a client that is offered it uses it, and the server behind cannot speak it. The API server wants 1.1."""

CIPHERS: Final = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""For TLS 1.2 only: forward secrecy and authenticated encryption, as in Mozilla's intermediate profile."""

LEAF: Final = "the leaf"


@dataclass(frozen=True, slots=True)
class Requirements:
    """What a pair has to be good for.

    Attributes:
        names: DNS names and IP addresses by which clients call.
        authorities: what clients trust; None if that is not known here.
    """

    names: Collection[str] = ()
    authorities: Sequence[x509.Certificate] | None = None


@dataclass(slots=True)
class _InForce:
    context: ssl.SSLContext
    leaf: x509.Certificate
    chain_pem: bytes
    key_pem: bytes = field(repr=False)


class Serving:
    """A server's TLS context (`context`) and the pair that is served through it.

    Until the first `swap` there is none, and every handshake is refused.

    Args:
        client_authorities: PEM; clients have to show a certificate under one of these. None: nobody is asked for one.
    """

    def __init__(self, client_authorities: bytes | None = None) -> None:
        """Serve nothing yet.

        Raises:
            UnusablePairError: the authorities of clients are no PEM.
        """
        self._in_force: _InForce | None = None
        self._client_authorities = client_authorities
        # It needs no pair of its own: the callback comes before a certificate is chosen.
        self.context = _context(client_authorities)
        self.context.sni_callback = self._hand_over

    def _hand_over(self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> int | None:
        if self._in_force is None:
            return ssl.ALERT_DESCRIPTION_INTERNAL_ERROR
        connection.context = self._in_force.context
        return None

    def swap(self, chain_pem: bytes, key_pem: bytes, now: dt.datetime, demands: Requirements | None = None) -> None:
        """Serve another pair from the next handshake on; connections that are open go on with what they have.

        Args:
            chain_pem: the leaf, then intermediates if there are any.
            key_pem: the leaf's key, unencrypted, of any type that clients take.
            now: the moment, in UTC.
            demands: what it has to be good for.

        Raises:
            UnusablePairError: the two don't belong together, can't be read, aren't valid now or don't meet the demands;
                what was served before stays.
        """
        context = _context(self._client_authorities)
        _load(context, chain_pem, key_pem)
        leaf, *intermediates = x509.load_pem_x509_certificates(chain_pem)
        demands = demands or Requirements()
        check_time(leaf, now, LEAF)
        check_use(leaf, demands.names, LEAF)
        if demands.authorities is not None:
            path_to(leaf, intermediates, demands.authorities, now, LEAF)
        self._in_force = _InForce(context, leaf, chain_pem, key_pem)

    def ask_clients(self, authorities: bytes) -> None:
        """Ask clients for certificates under other authorities from the next handshake on.

        Args:
            authorities: PEM, in the place of those before.

        Raises:
            UnusablePairError: they are no PEM; those before stay.
            ValueError: nobody was asked for a certificate at the start, and that cannot be changed in a live context.
        """
        if self._client_authorities is None:
            raise ValueError("clients are not asked for certificates")
        context = _context(authorities)
        if self._in_force is not None:
            _load(context, self._in_force.chain_pem, self._in_force.key_pem)
            self._in_force = replace(self._in_force, context=context)
        self._client_authorities = authorities

    @property
    def client_authorities(self) -> bytes | None:
        """Under which clients have to show a certificate, PEM; None if nobody is asked for one."""
        return self._client_authorities

    @property
    def leaf(self) -> x509.Certificate | None:
        """The certificate that the next client is shown, None if there is none yet."""
        return None if self._in_force is None else self._in_force.leaf

    def failure(self, now: dt.datetime) -> str | None:
        """Why no client can be served at a moment; None if clients can."""
        if self._in_force is None:
            return "no certificate is served yet"
        try:
            check_time(self._in_force.leaf, now, "the served certificate")
        except UnusablePairError as error:
            return str(error)
        return None


def _context(client_authorities: bytes | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(CIPHERS)
    context.set_alpn_protocols(ALPN)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    if client_authorities is not None:
        # In the front context too: a handshake that is handed over keeps whether it verifies.
        context.verify_mode = ssl.CERT_REQUIRED
        # A session that is resumed is not verified again, although its authority may be gone meanwhile.
        context.num_tickets = 0
        context.options |= ssl.OP_NO_TICKET
        try:
            context.load_verify_locations(cadata=client_authorities.decode("ascii"))
        except (ssl.SSLError, ValueError):
            raise UnusablePairError("the authorities of clients", "are no PEM") from None
    return context


def _load(context: ssl.SSLContext, chain_pem: bytes, key_pem: bytes) -> None:
    # Python hands OpenSSL files only. A memory file leaves no key on a disk, needs no writable one, and never blocks.
    file = os.memfd_create("pair")
    try:
        os.pwrite(file, key_pem + b"\n" + chain_pem, 0)
        context.load_cert_chain(f"/proc/self/fd/{file}", password=_no_password)
    except ssl.SSLError as error:
        # A key of another type goes into another slot of the context, which has no certificate then.
        mismatch = error.reason in {"KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH", "NO_CERTIFICATE_ASSIGNED"}
        why = "a key that belongs to another certificate" if mismatch else "a certificate or key that is no PEM"
        raise UnusablePairError(LEAF, f"has {why}") from None
    finally:
        os.close(file)


def _no_password() -> str:
    # Without this OpenSSL would ask on the terminal.
    raise UnusablePairError(LEAF, "has an encrypted key")
