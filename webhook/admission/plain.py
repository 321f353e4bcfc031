"""Plain pods: those of which only a few facts matter, so that what was made of one serves for all that share them.

Pods come from templates. Where nothing of a pod has to be looked at closely (no variable of interest, nothing at the shim's
paths, no node named), what becomes of it depends on its `facts_of` alone. Any other pod takes the long way; remembering never
changes what is decided (``tests/admission/test_plain.py``).
"""

from typing import Any, Final, NamedTuple

import msgspec

from webhook.admission.context import Context
from webhook.admission.decision import Decision
from webhook.admission.delivery import ENFORCE_LABEL
from webhook.admission.resolution import Resolution
from webhook.admission.survey import Survey
from webhook.mapping.model.policy import Policy
from webhook.mapping.model.vendor import Vendor
from webhook.patch import Slot, container_count
from webhook.pod import NO_METADATA, Container, Pod, Resources, present

MAX_CONTAINERS: Final = 32
MAX_KEYS: Final = 256
"""Labels, annotations and node selector keys of a pod; each is looked at."""

MAX_FACTS: Final = 16 * 1024
"""Bytes. Honest pods have less; of others a few could take all the memory there is."""

_encode: Final = msgspec.json.Encoder().encode


class Remembered(NamedTuple):
    """What becomes of pods with the same facts, and what tells whether a pod is plain.

    Attributes:
        decision: on each of them, where its namespace enforces.
        marks: what stands in undecoded volumes or mounts that could meet a shim.
        looked_at: the containers whose variables count: whether it is an init container, and its position.
    """

    decision: Decision
    marks: tuple[bytes, ...] = ()
    looked_at: tuple[tuple[bool, int], ...] = ()

    def serves(self, pod: Pod, policy: Policy) -> bool:
        """Whether a pod with the same facts is plain."""
        spec = pod.spec
        if spec.node_name is not None:
            return False
        containers, init_containers = spec.containers, spec.init_containers or []
        for init, position in self.looked_at:
            if policy.watched_variables.among((init_containers if init else containers)[position].env):
                return False
        lists = b"".join([spec.volumes, *[container.volume_mounts for container in (*init_containers, *containers)]])
        return not any(mark in lists for mark in self.marks)

    @property
    def size(self) -> int:
        """Bytes that it takes, about; measured: texts and findings grow as the patch does."""
        return 2048 + 3 * len(self.decision.patch_json)


def recall(facts: bytes | None, pod: Pod, policy: Policy) -> Decision | None:
    """The decision on a pod with the same facts, if this one is as plain."""
    known: Remembered | None = policy.memo.get(facts)
    return known.decision if known is not None and known.serves(pod, policy) else None


def remember(facts: bytes, pod: Pod, known: Remembered, policy: Policy) -> None:
    """Keeps the decision on a pod, if it is plain."""
    if known.serves(pod, policy):
        policy.memo.keep(facts, known, len(facts) + known.size)


def facts_of(pod: Pod, context: Context, policy: Policy) -> bytes | None:
    """What of a plain pod and its namespace decides under a policy, as one text; None if that is too long to be kept.

    That a map or list is missing is a fact, too, for the patch. A pod to which a vendor's own webhook has added references is
    looked at closely each time.
    """
    spec, metadata, namespace = pod.spec, pod.metadata, context.namespace
    keys = sum([len(texts) for texts in (metadata.labels, metadata.annotations, spec.node_selector) if texts])
    if container_count(pod) > MAX_CONTAINERS or keys > MAX_KEYS:
        return None
    if metadata.annotations and not policy.references.isdisjoint(metadata.annotations):
        return None
    among = policy.read_keys.among
    try:
        facts = _encode(
            (
                [_container(container) for container in spec.containers],
                None if spec.init_containers is None else [_container(one) for one in spec.init_containers],
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


def left_alone(seen: Survey, resolution: Resolution, policy: Policy) -> tuple[tuple[Slot, Vendor], ...]:
    """The containers with resources of a vendor that a resolution says nothing of."""
    held = {one.requested.position for one in resolution.settled}
    found: dict[int, list[Vendor]] = {}
    for one in resolution.left:
        copy = one.requested.copy
        found[one.requested.position] = [one.requested.vendor, *([] if copy is None else [copy.vendor])]
    for position, container in enumerate(seen.keys.containers):
        if container.resources and position not in held and position not in found:
            found[position] = [policy.vendors[policy.resources.owners(container.resources[0][0])[0].vendor]]
    return tuple((seen.slots[position], vendor) for position, its in sorted(found.items()) for vendor in its)


def remembered(decision: Decision, resolution: Resolution, seen: Survey, policy: Policy) -> Remembered:
    """A decision on a pod that requests devices, to be remembered."""
    before = sum(container.init for container in seen.keys.containers)
    looked_at = [(slot.kind == "initContainers", slot.position) for slot, _ in left_alone(seen, resolution, policy)]
    for one in resolution.settled:
        position, init = one.requested.position, one.requested.keys.init
        looked_at.append((init, position if init else position - before))
    return Remembered(decision, resolution.marks, tuple(looked_at))


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
    """The claims and the extended resources, whose names have a domain: no key is without one."""
    if resources is None:
        return None
    limits, requests = resources.limits, resources.requests
    return (
        None if limits is None else [pair for pair in limits.items() if "/" in pair[0]],
        None if requests is None else [pair for pair in requests.items() if "/" in pair[0]],
        resources.claims,
    )
