"""Reads all facts that the checks use; what cannot be read is `Missing`, and does not affect the rest."""

import asyncio
import base64
import binascii
import dataclasses
import datetime as dt
from collections.abc import Sequence
from http import HTTPStatus
from typing import Final

import msgspec
from cryptography import x509

from webhook.admission.decision import Namespace
from webhook.cluster.client.api import (
    LIST_SECONDS,
    Api,
    Object,
    StatusError,
    UnreachableError,
    list_objects,
    read_object,
)
from webhook.cluster.configuration.policies import policy_now
from webhook.cluster.registration.desired import COLLECTION
from webhook.cluster.secret import NAME as SECRET
from webhook.doctor.address import read_served_certificates
from webhook.doctor.events import read_reported
from webhook.doctor.facts import (
    ClusterFacts,
    DaemonSet,
    DeviceClass,
    Missing,
    Node,
    Scheduler,
    StoredCertificates,
    Trial,
)
from webhook.doctor.nodes import DEVICE_PLUGINS, choices, opted_in_among, schedulers_of, targets
from webhook.doctor.pods import candidate, resources_text
from webhook.doctor.read import (
    DaemonSetObject,
    DeploymentObject,
    DeviceClassObject,
    LeaseObject,
    NamespaceObject,
    NodeObject,
    PlacedPod,
    PodObject,
    SecretObject,
    tried,
)
from webhook.labels import STATUS
from webhook.mapping.model.policy import Policy
from webhook.pod import Pod

INSTALLER: Final = ("app.kubernetes.io/component", "shim-installer")
"""The label of the DaemonSet that installs the shim on nodes."""

WEBHOOK: Final = "app.kubernetes.io/component=webhook"
"""The label of the Deployment that serves reviews."""

PENDING_FOR: Final = dt.timedelta(minutes=1)
"""A younger pod may simply not have been scheduled yet."""

DEVICE_CLASSES: Final = ("v1", "v1beta2", "v1beta1")
"""Versions of ``resource.k8s.io`` with DeviceClasses as they are today, the newest first."""

_ENDED: Final = {"Succeeded", "Failed"}


class _Version(msgspec.Struct, rename="camel"):
    git_version: str = "of an unknown version"


async def collect_facts(api: Api, release: str, now: dt.datetime) -> ClusterFacts:
    """Read all facts.

    Args:
        api: the API server.
        release: the webhook's own namespace.
        now: the current time, in UTC.
    """
    try:
        server: str | Missing = (await read_object(api, "/version", _Version)).git_version
    except UnreachableError as error:
        return ClusterFacts(now, release, Missing(str(error)), reachable=False)
    except StatusError as error:
        server = Missing(str(error))
        if error.status == HTTPStatus.UNAUTHORIZED:
            return ClusterFacts(now, release, server, reachable=False)
    outcome, configurations, namespaces, nodes, daemon_sets, (stored, deployed, reported) = await asyncio.gather(
        tried(policy_now(api, release)),
        tried(list_objects(api, COLLECTION, Object)),
        tried(_namespaces(api)),
        tried(_nodes(api)),
        tried(_daemon_sets(api)),
        asyncio.gather(
            tried(_stored(api, release)), tried(_deployed(api, release)), tried(read_reported(api, release, now))
        ),
    )
    return await _read_dependent(
        api,
        ClusterFacts(
            now,
            release,
            server,
            outcome,
            configurations,
            stored=stored,
            namespaces=namespaces,
            nodes=nodes,
            daemon_sets=daemon_sets,
            deployed=deployed,
            reported=reported,
        ),
    )


async def _read_dependent(api: Api, seen: ClusterFacts) -> ClusterFacts:
    """Read what depends on the webhook configuration, the policy and the namespaces."""
    spaces = [] if isinstance(seen.namespaces, Missing) else opted_in_among(seen.namespaces, seen.policy, seen.release)
    if seen.nothing_installed:
        return seen
    awaited = await tried(_awaited(api, seen.policy))
    names = schedulers_of(targets(seen.policy, seen.nodes))
    names += [] if isinstance(awaited, Missing) else [name for name in awaited if name not in names]
    connections, pods, schedulers, trial, chosen, classes = await asyncio.gather(
        read_served_certificates(api, seen.registered),
        asyncio.gather(*(tried(_pods(api, space.name)) for space in spaces)),
        asyncio.gather(*(tried(_scheduler(api, name, seen.now)) for name in names)),
        tried(_trial(api, seen, spaces)),
        tried(choices(api, seen.policy, seen.nodes)),
        tried(_device_classes(api)),
    )
    return dataclasses.replace(
        seen,
        backend=connections[0],
        shown=connections[1],
        pods=dict(zip((space.name for space in spaces), pods, strict=True)),
        schedulers=dict(zip(names, schedulers, strict=True)),
        awaited=awaited,
        trial=trial,
        choices=chosen,
        device_classes=classes,
    )


async def _namespaces(api: Api) -> list[Namespace]:
    found = await list_objects(api, "/api/v1/namespaces", NamespaceObject)
    return [
        Namespace(namespace.metadata.name, namespace.metadata.labels or {}, namespace.metadata.annotations or {})
        for namespace in found
    ]


async def _nodes(api: Api) -> list[Node]:
    found = await list_objects(api, "/api/v1/nodes", NodeObject)
    return [Node(node.metadata.name, _allocatable(node), node.metadata.labels or {}) for node in found]


def _allocatable(node: NodeObject) -> frozenset[str]:
    return frozenset(name for name, size in (node.status.allocatable or {}).items() if size != "0")


async def _device_classes(api: Api) -> list[DeviceClass]:
    """All DeviceClasses, in the newest version that is served; API servers before 1.32 serve none of these."""
    for version in DEVICE_CLASSES:
        try:
            found = await list_objects(api, f"/apis/resource.k8s.io/{version}/deviceclasses", DeviceClassObject)
        except StatusError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
        else:
            return [
                DeviceClass(device_class.metadata.name, device_class.spec.extended_resource_name)
                for device_class in found
            ]
    return []


async def _stored(api: Api, release: str) -> StoredCertificates | None:
    try:
        data = (await read_object(api, f"/api/v1/namespaces/{release}/secrets/{SECRET}", SecretObject)).data
    except StatusError as error:
        if error.status == HTTPStatus.NOT_FOUND:
            return None
        raise
    serving = _certificates(data.serving_certificate)
    return StoredCertificates(serving[0] if serving else None, _certificates(data.cas))


def _certificates(encoded: str) -> tuple[x509.Certificate, ...]:
    """The certificates of a PEM text in base64; none if it is something else."""
    try:
        return tuple(x509.load_pem_x509_certificates(base64.b64decode(encoded)))
    except (binascii.Error, ValueError, x509.InvalidVersion):
        return ()


async def _pods(api: Api, namespace: str) -> list[Pod]:
    found = await list_objects(api, f"/api/v1/namespaces/{namespace}/pods", PodObject)
    return [Pod(pod.metadata, pod.spec) for pod in found if pod.status.phase not in _ENDED]


async def _trial(api: Api, seen: ClusterFacts, spaces: Sequence[Namespace]) -> Trial | Missing:
    if isinstance(seen.namespaces, Missing):
        return seen.namespaces
    chosen = candidate(seen.policy, spaces, seen.nodes)
    if chosen is None:
        return Missing("no opted-in namespace enforces, or the policy would change no small pod there")
    answer = await api.request(
        "POST",
        f"/api/v1/namespaces/{chosen.namespace}/pods",
        query={"dryRun": "All"},
        body=msgspec.json.encode(chosen.pod),
        seconds=LIST_SECONDS,
    )
    requested = resources_text(chosen.resources)
    try:
        made = msgspec.json.decode(answer.accepted(), type=PodObject)
    except StatusError as error:
        return Trial(chosen.namespace, requested, error.status, error.message or str(error))
    except msgspec.DecodeError as error:
        raise UnreachableError(f"the answer to a dry run cannot be read: {error}") from error
    return Trial(chosen.namespace, requested, answer.status, touched=STATUS in (made.metadata.annotations or {}))


async def _awaited(api: Api, policy: Policy) -> list[str]:
    """The schedulers of the policy that are named by pods without a node."""
    pods = await list_objects(api, "/api/v1/pods", PlacedPod, {"fieldSelector": "spec.nodeName="})
    named = {pod.spec.scheduler_name for pod in pods if pod.status.phase not in _ENDED}
    return [name for name in schedulers_of(policy.vendors.values()) if name in named]


async def _deployed(api: Api, release: str) -> bool:
    path = f"/apis/apps/v1/namespaces/{release}/deployments"
    return bool(await list_objects(api, path, DeploymentObject, {"labelSelector": WEBHOOK}))


async def _scheduler(api: Api, name: str, now: dt.datetime) -> Scheduler:
    pods, leases = await asyncio.gather(
        list_objects(api, "/api/v1/pods", PlacedPod, {"fieldSelector": f"spec.schedulerName={name}"}),
        tried(_lease(api, name, now)),
    )
    waiting = [
        pod
        for pod in pods
        if not pod.spec.node_name
        and pod.status.phase not in _ENDED
        and pod.status.scheduling() != "SchedulingGated"
        and now - _moment(pod.metadata.creation_timestamp, now) > PENDING_FOR
    ]
    considered = sum(pod.status.scheduling() == "Unschedulable" for pod in waiting)
    return Scheduler(sum(bool(pod.spec.node_name) for pod in pods), len(waiting), considered, leases)


async def _lease(api: Api, name: str, now: dt.datetime) -> float | None:
    """Seconds since a Lease of a scheduler's name was last renewed, in any namespace."""
    found = await list_objects(
        api, "/apis/coordination.k8s.io/v1/leases", LeaseObject, {"fieldSelector": f"metadata.name={name}"}
    )
    ages = [(now - _moment(lease.spec.renew_time, now)).total_seconds() for lease in found if lease.spec.renew_time]
    return min(ages, default=None)


def _moment(text: str, default: dt.datetime) -> dt.datetime:
    try:
        return dt.datetime.fromisoformat(text)
    except ValueError:
        return default


async def _daemon_sets(api: Api) -> list[DaemonSet]:
    found = await list_objects(api, "/apis/apps/v1/daemonsets", DaemonSetObject)
    return await asyncio.gather(*(_daemon_set(api, daemon_set) for daemon_set in found if _is_relevant(daemon_set)))


def _is_relevant(daemon_set: DaemonSetObject) -> bool:
    return _installs(daemon_set) or any(path.rstrip("/").startswith(DEVICE_PLUGINS) for path in daemon_set.host_paths)


def _installs(daemon_set: DaemonSetObject) -> bool:
    key, value = INSTALLER
    return (daemon_set.metadata.labels or {}).get(key) == value


async def _daemon_set(api: Api, daemon_set: DaemonSetObject) -> DaemonSet:
    """A DaemonSet with the nodes of its pods; expressions in its selector are ignored, so that it may match more pods."""
    labels = ",".join(f"{key}={value}" for key, value in (daemon_set.spec.selector.match_labels or {}).items())
    path = f"/api/v1/namespaces/{daemon_set.metadata.namespace}/pods"
    pods = await tried(list_objects(api, path, PlacedPod, {"labelSelector": labels}))
    nodes = pods if isinstance(pods, Missing) else frozenset(pod.spec.node_name for pod in pods if pod.spec.node_name)
    return DaemonSet(
        f"{daemon_set.metadata.namespace}/{daemon_set.metadata.name}",
        _installs(daemon_set),
        daemon_set.host_paths,
        nodes,
        daemon_set.status.desired_number_scheduled,
        daemon_set.status.number_ready,
        daemon_set.metadata.labels or {},
    )
