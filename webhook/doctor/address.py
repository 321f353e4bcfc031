"""Connects to the address in the webhook configuration, and reads the certificates there."""

import asyncio
import ssl
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from cryptography import x509

from webhook.cluster.client.api import Api, ApiError, Object, list_objects, read_object
from webhook.cluster.registration.desired import AUDIT, ENFORCE, ServiceReference
from webhook.cluster.registration.observed import bundle_of, webhooks_of
from webhook.doctor.facts import HTTPS, Backend, Shown, address_of
from webhook.doctor.read import EndpointSlice, ServiceObject
from webhook.doctor.result import NOT_TRIED, Missing

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
    address = _address(host, port)
    try:
        trusting = await asyncio.to_thread(_context, ca_bundle)
    except ssl.SSLError as error:
        why = f"the caBundle cannot be read: {error}"
        return Shown(address, "untrusted", why, await _serving_certificate(host, port, name, seconds))
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
    address = _address(host, port)
    try:
        return Shown(address, "untrusted", "", await _connect(host, port, host, _unverified(), SECONDS))
    except OSError as error:
        return Shown(address, "unreachable", error.strerror or str(error))


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


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
    context = ssl.create_default_context(cadata=ca_bundle.decode("ascii", "replace") or None)
    # Python 3.13 enforces rules of X.509 on CAs that Go, and so most clusters, never enforced.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def _unverified() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


MAX_ENDPOINTS: Final = 5
"""The most replicas whose certificate is read; more would show nothing new."""


async def read_served_certificates(
    api: Api, registered: Object | None
) -> tuple[Backend | Missing | None, Sequence[Shown] | Missing]:
    """Return the backend of the address in the webhook configuration, and the certificates that it shows."""
    webhooks = {} if registered is None else webhooks_of(registered)
    webhook = webhooks.get(ENFORCE) or webhooks.get(AUDIT)
    address = None if webhook is None else address_of(webhook)
    if webhook is None or address is None:
        return None, NOT_TRIED
    ca_bundle = bundle_of(webhook).strip()
    if isinstance(address, ServiceReference):
        return await _service(api, address, ca_bundle)
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port or HTTPS
    except ValueError as error:
        return None, Missing(f"{address}: {error}")
    if not host:
        return None, Missing(f"{address} contains no host")
    return None, [await handshake(host, port, host, ca_bundle)]


async def _service(
    api: Api, service: ServiceReference, ca_bundle: bytes
) -> tuple[Backend | Missing, Sequence[Shown] | Missing]:
    """Connect to the Service's cluster IP, and to each of its endpoints: one may have another certificate."""
    place = f"namespaces/{service.namespace}"
    query = {"labelSelector": f"kubernetes.io/service-name={service.name}"}
    try:
        found = (await read_object(api, f"/api/v1/{place}/services/{service.name}", ServiceObject)).spec
        slices = await list_objects(api, f"/apis/discovery.k8s.io/v1/{place}/endpointslices", EndpointSlice, query)
    except ApiError as error:
        return Missing(str(error)), NOT_TRIED
    # Of several addresses of an endpoint, the first.
    endpoints = [(each, part) for part in slices for each in part.endpoints or () if each.addresses]
    ready = [(each.addresses[0], part) for each, part in endpoints if each.ready]
    backend = Backend(len(ready), len(endpoints) - len(ready))
    port = next((port for port in found.ports if port.port == service.port), None)
    if port is None:
        return backend, Missing(f"the Service {service.namespace}/{service.name} has no port {service.port}")
    numbered = [(host, part.number(port.name)) for host, part in ready[:MAX_ENDPOINTS]]
    hosts = [(host, number) for host, number in numbered if number is not None]
    # A headless Service has the text None, one with an external name none at all.
    if found.cluster_ip not in {"", "None"}:
        hosts.insert(0, (found.cluster_ip, service.port))
    if not ready or not hosts:
        return backend, Missing("there is no address to connect to")
    name = f"{service.name}.{service.namespace}.svc"
    return backend, await asyncio.gather(*(handshake(host, number, name, ca_bundle) for host, number in hosts))
