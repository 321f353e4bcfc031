"""What GPU words a pod carries, and where: the part of a pod that decides, small enough to be remembered."""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from webhook.finding import Finding
from webhook.mapping.names import Names
from webhook.mapping.policy import Policy
from webhook.patch import Slot, slots
from webhook.pod import Pod, QuantityText
from webhook.quantity import canonical
from webhook.reasons import Kind, Reason

MAX_CONTAINERS: Final = 1024
"""Containers of a pod: a node runs some hundred pods, and no pod is made of more than some dozens."""

MAX_UNKNOWN: Final = 64
"""Unknown resource names of a pod that are looked at for near misses: an honest pod has none or one."""


class ContainerWords(NamedTuple):
    """The GPU resources of one container.

    Attributes:
        name: the container's name.
        init: it runs before the others, or beside them as a native sidecar.
        resources: (name, text in limits or None, text in requests or None), by name, in canonical spelling.
    """

    name: str
    init: bool
    resources: tuple[tuple[str, str | None, str | None], ...]


class PodWords(NamedTuple):
    """Everything of a pod that says what GPUs it asks for. Pods that come from one template are equal here.

    Attributes:
        containers: all containers, init containers first, with their GPU resources.
        labels, annotations: the keys that any vendor reads, with their values.
    """

    containers: tuple[ContainerWords, ...]
    labels: tuple[tuple[str, str], ...] = ()
    annotations: tuple[tuple[str, str], ...] = ()


class Survey(NamedTuple):
    """The words of a pod, and what is amiss among its names.

    Attributes:
        words: what is there.
        slots: the containers, in the order of `words.containers`.
        asks: some container or annotation carries a word.
        findings: misplaced and doubtful names.
        refusal: a name for which the pod is refused: nearly a known word, or a word of a vendor on standby.
    """

    words: PodWords
    slots: tuple[Slot, ...]
    asks: bool
    findings: tuple[Finding, ...] = ()
    refusal: Finding | None = None


def survey(pod: Pod, policy: Policy) -> Survey:
    """The GPU words of a pod."""
    all_slots = slots(pod)
    if len(all_slots) > MAX_CONTAINERS:
        message = f"the pod has {len(all_slots)} containers: more than {MAX_CONTAINERS} are not looked through"
        return Survey(PodWords(()), all_slots, asks=False, refusal=Finding(Reason.TOO_MANY, message))
    findings: list[Finding] = []
    unknown = MAX_UNKNOWN
    containers: list[ContainerWords] = []
    asks = False
    for slot in all_slots:
        found, strange = _resource_words(slot, policy, unknown)
        unknown -= len(strange)
        for key in strange:
            findings.extend(_unknown(key, slot, policy))
        asks = asks or bool(found)
        containers.append(ContainerWords(slot.name, slot.kind == "initContainers", found))
    labels = _read_keys(pod.metadata.labels, policy.labels)
    annotations = _read_keys(pod.metadata.annotations, policy.annotations)
    for place, there in (("label", pod.metadata.labels), ("annotation", pod.metadata.annotations)):
        if there and not policy.request_keys.isdisjoint(there):
            findings.extend(_misplaced(place, there, policy))
    words = PodWords(tuple(containers), labels, annotations)
    refusal = next((finding for finding in findings if finding.reason.value.kind is Kind.DENIAL), None)
    told = tuple(finding for finding in findings if finding is not refusal)
    return Survey(words, all_slots, asks or bool(annotations), told, refusal)


def _resource_words(
    slot: Slot, policy: Policy, most: int
) -> tuple[tuple[tuple[str, str | None, str | None], ...], list[str]]:
    """The resources of a container that are words, and at most so many names that could be meant to be.

    Sorted, as the API server sends them and a manifest does not: what is told is the same for both.
    """
    resources = slot.container.resources
    if resources is None:
        return (), []
    limits, requests = resources.limits or {}, resources.requests or {}
    exact = policy.resources.exact
    found: list[tuple[str, str | None, str | None]] = []
    strange: list[str] = []
    for key in limits if limits.keys() >= requests.keys() else {**limits, **requests}:
        if "/" not in key:
            continue
        if key in exact or policy.resources.owners(key):
            found.append((key, _text(limits.get(key)), _text(requests.get(key))))
        elif len(strange) < most:
            strange.append(key)
    return tuple(sorted(found)), sorted(strange)


def _text(quantity: QuantityText | None) -> str | None:
    return None if quantity is None else canonical(quantity if isinstance(quantity, str) else repr(quantity))


def _read_keys(there: Mapping[str, str] | None, names: Names) -> tuple[tuple[str, str], ...]:
    if not there or (not names.patterns and names.exact.keys().isdisjoint(there)):
        return ()
    return tuple(sorted((key, value) for key, value in there.items() if names.owners(key)))


def _unknown(key: str, slot: Slot, policy: Policy) -> Iterator[Finding]:
    disputed = policy.standby.get(key)
    field_name = f"limits[{key}]"
    if disputed is not None:
        owner, name = disputed
        message = (
            f"{key} is a word of {owner.vendor}, which is not in force here: set `owners: {{{name}: {owner.vendor}}}`, "
            "or write the words of the vendor that is"
        )
        yield Finding(Reason.WORD_ON_STANDBY, message, slot.name, field_name)
        return
    near = policy.near.look(key)
    if near is None:
        for place, names in (("label", policy.labels), ("annotation", policy.annotations)):
            if key in names.exact:
                message = (
                    f"{key} has no effect as a resource: {names.exact[key][0].vendor} reads it as a {place} of the pod"
                )
                yield Finding(Reason.MISPLACED_WORD, message, slot.name, field_name)
        return
    if near.sure:
        message = f"{key} is no known resource; {near.told}"
        yield Finding(Reason.NEAR_MISS, message, slot.name, field_name)
        return
    message = f"{key} is no known resource and was left as it is; {near.told}"
    yield Finding(Reason.UNKNOWN_WORD, message, slot.name, field_name)


def _misplaced(place: str, there: Mapping[str, str], policy: Policy) -> Iterator[Finding]:
    """Words that stand as a label or annotation where their vendor does not read them."""
    here, elsewhere = policy.labels, policy.annotations
    other = "an annotation"
    if place == "annotation":
        here, elsewhere, other = policy.annotations, policy.labels, "a label"
    for key in sorted(there):
        if key in here.exact:
            continue
        if key in policy.resources.exact:
            right = "under `resources.limits` of the container"
        elif key in elsewhere.exact:
            right = f"as {other} of the pod"
        else:
            continue
        message = f"{key} has no effect as {'a label' if place == 'label' else 'an annotation'}: write it {right}"
        yield Finding(Reason.MISPLACED_WORD, message, None, f"{place} {key}")
