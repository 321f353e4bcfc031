"""One pod → one decision: the sequence of steps.

`trace` takes the same steps for explanations, with their results, also beyond a denial. Last comes what a changed pod says of
itself: status, summary and label, for people and tools; `hide` alone reads a part.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

import msgspec

from webhook import labels
from webhook.admission.beyond import beyond, crowded
from webhook.admission.claims import WantedClaim, check_claims, check_keys, nothing_requested, write_claims
from webhook.admission.collect import ContainerRequest, collect
from webhook.admission.decision import (
    Allocation,
    Context,
    Decision,
    Facts,
    Namespace,
    Plan,
    facts_of,
    remember,
    untouched,
)
from webhook.admission.eligibility import PLAIN, Mode, enforcement_of, exceeded, overfull, skip_reason
from webhook.admission.guard import guard_pod
from webhook.admission.hide import hide_devices, show_devices
from webhook.admission.overrides import Overrides, defaults_for, defaults_of_whole, overrides_of, target_of
from webhook.admission.placement import drop_references, place_pod, report_belongings
from webhook.admission.resolve import PodResult, resolve
from webhook.admission.settle import Settled, Unchanged, settle
from webhook.admission.shim import inject_shim, keep_environment
from webhook.admission.survey import NOTHING_FOUND, Survey, idle_counts, survey, unread_keys
from webhook.mapping.model.policy import Policy
from webhook.mapping.model.shim import has_mark
from webhook.mapping.model.vendor import Vendor, system_names
from webhook.mapping.requests.reading import read
from webhook.mapping.requests.templates import DeviceRequest
from webhook.mapping.requests.values import Reading
from webhook.patch import Slot
from webhook.pod import Pod, paths_in
from webhook.quantity import exact_text
from webhook.reasons import Denied, Finding, Reason, ReasonKind
from webhook.request import DIMENSIONS, Request, amount_text
from webhook.text import shown

MAX_AUDITED: Final = 16 * 1024
"""The most characters of a status in the audit log: container names are not validated before admission."""

MAX_HINTS: Final = 64
"""The most annotations of a pod that are reported as hints; all vendors together know fewer."""

_encode: Final = msgspec.json.Encoder().encode

_NOTHING_RESOLVED: Final = PodResult(())
_NOTHING_REQUESTED: Final = untouched(Reason.NO_GPU_KEYS)


@dataclass(slots=True)
class Steps:
    """The results of the steps after eligibility, as far as they went: collected for explanations only.

    Attributes:
        survey: the keys of the pod.
        resolution: None if the pod requests nothing, or is denied before that.
        plan: None as well if nothing has to be done; for a denied pod, as far as it was applied.
    """

    survey: Survey = NOTHING_FOUND
    resolution: PodResult | None = None
    plan: Plan | None = None


def decide(pod: Pod, context: Context, policy: Policy) -> Decision:
    """Decide on a pod that is being created.

    Pure: the same arguments give the same decision, on every replica and offline.

    Args:
        pod: the submitted pod.
        context: its namespace and its creator.
        policy: the vendors and settings in force.
    """
    skipped = skip_reason(pod, context, policy)
    if skipped is not None:
        return untouched(skipped)
    decision = _by_size(pod, policy)
    if decision is not None:
        return in_mode(decision, pod, context)
    facts = facts_of(pod, context, policy)
    if facts is None:
        return _NOTHING_REQUESTED
    decision = policy.memo.get(facts.key)
    if decision is None:
        decision = take_steps(facts, policy)
        if facts.key is not None and policy.memo.met(facts.key):
            decision = remember(facts.key, decision, policy)
    return in_mode(decision, pod, context)


def _by_size(pod: Pod, policy: Policy) -> Decision | None:
    """The decision on a pod that is too large for further steps, or for a status; None for all others."""
    excess = overfull(pod)
    if excess is not None:
        return beyond(excess, pod, policy) or denied(excess)
    excess = crowded(pod, policy)
    return None if excess is None else beyond(excess, pod, policy)


def take_steps(facts: Facts, policy: Policy, steps: Steps | None = None) -> Decision:
    """Take the steps after eligibility; the decision where the namespace enforces."""
    pod, context = facts.pod, facts.context
    excess = exceeded(pod, policy, few=facts.key is not None)
    if excess is not None:
        return beyond(excess, pod, policy) or denied(excess)
    seen = _survey(pod, context, policy)
    if steps is not None:
        steps.survey = seen
    if seen.denial is not None:
        return denied(seen.denial, seen.findings)
    hides = policy.settings.hide_devices
    if not seen.has_request and not hides and not seen.claims and not pod.spec.resource_claims:
        return untouched(Reason.NO_GPU_KEYS, _counted(seen, pod, _NOTHING_RESOLVED, policy).findings)
    try:
        if seen.claims or pod.spec.resource_claims:
            check_keys(pod, seen.slots, policy)
        resolution = (
            resolve(seen.keys, overrides_of(pod, context, policy), policy) if seen.has_request else _NOTHING_RESOLVED
        )
    except Denied as denial:
        return denied(denial.finding, seen.findings)
    if steps is not None:
        steps.resolution = resolution
    acts = bool(resolution.settled) or any(
        policy.watched_variables.among(slot.container.env)
        or slot.path in seen.claims
        or has_mark(b"".join(paths_in(slot.container)), vendor.guard.marks)
        for slot, vendor, _ in _left_alone(seen, resolution, policy)
    )
    seen = _counted(seen, pod, resolution, policy)
    if not acts and not hides:
        found = (*seen.findings, *resolution.findings)
        return untouched(nothing_requested(pod, seen.claims, left=bool(resolution.left)), found)
    plan = _plan(pod, context, policy, seen, resolution)
    if steps is not None:
        steps.plan = plan
    return _applied(plan, resolution, acts=acts)


def _survey(pod: Pod, context: Context, policy: Policy) -> Survey:
    """Survey a pod; also report keys of our own without effect, those of its namespace if the pod requests devices."""
    seen = survey(pod, policy)
    metadata = pod.metadata
    found = [
        *(
            unread_keys("pod", metadata.labels, metadata.annotations, policy)
            if metadata.labels or metadata.annotations
            else ()
        )
    ]
    if seen.has_request or seen.denial is not None:
        found += unread_keys("namespace", context.namespace.labels, context.namespace.annotations, policy)
    return _with(seen, found)


def _counted(seen: Survey, pod: Pod, resolution: PodResult, policy: Policy) -> Survey:
    """A survey; also report what only counts devices that nothing requests."""
    if not seen.keys.labels and not seen.keys.annotations:
        return seen
    requesting = {*resolution.vendor_names, *(each.requested.vendor.name for each in resolution.left)}
    return _with(seen, tuple(idle_counts(pod, seen.keys, requesting, policy)))


def _with(seen: Survey, found: Sequence[Finding]) -> Survey:
    return msgspec.structs.replace(seen, findings=(*seen.findings, *found)) if found else seen


def _applied(plan: Plan, resolution: PodResult, *, acts: bool) -> Decision:
    """Apply a plan, and decide: the keys of its resolution, and (`acts`) everything else that a share needs."""
    try:
        hides = plan.policy.settings.hide_devices
        if hides:
            show_devices(plan)
        if acts:
            _apply(plan, resolution)
        if hides:
            hide_devices(plan)
    except Denied as denial:
        return denied(denial.finding, tuple(plan.findings), resolution.vendor_names)
    findings = tuple(dict.fromkeys(plan.findings))  # what is wrong in the namespace is found for each container
    status = status_of(plan, resolution)
    text = shown(_encode(status).decode())
    operations = plan.spec_operations()
    if operations or plan.changed:
        plan.labels[labels.CHANGED] = most_done(status)
        plan.annotations |= {labels.STATUS: text, labels.SUMMARY: summary_of(status, plan)}
    operations += plan.metadata_operations()
    plan.policy.read_keys.require([*plan.labels, *plan.annotations, *plan.node_selector])
    if not plan.allocations and not operations:
        return untouched(nothing_requested(plan.pod, plan.claims, left=bool(resolution.left)), findings)
    audit = {"status": text} if len(text) <= MAX_AUDITED else {}
    return Decision(
        allowed=True,
        reason=Reason.CHANGED if operations else Reason.ALREADY_RIGHT,
        patch_json=_encode(operations) if operations else b"",
        warnings=tuple([finding for finding in findings if not finding.note]),
        notes=tuple([finding for finding in findings if finding.note]),
        objects=tuple({each.name: each for each in plan.templates.values()}.values()) if plan.templates else (),
        status_json=text,
        audit={**audit, **_reasons(findings)},
        vendors=resolution.vendor_names,
    )


def _plan(pod: Pod, context: Context, policy: Policy, seen: Survey, resolution: PodResult) -> Plan:
    """The plan for a pod: its allocations, with the keys of the resolution written."""
    plan = Plan(
        pod,
        context,
        policy,
        seen.slots,
        seen.claims,
        allocations=tuple(
            [_allocation(seen.slots[settled.requested.position], settled, resolution) for settled in resolution.settled]
        ),
        left_alone=_left_alone(seen, resolution, policy),
        findings=[*seen.findings, *resolution.findings],
    )
    _write(plan, resolution)
    return plan


def _left_alone(seen: Survey, resolution: PodResult, policy: Policy) -> tuple[tuple[Slot, Vendor, bool], ...]:
    """The containers with resources of a vendor that a resolution does not settle, with that vendor; whether it is a share."""
    settled = {container.requested.position for container in resolution.settled}
    vendors: dict[int, list[Vendor]] = {}
    requesting = [
        position
        for position, container in enumerate(seen.keys.containers)
        if container.resources and position not in settled
    ]
    if not requesting and not resolution.left:
        return ()
    for left in resolution.left:
        copy = left.requested.copy
        vendors[left.requested.position] = [left.requested.vendor, *([] if copy is None else [copy.vendor])]
    for position in requesting:
        if position not in vendors:
            name, _, _ = seen.keys.containers[position].resources[0]
            vendors[position] = [policy.vendors[policy.resources.owners(name)[0].vendor]]
    shares = {left.requested.position for left in resolution.left if left.share}
    return tuple(
        (seen.slots[position], vendor, position in shares)
        for position in sorted(vendors)
        for vendor in vendors[position]
    )


def _allocation(slot: Slot, settled: Settled, resolution: PodResult) -> Allocation:
    *_, last = resolution.passes(settled)
    source = settled.requested.vendor
    owner = settled.target if last is settled else last.requested.vendor
    copy = settled.requested.copy if last.target is source else None
    moved = bool(settled.dropped) or None in settled.resources.values()
    request, copying = settled.request, None if copy is None else copy.vendor
    return Allocation(slot, source, owner, last.target, request, last.form, copying, moved, not request.whole)


def _apply(plan: Plan, resolution: PodResult) -> None:
    """Apply what a share needs beside its keys: claims, guard, placement, shim, environment."""
    if plan.claims or plan.pod.spec.resource_claims:
        check_claims(plan)
    if plan.pod.metadata.annotations:
        drop_references(plan)
    guard_pod(plan)
    place_pod(plan)
    report_belongings(plan)
    inject_shim(plan)
    keep_environment(plan, resolution)
    if plan.pod.metadata.annotations:
        _report_hints(plan)


def _write(plan: Plan, resolution: PodResult) -> None:
    wanted: list[WantedClaim] = []
    for allocation, settled in zip(plan.allocations, resolution.settled, strict=True):
        if settled.resources:
            allocation.slot.resources.update(settled.resources)
        if settled.claim:
            wanted.append(_wanted(allocation, settled))
    if wanted:
        write_claims(plan, wanted)
    for texts, changes in ((plan.labels, resolution.labels), (plan.annotations, resolution.annotations)):
        for key, text in changes.items():
            if text is None:
                texts.pop(key, None)
            else:
                texts[key] = text


def _wanted(allocation: Allocation, settled: Settled) -> WantedClaim:
    claimed, source = settled.requested.keys.claimed, settled.requested.vendor
    return WantedClaim(
        allocation.slot,
        settled.target,
        DeviceRequest(tuple(settled.claim.values()), settled.request.whole),
        source.name if source.document.one_device and settled.translated else None,
        None if claimed is None or claimed.template is None else (claimed.template, claimed.request),
    )


def _report_hints(plan: Plan) -> None:
    """Report hints for the source's scheduler, which have no effect with another target and are left unchanged."""
    translated = {
        (allocation.source.name, allocation.vendor.name): allocation
        for allocation in plan.allocations
        if allocation.vendor is not allocation.source
    }
    if not translated:
        return
    hints = sorted(plan.policy.marks.hints.among(plan.pod.metadata.annotations or {}))
    for (source, _), allocation in translated.items():
        source_system, target_system = system_names(allocation.source, allocation.vendor)
        for key in hints[:MAX_HINTS]:
            if any(owner.vendor == source for owner in plan.policy.annotations.owners(key)):
                continue  # a key of the request, which was translated
            selects = {name: kind.removeprefix("not_") for kind, name in allocation.source.document.selects}
            if any(
                each.selects == selects.get(key) for each in allocation.vendor.document.keys.values() if each.selects
            ):
                continue  # a selector of the claim
            if allocation.source.owned.hint(key) and not allocation.vendor.owned.hint(key):
                message = (
                    f"annotation {key} is a hint for {source_system} and has no effect with {target_system}: remove it"
                )
                plan.findings.append(Finding(Reason.HINT_NOT_CARRIED, message, field=key))


def denied(denial: Finding, findings: tuple[Finding, ...] = (), vendors: tuple[str, ...] = ()) -> Decision:
    """Return the decision that denies a pod, with the findings of earlier steps."""
    warnings = tuple(dict.fromkeys([finding for finding in findings if not finding.note]))
    audit = {**_reasons((*warnings, denial)), "denied": denial.text}
    return Decision(allowed=False, reason=denial.reason, warnings=warnings, denial=denial, audit=audit, vendors=vendors)


def deny_unread(what: str, context: Context, policy: Policy) -> Decision:
    """Return the decision on a pod of which nothing but its namespace is known: an error would let it through unjudged."""
    # The workload is not known either, so no roll-out leaves it out.
    known = context.namespace
    kept = {key: text for key, text in known.labels.items() if key != labels.ROLLOUT}
    around = msgspec.structs.replace(context, namespace=Namespace(known.name, kept, known.annotations))
    pod = Pod()
    skipped = skip_reason(pod, around, policy)
    if skipped is not None:
        return untouched(skipped)
    return in_mode(denied(Finding(Reason.TOO_MANY, f"{what}: remove what is not needed")), pod, around)


def in_mode(decision: Decision, pod: Pod, context: Context) -> Decision:
    """Apply the namespace's mode to a decision: enforce, warn or audit."""
    enforcement = enforcement_of(pod, context)
    if enforcement is PLAIN:
        return decision
    if not decision.status_json and decision.denial is None:  # nothing is requested, so no mode concerns the pod
        return untouched(decision.reason) if enforcement.mode is Mode.AUDIT else decision
    findings, notes = (*enforcement.findings, *decision.warnings), decision.notes
    if enforcement.mode is not Mode.ENFORCE:
        unchanged = (*decision.warnings, *[note for note in notes if note.expected])
        findings = (*enforcement.findings, *map(_under_enforce, unchanged))
        notes = tuple([note for note in notes if not note.expected])
    reported = findings if decision.denial is None else (*findings, _under_enforce(decision.denial))
    audit = {**decision.audit, **_reasons((*reported, *notes))}
    if enforcement.mode is Mode.ENFORCE:
        return msgspec.structs.replace(decision, warnings=findings, audit=audit)
    return Decision(
        allowed=True,
        reason=Reason.WOULD_CHANGE if decision.reason is Reason.CHANGED else decision.reason,
        warnings=() if enforcement.mode is Mode.AUDIT else reported,
        notes=notes,
        status_json=decision.status_json,
        audit=audit,
        vendors=decision.vendors,
    )


def _under_enforce(finding: Finding) -> Finding:
    """A finding about a pod that is stored as sent: what it says does not happen, or not now."""
    denied = ", denied" if finding.reason.kind is ReasonKind.DENIAL else ""
    return msgspec.structs.replace(finding, message=f"under enforce{denied}: {finding.message}")


def _reasons(findings: tuple[Finding, ...]) -> dict[str, str]:
    """The codes of the findings, for the audit log; empty without findings."""
    return {"reasons": ",".join(dict.fromkeys([finding.reason.code for finding in findings]))} if findings else {}


class ContainerTrace(NamedTuple):
    """How far one requesting container got; in a denied pod, as far as it gets alone.

    Attributes:
        requested: the container and its keys.
        settled: what it gets; None if it is denied or left unchanged.
        left: why it is left unchanged; None if it is not.
        reading: the meaning of its keys; None if they have none, or it is left unchanged.
    """

    requested: ContainerRequest
    settled: Settled | None = None
    left: Unchanged | None = None
    reading: Reading | None = None


class Trace(NamedTuple):
    """Every step of one decision.

    Attributes:
        decision: what `decide` returns.
        enforced: what it would return if the namespace enforced.
        skipped: the pod is not eligible, and no further step is taken; `decision` has the reason.
        overrides: of the pod and its namespace.
        steps: the results of the further steps, as far as they went.
        containers: the requesting containers, in order; None if their keys cannot be collected: two vendors', or no
            quantities.
    """

    decision: Decision
    enforced: Decision
    skipped: bool
    overrides: Overrides
    steps: Steps
    containers: tuple[ContainerTrace, ...] | None


def trace(pod: Pod, context: Context, policy: Policy) -> Trace:
    """Trace the decision on a pod that is being created; the arguments are those of `decide`."""
    overrides, steps = overrides_of(pod, context, policy), Steps()
    reason = skip_reason(pod, context, policy)
    if reason is not None:
        decision = untouched(reason)
        return Trace(decision, decision, skipped=True, overrides=overrides, steps=steps, containers=())
    sized = _by_size(pod, policy)
    facts = facts_of(pod, context, policy) if sized is None else None
    if sized is not None:
        enforced = sized
    elif facts is None:
        enforced = untouched(Reason.NO_GPU_KEYS)
    else:
        enforced = take_steps(facts, policy, steps)
    containers = _containers(steps, overrides, policy)
    return Trace(
        in_mode(enforced, pod, context),
        enforced,
        skipped=False,
        overrides=overrides,
        steps=steps,
        containers=containers,
    )


def _containers(steps: Steps, overrides: Overrides, policy: Policy) -> tuple[ContainerTrace, ...] | None:
    resolution = steps.resolution
    if resolution is not None:
        settled = [ContainerTrace(each.requested, settled=each, reading=each.reading) for each in resolution.settled]
        left = [ContainerTrace(each.requested, left=each) for each in resolution.left]
        return tuple(sorted((*settled, *left), key=lambda container: container.requested.position))
    try:
        return tuple(_alone(requested, overrides, policy) for requested in collect(steps.survey.keys, policy))
    except Denied:
        return None


def _alone(requested: ContainerRequest, overrides: Overrides, policy: Policy) -> ContainerTrace:
    """The result for one container of a denied pod, regardless of the others."""
    try:
        settled = settle(requested, overrides, policy)
    except Denied:
        return ContainerTrace(requested, reading=_reading(requested, overrides, policy))
    if isinstance(settled, Unchanged):
        return ContainerTrace(requested, left=settled)
    return ContainerTrace(requested, settled, reading=settled.reading)


def _reading(requested: ContainerRequest, overrides: Overrides, policy: Policy) -> Reading | None:
    """The meaning of keys that the target cannot express; None if they have none."""
    vendor = requested.vendor
    try:
        target, _ = target_of(vendor, overrides, policy)
        defaults, _ = defaults_for(vendor, target, overrides.defaults)
        home = target is vendor
        if overrides.bare.whole and requested.bare:
            defaults, _ = defaults_of_whole(defaults, overrides.bare, vendor, home=home)
        return read(vendor, requested.key_values, defaults, policy.largest_card, requested.name, home=home)
    except Denied:
        return None


_BY_DEFAULT: Final = " by default"

MAX_LINES: Final = 8
"""Lines of a summary for containers."""

MAX_NAME: Final = 30
"""Characters of a container's name in it: ``kubectl describe`` shows 138 of a line."""


def most_done(status: Mapping[str, Any]) -> Literal["translated", "filled", "completed", "hidden"]:
    """Return the most that was done to a pod, by its status; what is neither translated nor filled in was completed.

    A pod that requests nothing was changed only to hide devices.
    """
    if not status["containers"]:
        return "hidden"
    filled = False
    for container in status["containers"].values():
        if "target" in container:
            return "translated"
        filled = filled or "defaults" in container
    return "filled" if filled else "completed"


def summary_of(status: Mapping[str, Any], plan: Plan) -> str:
    """Return what became of a pod, by its status: a line for each requesting container, and one for what concerns the pod."""
    lines = [_line(name, container) for name, container in status["containers"].items()]
    if len(lines) > MAX_LINES:
        lines[MAX_LINES:] = [f"and {len(lines) - MAX_LINES} more containers"]
    if plan.hidden:
        names = [name[:MAX_NAME] for name in plan.hidden[:MAX_LINES]]
        more = f" and {len(plan.hidden) - MAX_LINES} more" if len(plan.hidden) > MAX_LINES else ""
        lines.append(f"devices hidden from: {', '.join(names)}{more}")
    if plan.stripped:
        lines.append(f"removed by the guard: {plan.stripped}")
    if "scheduler" in status:
        lines.append(f"scheduler: {status['scheduler']}")
    return "\n".join(lines)


def _line(name: str, container: Mapping[str, Any]) -> str:
    request = container["allocation"] if "allocation" in container else container["request"]
    defaults = container.get("defaults", ())
    devices, memory, cores = request["devices"], request["memory"], request["cores"]
    many, each = ("device", "") if devices == 1 else ("devices", " each")
    counted, sized, parted = [_BY_DEFAULT if dimension in defaults else "" for dimension in DIMENSIONS]
    if memory == cores == "100%":
        amounts = f"{devices} whole {many}{counted}"
    else:
        amounts = f"{devices} {many}{counted}, memory {memory}{each}{sized}, cores {cores}{parted}"
    source = f", translated from {container['vendor']}" if "target" in container else ""
    claim = f", claim of {container['claim']}" if "claim" in container else ""
    claim += f", its request {container['claimRequest']}" if "claimRequest" in container else ""
    return f"{name if len(name) <= MAX_NAME else name[: MAX_NAME - 1] + '…'}: {amounts}{source}{claim}"


def status_of(plan: Plan, resolution: PodResult) -> dict[str, Any]:
    """Return the status of a pod: what was requested, its meaning, the defaults that applied, and what was written.

    Plain data with a stable order of keys.
    """
    notes: dict[str | None, list[str]] = {}
    for finding in plan.findings:
        if finding.note:
            notes.setdefault(finding.container, []).append(f"{finding.reason.code}: {finding.message}")
    containers: dict[str, Any] = {}
    for settled in resolution.settled:
        name = settled.requested.name
        containers[name] = _container(settled, plan.deliveries.get(name), notes.get(name))
        if settled.claim:
            path = plan.slots[settled.requested.position].path
            containers[name]["claim"] = plan.templates[path].name
            if path in plan.requests:
                containers[name]["claimRequest"] = plan.requests[path]
    status: dict[str, Any] = {"policy": plan.policy.digest, "containers": containers}
    if "schedulerName" in plan.fields:
        status["scheduler"] = plan.fields["schedulerName"]
    if plan.hidden:
        status["hidden"] = plan.hidden
    return status


def _amounts(request: Request) -> dict[str, Any]:
    return {
        "devices": request.devices,
        "memory": amount_text(request.memory),
        "cores": amount_text(request.cores),
    }


def _container(settled: Settled, delivery: str | None, notes: list[str] | None) -> dict[str, Any]:
    status: dict[str, Any] = {
        "vendor": settled.requested.vendor.name,
        "keys": {entry.key: entry.text for entry in settled.requested.all_key_values.values()},
        "request": _amounts(settled.reading.request),
    }
    if settled.request != settled.reading.request:
        status["allocation"] = _amounts(settled.request)
    if settled.filled:
        status["defaults"] = {dimension: default.origin for dimension, default in settled.filled.items()}
    if settled.translated:
        status["target"] = settled.target.name
    written = {name: exact_text(number) for name, number in settled.resources.items() if number is not None}
    written |= {key: text for _, key, text in settled.keys}
    written |= {entry.key: entry.text for entry in settled.claim.values()}
    if written:
        status["written"] = written
    if delivery:
        status["shim"] = delivery
    if notes:
        status["notes"] = notes
    return status
