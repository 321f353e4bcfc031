"""Judging what is about to be stored: by the same `decide`, without a patch, and by rules for what it never sees.

A mutating webhook sees a pod early and, if others run after it, not as it is stored. Whatever `decide` would still change or
deny was undone or added since. An update may not change what `decide` would remove, or what counts at creation only.

An ephemeral container has no resources, and may reach the devices of its pod. So it is judged as a container with each share
of the pod, whatever that is requested by, and denied where such a container would be denied, or something in it removed.

A workload is never denied: warnings say what would become of its pods. Placeholders in their templates stay open, because
somebody fills them in before pods are made. Keys at places where nothing reads them are named: no pod has anything of them.
"""

import itertools
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from webhook.admission.decision import Allocation, Context, Decision, Plan, denied, facts_of, reasons_of, untouched
from webhook.admission.eligibility import Mode, enforcement_of, exceeded, overfull, skip_reason
from webhook.admission.engine import Steps, decide, in_mode
from webhook.admission.guard import guard_pod, hide_devices, hiding_of
from webhook.admission.placement import check_privileged
from webhook.admission.shim import check_covered, check_node_folders, inject_shim
from webhook.admission.survey import NOTHING_FOUND, all_at_once
from webhook.labels import INJECT, PREFIX, STATUS, TARGET, keys_of
from webhook.mapping.document import FieldPath, path_text
from webhook.mapping.model.names import Names
from webhook.mapping.model.policy import Policy
from webhook.mapping.model.vendor import Vendor
from webhook.mapping.notation import NameSet
from webhook.patch import Operation, Slot, slots
from webhook.pod import DEVICE_CLASS, EPHEMERAL_CONTAINERS, Container, Metadata, Pod, PodSpec, entries
from webhook.reasons import Denied, Finding, Reason, ReasonKind
from webhook.request import Request
from webhook.text import shorten
from webhook.workloads import NOTHING, Spot, children, matches

MOST_FIELDS: Final = 4
"""The most fields that a denial lists."""

MAX_FIELD: Final = 200
"""The most characters of a path or value in a denial: names of containers and keys are not validated yet."""

_OF_CONTAINERS: Final = ("spec.containers", "spec.initContainers")

_ALLOWED: Final = {reason: untouched(reason) for reason in Reason}


def judge_pod(pod: Pod, context: Context, policy: Policy) -> Decision:
    """Judge a pod as it will be stored: allowed if the same pod, sent to `decide`, stays as it is.

    Pure, like `decide`. Warnings are left out: whoever creates the pod has seen them.
    """
    decision = decide(pod, context, policy)
    if decision.denial is not None and not decision.allowed:
        return _denied_late(decision.denial, decision)
    if decision.patch_json:
        return _denied_late(_undone(pod, decision, policy), decision)
    return _ALLOWED[Reason.ALREADY_RIGHT if decision.would_be else decision.reason]


def judge_update(old: Pod, new: Pod, context: Context, policy: Policy) -> Decision:
    """Judge an update of a pod: denied if it changes what `decide` would remove from a new pod as a scheduler's own.

    So is one that opts a pod with devices out, or changes its target.
    """
    # Neither a label of the update nor anything else in it may keep the keys from being judged.
    chosen = _first_changed(_AT_CREATION, old, new)
    old, new = what_counts(old, old, policy), what_counts(new, old, policy)
    newer, older = decide(new, context, policy), decide(old, context, policy)
    if chosen is not None and enforcement_of(old, context).mode is Mode.ENFORCE and older.vendors:
        message = f"{chosen} counts when a pod is created, and this one has devices: leave it, or create the pod again"
        return denied(Finding(Reason.OWNED_CHANGED, message, field=chosen))
    changed = [*_stripped(newer), *_stripped(older)]
    if not (newer.allowed and older.allowed):  # nobody has looked at the marks, or not at all of them
        changed += _marks(old, new, context.user, policy)
    field = _first_changed(changed, old, new)
    if field is None:
        return _late(newer, older, context.user, policy)
    message = (
        f"{field} belongs to a scheduler, and {context.user or 'its user'} may not change it: leave it, "
        "or list that user under `ownedBy` of the mapping"
    )
    return denied(Finding(Reason.OWNED_CHANGED, message, field=field))


def _late(newer: Decision, older: Decision, user: str, policy: Policy) -> Decision:
    """The denial of an update by what is denied in the new pod: what is in the stored pod, too, is no fault of it."""
    late = None if newer.allowed or newer.denial == older.denial else newer.denial
    owns_something = any(user in vendor.owned_by for vendor in policy.vendors.values())
    return _ALLOWED[Reason.ALREADY_RIGHT] if late is None or owns_something else denied(late)


def _stripped(decision: Decision) -> list[str]:
    """The fields of a pod from which a decision removes a scheduler's own marks."""
    warnings = () if decision.would_be else decision.warnings
    return [finding.field for finding in warnings if finding.reason is Reason.OWNED_STRIPPED and finding.field]


def _marks(old: Pod, new: Pod, user: str, policy: Policy) -> list[str]:
    """The labels and annotations of two pods that only schedulers may write, and not this user."""
    found: list[str] = []
    for what in ("labels", "annotations"):
        keys = {key for pod in (old, new) for key in getattr(pod.metadata, what) or ()}
        marks: dict[bool, set[str]] = {True: set(), False: set()}
        for vendor in policy.in_force:
            marks[user in vendor.owned_by].update(getattr(vendor.owned, what).among(keys))
        found += (f"metadata.{what}[{key}]" for key in sorted(marks[False] - marks[True]))
    return found


_AT_CREATION: Final = (f"metadata.labels[{INJECT}]", f"metadata.annotations[{TARGET}]")
"""What a pod chooses for itself, which an update cannot choose again."""


def _as_created(pod: Pod) -> Pod:
    """A stored pod without an opt-out that cannot be that of its creation, because the webhook has changed the pod."""
    metadata = pod.metadata
    if STATUS not in (metadata.annotations or {}) or INJECT not in (metadata.labels or {}):
        return pod
    labels = {key: text for key, text in (metadata.labels or {}).items() if key != INJECT}
    return replace(pod, metadata=replace(metadata, labels=labels))


def what_counts(pod: Pod, stored: Pod, policy: Policy) -> Pod:
    """A pod without its node, with the labels and annotations that a decision reads; its opt-out and workload as stored."""
    metadata, inject = pod.metadata, (_as_created(stored).metadata.labels or {}).get(INJECT)
    labels = policy.read_keys.among(metadata.labels) or {}
    labels = {key: text for key, text in labels.items() if key != INJECT}
    if inject is not None:
        labels[INJECT] = inject
    annotations = policy.read_keys.among(metadata.annotations)
    spec = replace(pod.spec, node_name=None)
    # The roll-out is for workloads: an update must not fall into another bucket than the creation did.
    kept = stored.metadata
    names = Metadata(kept.name, kept.generate_name, owner_references=kept.owner_references)
    return Pod(replace(names, labels=labels, annotations=annotations), spec)


def _first_changed(fields: Iterable[str], before: Pod, after: Pod) -> str | None:
    """The first of some annotations and labels (``metadata.labels[KEY]``) that differs in two pods."""
    for field in fields:
        what, _, key = field.removeprefix("metadata.").partition("[")
        one, other = [(getattr(each.metadata, what) or {}).get(key[:-1]) for each in (before, after)]
        if one != other:
            return field
    return None


def _denied_late(denial: Finding, decision: Decision) -> Decision:
    if denial.reason is not Reason.UNDONE:
        message = f"{denial.message} (added or changed after the mutating webhook was called)"
        denial = replace(denial, message=message)
    return denied(denial, decision.warnings, decision.vendors)


def _undone(pod: Pod, decision: Decision, policy: Policy) -> Finding:
    """The denial of a pod that would be changed again: which fields, to what."""
    fields = sorted(dict.fromkeys(_fields(decision.patch, pod)), key=lambda text: text.startswith(_OF_CONTAINERS))
    shown = "; ".join(fields[:MOST_FIELDS])
    if len(fields) > MOST_FIELDS:
        shown += f"; and {len(fields) - MOST_FIELDS} more"
    status = (pod.metadata.annotations or {}).get(STATUS)
    if status is None:
        what = "the pod requests devices now, but not when the mutating webhook was called"
    elif policy.digest not in status:
        what = "the policy has changed since the pod was changed for it: create the pod again"
    else:
        what = "another webhook has changed the pod after this one"
    message = f"{what}: {shown}; have that webhook called before this one, or exclude the pod from it"
    return Finding(Reason.UNDONE, message, field=fields[0].partition(" ")[0] if fields else None)


def _fields(operations: tuple[Operation, ...], pod: Pod) -> Iterator[str]:
    """What each operation would write, without our own annotations and labels."""
    for operation in operations:
        path = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]]
        value = operation.get("value")
        if not _is_own(path, value):
            where = shorten(_path_text(path, pod), MAX_FIELD)
            yield where + _demand(operation["op"], value, secret="env" in path)


def _demand(op: str, value: Any, *, secret: bool) -> str:
    if op == "remove":
        return " must be absent"
    if secret or isinstance(value, Mapping | list):
        return " lacks what the request needs"
    return f" must be {shorten(str(value), MAX_FIELD)}"


def _is_own(path: list[str], value: Any) -> bool:
    keys = value.keys() if len(path) == len(("metadata", "labels")) and isinstance(value, Mapping) else path[-1:]
    return path[0] == "metadata" and all(key.startswith(PREFIX) for key in keys)


def _path_text(path: list[str], pod: Pod) -> str:
    """A path for people: containers by name, keys in brackets."""
    lists, text = {"containers": pod.spec.containers, "initContainers": pod.spec.init_containers or []}, ""
    for above, part in zip(("", *path), path, strict=False):
        containers = lists.get(above, [])
        if part.isdigit() and int(part) < len(containers):
            text += f"[{containers[int(part)].name}]"
        elif part == "-" or part.isdigit() or "/" in part:
            text += f"[{part}]"
        else:
            text += f".{part}"
    return text[1:]


MAX_DECISIONS: Final = 512
"""The most ephemeral containers times shares: honest pods have some dozens."""


def judge_ephemeral(old: Pod, new: Pod, context: Context, policy: Policy) -> Decision:
    """Judge what is added to a pod: denied if a container with a share of the pod would be, or would lose something."""
    added, pod = _added(old, new), what_counts(old, old, policy)
    if skip_reason(pod, context, policy) is not None or enforcement_of(pod, context).mode is not Mode.ENFORCE:
        return _ALLOWED[Reason.ALREADY_RIGHT]
    excess = overfull(pod)
    if excess is not None:
        return denied(excess)
    shares = _shares_of(pod, context, policy)
    if len(added) * (len(shares) + 1) > MAX_DECISIONS:
        return denied(Finding(Reason.TOO_MANY, f"{len(added)} ephemeral containers at once: add fewer"))
    for container in added:
        finding = _denial(container, pod, shares, context, policy)
        if finding is not None:
            return denied(replace(finding, container=container.name))
    return _ALLOWED[Reason.ALREADY_RIGHT]


def _added(old: Pod, new: Pod) -> list[Container]:
    before, after = [entries(each.spec.ephemeral_containers, EPHEMERAL_CONTAINERS) for each in (old, new)]
    names = {each.name for each in before}
    return [each for each in after if each.name not in names]


def _shares_of(pod: Pod, context: Context, policy: Policy) -> list[Allocation]:
    """What the pod's containers have; where that cannot be said, a share of each vendor that the cluster serves."""
    steps = Steps()
    decision, plan = decide(pod, context, policy, steps), steps.plan
    if plan is not None and (plan.allocations or plan.left_alone):
        left = [_without_request(slot, vendor, share=bool(share)) for slot, vendor, share in plan.left_alone]
        return [*plan.allocations, *left]
    if not (policy.settings.hide_devices or not decision.allowed or _has_devices(pod)):
        return []
    served = {policy.settings.target, *policy.settings.served}
    vendors = [vendor for vendor in policy.in_force if vendor.name in served] or policy.in_force
    (slot,) = slots(Pod(spec=PodSpec([Container()])))
    return [_without_request(slot, vendor, share=True) for vendor in vendors]


def _without_request(slot: Slot, vendor: Vendor, *, share: bool) -> Allocation:
    return Allocation(slot, vendor, vendor, vendor, Request(), None, None, moved=False, share=share)


def _has_devices(pod: Pod) -> bool:
    """Whether a pod without keys has devices: by claims, or as the status says that the webhook has written."""
    names = (name for slot in slots(pod) for side in slot.container.sides for name in side)
    status = (pod.metadata.annotations or {}).get(STATUS, '"containers":{}')
    by_claims = bool(pod.spec.resource_claims) or any(name.startswith(DEVICE_CLASS) for name in names)
    return by_claims or '"containers":{}' not in status


def _denial(
    container: Container, pod: Pod, shares: Sequence[Allocation], context: Context, policy: Policy
) -> Finding | None:
    alone = Pod(spec=PodSpec([replace(container, resources=None)], volumes=pod.spec.volumes))
    facts = facts_of(alone, context, policy, every=True)
    alone, context = (alone, context) if facts is None else (facts.pod, facts.context)
    excess = exceeded(alone, few=False)
    if excess is not None:
        return excess
    for share in shares:
        (slot,) = slots(alone)
        allocation = replace(share, slot=slot)
        plan = Plan(alone, context, policy, (slot,), allocations=(allocation,))
        try:
            guard_pod(plan)
            if share.share:
                check_privileged(plan, allocation)
            if share.request.settled:
                inject_shim(plan)
            else:
                check_node_folders(plan)
                check_covered(plan, ())
        except Denied as denial:
            plan.denials.append(denial.finding)
        if plan.denials:
            return all_at_once(plan.denials)
        for finding in plan.findings:
            if finding.reason is Reason.GUARD_STRIPPED:
                message = f"{finding.message.partition(' and was removed')[0]}: remove it"
                return replace(finding, reason=Reason.GUARDED, message=message)
    return _shown(Plan(alone, context, policy, slots(alone)))


def _shown(plan: Plan) -> Finding | None:
    """The denial of a container that would be changed to hide devices."""
    hide_devices(plan)
    if not plan.hidden:
        return None
    needed = " ".join(f"{name}={value}" for name, value in hiding_of(plan.policy).variables.items())
    message = (
        f"it requests no device, and its image may ask for all: set {needed}, with kubectl debug by --env={needed}"
    )
    return Finding(Reason.GUARDED, message, field="env")


def judge_templates(
    pods: Iterable[tuple[str, Pod]], context: Context, policy: Policy, strays: Sequence[Finding] = ()
) -> Decision:
    """Judge the pods of a workload, which is never denied: what would become of them comes back as warnings, denials first.

    Args:
        pods: each pod with the path of its template, for messages; empty if there is only one.
        context: the namespace of the workload.
        policy: as for `decide`.
        strays: what is wrong with the object around them.
    """
    decisions = [(path, decide_template(pod, context, policy)) for path, pod in pods]
    denials = [
        _in_template(path, decision.denial, "the pods will be denied: ")
        for path, decision in decisions
        if decision.denial is not None
    ]
    warnings = [_in_template(path, finding) for path, decision in decisions for finding in decision.warnings]
    if strays and skip_reason(Pod(), context, policy) is None:
        warnings += in_mode(untouched(Reason.NO_GPU_KEYS, tuple(strays)), Pod(), context).warnings
    found = (*denials, *sorted(warnings, key=lambda finding: finding.reason.kind is not ReasonKind.DENIAL))
    reasons = [*(finding.reason for finding in found), *(decision.reason for _, decision in decisions)]
    reason = next(iter(reasons), Reason.NO_GPU_KEYS)
    return Decision(allowed=True, reason=reason, warnings=found, audit=reasons_of(found))


def _in_template(path: str, finding: Finding, lead: str = "") -> Finding:
    where = f"{path}: " if path else ""
    return replace(finding, message=f"{where}{lead}{finding.message}") if where or lead else finding


MOST: Final = 8
"""The most placeholders of a template, and keys of an object that nothing reads, that are reported."""

MAX_TEXT: Final = 100
"""The most characters of one in a message."""

_FILLED_IN: Final = re.compile(r"\$(?:\{[^{}]*\}|\([^()]*\)|[A-Za-z_])")


def _is_placeholder(text: str) -> bool:
    """Whether a text has a part that a workflow engine or a shell replaces: ``{{…}}``, ``${…}``, ``$(…)``, ``$NAME``."""
    return ("{{" in text and "}}" in text) or _FILLED_IN.search(text) is not None


def decide_template(pod: Pod, context: Context, policy: Policy) -> Decision:
    """Decide on the pod of a template as `decide` does, but leave what a placeholder keeps open until the pod is made.

    Until then names are judged, and containers without placeholders.
    """
    steps, found = Steps(), list(_placeholders(pod, policy))
    decision, seen = decide(pod, context, policy, steps if found else None), steps.survey
    decisive = seen.has_request or any(each.field not in _OF_REQUESTS for each in found)
    if seen is NOTHING_FOUND or not decisive:
        return decision
    named, reported, denial = {finding.container for finding in found}, (*found[:MOST], *seen.findings), seen.denial
    if denial is None and None not in named:
        rest = decide(_without(pod, named), context, policy).denial
        denial = None if rest is None or rest.container in {None, *named} else rest
    if denial is not None:
        return in_mode(denied(denial, reported), pod, context)
    return in_mode(untouched(Reason.PLACEHOLDER, reported), pod, context)


_OF_REQUESTS: Final = ("spec.schedulerName", "spec.nodeName", "spec.runtimeClassName")
"""What decides only on pods that request devices."""


def _placeholders(pod: Pod, policy: Policy) -> Iterator[Finding]:
    """Yield the placeholders among what requests devices, and where it decides on a request."""
    for slot in slots(pod):
        limits, requests = slot.container.sides
        for name, amount in {**requests, **limits}.items():
            if _is_placeholder(name):
                yield _open(name, f"limits[{name}]", name, slot.name)
            elif isinstance(amount, str) and policy.resources.owners(name) and _is_placeholder(amount):
                yield _open(name, f"limits[{name}]", amount, slot.name)
    yield from _in_texts("label", pod.metadata.labels, policy.labels)
    yield from _in_texts("annotation", pod.metadata.annotations, policy.annotations)
    yield from _in_texts("nodeSelector", pod.spec.node_selector, policy.node_selector)
    spec = pod.spec
    for field, chosen in zip(_OF_REQUESTS, (spec.scheduler_name, spec.node_name, spec.runtime_class_name), strict=True):
        if chosen and _is_placeholder(chosen):
            yield _open(field, field, chosen)


def _in_texts(place: str, texts: Mapping[str, str] | None, names: Names) -> Iterator[Finding]:
    for key, text in (texts or {}).items():
        if _is_placeholder(text) and (key.startswith(PREFIX) or names.owners(key)):
            yield _open(f"{place} {key}", f"{place} {key}", text)


def _open(what: str, field: str, text: str, container: str | None = None) -> Finding:
    shown = shorten(text, MAX_TEXT)
    message = f"{shorten(what, MAX_TEXT)} has the placeholder {shown}: the pods are judged when they are created"
    return Finding(Reason.PLACEHOLDER, message, container, field, shown)


def _without(pod: Pod, names: set[str | None]) -> Pod:
    """The pod without the resources of some of its containers."""
    spec = pod.spec
    init, regular = (
        [replace(each, resources=None) if each.name in names else each for each in containers]
        for containers in (spec.init_containers or [], spec.containers)
    )
    return replace(pod, spec=replace(spec, init_containers=init if spec.init_containers else None, containers=regular))


MAX_PARTS: Final = 8192
"""The most mappings and lists of a pod that are searched, and the most keys of its object: honest ones have some hundred."""

_AMOUNTS: Final = frozenset({"limits", "requests"})
_LISTS: Final = ("containers", "initContainers", "ephemeralContainers")
_OF_NODES: Final = frozenset(
    {
        "nodeSelector",
        "affinity",
        "tolerations",
        "topologySpreadConstraints",
        "volumes",
        "metadata",
        "labels",
        "annotations",
    }
)
"""Fields beside the containers with names of labels, or with what is looked at elsewhere."""
_OWN: Final = {key: place for place in ("label", "annotation") for key in keys_of("pod", place)}


class Stray(NamedTuple):
    """A key that nothing reads."""

    path: FieldPath  # its path in the object
    finding: Finding  # what is wrong, and where it belongs


def strays(data: Any, spots: Collection[Spot], policy: Policy) -> list[Stray]:
    """Return the first keys in an object that nothing reads where they are: a pod made of it has nothing of them."""
    return [*itertools.islice(_strays(data, spots, policy), MOST)]


def _strays(data: Any, spots: Collection[Spot], policy: Policy) -> Iterator[Stray]:
    paths = {spot.path for spot in spots}
    for spot in spots:
        yield from _in_metadata(data, spot, policy)
        yield from _in_spec(data, spot, paths, policy)
        yield from _uncounted(data, spot, policy)
    yield from _above(data, spots, policy)


def _uncounted(data: Any, spot: Spot, policy: Policy) -> Iterator[Stray]:
    """Yield the name of a request in whose template the controller counts no device."""
    counted, around = spot.counted, spot.path[:-1]
    if counted is None or next(matches(_at(data, around), counted.at), None) is not None:
        return
    # It looks at the limits of the first container.
    limits = _at(data, (*spot.spec, "containers", 0, "resources", "limits"))
    names = [
        str(name) for name, amount in children(limits) if amount not in NOTHING and policy.resources.owners(str(name))
    ]
    if names and not any(name in NameSet.of(counted.names) for name in names) and spot.path[-1] == "template":
        right = path_text((*around, *counted.at[:-1]))
        why = f"{counted.by} counts no device in {names[0]}, before its pods are changed"
        message = f"{why}: set {counted.at[-1]} in {right}"
        yield Stray(around, Finding(Reason.KEY_IGNORED, message, None, f"resource {names[0]}"))


def _above(data: Any, spots: Iterable[Spot], policy: Policy) -> Iterator[Stray]:
    """Yield labels and annotations of an object, or of one inside it, that its pods do not get."""
    apart = [spot for spot in spots if spot.apart]
    had = {each for spot in apart for each in _texts(spot.pod().get("metadata"))}
    for path, spot in _metadata_above(apart).items():
        for field, key in _texts(_at(data, path)):
            if (field, key) not in had:
                yield from _of_pod((*path, field, key), spot, policy)


def _metadata_above(spots: Sequence[Spot]) -> dict[FieldPath, Spot]:
    """Where the objects around pods have metadata, each with the first pod inside it."""
    depths = [(spot, depth) for spot in reversed(spots) for depth in range(len(spot.root), len(spot.path))]
    return {(*spot.path[:depth], "metadata"): spot for spot, depth in depths}


def _texts(metadata: Any) -> list[tuple[str, str]]:
    """The labels and annotations in metadata, each with its field."""
    return [
        (field, str(key))
        for field in ("labels", "annotations")
        if isinstance(metadata, dict) and isinstance(metadata.get(field), dict)
        for key in itertools.islice(metadata[field], MAX_PARTS)
    ]


def _in_metadata(data: Any, spot: Spot, policy: Policy) -> Iterator[Stray]:
    """Yield labels and annotations in a field of a pod's metadata that does not exist, such as ``annotation``."""
    for field, texts in children(_at(data, spot.metadata)):
        name = str(field)
        if not isinstance(texts, dict) or name in {"labels", "annotations"} or not name.startswith(("label", "annot")):
            continue
        for key in map(str, texts):
            yield from _of_pod((*spot.metadata, name, key), spot, policy)


def _in_spec(data: Any, spot: Spot, others: Collection[FieldPath], policy: Policy) -> Iterator[Stray]:
    """Yield keys below a pod's fields that are in no container's amounts."""
    shape, spec = spot.shape, _at(data, spot.spec)
    patterns = (*((kind, "*") for kind in _LISTS), *shape.containers)
    found = itertools.chain.from_iterable(matches(spec, pattern) for pattern in patterns)
    containers = [path for path, _ in itertools.islice(found, MAX_PARTS)]
    amounts = {(*path, "resources") for path in containers}
    amounts |= {path for pattern in shape.resources for path, _ in matches(spec, pattern)}
    usual: FieldPath = next((each for each in shape.containers if "*" not in each), ("containers", 0))
    first = min(amounts, default=(*usual, "resources"), key=len)
    inner = {path[len(spot.spec) :] for path in others if path[: len(spot.spec)] == spot.spec}
    for at in _keys_below(spec, amounts, inner):
        if policy.resources.owners(str(at[-1])):
            own = next(((*path, "resources") for path in containers if at[: len(path)] == path), first)
            yield _stray((*spot.spec, *at), "resource", (*spot.spec, *own, "limits"))
        else:
            yield from _of_pod((*spot.spec, *at), spot, policy)


def _keys_below(spec: Any, amounts: Collection[FieldPath], others: Collection[FieldPath]) -> Iterator[FieldPath]:
    """The paths of keys with a domain below a pod's fields that are in no amounts, and in no pod of its own."""
    left: list[tuple[FieldPath, Any]] = [((), spec)]
    for _ in range(MAX_PARTS):
        if not left:
            break
        path, value = left.pop()
        read = _AMOUNTS if path in amounts else _OF_NODES if not path else ()
        members = [(key, each) for key, each in itertools.islice(children(value), MAX_PARTS) if key not in read]
        for key, child in members:
            if isinstance(child, dict | list):
                left += [((*path, key), child)] if child and (*path, key) not in others else []
            elif isinstance(key, str) and "/" in key and child not in NOTHING:
                yield (*path, key)


def _of_pod(path: FieldPath, spot: Spot, policy: Policy) -> Iterator[Stray]:
    """Yield a key at a path, if it would be read in the labels or annotations of a pod."""
    place = _place(str(path[-1]), policy)
    if place is not None:
        yield _stray(path, place, (*spot.metadata, f"{place}s"))


def _place(key: str, policy: Policy) -> str | None:
    """Where on a pod a label or annotation is read that requests, or that the webhook or a scheduler obeys; None: nowhere."""
    if key in _OWN:
        return _OWN[key]
    if policy.labels.owners(key):
        return "label"
    return "annotation" if policy.annotations.owners(key) or policy.marks.hint(key) else None


def _at(data: Any, path: FieldPath) -> Any:
    """The value at a path; None if there is none."""
    for part in path:
        known = isinstance(data, dict) or (isinstance(data, list) and isinstance(part, int) and part < len(data))
        data = (data.get(part) if isinstance(data, dict) else data[part]) if known else None
    return data


def _stray(path: FieldPath, place: str, right: FieldPath) -> Stray:
    message = f"nothing reads {path[-1]} in {path_text(path[:-1])}: write it in {path_text(right)}"
    return Stray(path, Finding(Reason.MISPLACED_KEY, message, None, f"{place} {path[-1]}"))
