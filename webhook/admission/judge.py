"""Judging what is about to be stored: by the same `decide`, without a rule of its own and without a patch.

A mutating webhook sees a pod early and, if others run after it, not as it is stored. Whatever `decide` would still change or
deny was undone or added since.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from webhook.admission.decision import Context, Decision, untouched
from webhook.admission.eligibility import Mode, enforcement_of, skip_reason
from webhook.admission.engine import decide, denied, in_mode, reasons_of
from webhook.admission.placeholders import decide_template
from webhook.labels import INJECT, PREFIX, STATUS, TARGET
from webhook.mapping.model.policy import Policy
from webhook.patch import Operation
from webhook.pod import Metadata, Pod
from webhook.reasons import Finding, Reason, ReasonKind
from webhook.text import shorten

MOST_FIELDS: Final = 4
"""The most fields that a denial lists."""

MAX_FIELD: Final = 200
"""The most characters of a path or value in a denial: names of containers and keys are not validated yet."""

_CONTAINERS: Final = ("spec.containers", "spec.initContainers")

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


def judge_update(old: Pod, new: Pod, context: Context, policy: Policy) -> Decision:
    """Judge an update of a pod: denied if it changes what `decide` would remove from a new pod as a scheduler's own.

    So is one that opts a pod with devices out, or changes its target.
    """
    # Neither a label of the update nor anything else in it may keep the keys from being judged.
    chosen = next((field for field in _AT_CREATION if _differs(field, old, new)), None)
    old, new = what_counts(old, old, policy), what_counts(new, old, policy)
    newer, older = decide(new, context, policy), decide(old, context, policy)
    if chosen is not None and enforcement_of(old, context).mode is Mode.ENFORCE and older.vendors:
        message = f"{chosen} counts when a pod is created, and this one has devices: leave it, or create the pod again"
        return denied(Finding(Reason.OWNED_CHANGED, message, field=chosen))
    changed = [*_stripped(newer), *_stripped(older)]
    if not (newer.allowed and older.allowed):  # nobody has looked at the marks, or not at all of them
        changed += _marks(old, new, context.user, policy)
    field = next((field for field in changed if _differs(field, old, new)), None)
    return _owned(field, context.user) if field is not None else _late(newer, older, context.user, policy)


def _owned(field: str, user: str) -> Decision:
    """The denial of a change of what only a scheduler may write."""
    message = (
        f"{field} belongs to a scheduler, and {user or 'its user'} may not change it: leave it, "
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
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(metadata, labels=labels))


def what_counts(pod: Pod, stored: Pod, policy: Policy) -> Pod:
    """A pod without its node, with the labels and annotations that a decision reads; its opt-out and workload as stored."""
    metadata, inject = pod.metadata, (_as_created(stored).metadata.labels or {}).get(INJECT)
    labels = policy.read_keys.among(metadata.labels) or {}
    labels = {key: text for key, text in labels.items() if key != INJECT}
    if inject is not None:
        labels[INJECT] = inject
    annotations = policy.read_keys.among(metadata.annotations)
    spec = msgspec.structs.replace(pod.spec, node_name=None)
    # The roll-out is for workloads: an update must not fall into another bucket than the creation did.
    kept = stored.metadata
    names = Metadata(kept.name, kept.generate_name, owner_references=kept.owner_references)
    return Pod(msgspec.structs.replace(names, labels=labels, annotations=annotations), spec)


def _differs(field: str, before: Pod, after: Pod) -> bool:
    """Whether an annotation or label (``metadata.labels[KEY]``) differs in two pods."""
    what, _, key = field.removeprefix("metadata.").partition("[")
    maps = [each.metadata.labels if what == "labels" else each.metadata.annotations for each in (before, after)]
    one, other = ((each or {}).get(key[:-1]) for each in maps)
    return one != other


def _in_template(path: str, finding: Finding, lead: str = "") -> Finding:
    where = f"{path}: " if path else ""
    return msgspec.structs.replace(finding, message=f"{where}{lead}{finding.message}") if where or lead else finding


def _denied_late(denial: Finding, decision: Decision) -> Decision:
    if denial.reason is not Reason.UNDONE:
        message = f"{denial.message} (added or changed after the mutating webhook was called)"
        denial = msgspec.structs.replace(denial, message=message)
    return denied(denial, decision.warnings, decision.vendors)


def _undone(pod: Pod, decision: Decision, policy: Policy) -> Finding:
    """The denial of a pod that would be changed again: which fields, to what."""
    fields = sorted(dict.fromkeys(_fields(decision.patch, pod)), key=lambda text: text.startswith(_CONTAINERS))
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
    text = ""
    for position, part in enumerate(path):
        list_of = {"containers": pod.spec.containers, "initContainers": pod.spec.init_containers}.get(
            path[position - 1] if position else ""
        )
        if list_of and part.isdigit() and int(part) < len(list_of):
            text += f"[{list_of[int(part)].name}]"
        elif part == "-" or part.isdigit() or "/" in part:
            text += f"[{part}]"
        else:
            text += f".{part}"
    return text[1:]
