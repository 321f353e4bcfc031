"""Plain pods: the decision on one of them is remembered, and serves for all pods with the same facts.

Pods come from templates. If nothing in a pod needs a closer look (no watched variable, nothing at the shim's paths, no node
name), the decision depends on its `facts_of` alone. For any other pod all steps are taken. Remembering never changes a
decision (``tests/admission/test_plain.py``).
"""

from typing import Any, Final, NamedTuple

import msgspec

from webhook.admission.context import Context
from webhook.admission.decision import Decision
from webhook.admission.delivery import ENFORCE_LABEL
from webhook.admission.plan import Plan
from webhook.admission.resolution import Resolution
from webhook.admission.survey import Survey
from webhook.mapping.model.policy import Policy
from webhook.mapping.model.vendor import Vendor
from webhook.mapping.model.watched_variables import WatchedVariables
from webhook.patch import Slot, container_count
from webhook.pod import NO_METADATA, Container, Pod, Resources, present

MAX_CONTAINERS: Final = 32
"""The most containers of a plain pod."""

MAX_KEYS: Final = 256
"""The most labels, annotations and node selector keys of a plain pod; each is looked up."""

MAX_FACTS: Final = 16 * 1024
"""The most bytes of facts. Honest pods have less; without a bound, a few others could fill the memory."""

MAX_ENV: Final = 8 * 1024
"""The most bytes of variables that are remembered of a pod; longer ones are searched for every pod."""

_encode: Final = msgspec.json.Encoder().encode


class WatchedContainer(NamedTuple):
    """A container of a plain pod whose variables count.

    Attributes:
        init: whether it is an init container.
        position: its index in its list.
        watched: the variables that no plain pod has.
        env: the undecoded variables of the pod that was remembered, most often those of the next one, too; empty if too long.
    """

    init: bool
    position: int
    watched: WatchedVariables
    env: bytes

    def serves(self, env: bytes) -> bool:
        """Return whether none of the undecoded variables is watched."""
        return env == self.env or not self.watched.among(env)


class Remembered(NamedTuple):
    """The decision on pods with the same facts, and what shows whether a pod is plain.

    Attributes:
        decision: on each of them, if its namespace enforces.
        marks: what is in undecoded volumes or mounts that could meet a shim or a guard.
        watched_containers: those whose variables count.
    """

    decision: Decision
    marks: tuple[bytes, ...]
    watched_containers: tuple[WatchedContainer, ...]

    def serves(self, pod: Pod) -> bool:
        """Return whether a pod with the same facts is plain."""
        spec = pod.spec
        if spec.node_name is not None:
            return False
        containers, init_containers = spec.containers, spec.init_containers or []
        for container in self.watched_containers:
            if not container.serves(bytes((init_containers if container.init else containers)[container.position].env)):
                return False
        return not _any_mark(self.marks, pod)

    @property
    def size(self) -> int:
        """Its approximate size in bytes, as measured with all that is encoded from it."""
        decision = self.decision
        findings = (*decision.warnings, *decision.notes, *([] if decision.denial is None else [decision.denial]))
        texts = sum([1024 + 2 * len(finding.message) for finding in findings])
        variables = sum([len(container.env) for container in self.watched_containers])
        return 2048 + 3 * len(decision.patch_json) + 2 * len(decision.status_json) + texts + variables


def concerns(pod: Pod, policy: Policy) -> bool:
    """Return whether anything in a pod can matter: a key that the policy reads, a resource with a domain, or a claim."""
    spec, metadata = pod.spec, pod.metadata
    if spec.resource_claims or _too_many(pod):
        return True
    for container in spec.containers if spec.init_containers is None else (*spec.init_containers, *spec.containers):
        resources = container.resources
        if resources is not None and (
            resources.claims
            or any(["/" in name for side in (resources.limits, resources.requests) for name in side or ()])
        ):
            return True
    among = policy.read_keys.among
    return any([texts and among(texts) for texts in (metadata.labels, metadata.annotations, spec.node_selector)])


def recall(facts: bytes | None, pod: Pod, policy: Policy) -> Decision | None:
    """Return the remembered decision for these facts, if the pod is plain."""
    known: Remembered | None = policy.memo.get(facts)
    return known.decision if known is not None and known.serves(pod) else None


def remember(facts: bytes, plan: Plan, resolution: Resolution, decision: Decision) -> None:
    """Remember the decision on a pod that requests devices, if the pod is plain."""
    concerned = [(allocation.slot, vendor) for allocation in plan.allocations for vendor in allocation.vendors]
    concerned += plan.left_alone
    watched = {(slot.path, vendor.name): (slot, plan.policy.watched_by(vendor)) for slot, vendor in concerned}
    if any(variables.among(slot.container.env) for slot, variables in watched.values()):
        return
    short = sum([len(bytes(slot.container.env)) for slot, _ in watched.values()]) <= MAX_ENV
    containers = [
        WatchedContainer(
            slot.kind == "initContainers", slot.position, variables, bytes(slot.container.env) if short else b""
        )
        for slot, variables in watched.values()
    ]
    marks = {*resolution.marks, *[mark for _, vendor in concerned for mark in vendor.guard.marks]}
    known = Remembered(decision, tuple(sorted(marks)), tuple(containers))
    if known.serves(plan.pod):
        plan.policy.memo.keep(facts, known, len(facts) + known.size)


def _any_mark(marks: tuple[bytes, ...], pod: Pod) -> bool:
    """Return whether undecoded volumes or mounts of a pod could meet a shim or a guard."""
    spec = pod.spec
    containers = spec.containers if spec.init_containers is None else (*spec.init_containers, *spec.containers)
    lists = b"".join([spec.volumes, *[raw for each in containers for raw in (each.volume_mounts, each.volume_devices)]])
    return any([mark in lists for mark in marks])


def facts_of(pod: Pod, context: Context, policy: Policy) -> bytes | None:
    """Return the facts of a pod and its namespace that decide under a policy, as bytes; None if they are too long.

    A missing map or list is a fact, too: it changes the patch. Pods to which a vendor's own webhook has added references are
    not remembered.
    """
    spec, metadata, namespace = pod.spec, pod.metadata, context.namespace
    if _too_many(pod):
        return None
    if metadata.annotations and not policy.references.isdisjoint(metadata.annotations):
        return None
    among = policy.read_keys.among
    try:
        facts = _encode(
            (
                [_container(container) for container in spec.containers],
                None if spec.init_containers is None else [_container(container) for container in spec.init_containers],
                None if metadata.labels is None else among(metadata.labels),
                None if metadata.annotations is None else among(metadata.annotations),
                metadata is NO_METADATA,
                spec.scheduler_name,
                spec.runtime_class_name,
                None if spec.node_selector is None else among(spec.node_selector),
                spec.resource_claims,
                present(spec.volumes),
                spec.tolerations if present(spec.tolerations) else None,
                spec.affinity if policy.cards and present(spec.affinity) else None,
                namespace.labels.get(ENFORCE_LABEL),
                namespace.own,
                context.pod_security_default,
                context.user,
            )
        )
    except OverflowError:
        return None  # a quantity of more than 64 bits
    return facts if len(facts) <= MAX_FACTS else None


def _too_many(pod: Pod) -> bool:
    metadata = pod.metadata
    keys = len(metadata.labels or ()) + len(metadata.annotations or ()) + len(pod.spec.node_selector or ())
    return keys > MAX_KEYS or container_count(pod) > MAX_CONTAINERS


def left_alone(seen: Survey, resolution: Resolution, policy: Policy) -> tuple[tuple[Slot, Vendor], ...]:
    """Return the containers with resources of a vendor that a resolution does not settle, with that vendor."""
    settled = {container.requested.position for container in resolution.settled}
    vendors: dict[int, list[Vendor]] = {}
    for left in resolution.left:
        copy = left.requested.copy
        vendors[left.requested.position] = [left.requested.vendor, *([] if copy is None else [copy.vendor])]
    for position, container in enumerate(seen.keys.containers):
        if container.resources and position not in settled and position not in vendors:
            vendors[position] = [policy.vendors[policy.resources.owners(container.resources[0][0])[0].vendor]]
    return tuple((seen.slots[position], vendor) for position in sorted(vendors) for vendor in vendors[position])


def _container(container: Container) -> tuple[Any, ...]:
    security = container.security_context
    return (
        container.name,
        _resources(container.resources),
        present(container.env),
        b"{" in bytes(container.env_from),
        present(container.volume_mounts),
        security is not None and security.privileged,
    )


def _resources(resources: Resources | None) -> tuple[Any, ...] | None:
    """The claims and the extended resources: names with a domain, which every key has."""
    if resources is None:
        return None
    limits, requests = resources.limits, resources.requests
    return (
        None if limits is None else [pair for pair in limits.items() if "/" in pair[0]],
        None if requests is None else [pair for pair in requests.items() if "/" in pair[0]],
        resources.claims,
    )
