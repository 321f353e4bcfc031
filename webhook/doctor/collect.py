"""Reads all facts that the checks use; what cannot be read is `Missing`, and does not affect the rest."""

import asyncio
import dataclasses
import datetime as dt
from collections.abc import Sequence
from http import HTTPStatus
from typing import Final

import msgspec

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
from webhook.cluster.configuration.policies import PolicyOutcome, policy_now
from webhook.cluster.registration.desired import COLLECTION, VALIDATING
from webhook.cluster.secret import NAME as SECRET
from webhook.doctor.address import read_served_certificates
from webhook.doctor.events import read_reported
from webhook.doctor.facts import ClusterFacts, Scheduler, Trial
from webhook.doctor.nodes import choices, schedulers_of, targets
from webhook.doctor.pods import candidate, trial_pod
from webhook.doctor.read import (
    DeviceClass,
    Item,
    Lease,
    Node,
    PlacedPod,
    StoredCertificates,
    StoredPod,
    Workload,
    moment,
    tried,
)
from webhook.doctor.result import Missing
from webhook.labels import STATUS
from webhook.mapping.load import load_policy
from webhook.mapping.model.policy import Policy
from webhook.pod import Pod

WEBHOOK: Final = "app.kubernetes.io/component=webhook"
"""The label of the Deployment that serves reviews."""

PENDING_FOR: Final = dt.timedelta(minutes=1)
"""A younger pod may simply not have been scheduled yet."""

DEVICE_CLASSES: Final = ("v1", "v1beta2", "v1beta1")
"""Versions of ``resource.k8s.io`` with DeviceClasses as they are today, the newest first."""


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
    outcome, (configurations, validations), namespaces, nodes, daemon_sets, own = await asyncio.gather(
        tried(policy_now(api, release)),
        asyncio.gather(
            tried(list_objects(api, COLLECTION, Object)), tried(list_objects(api, VALIDATING.collection, Object))
        ),
        tried(_namespaces(api)),
        tried(list_objects(api, "/api/v1/nodes", Node)),
        tried(_daemon_sets(api)),
        asyncio.gather(
            tried(_stored(api, release)), tried(_deployed(api, release)), tried(read_reported(api, release, now))
        ),
    )
    stored, deployed, reported = own
    return await _read_dependent(
        api,
        ClusterFacts(
            now,
            release,
            server,
            outcome,
            configurations,
            validations,
            stored=stored,
            namespaces=namespaces,
            nodes=nodes,
            daemon_sets=daemon_sets,
            deployed=deployed,
            reported=reported,
        ),
    )


async def _read_dependent(api: Api, seen: ClusterFacts) -> ClusterFacts:
    """Read what depends on the webhook configuration, the policy, the namespaces and the DaemonSets."""
    if seen.nothing_installed:
        return seen
    spaces = [] if isinstance(seen.opted_in, Missing) else [space.name for space in seen.opted_in]
    ready, (backend, shown), pods, trial, (chosen, classes) = await asyncio.gather(
        _with_readiness(api, seen, every=seen.policy.settings.target is not None),
        read_served_certificates(api, seen.registered),
        asyncio.gather(*(tried(_pods(api, space)) for space in spaces)),
        tried(_trial(api, seen)),
        asyncio.gather(tried(choices(api, seen)), tried(_device_classes(api))),
    )
    return dataclasses.replace(
        ready,
        backend=backend,
        shown=shown,
        pods=dict(zip(spaces, pods, strict=True)),
        trial=trial,
        choices=chosen,
        device_classes=classes,
    )


async def collect_readiness(api: Api, release: str, now: dt.datetime, policy: Policy) -> ClusterFacts:
    """Read the facts about nodes, schedulers and device plugins only: whether a cluster can run what a policy writes."""
    return await _with_readiness(api, await _with_nodes(api, release, now, policy))


async def collect_systems(api: Api, release: str, now: dt.datetime) -> ClusterFacts:
    """Read the same with the schedulers of all vendors: which systems a cluster has, before anything is installed."""
    return await _with_readiness(api, await _with_nodes(api, release, now, load_policy()), every=True)


async def _with_nodes(api: Api, release: str, now: dt.datetime, policy: Policy) -> ClusterFacts:
    nodes, daemon_sets = await asyncio.gather(tried(list_objects(api, "/api/v1/nodes", Node)), tried(_daemon_sets(api)))
    outcome = PolicyOutcome(policy, (), {}, frozenset())
    return ClusterFacts(now, release, "", outcome, nodes=nodes, daemon_sets=daemon_sets)


async def _with_readiness(api: Api, seen: ClusterFacts, *, every: bool = False) -> ClusterFacts:
    """Read what shows which schedulers run, of the targets or of every vendor, and where the known DaemonSets do."""
    awaited = await tried(_awaited(api, seen.policy))
    names = schedulers_of(seen.policy.in_force if every else targets(seen))
    names += [] if isinstance(awaited, Missing) else [name for name in awaited if name not in names]
    daemon_sets = [] if isinstance(seen.daemon_sets, Missing) else seen.daemon_sets
    schedulers, placed = await asyncio.gather(
        asyncio.gather(*(tried(_scheduler(api, name, seen.now)) for name in names)),
        asyncio.gather(*(tried(_nodes_of(api, daemon_set)) for daemon_set in daemon_sets)),
    )
    return dataclasses.replace(
        seen,
        schedulers=dict(zip(names, schedulers, strict=True)),
        placed=dict(zip((daemon_set.name for daemon_set in daemon_sets), placed, strict=True)),
        awaited=awaited,
    )


async def _namespaces(api: Api) -> Sequence[Namespace]:
    found = [item.metadata for item in await list_objects(api, "/api/v1/namespaces", Item)]
    return [Namespace(each.name, each.labels or {}, each.annotations or {}) for each in found]


async def _device_classes(api: Api) -> list[DeviceClass]:
    """All DeviceClasses, in the newest version that is served; API servers before 1.32 serve none of these."""
    for version in DEVICE_CLASSES:
        try:
            return await list_objects(api, f"/apis/resource.k8s.io/{version}/deviceclasses", DeviceClass)
        except StatusError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
    return []


async def _stored(api: Api, release: str) -> StoredCertificates | None:
    try:
        return await read_object(api, f"/api/v1/namespaces/{release}/secrets/{SECRET}", StoredCertificates)
    except StatusError as error:
        if error.status == HTTPStatus.NOT_FOUND:
            return None
        raise


async def _pods(api: Api, namespace: str) -> Sequence[Pod]:
    found = await list_objects(api, f"/api/v1/namespaces/{namespace}/pods", StoredPod)
    return [pod for pod in found if not pod.status.ended]


async def _trial(api: Api, seen: ClusterFacts) -> Trial | Missing:
    chosen = candidate(seen)
    if isinstance(chosen, Missing):
        return chosen
    namespace, resources = chosen
    answer = await api.request(
        "POST",
        f"/api/v1/namespaces/{namespace}/pods",
        query={"dryRun": "All"},
        body=msgspec.json.encode(trial_pod(resources)),
        seconds=LIST_SECONDS,
    )
    requested = ", ".join(f"{name}: {amount}" for name, amount in resources.items())
    try:
        made = msgspec.json.decode(answer.accepted(), type=Pod)
    except StatusError as error:
        return Trial(namespace, requested, error.status, error.message or str(error))
    except msgspec.DecodeError as error:
        raise UnreachableError(f"the answer to a dry run cannot be read: {error}") from error
    return Trial(namespace, requested, answer.status, touched=STATUS in (made.metadata.annotations or {}))


async def _awaited(api: Api, policy: Policy) -> list[str]:
    """The schedulers of the policy that are named by pods without a node."""
    pods = await list_objects(api, "/api/v1/pods", PlacedPod, {"fieldSelector": "spec.nodeName="})
    named = {pod.spec.scheduler_name for pod in pods if not pod.status.ended}
    return [name for name in schedulers_of(policy.vendors.values()) if name in named]


async def _deployed(api: Api, release: str) -> bool:
    path = f"/apis/apps/v1/namespaces/{release}/deployments"
    return bool(await list_objects(api, path, Item, {"labelSelector": WEBHOOK}))


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
    leases = [lease.spec for lease in await list_objects(api, "/apis/coordination.k8s.io/v1/leases", Lease, query)]
    return min(
        ((now - (moment(lease.renew_time) or now)).total_seconds() for lease in leases if lease.renew_time),
        default=None,
    )


async def _daemon_sets(api: Api) -> list[Workload]:
    found = await list_objects(api, "/apis/apps/v1/daemonsets", Workload)
    return [each for each in found if each.is_installer or each.is_device_plugin]


async def _nodes_of(api: Api, daemon_set: Workload) -> frozenset[str]:
    """The nodes of its pods; expressions in its selector are ignored, so that it may match more pods."""
    labels = ",".join(f"{key}={value}" for key, value in (daemon_set.spec.selector.match_labels or {}).items())
    path = f"/api/v1/namespaces/{daemon_set.metadata.namespace}/pods"
    pods = await list_objects(api, path, PlacedPod, {"labelSelector": labels})
    return frozenset(pod.spec.node_name for pod in pods if pod.spec.node_name)
