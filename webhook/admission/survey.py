"""The GPU keys of a pod and their places, and names that are nearly such keys.

Also this webhook's own labels and annotations without effect: misspelled, misplaced, or with an unknown value.
"""

import difflib
from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from typing import Final, Literal, NamedTuple, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from webhook.admission.claims import OwnClaim, claims_of, counts, own_claims
from webhook.labels import (
    CHANGED,
    CLAIM,
    DISABLED,
    ENABLED,
    FORBIDDEN,
    INJECT,
    OPT_OUT,
    PREFIX,
    STATUS,
    SUMMARY,
    Place,
    keys_of,
)
from webhook.mapping.model.names import Names
from webhook.mapping.model.near_misses import MAX_SIMILAR, NearMiss, looks_like_device, nearest_first
from webhook.mapping.model.policy import Policy
from webhook.mapping.requests.templates import REQUEST
from webhook.mapping.requests.values import KeyValue
from webhook.patch import Slot, slots
from webhook.pod import Pod, QuantityText, Resources
from webhook.quantity import canonical
from webhook.reasons import Denied, Finding, Reason, ReasonKind, deny
from webhook.request import ClaimTemplate

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

MAX_UNKNOWN: Final = 16
"""The most unknown resource names of a pod that are compared with known ones: an honest pod has none or one."""


class ContainerKeys(Struct, frozen=True):
    """The GPU resources of one container.

    Attributes:
        name: the container's name.
        init: it runs before the others, or beside them as a native sidecar.
        sidecar: it is a native sidecar.
        resources: (name, text in limits or None, text in requests or None), by name, in canonical spelling.
        perhaps: unknown names that may be the cluster's own names of a key.
        claimed: its claim, if that is one of ours.
    """

    name: str
    init: bool
    resources: tuple[tuple[str, str | None, str | None], ...]
    perhaps: tuple[str, ...]
    claimed: "Claimed | None" = None
    sidecar: bool = False


class Claimed(NamedTuple):
    """A claim of ours.

    Attributes:
        vendor: the name of the vendor that it is written for.
        entries: its keys.
        template: it is made from this; None if it is still to be written.
        request: the container's request of several in the claim.
    """

    vendor: str
    entries: tuple[KeyValue, ...]
    template: ClaimTemplate | None = None
    request: str | None = None


class PodKeys(Struct, frozen=True):
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


class Survey(Struct, frozen=True):
    """The keys of a pod, and findings about its names.

    Attributes:
        keys: the keys of the pod.
        slots: the containers, in the order of `keys.containers`.
        claims: what containers claim, by their paths, without those that claim nothing.
        has_request: whether a container or annotation carries a key.
        findings: misplaced and doubtful names.
        denial: the denial of the pod: for a name that is nearly a known key, or a key of an inactive vendor.
    """

    keys: PodKeys
    slots: tuple[Slot, ...]
    claims: Mapping[str, tuple[str, ...]]
    has_request: bool
    findings: tuple[Finding, ...] = ()
    denial: Finding | None = None


NOTHING_FOUND: Final = Survey(PodKeys(()), (), {}, has_request=False)
"""The survey of a pod that is not searched."""


def survey(pod: Pod, policy: Policy) -> Survey:
    """Find the GPU keys of a pod within the bounds; their number and length are checked first."""
    try:
        return _survey(pod, policy)
    except Denied as denial:
        return replace(NOTHING_FOUND, denial=denial.finding)


def _survey(pod: Pod, policy: Policy) -> Survey:
    all_slots = slots(pod)
    findings: list[Finding] = []
    claims: dict[str, tuple[str, ...]] = {}
    containers, keys_left = _container_keys(all_slots, policy, claims, findings)
    has_request = keys_left < MAX_KEYS
    if claims and pod.spec.resource_claims:
        containers = _with_own_claims(pod, all_slots, containers, claims, policy)
        has_request = has_request or any(each.claimed is not None for each in containers)
    metadata, node_selector = pod.metadata, pod.spec.node_selector
    labels = _read_keys(metadata.labels, policy.labels, keys_left) if metadata.labels else ()
    keys_left -= len(labels)
    annotations = _read_keys(metadata.annotations, policy.annotations, keys_left) if metadata.annotations else ()
    selector = _read_keys(node_selector, policy.node_selector, keys_left - len(annotations)) if node_selector else ()
    if has_request or annotations:
        long = next((slot.name for slot in all_slots if len(slot.name) > MAX_NAME), None)
        if long is not None:
            message = f"the name of a container has {len(long)} characters: write at most {MAX_NAME}"
            raise deny(Reason.TOO_MANY, message, field="name")
    if metadata.labels and not policy.searched_keys.isdisjoint(metadata.labels):
        findings.extend(_misplaced("label", metadata.labels, policy))
    if metadata.annotations and not policy.searched_keys.isdisjoint(metadata.annotations):
        findings.extend(_misplaced("annotation", metadata.annotations, policy))
    for place, texts in (("label", metadata.labels), ("annotation", metadata.annotations)):
        for key, near in policy.read_keys.near_misses(texts) if texts else ():
            findings.append(_misspelled(place, key, near, policy))
    keys = PodKeys(containers, labels, annotations, selector)
    denial: Finding | None = None
    if findings:
        denial = next((finding for finding in findings if finding.reason.kind is ReasonKind.DENIAL), None)
        findings = [finding for finding in findings if finding is not denial]
    return Survey(keys, all_slots, claims, has_request or bool(annotations), tuple(findings), denial)


def _container_keys(
    all_slots: tuple[Slot, ...], policy: Policy, claims: dict[str, tuple[str, ...]], findings: list[Finding]
) -> tuple[tuple[ContainerKeys, ...], int]:
    """The resources of every container that are keys, and how many keys a pod may still have; adds claims and findings."""
    unknown_left, keys_left = MAX_UNKNOWN, MAX_KEYS
    containers: list[ContainerKeys] = []
    for slot in all_slots:
        requested = slot.container.resources
        resources: tuple[tuple[str, str | None, str | None], ...] = ()
        perhaps: tuple[str, ...] = ()
        if requested is not None:
            resources, unknown = _resource_keys(requested, policy, unknown_left, keys_left)
            keys_left -= len(resources)
            if unknown or not unknown_left or requested.claims:
                unknown_left -= len(unknown)
                for name in unknown:
                    found = [*_unknown(name, slot, [key for key, _, _ in resources], policy)]
                    findings.extend(found if found and _counts(requested, name) else ())
                if claimed := claims_of(slot.container):
                    claims[slot.path] = claimed
                if resources:
                    perhaps = tuple(
                        name for name in unknown if any(names.fullmatch(name) for names in policy.other_names)
                    )
            for name in [name for name, _, _ in resources if name not in policy.resources.exact]:
                findings.extend(_unlisted(name, slot, policy) if _counts(requested, name) else ())
        init = slot.kind == "initContainers"
        containers.append(ContainerKeys(slot.name, init, resources, perhaps, sidecar=slot.sidecar))
    return tuple(containers), keys_left


def _with_own_claims(
    pod: Pod,
    all_slots: tuple[Slot, ...],
    containers: tuple[ContainerKeys, ...],
    claims: dict[str, tuple[str, ...]],
    policy: Policy,
) -> tuple[ContainerKeys, ...]:
    """The containers with the keys of claims that this webhook wrote, which are taken out of `claims`."""
    own = own_claims(pod, policy)
    if not own:
        return containers
    keys: list[ContainerKeys] = []
    for slot, container in zip(all_slots, containers, strict=True):
        named = [] if slot.container.resources is None else slot.container.resources.claims or []
        ours = {
            claim.name: claim.request for claim in reversed(named) if claim.name in own and own[claim.name].has(claim)
        }
        claimed = claims.pop(slot.path, ())
        if others := tuple(name for name in claimed if name not in ours):
            claims[slot.path] = others
        first = next((name for name in claimed if name in ours), None)
        keys.append(container if first is None else replace(container, claimed=_claimed(own[first], ours[first])))
    return tuple(keys)


def _claimed(own: OwnClaim, request: str | None) -> Claimed:
    if len(own.requests) == 1:
        return Claimed(own.vendor.name, own.requests[REQUEST].entries, own.template)
    assert request is not None  # noqa: S101  (by `OwnClaim.has`)
    return Claimed(own.vendor.name, own.requests[request].entries, own.template, request)


def _resource_keys(
    resources: Resources, policy: Policy, unknown_left: int, keys_left: int
) -> tuple[tuple[tuple[str, str | None, str | None], ...], list[str]]:
    """The resources of a container that are keys, and at most `unknown_left` unknown names that may be misspelled ones.

    Sorted, as the API server sends them and a manifest does not: the findings are the same for both.
    """
    limits, requests = resources.limits or {}, resources.requests or {}
    if not limits and not requests:
        return (), []
    exact, owners = policy.resources.exact, policy.resources.owners
    keys: list[tuple[str, str | None, str | None]] = []
    unknown: list[str] = []
    for key in limits if limits.keys() >= requests.keys() else {**limits, **requests}:
        if key in exact or owners(key):
            if len(keys) >= keys_left or len(key) > MAX_KEY:
                _check_length(key, "", keys_left - len(keys))
            limit, request = limits.get(key), requests.get(key)
            text = None if limit is None else _text(limit)
            # Nearly always the API server has written the limits as requests.
            same = request == limit and type(request) is type(limit)
            keys.append((key, text, text if same else None if request is None else _text(request)))
        elif len(unknown) < unknown_left:
            unknown.append(key)
    keys.sort()
    return tuple(keys), sorted(unknown) if unknown else unknown


def _counts(resources: Resources, name: str) -> bool:
    """Whether another number than 0 is requested: that is nothing, under whatever name."""
    sides = (resources.limits or {}, resources.requests or {})
    return any(name in side and counts(side[name]) for side in sides)


def _text(quantity: QuantityText | None) -> str:
    return canonical(quantity if isinstance(quantity, str) else repr(quantity))


def _read_keys(texts: Mapping[str, str], names: Names, keys_left: int) -> tuple[tuple[str, str], ...]:
    """The labels, annotations or node selector keys that any vendor reads."""
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


def _unknown(key: str, slot: Slot, beside: list[str], policy: Policy) -> Iterator[Finding]:
    """Report an unknown resource name that is nearly a key, misplaced, or a key of an inactive vendor."""
    field_name = f"limits[{key}]"
    if key in policy.inactive:
        yield Finding(Reason.VENDOR_INACTIVE, _of_inactive(key, policy), slot.name, field_name)
        return
    patterns = (advice for pattern, advice in policy.reported_patterns if pattern.fullmatch(key))
    if advice := policy.reported_names["resource"].get(key) or next(patterns, None):
        yield Finding(Reason.OTHER_SYSTEM, f"{key} is read by no mapping: {advice}", slot.name, field_name)
        return
    for place, names in (("label", policy.labels), ("annotation", policy.annotations)):
        if key in names.exact:
            vendor = names.exact[key][0].vendor
            message = f"{key} has no effect as a resource: {vendor} reads it as {_an(place)} of the pod"
            yield Finding(Reason.MISPLACED_KEY, message, slot.name, field_name)
            return
    near = policy.near_miss(key, beside)
    if near is None:
        if beside and any(names.fullmatch(key) for names in policy.other_names):
            return
        for message in _like_a_device(key, policy):
            yield Finding(Reason.UNKNOWN_KEY, message, slot.name, field_name)
        return
    if near.sure:
        suggestion = _of_inactive(near.meant, policy) if near.meant in policy.inactive else near.suggestion
        message = f"{key} is not a known resource; {suggestion}"
        yield Finding(Reason.NEAR_MISS, message, slot.name, field_name)
        return
    message = f"{key} is not a known resource and was left unchanged; {near.suggestion}"
    yield Finding(Reason.UNKNOWN_KEY, message, slot.name, field_name)


def _of_inactive(key: str, policy: Policy) -> str:
    """Say of a key of an inactive vendor what the active one reads."""
    owner, name = policy.inactive[key]
    reads = "".join(f", which {active.vendor} reads" for active in policy.resources.owners(name)[:1])
    return (
        f"{key} is a key of {owner.vendor}, which is inactive here: write {name}{reads}, or ask the administrator "
        f"to set `owners: {{{name}: {owner.vendor}}}`"
    )


def _unlisted(key: str, slot: Slot, policy: Policy) -> Iterator[Finding]:
    """Report a name that is read because its kind is known, but that no known device has."""
    for owner in policy.resources.owners(key):
        for name, value in owner.binding:
            variable = policy.vendors[owner.vendor].document.variables[name]
            if variable.others is not None and variable.listed:
                before, _, after = key.partition(value)
                near = [f"{before}{each}{after}" for each in nearest_first(value, variable.listed)[:2]]
                message = (
                    f"no known device has {key}: unless some node offers it, the pod stays Pending; "
                    f"did you mean {' or '.join(near)}?"
                )
                yield Finding(Reason.UNKNOWN_KEY, message, slot.name, f"limits[{key}]")


def _like_a_device(key: str, policy: Policy) -> Iterator[str]:
    """Say of a resource name that resembles no key that it looks like a device's, and which keys it may stand for."""
    if len(key) > MAX_KEY or not looks_like_device(key) or policy.near.knows(key):
        return
    similar = policy.near.vaguely(key, policy.settings.target)[:MAX_SIMILAR]
    if similar:
        yield f"{key} is not a known resource and was left unchanged; did you mean {' or '.join(similar)}?"
        return
    yield (
        f"{key} looks like a device's, but no mapping reads it: unless the device plugin of some node offers it, "
        "the pod stays Pending"
    )


def idle_counts(pod: Pod, keys: PodKeys, requesting: Collection[str], policy: Policy) -> Iterator[Finding]:
    """Report labels and annotations that only count devices, of vendors in whose keys nothing is requested."""
    resources = (name for each in keys.containers for name, _, _ in each.resources)
    named = {owner.vendor for name in resources for owner in policy.resources.owners(name)}.union(requesting)
    for place, texts, names in (
        ("label", keys.labels, policy.labels),
        ("annotation", keys.annotations, policy.annotations),
    ):
        for key, text in texts:
            owners = [(policy.vendors[owner.vendor], owner.key_name) for owner in names.owners(key)]
            others = [each for each in pod.metadata.annotations or () if each != key]
            none = all(item.strip() == "0" for item in text.split(","))
            if any(
                vendor.name in named
                or (none and vendor.keys[name].written != "items")
                or vendor.keys[name].dimensions != ("devices",)
                or any(map(vendor.owned.hint, others))
                for vendor, name in owners
            ):
                continue
            amounts = {
                vendor.keys[name].spellings[0].text: None
                for vendor, _ in owners
                for name in (*vendor.by_dimension["memory"], *vendor.by_dimension["cores"])
                if not vendor.keys[name].per_container
            }
            add = " or ".join([*amounts][:MAX_SIMILAR])
            message = f"{place} {key} counts devices and requests none: add {add}, or remove it"
            yield Finding(Reason.KEY_IGNORED, message, None, f"{place} {key}")


def _misplaced(place: Literal["label", "annotation"], texts: Mapping[str, str], policy: Policy) -> Iterator[Finding]:
    """Report keys in a label or annotation where their vendor does not read them, and names of other systems."""
    foreign = policy.reported_names[place]
    for key in sorted(foreign.keys() & texts.keys()):
        yield Finding(
            Reason.OTHER_SYSTEM, f"{place} {key} is read by no mapping: {foreign[key]}", None, f"{place} {key}"
        )
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


def _misspelled(place: str, key: str, near: NearMiss, policy: Policy) -> Finding:
    """Report a label or annotation that is nearly a key."""
    other = "label" if near.meant in policy.labels.exact else "annotation"
    meant = near.suggestion if place == other else f"did you mean the {other} {near.meant}?"
    if near.sure:
        return Finding(Reason.NEAR_MISS, f"{key} is not a known {place}; {meant}", None, f"{place} {key}")
    message = f"{key} is not a known {place} and was left unchanged; {meant}"
    return Finding(Reason.UNKNOWN_KEY, message, None, f"{place} {key}")


def _an(place: str) -> str:
    """A place with its article: ``a label``, ``an annotation``."""
    return f"an {place}" if place == "annotation" else f"a {place}"


OwnKeyKind: TypeAlias = Literal["namespace", "pod"]

MOST: Final = 8
"""The most labels, and the most annotations, of one object that are reported."""

LETTERS: Final = 100
"""The most characters of a key or value in a message."""

_LABEL: Final[Place] = "label"
_ANNOTATION: Final[Place] = "annotation"
_OF_PODS: Final = {INJECT: (DISABLED,)}
_KINDS: Final[tuple[OwnKeyKind, ...]] = ("namespace", "pod")
_AN: Final[Mapping[Place, str]] = {"label": "a label", "annotation": "an annotation"}
_OURS: Final = frozenset({STATUS, SUMMARY, CHANGED, CLAIM})
"""What only the webhook writes on pods."""
_KNOWN: Final = {(kind, place): frozenset(keys_of(kind, place)) for kind in _KINDS for place in _AN}


def unread_keys(
    kind: OwnKeyKind, labels: Mapping[str, str] | None, annotations: Mapping[str, str] | None, policy: Policy
) -> Iterator[Finding]:
    """Yield what is wrong with the webhook's keys on a namespace or pod.

    Other steps report values of annotations, of the mode and of the roll-out.
    """
    for texts, place in ((labels, _LABEL), (annotations, _ANNOTATION)):
        if not texts:
            continue
        known = _KNOWN[kind, place]
        # Nearly always there is none: for most pods this comparison is all.
        own = [key for key in texts if key not in known and key.startswith(PREFIX)]
        if own:
            # Sorted, as the API server sends them and a manifest does not: the report is the same for both.
            for key in islice((key for key in sorted(own) if not _read(key, place, kind, policy)), MOST):
                message = f"{place} {key[:LETTERS]} has no effect on a {kind}: {_meant(key, place, kind, policy)}"
                yield Finding(Reason.OWN_KEY_UNUSED, message, None, f"{place} {key[:LETTERS]}")
    if labels:
        yield from _odd_values(kind, labels, policy.settings.opt_in_label)


def _read(key: str, place: Place, kind: OwnKeyKind, policy: Policy) -> bool:
    """Whether a key below the prefix is the setting's or a mapping's, or `survey` reports it as a misplaced one."""
    if kind == "namespace":
        return place == "label" and key == policy.settings.opt_in_label
    names = policy.labels if place == "label" else policy.annotations
    return key in policy.request_keys or bool(names.owners(key))


def _odd_values(kind: OwnKeyKind, labels: Mapping[str, str], opt_in: str) -> Iterator[Finding]:
    """Report unknown values of labels that have only a few."""
    allowed = _OF_PODS if kind == "pod" else {opt_in: (ENABLED, DISABLED), OPT_OUT: (FORBIDDEN,)}
    for key, values in allowed.items():
        value = labels.get(key)
        if value is not None and value not in values:
            shown = value[:LETTERS]
            message = f"label {key}: {shown!r} has no effect on a {kind}: write {' or '.join(values)}, or remove it"
            yield Finding(Reason.OWN_KEY_UNUSED, message, None, f"label {key}", shown)


def _meant(key: str, place: Place, kind: OwnKeyKind, policy: Policy) -> str:
    """What to write instead of an unknown key."""
    other: Place = "annotation" if place == "label" else "label"
    other_kind: OwnKeyKind = "pod" if kind == "namespace" else "namespace"
    if key in _KNOWN[kind, other]:
        return f"write it as {_AN[other]}"
    for where in (place, other):
        if key in _KNOWN[other_kind, where] or _read(key, where, other_kind, policy):
            return f"write it as {_AN[where]} of the {other_kind}"
    # Without the prefix, which all of them share, the names themselves are compared.
    written = key.removeprefix(PREFIX)[:LETTERS]
    first, dot, rest = written.partition(".")
    container = rest.rpartition(".")[0] if first + dot == "container." else ""
    known = {where: _names(kind, where, policy, container or "NAME") for where in (other, place)}
    names = {name.removeprefix(PREFIX): (name, where) for where in known for name in known[where]}
    near = difflib.get_close_matches(written, names, n=1)
    if not near:
        return f"known are {', '.join(known[place])}"
    meant, where = names[near[0]]
    return f"did you mean the {where} {meant}?"


def _names(kind: OwnKeyKind, place: Place, policy: Policy, container: str) -> list[str]:
    """The keys below the webhook's prefix that a user may write on an object, those of mappings for one container included."""
    names = _KNOWN[kind, place] - _OURS
    if kind == "namespace" and place == "label":
        names |= {policy.settings.opt_in_label}
    elif kind == "pod":
        keys = (key for vendor in policy.vendors.values() for key in vendor.keys.values() if key.place == place)
        texts = (template.text for key in keys for template in key.templates if template.text.startswith(PREFIX))
        names |= {text.replace("{container}", container) for text in texts}
    return sorted(names)
