"""Plain pods: those of which only a few facts matter, so that what was made of one serves for all that share them.

Pods come from templates. Where nothing of a pod has to be looked at closely (no variable of interest, nothing at the shim's
paths, no node named), what becomes of it depends on its `facts_of` alone. Any other pod takes the long way; remembering never
changes what is decided (``tests/admission/test_plain.py``).
"""

from typing import Any, Final, NamedTuple

import msgspec

from webhook.admission.context import Context
from webhook.admission.decision import Decision
from webhook.admission.delivery import ENFORCE_LABEL, SHIM_ANNOTATION
from webhook.admission.guard import GUARD_ANNOTATION
from webhook.admission.orders import ORDERS
from webhook.admission.resolve import Resolution
from webhook.admission.survey import Survey
from webhook.mapping.guard import Guards
from webhook.mapping.policy import Policy
from webhook.pod import NO_METADATA, Container, Pod, present

MAX_CONTAINERS: Final = 32
MAX_FACTS: Final = 16 * 1024
"""Bytes. Honest pods have less; of others a few could take all the memory there is."""

_ANNOTATIONS: Final = (*ORDERS, SHIM_ANNOTATION, GUARD_ANNOTATION)
_encode: Final = msgspec.json.Encoder().encode


class Asker(NamedTuple):
    """A container that asks, as far as it tells whether a pod is plain.

    Attributes:
        init, position: where it stands.
        guard: of the vendor under which it will run.
        keeps: whether variables of the source's are kept.
        seen: its variables, undecoded, if they were looked through before and found plain.
    """

    init: bool
    position: int
    guard: Guards
    keeps: bool
    seen: bytes | None = None

    def container(self, pod: Pod) -> Container:
        """It, in a pod with the same facts."""
        return (pod.spec.init_containers or ())[self.position] if self.init else pod.spec.containers[self.position]

    def plain(self, pod: Pod) -> bool:
        """Whether none of its variables matters."""
        env = self.container(pod).env
        if self.seen is not None and self.seen == bytes(env):
            return True
        return not self.guard.concerns(env) and not (self.keeps and present(env))


class Remembered(NamedTuple):
    """What becomes of pods with the same facts, and what tells whether a pod is plain.

    Attributes:
        decision: on each of them, where its namespace enforces.
        marks: what stands in undecoded volumes or mounts that could meet a shim.
        asking: the containers that ask.
    """

    decision: Decision
    marks: tuple[bytes, ...]
    asking: tuple[Asker, ...]

    def serves(self, pod: Pod) -> bool:
        """Whether a pod with the same facts is plain."""
        spec = pod.spec
        if spec.node_name is not None:
            return False
        containers = spec.containers if spec.init_containers is None else [*spec.init_containers, *spec.containers]
        lists = b"".join([spec.volumes, *[container.volume_mounts for container in containers]])
        for mark in self.marks:
            if mark in lists:
                return False
        return all(one.plain(pod) for one in self.asking)

    def having_seen(self, pod: Pod, room: int) -> "Remembered":
        """The same, knowing the variables of this plain pod again: as far as there is room, in bytes."""
        askers = []
        for one in self.asking:
            env = bytes(one.container(pod).env)
            room -= len(env)
            askers.append(one._replace(seen=env) if room >= 0 else one)
        return self._replace(asking=tuple(askers))

    @property
    def size(self) -> int:
        """Bytes that it takes, about, without what was seen; measured: texts and findings grow as the patch does."""
        return 2048 + 5 * len(self.decision.patch_json)

    @property
    def bytes_seen(self) -> int:
        """How much is kept to know variables again."""
        return sum(len(one.seen or b"") for one in self.asking)


def facts_of(pod: Pod, context: Context, policy: Policy) -> bytes | None:
    """What of a plain pod and its namespace decides under a policy, as one text; None if that is too long to be kept.

    That a map or list is missing is a fact, too, for the patch.
    """
    spec, metadata, namespace = pod.spec, pod.metadata, context.namespace
    annotations = namespace.annotations
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
                present(spec.volumes),
                spec.tolerations if present(spec.tolerations) else None,
                spec.affinity if policy.cards and present(spec.affinity) else None,
                namespace.labels.get(ENFORCE_LABEL),
                [annotations.get(key) for key in _ANNOTATIONS],
                context.pod_security_default,
                context.user,
            )
        )
    except OverflowError:
        return None  # a quantity of more than 64 bits
    containers = len(spec.containers) + len(spec.init_containers or ())
    return facts if containers <= MAX_CONTAINERS and len(facts) <= MAX_FACTS else None


def remembered(decision: Decision, resolution: Resolution, seen: Survey) -> Remembered:
    """A decision to be remembered."""
    before = sum(container.init for container in seen.words.containers)
    asking = []
    for one in resolution.settled:
        position, init = one.asking.position, one.asking.words.init
        keeps = one.translated and bool(one.asking.vendor.document.environment)
        asking.append(Asker(init, position if init else position - before, one.target.guard, keeps))
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
