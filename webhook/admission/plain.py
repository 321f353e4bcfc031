"""Plain pods: those of which only a few facts matter, so that what was made of one serves for all that share them.

Pods come from templates. Where nothing of a pod has to be looked at closely (no variable of interest, nothing at the shim's
paths, no node named), what becomes of it depends on its `Facts` alone. Any other pod takes the long way; remembering never
changes what is decided (``tests/admission/test_plain.py``).
"""

from typing import Any, Final, NamedTuple, TypeAlias

from webhook.admission.context import Context
from webhook.admission.delivery import ENFORCE_LABEL, SHIM_ANNOTATION
from webhook.admission.guard import GUARD_ANNOTATION
from webhook.admission.orders import Orders
from webhook.admission.outcome import Outcome
from webhook.admission.resolve import Resolution
from webhook.admission.survey import Survey
from webhook.mapping.guard import Guards
from webhook.pod import NO_METADATA, Container, Pod, present

MAX_CONTAINERS: Final = 32
MAX_BYTES: Final = 16 * 1024
"""Of names and values in what is remembered."""

Items: TypeAlias = tuple[tuple[str, Any], ...] | None


class Facts(NamedTuple):
    """What of a plain pod and its namespace decides; that a map or list is missing is a fact for the patch."""

    containers: tuple[Any, ...]
    init_containers: tuple[Any, ...]
    labels: Items
    annotations: Items
    scheduler: str | None
    runtime_class: str | None
    node_selector: Items
    tolerations: bytes
    volumes: bool
    metadata: bool
    namespace: tuple[Any, ...]
    user: str

    @property
    def small(self) -> bool:
        """Whether it is worth the memory: honest pods are; of others a few could take all there is."""
        sides = [side for one in (*self.containers, *self.init_containers) for side in one[2:4]]
        maps = (self.labels, self.annotations, self.node_selector, *sides)
        size = sum(len(str(key)) + len(str(value)) for items in maps for key, value in items or ())
        containers = len(self.containers) + len(self.init_containers)
        return containers <= MAX_CONTAINERS and size + len(self.tolerations) + len(self.user) <= MAX_BYTES


class Remembered(NamedTuple):
    """What becomes of pods with the same facts, and what tells whether a pod is plain.

    Attributes:
        outcome: what becomes of them.
        resolution: of their words.
        asking: index among the init containers or containers, the guard there, and whether variables of the source's are kept,
            of each container that asks.
    """

    outcome: Outcome
    resolution: Resolution
    asking: tuple[tuple[bool, int, Guards, bool], ...]

    def serves(self, pod: Pod) -> bool:
        """Whether a pod with the same facts is plain."""
        spec = pod.spec
        if spec.node_name is not None:
            return False
        init_containers = spec.init_containers or ()
        marks = self.resolution.marks
        if marks is not None:
            if marks.search(bytes(spec.volumes)):
                return False
            for container in (*init_containers, *spec.containers):
                if marks.search(bytes(container.volume_mounts)):
                    return False
        for init, index, guard, keeps in self.asking:
            container = init_containers[index] if init else spec.containers[index]
            if guard.concerns(container.env) or (keeps and present(container.env)):
                return False
        return True


def facts_of(pod: Pod, context: Context, given: Orders) -> Facts:
    """The facts of a pod; `given` are the orders at it, among them the cards that its affinity names."""
    spec, metadata, namespace = pod.spec, pod.metadata, context.namespace
    return Facts(
        tuple([_container(container) for container in spec.containers]),
        tuple([_container(container) for container in spec.init_containers]) if spec.init_containers else (),
        _items(metadata.labels),
        _items(metadata.annotations),
        spec.scheduler_name,
        spec.runtime_class_name,
        _items(spec.node_selector),
        bytes(spec.tolerations),
        present(spec.volumes),
        metadata is NO_METADATA,
        (
            *given[1:],
            namespace.labels.get(ENFORCE_LABEL),
            namespace.annotations.get(SHIM_ANNOTATION),
            namespace.annotations.get(GUARD_ANNOTATION),
            context.pod_security_default,
        ),
        context.user,
    )


def remembered(outcome: Outcome, resolution: Resolution, seen: Survey) -> Remembered:
    """An outcome to be remembered."""
    before = sum(container.init for container in seen.words.containers)
    asking = []
    for one in resolution.settled:
        position, init = one.asking.position, one.asking.words.init
        keeps = one.translated and bool(one.asking.vendor.document.environment)
        asking.append((init, position if init else position - before, one.target.guard, keeps))
    return Remembered(outcome, resolution, tuple(asking))


def _container(container: Container) -> tuple[Any, ...]:
    resources = container.resources
    return (
        container.name,
        resources is None,
        None if resources is None else _items(resources.limits),
        None if resources is None else _items(resources.requests),
        present(container.env),
        b"{" in bytes(container.env_from),
        present(container.volume_mounts),
        container.security_context is not None and container.security_context.privileged,
    )


def _items(there: dict[str, Any] | None) -> Items:
    return None if there is None else tuple(there.items())
