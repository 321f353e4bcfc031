"""Reads all facts that the checks use: all I/O of the package. What cannot be read is `Missing`, and does not affect the rest.

The address in the webhook configuration is connected to, to read the certificates there.
"""

import asyncio
import dataclasses
import datetime as dt
import ssl
from collections.abc import Awaitable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import msgspec
from cryptography import x509

from webhook.admission.decision import Namespace
from webhook.cluster.claim_templates import GROUP, RESOURCE
from webhook.cluster.client import (
    LIST_SECONDS,
    Api,
    ApiError,
    Object,
    StatusError,
    UnreachableError,
    UnreadableError,
    list_objects,
    read_as,
    read_object,
)
from webhook.cluster.configuration.config_maps import StoredConfigMap
from webhook.cluster.configuration.policies import PolicyOutcome, policy_now
from webhook.cluster.registration.stored import bundle_of, webhooks_of
from webhook.cluster.registration.wanted import AUDIT, COLLECTION, ENFORCE, VALIDATING, ServiceReference
from webhook.cluster.secret import NAME as SECRET
from webhook.doctor.checks import CLUSTER_WIDE, RECENT, SELECTOR
from webhook.doctor.drivers import claiming, trial_manifest, trial_template
from webhook.doctor.facts import (
    HTTPS,
    Backend,
    ClusterFacts,
    DryRun,
    HandshakeResult,
    Item,
    Node,
    PlacedPod,
    ReportedEvent,
    ResourceSlice,
    Scheduler,
    StoredCertificates,
    StoredPod,
    TemplateDryRun,
    Workload,
    address_of,
    each_at,
    found_at,
    moment,
    tried,
)
from webhook.doctor.nodes import schedulers_of, targets
from webhook.doctor.pods import candidate, dry_run_pod
from webhook.doctor.result import NOT_TRIED, Missing
from webhook.labels import STATUS
from webhook.mapping.model.policy import Policy
from webhook.pod import Pod

WEBHOOK_LABEL: Final = "app.kubernetes.io/component=webhook"
"""The label of the Deployment that serves reviews."""

PENDING_FOR: Final = dt.timedelta(minutes=1)
"""A younger pod may simply not have been scheduled yet."""

DEVICE_CLASSES: Final = ("v1", "v1beta2", "v1beta1")
"""Versions of ``resource.k8s.io`` with DeviceClasses as they are today, the newest first."""


class _Version(msgspec.Struct, rename="camel"):
    git_version: str = "of an unknown version"


T = TypeVar("T")


async def collect_facts(api: Api, release: str, now: dt.datetime) -> ClusterFacts:
    """Read all facts.

    Args:
        api: the API server.
        release: the webhook's own namespace.
        now: the current time, in UTC.
    """
    try:
        server: str | Missing = (await read_object(api, "/version", _Version)).git_version
    except (UnreachableError, UnreadableError) as error:
        return ClusterFacts(now, release, Missing(str(error)), reachable=False)
    except StatusError as error:
        server = Missing(str(error))
        if error.status == HTTPStatus.UNAUTHORIZED:
            return ClusterFacts(now, release, server, reachable=False)
    readings: dict[str, Awaitable[Any]] = {
        "outcome": policy_now(api, release),
        "config_maps": list_objects(api, f"/api/v1/namespaces/{release}/configmaps", StoredConfigMap),
        "configurations": list_objects(api, COLLECTION, Object),
        "validations": list_objects(api, VALIDATING.collection, Object),
        "stored": _if_present(read_object(api, f"/api/v1/namespaces/{release}/secrets/{SECRET}", StoredCertificates)),
        "namespaces": _namespaces(api),
        "deployment": _deployment(api, release),
        "replicas": _replicas(api, release),
        "reported": read_reported(api, release, now),
    }
    return await _read_dependent(api, ClusterFacts(now, release, server, **await _all({**readings, **_of_nodes(api)})))


async def _all(readings: Mapping[str, Awaitable[Any]]) -> dict[str, Any]:
    """Read everything at once; return what was read, or why that failed, by the same names."""
    return dict(zip(readings, await asyncio.gather(*map(tried, readings.values())), strict=True))


async def _if_present(reading: Awaitable[T]) -> T | None:
    """The result of reading; None if there is no such object."""
    try:
        return await reading
    except StatusError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        return None


def _of_nodes(api: Api) -> dict[str, Awaitable[Any]]:
    return {"nodes": list_objects(api, "/api/v1/nodes", Node), "daemon_sets": _daemon_sets(api)}


async def _read_dependent(api: Api, seen: ClusterFacts) -> ClusterFacts:
    """Read what depends on the webhook configuration, the policy, the namespaces and the DaemonSets."""
    if seen.nothing_installed:
        return seen
    spaces = [] if isinstance(seen.opted_in, Missing) else [space.name for space in seen.opted_in]
    ready, (backend, shown), pods, others = await asyncio.gather(
        _with_readiness(api, seen, every=seen.policy.settings.target is not None),
        read_served_certificates(api, seen.registered),
        _all({space: _pods(api, space) for space in spaces}),
        _all(
            {
                "dry_run": _trial(api, seen),
                "device_classes": _of_claims(api, "deviceclasses", Item),
            }
        ),
    )
    seen = dataclasses.replace(ready, backend=backend, handshakes=shown, pods=pods, **others)
    if not claiming(seen):
        return dataclasses.replace(seen, resource_slices=[], template_dry_run=None)
    of_claims: dict[str, Awaitable[Any]] = {
        "resource_slices": _of_claims(api, "resourceslices", ResourceSlice),
        "template_dry_run": _template_trial(api, seen),
    }
    return dataclasses.replace(seen, **await _all(of_claims))


async def _template_trial(api: Api, seen: ClusterFacts) -> TemplateDryRun | None:
    chosen = trial_template(claiming(seen))
    if chosen is None:
        return None
    vendor, sent = chosen
    path = f"{GROUP}/namespaces/{seen.release}/{RESOURCE}"
    made, status, message = await _as_dry_run(api, path, trial_manifest(sent), Item)
    return TemplateDryRun(vendor, sent, None if made is None else made.spec, status, message)


async def _as_dry_run(api: Api, path: str, manifest: Object, kind: type[T]) -> tuple[T | None, int, str]:
    """Create an object as a dry run: return what would be stored, the status, and why there is none."""
    answer = await api.request("POST", path, query={"dryRun": "All"}, body=manifest, seconds=LIST_SECONDS)
    try:
        return (
            read_as("the answer to a dry run", answer.accepted(), msgspec.json.Decoder(kind).decode),
            answer.status,
            "",
        )
    except StatusError as error:
        return None, error.status, error.message or str(error)


async def collect_readiness(
    api: Api, release: str, now: dt.datetime, policy: Policy, *, every: bool = False
) -> ClusterFacts:
    """Read the facts about nodes, schedulers and device plugins only: whether a cluster can run what a policy writes.

    With `every`, about the schedulers of all vendors: which systems a cluster has, before anything is installed.
    """
    seen = ClusterFacts(now, release, "", PolicyOutcome(policy, (), {}, frozenset()), **await _all(_of_nodes(api)))
    return await _with_readiness(api, seen, every=every)


async def _with_readiness(api: Api, seen: ClusterFacts, *, every: bool) -> ClusterFacts:
    """Read what shows which schedulers run, of the targets or of every vendor, and where the known DaemonSets do."""
    awaited = await tried(_awaited(api, seen.policy))
    names = schedulers_of(seen.policy.in_force if every else targets(seen))
    names += [] if isinstance(awaited, Missing) else [name for name in awaited if name not in names]
    daemon_sets = [] if isinstance(seen.daemon_sets, Missing) else seen.daemon_sets
    schedulers, placed = await asyncio.gather(
        _all({name: _scheduler(api, name, seen.now) for name in names}),
        _all({daemon_set.name: _nodes_of(api, daemon_set) for daemon_set in daemon_sets}),
    )
    return dataclasses.replace(seen, schedulers=schedulers, placed=placed, awaited=awaited)


async def _namespaces(api: Api) -> Sequence[Namespace]:
    found = [item.metadata for item in await list_objects(api, "/api/v1/namespaces", Item)]
    return [Namespace(each.name, each.labels or {}, each.annotations or {}) for each in found]


async def _of_claims(api: Api, resource: str, kind: type[T]) -> list[T]:
    """All objects of a kind, in the newest version that is served; API servers before 1.32 serve none of these."""
    for version in DEVICE_CLASSES:
        found = await _if_present(list_objects(api, f"/apis/resource.k8s.io/{version}/{resource}", kind))
        if found is not None:
            return found
    return []


async def _pods(api: Api, namespace: str) -> Sequence[Pod]:
    found = await list_objects(api, f"/api/v1/namespaces/{namespace}/pods", StoredPod)
    return [pod for pod in found if not pod.status.ended]


async def _trial(api: Api, seen: ClusterFacts) -> DryRun | Missing:
    chosen = candidate(seen)
    if isinstance(chosen, Missing):
        return chosen
    namespace, resources = chosen
    path = f"/api/v1/namespaces/{namespace}/pods"
    made, _, message = await _as_dry_run(api, path, dry_run_pod(resources), Pod)
    touched = made is not None and STATUS in (made.metadata.annotations or {})
    return DryRun(namespace, ", ".join(f"{name}: {amount}" for name, amount in resources.items()), message, touched)


async def _awaited(api: Api, policy: Policy) -> list[str]:
    """The schedulers of the policy that are named by pods without a node."""
    pods = await list_objects(api, "/api/v1/pods", PlacedPod, {"fieldSelector": "spec.nodeName="})
    named = {pod.spec.scheduler_name for pod in pods if not pod.status.ended}
    return [name for name in schedulers_of(policy.vendors.values()) if name in named]


async def _deployment(api: Api, release: str) -> Item | None:
    path = f"/apis/apps/v1/namespaces/{release}/deployments"
    return next(iter(await list_objects(api, path, Item, {"labelSelector": WEBHOOK_LABEL})), None)


async def _replicas(api: Api, release: str) -> list[Item]:
    path = f"/api/v1/namespaces/{release}/pods"
    found = await list_objects(api, path, Item, {"labelSelector": WEBHOOK_LABEL})
    return [each for each in found if each.metadata.deletion_timestamp is None]


async def _scheduler(api: Api, name: str, now: dt.datetime) -> Scheduler:
    pods, lease = await asyncio.gather(
        list_objects(api, "/api/v1/pods", PlacedPod, {"fieldSelector": f"spec.schedulerName={name}"}),
        tried(_lease(api, name, now)),
    )
    waiting = [
        pod
        for pod in pods
        if not pod.spec.node_name
        and not pod.status.ended
        and pod.status.scheduling != "SchedulingGated"
        and now - (moment(pod.metadata.creation_timestamp) or now) > PENDING_FOR
    ]
    considered = sum(pod.status.scheduling == "Unschedulable" for pod in waiting)
    return Scheduler(sum(bool(pod.spec.node_name) for pod in pods), len(waiting), considered, lease)


async def _lease(api: Api, name: str, now: dt.datetime) -> float | None:
    """Seconds since a Lease of a scheduler's name was last renewed, in any namespace."""
    query = {"fieldSelector": f"metadata.name={name}"}
    leases = await list_objects(api, "/apis/coordination.k8s.io/v1/leases", Item, query)
    renewed = filter(None, (found_at(lease.spec, str, "renewTime") for lease in leases))
    return min(((now - (moment(each) or now)).total_seconds() for each in renewed), default=None)


async def _daemon_sets(api: Api) -> list[Workload]:
    found = await list_objects(api, "/apis/apps/v1/daemonsets", Workload)
    return [each for each in found if each.is_installer or each.is_device_plugin]


async def _nodes_of(api: Api, daemon_set: Workload) -> frozenset[str]:
    """The nodes of its pods; expressions in its selector are ignored, so that it may match more pods."""
    selector = found_at(daemon_set.spec, dict, "selector", "matchLabels") or {}
    labels = ",".join(f"{key}={value}" for key, value in selector.items())
    path = f"/api/v1/namespaces/{daemon_set.metadata.namespace}/pods"
    pods = await list_objects(api, path, PlacedPod, {"labelSelector": labels})
    return frozenset(pod.spec.node_name for pod in pods if pod.spec.node_name)


async def read_reported(api: Api, release: str, now: dt.datetime) -> list[ReportedEvent]:
    """Read the webhook's Warning Events of the last hour, the newest first.

    Raises:
        StatusError: the server answers with an error.
        UnreachableError: there is no answer.
        UnreadableError: there is none that can be decoded.
    """
    found = [
        event
        for namespace in dict.fromkeys((release, CLUSTER_WIDE))
        for event in await list_objects(
            api, f"/api/v1/namespaces/{namespace}/events", ReportedEvent, {"fieldSelector": SELECTOR}
        )
    ]
    recent = [event for event in found if event.last is None or now - event.last < RECENT]
    return sorted(recent, key=lambda event: event.last or now, reverse=True)


HANDSHAKE_SECONDS: Final = 5.0
"""For TCP and TLS: a slower address would not answer API servers in time either."""


async def handshake(
    host: str, port: int, name: str, ca_bundle: bytes | None, seconds: float = HANDSHAKE_SECONDS
) -> HandshakeResult:
    """Connect as an API server would. Only the handshake is sent.

    Args:
        host: to connect to.
        port: to connect to.
        name: the name that the certificate must have.
        ca_bundle: the CAs, PEM; empty: those that this machine trusts; None: nothing is verified, only read.
        seconds: for each of the two handshakes; the second one, without verification, reads an untrusted certificate.
    """
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        context = _unverified() if ca_bundle is None else await asyncio.to_thread(_context, ca_bundle)
    except ssl.SSLError as error:
        shown = await handshake(host, port, name, None, seconds)
        return HandshakeResult(address, "untrusted", f"the caBundle cannot be read: {error}", shown.certificate)
    try:
        certificate = await _connect(host, port, name, context, seconds)
        return HandshakeResult(address, "untrusted" if ca_bundle is None else "verified", "", certificate)
    except ssl.SSLCertVerificationError as error:
        shown = await handshake(host, port, name, None, seconds)
        return HandshakeResult(address, "untrusted", error.verify_message, shown.certificate)
    except ssl.SSLError as error:
        return HandshakeResult(address, "no TLS", error.reason or str(error))
    except ConnectionResetError:
        return HandshakeResult(address, "no TLS", "the connection was closed in the handshake")
    except ConnectionRefusedError:
        return HandshakeResult(address, "refused", "connection refused")
    except TimeoutError:
        return HandshakeResult(address, "unreachable", f"no answer within {seconds:g} s")
    except OSError as error:
        return HandshakeResult(address, "unreachable", error.strerror or str(error))


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
) -> tuple[Backend | Missing | None, Sequence[HandshakeResult] | Missing]:
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
) -> tuple[Backend | Missing, Sequence[HandshakeResult] | Missing]:
    """Connect to the Service's cluster IP, and to each of its endpoints: one may have another certificate."""
    place = f"namespaces/{service.namespace}"
    query = {"labelSelector": f"kubernetes.io/service-name={service.name}"}
    try:
        found = (await read_object(api, f"/api/v1/{place}/services/{service.name}", Item)).spec
        slices = await list_objects(api, f"/apis/discovery.k8s.io/v1/{place}/endpointslices", Object, query)
    except ApiError as error:
        return Missing(str(error)), NOT_TRIED
    # Of several addresses of an endpoint, the first.
    endpoints = [
        (each, part) for part in slices for each in each_at(part, "endpoints") if found_at(each, list, "addresses")
    ]
    # By default, an endpoint gets traffic (``discovery.k8s.io/v1``).
    ready = [
        (str(each["addresses"][0]), part)
        for each, part in endpoints
        if found_at(each, bool, "conditions", "ready") is not False
    ]
    backend = Backend(len(ready), len(endpoints) - len(ready))
    port = next((port for port in each_at(found, "ports") if port.get("port") == service.port), None)
    if port is None:
        return backend, Missing(f"the Service {service.namespace}/{service.name} has no port {service.port}")
    hosts = [
        (host, number)
        for host, part in ready[:MAX_ENDPOINTS]
        for each in each_at(part, "ports")
        if (each.get("name") or "") == (port.get("name") or "") and (number := found_at(each, int, "port")) is not None
    ]
    # A headless Service has the text None, one with an external name none at all.
    cluster_ip = found_at(found, str, "clusterIP") or ""
    if cluster_ip not in {"", "None"}:
        hosts.insert(0, (cluster_ip, service.port))
    if not ready or not hosts:
        return backend, Missing("there is no address to connect to")
    name = f"{service.name}.{service.namespace}.svc"
    return backend, await asyncio.gather(*(handshake(host, number, name, ca_bundle) for host, number in hosts))
