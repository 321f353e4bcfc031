"""Connects to the address in the webhook configuration, and reads the certificates there."""

import asyncio
import ipaddress
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from webhook.cluster.client.api import Api, ApiError, Object
from webhook.cluster.client.read import list_objects, read_object
from webhook.cluster.registration.ca_bundles import bundle_of
from webhook.cluster.registration.desired import AUDIT, ENFORCE, Service
from webhook.cluster.registration.observed import webhooks_of
from webhook.doctor.facts import NOT_TRIED, Backend, Shown, address_of
from webhook.doctor.handshake import handshake
from webhook.doctor.read import EndpointSlice, ServiceObject
from webhook.doctor.result import Missing

MAX_ENDPOINTS: Final = 5
"""The most replicas whose certificate is read; more would show nothing new."""

_HTTPS: Final = 443


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
    if isinstance(address, Service):
        return await _service(api, address, ca_bundle)
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port or _HTTPS
    except ValueError as error:
        return None, Missing(f"{address}: {error}")
    if not host:
        return None, Missing(f"{address} contains no host")
    return None, [await handshake(host, port, host, ca_bundle)]


async def _service(api: Api, service: Service, ca_bundle: bytes) -> tuple[Backend | Missing, Sequence[Shown] | Missing]:
    """Connect to the Service's cluster IP, and to each of its endpoints: one may have another certificate."""
    try:
        found, endpoints = await _read_service(api, service)
    except ApiError as error:
        return Missing(str(error)), NOT_TRIED
    ready = [endpoint for endpoint in endpoints if endpoint.ready]
    backend = Backend(len(ready), len(endpoints) - len(ready))
    port = next((port for port in found.spec.ports if port.port == service.port), None)
    if port is None:
        return backend, Missing(f"the Service {service.namespace}/{service.name} has no port {service.port}")
    hosts = [
        (endpoint.address, number)
        for endpoint in ready[:MAX_ENDPOINTS]
        if (number := endpoint.slice.number(port.name)) is not None
    ]
    if _is_address(found.spec.cluster_ip):
        hosts.insert(0, (found.spec.cluster_ip, service.port))
    if not ready or not hosts:
        return backend, Missing("there is no address to connect to")
    name = f"{service.name}.{service.namespace}.svc"
    return backend, await asyncio.gather(*(handshake(host, number, name, ca_bundle) for host, number in hosts))


async def _read_service(api: Api, service: Service) -> tuple[ServiceObject, "list[_Endpoint]"]:
    """Read a Service and its endpoints.

    Raises:
        ApiError: one of them cannot be read.
    """
    path = f"/api/v1/namespaces/{service.namespace}/services/{service.name}"
    slices = f"/apis/discovery.k8s.io/v1/namespaces/{service.namespace}/endpointslices"
    query = {"labelSelector": f"kubernetes.io/service-name={service.name}"}
    return await read_object(api, path, ServiceObject), _endpoints(
        await list_objects(api, slices, EndpointSlice, query)
    )


class _Endpoint(NamedTuple):
    """A replica behind a Service, in the slice that has the numbers of its ports."""

    address: str
    ready: bool
    slice: EndpointSlice


def _endpoints(slices: Iterable[EndpointSlice]) -> list[_Endpoint]:
    """The endpoints that have an address; of several addresses, the first."""
    return [
        _Endpoint(endpoint.addresses[0], endpoint.ready, part)
        for part in slices
        for endpoint in part.endpoints or ()
        if endpoint.addresses
    ]


def _is_address(text: str) -> bool:
    """Whether a cluster IP is an address: a headless Service has the text ``None``."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
