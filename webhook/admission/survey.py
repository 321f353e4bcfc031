"""The GPU keys of a pod and their places, and names that are nearly such keys.

Also this webhook's own labels and annotations without effect: misspelled, misplaced, or with an unknown value.
"""

import difflib
import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, Literal, NamedTuple, TypeAlias, get_args

from msgspec import Struct
from msgspec.structs import replace

from webhook.admission.claims import OwnClaim, claims_of, counts, own_claims
from webhook.admission.decision import Context
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
from webhook.mapping.model.keys import Key
from webhook.mapping.model.names import MAX_SIMILAR, Names, looks_like_device, nearest_first
from webhook.mapping.model.policy import Policy
from webhook.mapping.model.vendor import KnownPlace, Vendor
from webhook.mapping.values import KeyValue
from webhook.patch import Slot, slots
from webhook.pod import Pod, QuantityText, Resources
from webhook.reasons import Denied, Finding, Reason, ReasonKind, deny
from webhook.request import ClaimTemplate, Number, canonical, exact_text

MAX_CONTAINERS: Final = 1024
"""The most containers of a pod: a node runs some hundred pods, and no pod has more than some dozens of containers."""

MAX_KEYS: Final = 1024
"""The most GPU keys of a pod, in all places: eight for each container that may request; no vendor has so many."""

MAX_VALUE: Final = 8 * 1024
"""The most characters of a key's value: enough for a list with every container that may request."""

MAX_NAME: Final = 63
"""The most characters of a container's name, a DNS label: messages, keys and variables contain it."""

MAX_UNKNOWN: Final = 16
"""The most unknown resource names of a pod that are compared with known ones: an honest pod has none or one."""


Amounts: TypeAlias = dict[str, tuple[str | None, str | None]]
"""GPU resources by name: the text in limits and that in requests, in canonical spelling; None: it is not there."""


class ContainerKeys(Struct, frozen=True):
    """The GPU resources of one container."""

    name: str  # the container's name
    init: bool  # it runs before the others, or beside them as a native sidecar
    resources: Amounts  # in the order of their names
    perhaps: tuple[str, ...]  # unknown names that may be the cluster's own names of a key
    claimed: "Claimed | None" = None  # its claim, if that is one of ours
    sidecar: bool = False  # it is a native sidecar

    def having(self, numbers: Mapping[str, Number | None]) -> "ContainerKeys":
        """Return it with these numbers of resources, and (None) without some."""
        kept = {name: amounts for name, amounts in self.resources.items() if name not in numbers}
        texts = {name: exact_text(number) for name, number in numbers.items() if number is not None}
        return replace(self, resources=kept | {name: (text, text) for name, text in texts.items()})


class Claimed(NamedTuple):
    """A claim of ours."""

    vendor: str  # the name of the vendor that it is written for
    entries: tuple[KeyValue, ...]  # its keys
    template: ClaimTemplate | None = None  # it is made from this; None if it is still to be written
    request: str | None = None  # the container's request of several in the claim


class PodKeys(Struct, frozen=True):
    """All parts of a pod that request GPUs, equal for pods of one template."""

    containers: tuple[ContainerKeys, ...]  # all containers, init containers first, with their GPU resources
    labels: dict[str, str] = {}  # the keys that any vendor reads, in the order of the keys; annotations likewise
    annotations: dict[str, str] = {}
    node_selector: dict[str, str] = {}  # such keys of the nodeSelector; they qualify other keys, and never request

    @property
    def regular(self) -> list[str]:
        """The names of the containers that are no init containers."""
        return [container.name for container in self.containers if not container.init]

    @property
    def of_pod(self) -> bool:
        """Whether there are keys of the whole pod."""
        return bool(self.labels or self.annotations or self.node_selector)


def changed(texts: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    """Return texts with others in their place, or (None) without them."""
    return {name: text for name, text in {**texts, **changes}.items() if text is not None}


class Survey(Struct, frozen=True):
    """The keys of a pod, and findings about its names."""

    keys: PodKeys  # the keys of the pod
    slots: tuple[Slot, ...]  # the containers, in the order of `keys.containers`
    claims: Mapping[str, tuple[str, ...]]  # what containers claim, by their paths, without those that claim nothing
    has_request: bool  # whether a container or annotation carries a key
    findings: tuple[Finding, ...] = ()  # misplaced and doubtful names
    # the denial of the pod: for a name that is nearly a known key, or a key of an inactive vendor
    denial: Finding | None = None


NOTHING_FOUND: Final = Survey(PodKeys(()), (), {}, has_request=False)
"""The survey of a pod that is not searched."""


def survey(pod: Pod, context: Context, policy: Policy) -> Survey:
    """Find the GPU keys of a pod within the bounds; their number and length are checked first.

    Keys of our own without effect are reported, too: those of the namespace if the pod requests devices.
    """
    try:
        seen = _Search(policy).survey(pod)
    except Denied as denial:
        seen = replace(NOTHING_FOUND, denial=denial.finding)
    metadata, namespace, found = pod.metadata, context.namespace, [*seen.findings]
    if metadata.labels or metadata.annotations:
        found += unread_keys("pod", metadata.labels, metadata.annotations, policy)
    if seen.has_request or seen.denial is not None:
        found += unread_keys("namespace", namespace.labels, namespace.annotations, policy)
    return replace(seen, findings=tuple(found)) if found else seen


class _Search(Struct):
    """What was found of a pod so far, and how many more names are compared and keys taken."""

    policy: Policy
    claims: dict[str, tuple[str, ...]] = {}
    findings: list[Finding] = []
    unknown_left: int = MAX_UNKNOWN
    unlisted_left: int = MAX_UNKNOWN
    keys_left: int = MAX_KEYS

    def survey(self, pod: Pod) -> Survey:
        """Search all places of a pod."""
        policy, metadata, all_slots = self.policy, pod.metadata, slots(pod)
        containers = tuple([self._container(slot) for slot in all_slots])
        if self.claims and (own := own_claims(pod, policy)):
            containers = tuple(map(partial(self._with_own_claim, own), all_slots, containers))
        has_request = self._requested(containers)
        labels = self._read(metadata.labels, policy.labels)
        annotations = self._read(metadata.annotations, policy.annotations)
        keys = PodKeys(containers, labels, annotations, self._read(pod.spec.node_selector, policy.node_selector))
        has_request |= bool(annotations)
        if has_request:
            _check_names(all_slots)
        if metadata.labels or metadata.annotations:
            self._report_texts({"label": metadata.labels or {}, "annotation": metadata.annotations or {}})
        denial = self._denial() if self.findings else None
        return Survey(keys, all_slots, self.claims, has_request, tuple(self.findings), denial)

    def _requested(self, containers: Iterable[ContainerKeys]) -> bool:
        """Whether containers have keys, or claims of ours, before those of the pod are counted."""
        return self.keys_left < MAX_KEYS or any([each.claimed is not None for each in containers])

    def _report_texts(self, places: Mapping[Place, Mapping[str, str]]) -> None:
        """Report labels and annotations that are no keys where they are."""
        for report, (place, texts) in itertools.product((_misplaced, _misspelled), places.items()):
            self.findings += report(place, texts, self.policy) if texts else ()

    def _denial(self) -> Finding | None:
        """What denies the pod, all of it at once, taken out of the findings."""
        denials = [each for each in self.findings if each.reason.kind is ReasonKind.DENIAL]
        self.findings = [finding for finding in self.findings if finding not in denials]
        return all_at_once(denials) if denials else None

    def _container(self, slot: Slot) -> ContainerKeys:
        """The resources of a container that are keys; reports names that may be meant as some, and notes its claims."""
        requested, policy = slot.container.resources, self.policy
        resources: Amounts = {}
        perhaps: set[str] = set()
        if requested is not None:
            resources, unknown = _resource_keys(requested, policy, self.keys_left)
            self.keys_left -= len(resources)
            if unknown or requested.claims:
                self._search_others(slot, unknown, [*resources])
            if not resources.keys() <= policy.resources.exact.keys():
                self._report_unlisted(slot, resources)
            if resources and unknown:
                perhaps.update(*[filter(names.fullmatch, unknown) for names in policy.other_names])
        names = tuple(sorted(perhaps)) if perhaps else ()
        return ContainerKeys(slot.name, slot.kind == "initContainers", resources, names, sidecar=slot.sidecar)

    def _report_unlisted(self, slot: Slot, resources: Iterable[str]) -> None:
        """Report few names that only a pattern reads."""
        exact = self.policy.resources.exact
        by_pattern = [name for name in resources if name not in exact and _counts(slot, name)][: self.unlisted_left]
        self.unlisted_left -= len(by_pattern)
        for name in by_pattern:
            self.findings += _unlisted(name, slot, self.policy)

    def _search_others(self, slot: Slot, unknown: list[str], beside: list[str]) -> None:
        """Report few names that are no keys, and note claims."""
        compared = unknown[: self.unknown_left]
        self.unknown_left -= len(compared)
        found = [_unknown(name, slot, beside, self.policy) for name in compared if _counts(slot, name)]
        self.findings += filter(None, found)
        if claimed := claims_of(slot.container):
            self.claims[slot.path] = claimed

    def _with_own_claim(self, own: Mapping[str, OwnClaim], slot: Slot, container: ContainerKeys) -> ContainerKeys:
        """A container with the keys of a claim that this webhook wrote, which is taken out of `claims`."""
        named = (claim for claim in reversed(slot.container.claims) if claim.name in own)
        ours = {claim.name: claim.request for claim in named if own[claim.name].has(claim)}
        claimed = self.claims.pop(slot.path, ())
        if others := tuple(name for name in claimed if name not in ours):
            self.claims[slot.path] = others
        first = next(filter(ours.__contains__, claimed), None)
        return container if first is None else replace(container, claimed=_claimed(own[first], ours[first]))

    def _read(self, texts: Mapping[str, str] | None, names: Names) -> dict[str, str]:
        """The labels, annotations or node selector keys that any vendor reads."""
        keys: dict[str, str] = {}
        if not texts:
            return keys
        for key in sorted(names.possible(texts)):
            if names.owners(key):
                _check_length(texts[key], self.keys_left - len(keys))
                keys[key] = texts[key]
        self.keys_left -= len(keys)
        return keys


def _claimed(own: OwnClaim, request: str | None) -> Claimed:
    name = request if len(own.requests) > 1 else None
    return Claimed(own.vendor.name, own.requests[name or next(iter(own.requests))].entries, own.template, name)


def _check_names(all_slots: Iterable[Slot]) -> None:
    """Deny a container's name that is no name: messages, keys and variables would contain it."""
    for slot in all_slots:
        if len(slot.name) > MAX_NAME:
            message = f"the name of a container has {len(slot.name)} characters: write at most {MAX_NAME}"
            raise deny(Reason.TOO_MANY, message, field="name")


def _resource_keys(resources: Resources, policy: Policy, keys_left: int) -> tuple[Amounts, list[str]]:
    """The resources of a container that are keys, and the names of others, which may be misspelled.

    Sorted, as the API server sends them and a manifest does not: the findings are the same for both.
    """
    limits, requests = resources.limits or {}, resources.requests or {}
    exact, owners = policy.resources.exact, policy.resources.owners
    keys: Amounts = {}
    unknown: list[str] = []
    for key in sorted({**limits, **requests}):
        if key in exact or owners(key):
            if len(keys) >= keys_left:
                _check_length("", keys_left - len(keys))
            limit, request = limits.get(key), requests.get(key)
            text = _text(limit)
            # Nearly always the API server has written the limits as requests.
            keys[key] = text, text if request == limit and type(request) is type(limit) else _text(request)
        else:
            unknown.append(key)
    return keys, unknown


def _counts(slot: Slot, name: str) -> bool:
    """Whether another number than 0 is requested: that is nothing, under whatever name."""
    return any(name in side and counts(side[name]) for side in slot.container.sides)


def _text(quantity: QuantityText | None) -> str | None:
    return None if quantity is None else canonical(quantity if isinstance(quantity, str) else repr(quantity))


def _check_length(value: str, keys_left: int) -> None:
    """Deny more keys, or longer values, than any pod needs: later steps process all of them."""
    if keys_left <= 0:
        raise deny(Reason.TOO_MANY, f"the pod has more than {MAX_KEYS} GPU keys: remove those that it does not need")
    if len(value) > MAX_VALUE:
        message = f"the value {value[:40]!r}… of a GPU key has {len(value)} characters: write at most {MAX_VALUE}"
        raise deny(Reason.TOO_MANY, message)


def all_at_once(denials: Sequence[Finding]) -> Finding:
    """The first denial, which says what the others would, too; the first of those about one field."""
    of_fields: dict[tuple[str | None, str], Finding] = {}
    for each in denials:
        of_fields.setdefault((each.container, each.field or each.message), each)
    first, *others = of_fields.values()
    messages = [first.message]
    for each in others[:MOST]:
        known, key = (str(finding.field).removeprefix("limits[").removesuffix("]") for finding in (first, each))
        where = "" if each.container == first.container else f" in container {each.container}"
        alike = each.message.replace(key, known, 1) == first.message
        so = f"so is {key}" if str(each.field).startswith("limits[") else "likewise"
        messages.append(f"{so}{where}" if alike else each.message if not where else each.sentence)
    return replace(first, message="; ".join(messages)) if others else first


def _unknown(key: str, slot: Slot, beside: list[str], policy: Policy) -> Finding | None:
    """Report an unknown resource name that is nearly a key, misplaced, or a key of an inactive vendor."""
    if key in policy.inactive:
        return Finding(Reason.VENDOR_INACTIVE, _of_inactive(key, beside, policy), slot.name, f"limits[{key}]")
    told = _elsewhere(key, "resource", policy) or _resembling(key, beside, policy)
    return None if told is None else Finding(*told, slot.name, f"limits[{key}]")


_Told: TypeAlias = tuple[Reason, str] | None
"""What to say of a name that is no key where it is; None: nothing."""


def _elsewhere(key: str, place: KnownPlace, policy: Policy) -> _Told:
    """What to say of a name that another system knows, or that is a key in another place."""
    patterns = policy.reported_patterns if place == "resource" else ()
    advice = (each for pattern, each in patterns if pattern.fullmatch(key))
    if told := policy.reported_names[place].get(key) or next(advice, None):
        return Reason.OTHER_SYSTEM, f"{'' if place == 'resource' else f'{place} '}{key} is read by no mapping: {told}"
    right = (
        (policy.resources, "under `resources.limits` of the container"),
        (policy.labels, "as a label of the pod"),
        (policy.annotations, "as an annotation of the pod"),
        (policy.node_selector, "in the nodeSelector of the pod"),
    )
    where = next((where for names, where in right if key in names.exact), None)
    return None if where is None else (Reason.MISPLACED_KEY, f"{key} has no effect as {_an(place)}: write it {where}")


def _resembling(key: str, beside: list[str], policy: Policy) -> _Told:
    """What to say of a name that is nearly a key, or looks like a device's."""
    near = policy.near_miss(key, beside)
    if near is None:
        other_name = beside and any(names.fullmatch(key) for names in policy.other_names)
        message = None if other_name else _like_a_device(key, policy)
        return None if message is None else (Reason.UNKNOWN_KEY, message)
    if near.sure:
        inactive = near.meant in policy.inactive
        suggestion = _of_inactive(near.meant, beside, policy) if inactive else near.suggestion
        return Reason.NEAR_MISS, f"{key} is not a known resource; {suggestion}"
    return Reason.UNKNOWN_KEY, f"{key} is not a known resource and was left unchanged; {near.suggestion}"


def _of_inactive(key: str, beside: list[str], policy: Policy) -> str:
    """Say of a key of an inactive vendor what the active one reads, perhaps a name `beside` it."""
    owner, name = policy.inactive[key]
    reads = "".join(f", which {active.vendor} reads" for active in policy.resources.owners(name)[:1])
    instead = f"leave it out beside {name}" if name in beside else f"write {name}"
    return (
        f"{key} is a key of {owner.vendor}, which is inactive here: {instead}{reads}, or ask the administrator "
        f"to set `owners: {{{name}: {owner.vendor}}}`"
    )


def _unlisted(key: str, slot: Slot, policy: Policy) -> Iterator[Finding]:
    """Report a name that is read because its kind is known, but that no known device has."""
    for owner in policy.resources.owners(key):
        for name, value in owner.binding:
            variable = policy.vendors[owner.vendor].variables[name]
            if variable.others is not None and variable.listed:
                before, _, after = key.partition(value)
                near = [f"{before}{each}{after}" for each in nearest_first(value, variable.listed)[:2]]
                message = (
                    f"no known device has {key}: unless some node offers it, the pod stays Pending; "
                    f"did you mean {' or '.join(near)}?"
                )
                yield Finding(Reason.UNKNOWN_KEY, message, slot.name, f"limits[{key}]")


def _like_a_device(key: str, policy: Policy) -> str | None:
    """Say of a resource name that resembles no key that it looks like a device's, and which keys it may stand for."""
    if not looks_like_device(key) or policy.near.knows(key):
        return None
    similar = policy.near.vaguely(key, policy.settings.target)[:MAX_SIMILAR]
    if similar:
        return f"{key} is not a known resource and was left unchanged; did you mean {' or '.join(similar)}?"
    return (
        f"{key} looks like a device's, but no mapping reads it: unless the device plugin of some node offers it, "
        "the pod stays Pending"
    )


def idle_counts(pod: Pod, keys: PodKeys, requesting: Collection[str], policy: Policy) -> Iterator[Finding]:
    """Report labels and annotations that only count devices, of vendors in whose keys nothing is requested."""
    resources = itertools.chain.from_iterable(each.resources for each in keys.containers)
    named = {owner.vendor for name in resources for owner in policy.resources.owners(name)}.union(requesting)
    for place, texts, names in (
        ("label", keys.labels, policy.labels),
        ("annotation", keys.annotations, policy.annotations),
    ):
        for key, text in texts.items():
            owners = [(policy.vendors[each.vendor], each.key_name) for each in names.owners(key)]
            others = {*(pod.metadata.annotations or ())} - {key}
            if any(_means_more(vendor, vendor.keys[name], text, others) for vendor, name in owners):
                continue
            if named.isdisjoint([vendor.name for vendor, _ in owners]):
                sized = [
                    vendor.keys[name]
                    for vendor, _ in owners
                    for name in (*vendor.by_dimension["memory"], *vendor.by_dimension["cores"])
                ]
                amounts = dict.fromkeys(amount.spellings[0].text for amount in sized if not amount.per_container)
                add = " or ".join([*amounts][:MAX_SIMILAR])
                message = f"{place} {key} counts devices and requests none: add {add}, or remove it"
                yield Finding(Reason.KEY_IGNORED, message, None, f"{place} {key}")


def _means_more(vendor: Vendor, key: Key, text: str, others: Iterable[str]) -> bool:
    """Whether a key is more than an idle count: none, a count of 0, or beside a hint for the vendor's scheduler."""
    none = all(item.strip() == "0" for item in text.split(","))
    counted = key.dimensions == ("devices",) and (not none or key.written == "items")
    return not counted or any(map(vendor.owned.hint, others))


def _misplaced(place: Place, texts: Mapping[str, str], policy: Policy) -> Iterator[Finding]:
    """Report keys in a label or annotation where their vendor does not read them, and names of other systems."""
    own = policy.labels if place == "label" else policy.annotations
    for key in sorted(policy.searched_keys.intersection(texts).difference(own.exact)):
        told = _elsewhere(key, place, policy)
        if told is not None:
            yield Finding(*told, None, f"{place} {key}")


def _misspelled(place: Place, texts: Mapping[str, str], policy: Policy) -> Iterator[Finding]:
    """Report labels or annotations that are nearly keys."""
    for key, near in policy.read_keys.near_misses(texts):
        right = "label" if near.meant in policy.labels.exact else "annotation"
        meant = near.suggestion if place == right else f"did you mean the {right} {near.meant}?"
        left = "" if near.sure else " and was left unchanged"
        reason = Reason.NEAR_MISS if near.sure else Reason.UNKNOWN_KEY
        yield Finding(reason, f"{key} is not a known {place}{left}; {meant}", None, f"{place} {key}")


def _an(place: str) -> str:
    """A place with its article: ``a label``, ``an annotation``."""
    return f"an {place}" if place == "annotation" else f"a {place}"


OwnKeyKind: TypeAlias = Literal["namespace", "pod"]

MOST: Final = 8
"""The most labels, and the most annotations, of one object that are reported."""

LETTERS: Final = 100
"""The most characters of a key or value in a message."""

_PLACES: Final[tuple[Place, ...]] = get_args(Place)
_OF_PODS: Final = {INJECT: (DISABLED,)}
_OURS: Final = frozenset({STATUS, SUMMARY, CHANGED, CLAIM})
"""What only the webhook writes on pods."""
_KNOWN: Final[Mapping[tuple[OwnKeyKind, Place], frozenset[str]]] = {
    (kind, place): frozenset(keys_of(kind, place)) for kind in get_args(OwnKeyKind) for place in _PLACES
}


def unread_keys(
    kind: OwnKeyKind, labels: Mapping[str, str] | None, annotations: Mapping[str, str] | None, policy: Policy
) -> Iterator[Finding]:
    """Yield what is wrong with the webhook's keys on a namespace or pod.

    Other steps report values of annotations, of the mode and of the roll-out.
    """
    for place, texts in zip(_PLACES, (labels, annotations), strict=True):
        known = _KNOWN[kind, place]
        # Nearly always there is none: for most pods this comparison is all.
        own = [key for key in texts or () if key not in known and key.startswith(PREFIX)]
        # Sorted, as the API server sends them and a manifest does not: the report is the same for both.
        for key in [key for key in sorted(own) if not _read(key, place, kind, policy)][:MOST]:
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
    """The known key that is nearest to an unknown one, and where it belongs; without any, those of its place."""
    # Without the prefix, which all of them share, the names themselves are compared.
    written = key.removeprefix(PREFIX)[:LETTERS]
    beginning, _, rest = written.partition(".")
    container = rest.rpartition(".")[0] if beginning == "container" else ""
    known = {spot: _names(*spot, policy, container or "NAME") for spot in _KNOWN}
    # The last of alike names counts: of this kind of object, and in this place.
    spots = sorted(known, key=lambda spot: (spot[0] == kind, spot[1] == place))
    names = {name.removeprefix(PREFIX): (name, *spot) for spot in spots for name in known[spot]}
    near = difflib.get_close_matches(written, names, n=1)
    if not near:
        return f"known are {', '.join(known[kind, place])}"
    meant, right_kind, where = names[near[0]]
    of_kind = "" if right_kind == kind else f" of the {right_kind}"
    return f"write it as {_an(where)}{of_kind}" if meant == key else f"did you mean the {where} {meant}{of_kind}?"


def _names(kind: OwnKeyKind, place: Place, policy: Policy, container: str) -> list[str]:
    """The keys below the webhook's prefix that a user may write on an object, those of mappings for one container included."""
    names = _KNOWN[kind, place] - _OURS
    if kind == "namespace":
        return sorted(names | {policy.settings.opt_in_label} if place == "label" else names)
    keys = (key for vendor in policy.vendors.values() for key in vendor.keys.values() if key.place == place)
    texts = (template.text.replace("{container}", container) for key in keys for template in key.templates)
    return sorted(names.union(text for text in texts if text.startswith(PREFIX)))
