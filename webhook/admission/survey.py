"""The GPU keys of a pod and their places, and names that are nearly such keys."""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from webhook.finding import Denied, Finding, deny
from webhook.mapping.model.names import Names
from webhook.mapping.model.policy import Policy
from webhook.patch import Slot, slots
from webhook.pod import Pod, QuantityText
from webhook.quantity import canonical
from webhook.reasons import Reason, ReasonKind

MAX_CONTAINERS: Final = 1024
"""The most containers of a pod: a node runs some hundred pods, and no pod has more than some dozens of containers."""

MAX_KEYS: Final = 1024
"""The most GPU keys of a pod, in all places: eight for each container that may request; no vendor has so many."""

MAX_KEY: Final = 317
"""The most characters of a key: Kubernetes permits a domain of 253, a slash and a name of 63."""

MAX_VALUE: Final = 8 * 1024
"""The most characters of a key's value: enough for a list with every container that may request."""

MAX_NAME: Final = 63
"""The most characters of a container's name, a DNS label: messages, keys and variables contain it."""

MAX_UNKNOWN: Final = 32
"""The most unknown resource names of a pod that are compared with known ones: an honest pod has none or one."""


class ContainerKeys(NamedTuple):
    """The GPU resources of one container.

    Attributes:
        name: the container's name.
        init: it runs before the others, or beside them as a native sidecar.
        resources: (name, text in limits or None, text in requests or None), by name, in canonical spelling.
        perhaps: unknown names that may be the cluster's own names of a key.
    """

    name: str
    init: bool
    resources: tuple[tuple[str, str | None, str | None], ...]
    perhaps: tuple[str, ...] = ()


class PodKeys(NamedTuple):
    """All parts of a pod that request GPUs, equal for pods of one template.

    Attributes:
        containers: all containers, init containers first, with their GPU resources.
        labels, annotations: the keys that any vendor reads, with their values.
        node_selector: such keys of the nodeSelector; they qualify other keys, and never request.
    """

    containers: tuple[ContainerKeys, ...]
    labels: tuple[tuple[str, str], ...] = ()
    annotations: tuple[tuple[str, str], ...] = ()
    node_selector: tuple[tuple[str, str], ...] = ()


class Survey(NamedTuple):
    """The keys of a pod, and findings about its names.

    Attributes:
        keys: the keys of the pod.
        slots: the containers, in the order of `keys.containers`.
        has_request: whether a container or annotation carries a key.
        findings: misplaced and doubtful names.
        denial: the denial of the pod: for a name that is nearly a known key, or a key of an inactive vendor.
    """

    keys: PodKeys
    slots: tuple[Slot, ...]
    has_request: bool
    findings: tuple[Finding, ...] = ()
    denial: Finding | None = None


NOTHING_FOUND: Final = Survey(PodKeys(()), (), has_request=False)
"""The survey of a pod that is not searched."""


def survey(pod: Pod, policy: Policy) -> Survey:
    """Find the GPU keys of a pod that `bounds` permits; their number and length are checked first."""
    try:
        return _survey(pod, policy)
    except Denied as denial:
        return NOTHING_FOUND._replace(denial=denial.finding)


def _survey(pod: Pod, policy: Policy) -> Survey:
    all_slots = slots(pod)
    findings: list[Finding] = []
    unknown_left, keys_left = MAX_UNKNOWN, MAX_KEYS
    containers: list[ContainerKeys] = []
    for slot in all_slots:
        resources, unknown = _resource_keys(slot, policy, unknown_left, keys_left)
        unknown_left -= len(unknown)
        keys_left -= len(resources)
        for name in unknown:
            findings.extend(_unknown(name, slot, policy))
        perhaps: tuple[str, ...] = ()
        if unknown and resources:
            perhaps = tuple(name for name in unknown if any(names.fullmatch(name) for names in policy.perhaps))
        containers.append(ContainerKeys(slot.name, slot.kind == "initContainers", resources, perhaps))
    has_request = keys_left < MAX_KEYS
    labels = _read_keys(pod.metadata.labels, policy.labels, keys_left)
    annotations = _read_keys(pod.metadata.annotations, policy.annotations, keys_left - len(labels))
    selector = _read_keys(pod.spec.node_selector, policy.node_selector, keys_left - len(labels) - len(annotations))
    if has_request or annotations:
        _check_names(all_slots)
    for place, texts in (("label", pod.metadata.labels), ("annotation", pod.metadata.annotations)):
        if texts and not policy.request_keys.isdisjoint(texts):
            findings.extend(_misplaced(place, texts, policy))
    keys = PodKeys(tuple(containers), labels, annotations, selector)
    denial = next((finding for finding in findings if finding.reason.value.kind is ReasonKind.DENIAL), None)
    warnings = tuple(finding for finding in findings if finding is not denial)
    return Survey(keys, all_slots, has_request or bool(annotations), warnings, denial)


def _resource_keys(
    slot: Slot, policy: Policy, unknown_left: int, keys_left: int
) -> tuple[tuple[tuple[str, str | None, str | None], ...], list[str]]:
    """The resources of a container that are keys, and at most `unknown_left` unknown names that may be misspelled ones.

    Sorted, as the API server sends them and a manifest does not: the findings are the same for both.
    """
    resources = slot.container.resources
    if resources is None:
        return (), []
    limits, requests = resources.limits or {}, resources.requests or {}
    exact, owners = policy.resources.exact, policy.resources.owners
    keys: list[tuple[str, str | None, str | None]] = []
    unknown: list[str] = []
    for key in limits if limits.keys() >= requests.keys() else {**limits, **requests}:
        if "/" not in key:
            continue
        if key in exact or owners(key):
            if len(keys) >= keys_left or len(key) > MAX_KEY:
                _check_length(key, "", keys_left - len(keys))
            keys.append((key, _text(limits.get(key)), _text(requests.get(key))))
        elif len(unknown) < unknown_left:
            unknown.append(key)
    return tuple(sorted(keys)), sorted(unknown)


def _text(quantity: QuantityText | None) -> str | None:
    if quantity is None or (isinstance(quantity, str) and quantity.isdecimal() and quantity.isascii()):
        return quantity
    return canonical(quantity if isinstance(quantity, str) else repr(quantity))


def _read_keys(texts: Mapping[str, str] | None, names: Names, keys_left: int) -> tuple[tuple[str, str], ...]:
    """The labels, annotations or node selector keys that any vendor reads."""
    if not texts or (not names.patterns and names.exact.keys().isdisjoint(texts)):
        return ()
    keys: list[tuple[str, str]] = []
    for key in names.possible(texts):
        if names.owners(key):
            _check_length(key, texts[key], keys_left - len(keys))
            keys.append((key, texts[key]))
    return tuple(sorted(keys))


def _check_length(key: str, value: str, keys_left: int) -> None:
    """Deny more or longer keys than any pod needs: later steps process all of them."""
    if keys_left <= 0:
        raise deny(Reason.TOO_MANY, f"the pod has more than {MAX_KEYS} GPU keys: remove those that it does not need")
    if len(key) > MAX_KEY or len(value) > MAX_VALUE:
        what, text, most = ("name", key, MAX_KEY) if len(key) > MAX_KEY else ("value", value, MAX_VALUE)
        message = f"the {what} {text[:40]!r}… of a GPU key has {len(text)} characters: write at most {most}"
        raise deny(Reason.TOO_MANY, message)


def _check_names(all_slots: tuple[Slot, ...]) -> None:
    for slot in all_slots:
        if len(slot.name) > MAX_NAME:
            message = f"the name of a container has {len(slot.name)} characters: write at most {MAX_NAME}"
            raise deny(Reason.TOO_MANY, message, field="name")


def _unknown(key: str, slot: Slot, policy: Policy) -> Iterator[Finding]:
    """Report an unknown resource name that is nearly a key, misplaced, or a key of an inactive vendor."""
    inactive = policy.inactive.get(key)
    field_name = f"limits[{key}]"
    if inactive is not None:
        owner, name = inactive
        message = (
            f"{key} is a key of {owner.vendor}, which is inactive here: set `owners: {{{name}: {owner.vendor}}}`, "
            "or write the keys of the active vendor"
        )
        yield Finding(Reason.VENDOR_INACTIVE, message, slot.name, field_name)
        return
    near = policy.near.find(key)
    if near is None:
        for place, names in (("label", policy.labels), ("annotation", policy.annotations)):
            if key in names.exact:
                vendor = names.exact[key][0].vendor
                message = f"{key} has no effect as a resource: {vendor} reads it as {_an(place)} of the pod"
                yield Finding(Reason.MISPLACED_KEY, message, slot.name, field_name)
        return
    if near.sure:
        message = f"{key} is not a known resource; {near.suggestion}"
        yield Finding(Reason.NEAR_MISS, message, slot.name, field_name)
        return
    message = f"{key} is not a known resource and was left unchanged; {near.suggestion}"
    yield Finding(Reason.UNKNOWN_KEY, message, slot.name, field_name)


def _misplaced(place: str, texts: Mapping[str, str], policy: Policy) -> Iterator[Finding]:
    """Report keys in a label or annotation where their vendor does not read them."""
    names, others = policy.labels, policy.annotations
    other = "annotation"
    if place == "annotation":
        names, others, other = policy.annotations, policy.labels, "label"
    for key in sorted(key for key in policy.request_keys if key in texts):
        if key in names.exact:
            continue
        if key in policy.resources.exact:
            right = "under `resources.limits` of the container"
        elif key in others.exact:
            right = f"as {_an(other)} of the pod"
        elif key in policy.node_selector.exact:
            right = "in the nodeSelector of the pod"
        else:
            continue
        message = f"{key} has no effect as {_an(place)}: write it {right}"
        yield Finding(Reason.MISPLACED_KEY, message, None, f"{place} {key}")


def _an(place: str) -> str:
    """A place with its article: ``a label``, ``an annotation``."""
    return f"an {place}" if place == "annotation" else f"a {place}"
