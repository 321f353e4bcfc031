"""Plain pods: those of which only a few facts matter, so that what was made of one serves for all that share them.

Pods come from templates. Where nothing of a pod has to be looked at closely (no variable of interest, nothing at the shim's
paths, no node named), what becomes of it depends on its `facts_of` alone. Any other pod takes the long way; remembering never
changes what is decided (``tests/admission/test_plain.py``).
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from webhook.admission.context import Context
from webhook.admission.decision import Decision
from webhook.admission.delivery import ENFORCE_LABEL
from webhook.admission.resolve import Resolution
from webhook.admission.survey import Survey
from webhook.labels import PREFIX
from webhook.mapping.model.guard import Guards
from webhook.mapping.model.memo import Memo
from webhook.mapping.model.policy import Policy
from webhook.mapping.model.vendor import Vendor
from webhook.patch import Slot, container_count
from webhook.pod import NO_METADATA, Container, Pod, present

MAX_CONTAINERS: Final = 32
MAX_FACTS: Final = 16 * 1024
"""Bytes. Honest pods have less; of others a few could take all the memory there is."""

_encode: Final = msgspec.json.Encoder().encode


class Asker(NamedTuple):
    """A container that asks, as far as it tells whether a pod is plain.

    Attributes:
        init, position: where it stands.
        guard: of the vendor under which it will run.
        keeps: whether variables of the source's are kept.
    """

    init: bool
    position: int
    guard: Guards
    keeps: bool

    def variables(self, pod: Pod) -> bytes:
        """Its variables in a pod with the same facts, undecoded."""
        containers = pod.spec.init_containers or () if self.init else pod.spec.containers
        return bytes(containers[self.position].env)

    def harmless(self, variables: bytes) -> bool:
        """Whether none of these matters."""
        return not self.guard.concerns(variables) and not (self.keeps and present(msgspec.Raw(variables)))


class Remembered(NamedTuple):
    """What becomes of pods with the same facts, and what tells whether a pod is plain.

    Attributes:
        decision: on each of them, where its namespace enforces.
        marks: what stands in undecoded volumes or mounts that could meet a shim.
        asking: the containers that ask.
    """

    decision: Decision
    marks: tuple[bytes, ...]
    requested: tuple[Asker, ...]

    def serves(self, pod: Pod) -> bool:
        """Whether a pod with the same facts is plain, but for its variables."""
        spec = pod.spec
        if spec.node_name is not None:
            return False
        containers = spec.containers if spec.init_containers is None else [*spec.init_containers, *spec.containers]
        lists = b"".join([spec.volumes, *[container.volume_mounts for container in containers]])
        return not any(mark in lists for mark in self.marks)

    def variables(self, pod: Pod) -> tuple[bytes, ...]:
        """Those of the containers that ask, undecoded."""
        return tuple([one.variables(pod) for one in self.requested])

    def harmless(self, variables: tuple[bytes, ...]) -> bool:
        """Whether none of these matters."""
        return all(one.harmless(text) for one, text in zip(self.requested, variables, strict=True))

    @property
    def size(self) -> int:
        """Bytes that it takes, about; measured: texts and findings grow as the patch does."""
        return 2048 + 5 * len(self.decision.patch_json)


def recall(facts: bytes | None, pod: Pod, memo: Memo) -> Decision | None:
    """The decision on a pod with the same facts, if this one is as plain."""
    known: Remembered | None = memo.get(facts)
    if known is None or not known.serves(pod):
        return None
    variables = known.variables(pod)
    if variables != memo.seen(facts):
        if not known.harmless(variables):
            return None
        memo.see(facts, variables)
    return known.decision


def remember(facts: bytes, pod: Pod, known: Remembered, memo: Memo) -> None:
    """Keeps the decision on a pod, if it is plain."""
    variables = known.variables(pod)
    if known.serves(pod) and known.harmless(variables):
        memo.keep(facts, known, len(facts) + known.size)
        memo.see(facts, variables)


def facts_of(pod: Pod, context: Context, policy: Policy) -> bytes | None:
    """What of a plain pod and its namespace decides under a policy, as one text; None if that is too long to be kept.

    That a map or list is missing is a fact, too, for the patch. A pod to which a vendor's own webhook has added references is
    looked at closely each time.
    """
    if container_count(pod) > MAX_CONTAINERS:
        return None
    spec, metadata, namespace = pod.spec, pod.metadata, context.namespace
    if metadata.annotations and not policy.references.isdisjoint(metadata.annotations):
        return None
    try:
        facts = _encode(
            (
                [_container(container) for container in spec.containers],
                None if spec.init_containers is None else [_container(one) for one in spec.init_containers],
                metadata.labels,
                metadata.annotations,
                metadata is NO_METADATA,
                spec.scheduler_name,
                spec.runtime_class_name,
                spec.node_selector,
                spec.resource_claims,
                present(spec.volumes),
                spec.tolerations if present(spec.tolerations) else None,
                spec.affinity if policy.cards and present(spec.affinity) else None,
                namespace.labels.get(ENFORCE_LABEL),
                _own(namespace.labels),
                _own(namespace.annotations),
                context.pod_security_default,
                context.user,
            )
        )
    except OverflowError:
        return None  # a quantity of more than 64 bits
    return facts if len(facts) <= MAX_FACTS else None


def _own(texts: Mapping[str, str]) -> list[tuple[str, str]]:
    """What a namespace specifies in keys of our own, known or not: unknown ones are reported with each pod."""
    return [pair for pair in texts.items() if pair[0].startswith(PREFIX)]


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
    """A decision to be remembered."""
    before = sum(container.init for container in seen.keys.containers)
    asking = [
        Asker(slot.kind == "initContainers", slot.position, vendor.guard, keeps=False)
        for slot, vendor in left_alone(seen, resolution, policy)
    ]
    for one in resolution.settled:
        position, init = one.requested.position, one.requested.keys.init
        passes = resolution.passes(one)
        keeps = any(each.translated and bool(each.requested.vendor.document.environment) for each in passes)
        asking.append(Asker(init, position if init else position - before, passes[-1].target.guard, keeps))
    return Remembered(decision, resolution.marks, tuple(asking))


def _container(container: Container) -> tuple[Any, ...]:
    security = container.security_context
    return (
        container.name,
        container.resources,
        present(container.env),
        b"{" in bytes(container.env_from),
        present(container.volume_mounts),
        security is not None and security.privileged,
    )
