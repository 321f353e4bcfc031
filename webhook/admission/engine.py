"""One pod → one decision: the sequence of steps, and what a changed pod says of itself: the status, and a summary of it."""

from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from webhook import labels
from webhook.admission.claims import check_claims, check_keys, nothing_requested, write_claims
from webhook.admission.decision import (
    Allocation,
    ContainerStatus,
    Context,
    Decision,
    Facts,
    Namespace,
    Plan,
    Status,
    Unsettled,
    denied,
    facts_of,
    reasons_of,
    remember,
    untouched,
)
from webhook.admission.eligibility import PLAIN, Mode, beyond, crowded, enforcement_of, exceeded, overfull, skip_reason
from webhook.admission.guard import guard_pod, hide_devices, show_devices
from webhook.admission.intent import overrides_of
from webhook.admission.placement import drop_references, place_pod, report_belongings, report_hints
from webhook.admission.resolve import PodResult, resolve
from webhook.admission.settle import Settled
from webhook.admission.shim import inject_shim, keep_environment
from webhook.admission.survey import NOTHING_FOUND, Survey, all_at_once, changed, idle_counts, survey
from webhook.mapping.model.policy import Policy
from webhook.mapping.model.vendor import Vendor
from webhook.patch import Slot
from webhook.pod import Pod
from webhook.reasons import Denied, Finding, Reason, ReasonKind
from webhook.request import DIMENSIONS, Request, amount_text, exact_text
from webhook.text import shorten, shown

MAX_AUDITED: Final = 16 * 1024
"""The most characters of a status in the audit log: container names are not validated before admission."""

MAX_LINES: Final = 8
"""Lines of a summary for containers."""

MAX_NAME: Final = 30
"""Characters of a container's name in it: ``kubectl describe`` shows 138 of a line."""

_encode: Final = msgspec.json.Encoder().encode

_NOTHING_REQUESTED: Final = untouched(Reason.NO_GPU_KEYS)


class Steps(Struct):
    """The results of the steps after eligibility, as far as they went: explanations read them."""

    survey: Survey = NOTHING_FOUND  # the keys of the pod
    resolution: PodResult | None = None  # None if the pod requests nothing, or is denied before that
    plan: Plan | None = None  # None as well if nothing has to be done; for a denied pod, as far as it was applied
    enforced: Decision | None = None  # the decision where the namespace enforces; None if no step was needed


def decide(pod: Pod, context: Context, policy: Policy, steps: Steps | None = None) -> Decision:
    """Decide on a pod that is being created.

    Pure: the same arguments give the same decision, on every replica and offline.

    Args:
        pod: the submitted pod.
        context: its namespace and its creator.
        policy: the vendors and settings in force.
        steps: what the results are written into; then each step is taken, also if the decision is remembered.
    """
    skipped = skip_reason(pod, context, policy)
    if skipped is not None:
        return untouched(skipped)
    decision = _by_size(pod, policy)
    if decision is None:
        facts = facts_of(pod, context, policy)
        if facts is None:
            return _NOTHING_REQUESTED
        decision = None if steps else policy.memo.get(facts.key)
        if decision is None:
            decision = _take_steps(facts, policy, steps or Steps())
            if facts.key is not None and policy.memo.met(facts.key):
                decision = remember(facts.key, decision, policy)
    if steps:
        steps.enforced = decision
    return in_mode(decision, pod, context)


def _by_size(pod: Pod, policy: Policy) -> Decision | None:
    """The decision on a pod that is too large for further steps, or for a status; None for all others."""
    excess = overfull(pod)
    if excess is not None:
        return beyond(excess, pod, policy) or denied(excess)
    excess = crowded(pod, policy)
    return None if excess is None else beyond(excess, pod, policy)


def _take_steps(facts: Facts, policy: Policy, steps: Steps) -> Decision:
    """Take the steps after eligibility; the decision where the namespace enforces."""
    pod = facts.pod
    excess = exceeded(pod, few=facts.key is not None)
    if excess is not None:
        return beyond(excess, pod, policy) or denied(excess)
    seen = steps.survey = survey(pod, facts.context, policy)
    if seen.denial is not None:
        return denied(seen.denial, seen.findings)
    hides, claims = policy.settings.hide_devices, bool(seen.claims or pod.spec.resource_claims)
    resolution = PodResult(())
    try:
        if claims:
            check_keys(pod, seen.slots, policy)
        if seen.has_request:
            resolution = steps.resolution = resolve(seen.keys, overrides_of(pod, facts.context, policy), policy)
    except Denied as denial:
        return denied(denial.finding, seen.findings)
    left_alone = _left_alone(seen, resolution, policy)
    # The guard or a claim may concern a container that is left alone, too.
    matters = (slot.env or slot.path in seen.claims or slot.placed for slot, *_ in left_alone)
    acts = bool(resolution.settled) or any(matters)
    findings = [*seen.findings]
    if seen.keys.labels or seen.keys.annotations:
        requesting = {*resolution.vendor_names, *(each.requested.vendor.name for each in resolution.left)}
        findings += idle_counts(pod, seen.keys, requesting, policy)
    findings += resolution.findings
    if acts or hides:
        allocations = _allocations(seen.slots, resolution)
        plan = Plan(pod, facts.context, policy, seen.slots, seen.claims, allocations, left_alone, findings)
        steps.plan = plan
        return _applied(plan, resolution, acts=acts)
    return untouched(nothing_requested(pod, seen.claims, left=bool(resolution.left)), tuple(findings))


def _applied(plan: Plan, resolution: PodResult, *, acts: bool) -> Decision:
    """Apply a plan, and decide: the keys of its resolution, and (`acts`) everything else that a share needs."""
    hides = plan.policy.settings.hide_devices
    _write(plan, resolution)
    try:
        if hides:
            show_devices(plan)
        if acts:
            _apply(plan, resolution)
        if hides:
            hide_devices(plan)
    except Denied as denial:
        plan.denials.append(denial.finding)
    if plan.denials:
        return denied(all_at_once(plan.denials), tuple(plan.findings), resolution.vendor_names)
    return _decision(plan, resolution)


def _decision(plan: Plan, resolution: PodResult) -> Decision:
    """The decision to which a plan leads: the operations, with the status if there are any, and what is said of them."""
    findings = tuple(dict.fromkeys(plan.findings))  # what is wrong in the namespace is found for each container
    notes = tuple([each for each in findings if each.note])
    status = _status_of(plan, resolution, notes)
    text = shown(_encode(status).decode())
    operations = plan.spec_operations()
    if operations or plan.changed:
        plan.labels[labels.CHANGED] = _most_done(resolution.settled)
        plan.annotations |= {labels.STATUS: text, labels.SUMMARY: _summary_of(status, plan)}
    operations += plan.metadata_operations()
    plan.policy.read_keys.require([*plan.labels, *plan.annotations, *plan.node_selector])
    if not plan.allocations and not operations:
        return untouched(nothing_requested(plan.pod, plan.claims, left=bool(resolution.left)), findings)
    audit = {"status": text} if len(text) <= MAX_AUDITED else {}
    return Decision(
        allowed=True,
        reason=Reason.CHANGED if operations else Reason.ALREADY_RIGHT,
        patch_json=_encode(operations) if operations else b"",
        warnings=tuple([each for each in findings if not each.note]) if notes else findings,
        notes=notes,
        objects=plan.objects,
        status_json=text,
        audit={**audit, **reasons_of(findings)},
        vendors=resolution.vendor_names,
    )


def _left_alone(seen: Survey, resolution: PodResult, policy: Policy) -> Unsettled:
    """The containers with resources of a vendor that a resolution does not settle."""
    if len(resolution.settled) == len(seen.keys.containers):
        return ()
    settled = {each.requested.position for each in resolution.settled}
    left = {each.requested.position: each for each in resolution.left}
    found: list[tuple[Slot, Vendor, bool | None]] = []
    for position, container in enumerate(seen.keys.containers):
        slot, unchanged = seen.slots[position], left.get(position)
        if unchanged is not None:
            requesting = filter(None, (unchanged.requested, unchanged.requested.copy))
            found += [(slot, each.vendor, unchanged.share) for each in requesting]
        elif container.resources and position not in settled:
            found += [(slot, policy.vendors[each], None) for each in _owners(container.resources, policy)]
    return tuple(found)


def _owners(names: Iterable[str], policy: Policy) -> Iterable[str]:
    """The vendors of some resource names, each once."""
    return dict.fromkeys([policy.resources.owners(name)[0].vendor for name in names])


def _allocations(slots: tuple[Slot, ...], resolution: PodResult) -> tuple[Allocation, ...]:
    found: list[Allocation] = []
    for settled in resolution.settled:
        *_, last = resolution.passes(settled)
        source, request = settled.requested.vendor, settled.request
        owner = settled.target if last is settled else last.requested.vendor
        copy = settled.requested.copy if last.target is source else None
        copying = None if copy is None else copy.vendor
        moved = bool(settled.dropped) or None in settled.resources.values()
        slot, share = slots[settled.requested.position], not request.whole
        found.append(Allocation(slot, source, owner, last.target, request, last.form.name, copying, moved, share))
    return tuple(found)


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
        report_hints(plan)


def _write(plan: Plan, resolution: PodResult) -> None:
    for settled in resolution.settled:
        plan.slots[settled.requested.position].resources.update(settled.resources)
    claiming = [settled for settled in resolution.settled if settled.claim]
    if claiming:
        write_claims(plan, claiming)
    if resolution.labels or resolution.annotations:
        plan.labels = changed(plan.labels, resolution.labels)
        plan.annotations = changed(plan.annotations, resolution.annotations)


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
    if enforcement.mode is Mode.ENFORCE:
        reported = findings if decision.denial is None else (*findings, _under_enforce(decision.denial))
        audit = {**decision.audit, **reasons_of((*reported, *notes))}
        return msgspec.structs.replace(decision, warnings=findings, audit=audit)
    kept = (*decision.warnings, *[note for note in notes if note.expected], *filter(None, (decision.denial,)))
    findings = (*enforcement.findings, *map(_under_enforce, kept))
    notes = tuple([note for note in notes if not note.expected])
    return Decision(
        allowed=True,
        reason=Reason.WOULD_CHANGE if decision.reason is Reason.CHANGED else decision.reason,
        warnings=() if enforcement.mode is Mode.AUDIT else findings,
        notes=notes,
        status_json=decision.status_json,
        audit={**decision.audit, **reasons_of((*findings, *notes))},
        vendors=decision.vendors,
    )


def _under_enforce(finding: Finding) -> Finding:
    """A finding about a pod that is stored as sent: what it says does not happen, or not now."""
    denied = ", denied" if finding.reason.kind is ReasonKind.DENIAL else ""
    return msgspec.structs.replace(finding, message=f"under enforce{denied}: {finding.message}")


def _most_done(settled: Sequence[Settled]) -> Literal["translated", "filled", "completed", "hidden"]:
    """Return the most that was done to a pod; one that requests nothing was changed only to hide devices."""
    if any([each.translated for each in settled]):
        return "translated"
    if any([each.reading.filled for each in settled]):
        return "filled"
    return "completed" if settled else "hidden"


def _summary_of(status: Status, plan: Plan) -> str:
    """Return what became of a pod, by its status: a line for each requesting container, and one for what concerns the pod."""
    lines = [_line(name, container) for name, container in status.containers.items()]
    if len(lines) > MAX_LINES:
        lines[MAX_LINES:] = [f"and {len(lines) - MAX_LINES} more containers"]
    if plan.hidden:
        names = [name[:MAX_NAME] for name in plan.hidden[:MAX_LINES]]
        more = f" and {len(plan.hidden) - MAX_LINES} more" if len(plan.hidden) > MAX_LINES else ""
        lines.append(f"devices hidden from: {', '.join(names)}{more}")
    if plan.stripped:
        lines.append(f"removed by the guard: {plan.stripped}")
    if status.scheduler:
        lines.append(f"scheduler: {status.scheduler}")
    return "\n".join(lines)


def _line(name: str, container: ContainerStatus) -> str:
    request = container.allocation or container.request
    devices, memory, cores = request["devices"], request["memory"], request["cores"]
    many, each = ("device", "") if devices == 1 else ("devices", " each")
    counted, sized, parted = [" by default" if dimension in container.defaults else "" for dimension in DIMENSIONS]
    if memory == cores == "100%":
        amounts = f"{devices} whole {many}{counted}"
    else:
        amounts = f"{devices} {many}{counted}, memory {memory}{each}{sized}, cores {cores}{parted}"
    source = f", translated from {container.vendor}" if container.target else ""
    claim = f", claim of {container.claim}" if container.claim else ""
    claim += f", its request {container.claim_request}" if container.claim_request else ""
    return f"{shorten(name, MAX_NAME)}: {amounts}{source}{claim}"


def _status_of(plan: Plan, resolution: PodResult, noted: Iterable[Finding]) -> Status:
    """Return the status of a pod: what was requested, its meaning, the defaults that applied, and what was written."""
    notes: dict[str | None, list[str]] = {}
    for finding in noted:
        notes.setdefault(finding.container, []).append(f"{finding.reason.code}: {finding.message}")
    containers: dict[str, ContainerStatus] = {}
    for settled in resolution.settled:
        slot = plan.slots[settled.requested.position]
        containers[slot.name] = _container(plan, slot, settled, notes.get(slot.name, ()))
    scheduler = plan.fields.get("schedulerName")
    return Status(policy=plan.policy.digest, containers=containers, scheduler=scheduler, hidden=tuple(plan.hidden))


def _container(plan: Plan, slot: Slot, settled: Settled, notes: Sequence[str]) -> ContainerStatus:
    requested, reading, request = settled.requested, settled.reading, settled.request
    written = {name: exact_text(number) for name, number in settled.resources.items() if number is not None}
    written |= {key: text for _, key, text in settled.keys}
    written |= {entry.key: entry.text for entry in settled.claim.values()}
    return ContainerStatus(
        vendor=requested.vendor.name,
        keys={entry.key: entry.text for entry in requested.all_key_values.values()},
        request=_amounts(reading.request),
        allocation={} if request == reading.request else _amounts(request),
        defaults={name: default.origin for name, default in reading.filled.items()},
        target=settled.target.name if settled.translated else None,
        written=written,
        shim=plan.deliveries.get(slot.name),
        notes=notes,
        claim=plan.templates[slot.path].name if settled.claim else None,
        claim_request=plan.requests.get(slot.path),
    )


def _amounts(request: Request) -> dict[str, Any]:
    return {"devices": request.devices, "memory": amount_text(request.memory), "cores": amount_text(request.cores)}
