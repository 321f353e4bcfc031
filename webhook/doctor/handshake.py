"""TLS handshakes that show an address's certificate, and whether a set of CAs verifies it."""

import asyncio
import ssl
from typing import Final

from cryptography import x509

from webhook.doctor.facts import Shown

SECONDS: Final = 5.0
"""For TCP and TLS: a slower address would not answer API servers in time either."""


async def handshake(host: str, port: int, name: str, ca_bundle: bytes, seconds: float = SECONDS) -> Shown:
    """Connect as an API server would. Only the handshake is sent.

    Args:
        host: to connect to.
        port: to connect to.
        name: the name that the certificate must have.
        ca_bundle: the CAs, PEM; empty: those that this machine trusts.
        seconds: for each of the two handshakes; the second one, without verification, reads an untrusted certificate.
    """
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        trusting = await asyncio.to_thread(_context, ca_bundle)
    except ssl.SSLError as error:
        return Shown(
            address,
            "untrusted",
            f"the caBundle cannot be read: {error}",
            await _serving_certificate(host, port, name, seconds),
        )
    try:
        return Shown(address, "verified", "", await _connect(host, port, name, trusting, seconds))
    except ssl.SSLCertVerificationError as error:
        return Shown(address, "untrusted", error.verify_message, await _serving_certificate(host, port, name, seconds))
    except ssl.SSLError as error:
        return Shown(address, "no TLS", error.reason or str(error))
    except ConnectionResetError:
        return Shown(address, "no TLS", "the connection was closed in the handshake")
    except ConnectionRefusedError:
        return Shown(address, "refused", "connection refused")
    except TimeoutError:
        return Shown(address, "unreachable", f"no answer within {seconds:g} s")
    except OSError as error:
        return Shown(address, "unreachable", error.strerror or str(error))


async def shown_at(host: str, port: int) -> Shown:
    """Read a server's certificate by one connection, without verification."""
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        return Shown(address, "untrusted", "", await _connect(host, port, host, _unverified(), SECONDS))
    except OSError as error:
        return Shown(address, "unreachable", error.strerror or str(error))


async def _serving_certificate(host: str, port: int, name: str, seconds: float) -> x509.Certificate | None:
    """The certificate of an address, unverified: only its dates are used."""
    try:
        return await _connect(host, port, name, _unverified(), seconds)
    except OSError:
        return None


async def _connect(host: str, port: int, name: str, context: ssl.SSLContext, seconds: float) -> x509.Certificate | None:
    async with asyncio.timeout(seconds):
        _, writer = await asyncio.open_connection(host, port, ssl=context, server_hostname=name)
    try:
        shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        return x509.load_der_x509_certificate(shown) if shown else None
    finally:
        writer.transport.abort()


def _context(ca_bundle: bytes) -> ssl.SSLContext:
    if ca_bundle:
        context = ssl.create_default_context(cadata=ca_bundle.decode("ascii", "replace"))
    else:
        context = ssl.create_default_context()
    # Python 3.13 enforces rules of X.509 on CAs that Go, and so most clusters, never enforced.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def _unverified() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
