"""One pod → one decision: the staircase of the engine."""

from typing import Final

from webhook.admission.context import Context
from webhook.admission.decision import Decision, untouched
from webhook.admission.eligibility import Mode, firmness, skip_reason
from webhook.admission.environment import keep_environment
from webhook.admission.guard import guard_pod
from webhook.admission.orders import orders
from webhook.admission.outcome import Outcome
from webhook.admission.place import place_pod
from webhook.admission.plain import Remembered, facts_of, remembered
from webhook.admission.record import STATUS, account, account_text
from webhook.admission.resolve import Resolution, resolve
from webhook.admission.shim import inject_shim
from webhook.admission.survey import Survey, survey
from webhook.admission.work import Holding, Work
from webhook.finding import Finding, Refused
from webhook.mapping.policy import Policy
from webhook.patch import NO_PATCH, PodEdits
from webhook.pod import Pod
from webhook.reasons import Reason

MAX_AUDITED: Final = 16 * 1024
"""Characters of an account that go to the audit log; names of containers are not checked before us, and may be anything."""


def decide(pod: Pod, context: Context, policy: Policy) -> Decision:
    """What becomes of a pod that is being created.

    Pure: the same arguments give the same decision, on every replica and offline.

    Args:
        pod: the view of the pod that was sent.
        context: its namespace and who creates it.
        policy: the vendors and settings in force.
    """
    skipped = skip_reason(pod, context, policy)
    if skipped is not None:
        return untouched(skipped)
    given = orders(pod, context, policy)
    facts = facts_of(pod, context, given)
    known: Remembered | None = policy.memo.get(facts)
    if known is not None and known.serves(pod):
        return _told(known.outcome, pod, context, known.resolution)
    small = facts.small
    seen = survey(pod, policy)
    if seen.refusal is not None:
        return _denied(seen.refusal, pod, context, seen.findings, ())
    if not seen.asks:
        return _untouched(Reason.NO_GPU_WORDS, pod, context, seen)
    try:
        resolution = resolve(seen.words, given, policy, remember=small)
    except Refused as refusal:
        return _denied(refusal.finding, pod, context, seen.findings, ())
    if not resolution.settled:
        return _untouched(Reason.NO_GPU_WORDS, pod, context, seen)
    outcome = _outcome(pod, context, policy, seen, resolution)
    new = remembered(outcome, resolution, seen)
    if small and new.serves(pod):
        policy.remember(facts, new)
    return _told(outcome, pod, context, resolution)


def _untouched(reason: Reason, pod: Pod, context: Context, seen: Survey) -> Decision:
    if seen.findings and firmness(pod, context).mode is Mode.OBSERVE:
        return untouched(reason)
    return untouched(reason, seen.findings)


def _outcome(pod: Pod, context: Context, policy: Policy, seen: Survey, resolution: Resolution) -> Outcome:
    """Writes a resolution and does everything that a share needs besides."""
    work = begin(pod, context, policy, seen, resolution)
    try:
        carry_out(work, resolution)
    except Refused as refusal:
        return Outcome(NO_PATCH, tuple(work.findings), {}, {}, refusal.finding)
    told = account(work, resolution)
    text = account_text(told)
    operations = work.edits.operations(lambda: (STATUS, text))
    findings = tuple(work.findings)
    audit = {"account": text} if len(text) <= MAX_AUDITED else {}
    return Outcome(operations, findings, told, {**audit, **_reasons(findings)})


def begin(pod: Pod, context: Context, policy: Policy, seen: Survey, resolution: Resolution) -> Work:
    """A pod on its way: what its containers will hold, with the words of the resolution written."""
    work = Work(
        pod,
        context,
        policy,
        PodEdits(pod),
        seen.slots,
        holdings=tuple(
            Holding(seen.slots[one.asking.position], one.asking.vendor, one.target, one.request, one.form)
            for one in resolution.settled
        ),
        findings=[*seen.findings, *resolution.findings],
    )
    _write(work, resolution)
    return work


def carry_out(work: Work, resolution: Resolution) -> None:
    """Everything that a share needs besides its words: guard, placement, shim, what programs read.

    Raises:
        Refused: one of them is impossible; what was found until then is in `Work.findings`.
    """
    guard_pod(work)
    place_pod(work)
    inject_shim(work)
    keep_environment(work, resolution)
    _tell_hints(work)


def _write(work: Work, resolution: Resolution) -> None:
    edits = work.edits
    for holding, one in zip(work.holdings, resolution.settled, strict=True):
        if one.resources:
            edits.container(holding.slot).resources.update(one.resources)
    edits.labels.values.update(resolution.labels)
    edits.annotations.values.update(resolution.annotations)


def _tell_hints(work: Work) -> None:
    """Hints of a source's scheduler mean nothing to another target; they are left where they stand, and told."""
    for holding in work.holdings:
        if holding.vendor is holding.source:
            continue
        for key in sorted(work.pod.metadata.annotations or ()):
            if holding.source.owned.hint(key) and not holding.vendor.owned.hint(key):
                message = (
                    f"the annotation {key} is a hint to {holding.source.name}; {holding.vendor.name} does not read it"
                )
                finding = Finding(Reason.HINT_NOT_CARRIED, message, field=key)
                if finding not in work.findings:
                    work.findings.append(finding)


def _told(outcome: Outcome, pod: Pod, context: Context, resolution: Resolution) -> Decision:
    """An outcome as the pod's namespace wants it: done, told as warnings, or only written down."""
    vendors = resolution.vendor_names
    if outcome.denial is not None:
        return _denied(outcome.denial, pod, context, outcome.findings, vendors)
    firm = firmness(pod, context)
    enforced = firm.mode is Mode.ENFORCE
    changed = Reason.CHANGED if enforced else Reason.WOULD_CHANGE
    findings = (*firm.findings, *outcome.findings)
    audit = {**outcome.audit, **_reasons(findings)} if firm.findings else outcome.audit
    return Decision(
        allowed=True,
        reason=changed if outcome.operations else Reason.ALREADY_RIGHT,
        patch=outcome.operations if enforced else NO_PATCH,
        warnings=() if firm.mode is Mode.OBSERVE else findings,
        account=outcome.account,
        audit=audit,
        vendors=vendors,
    )


def _denied(
    denial: Finding, pod: Pod, context: Context, findings: tuple[Finding, ...], vendors: tuple[str, ...]
) -> Decision:
    """A refusal; outside `enforce` it is only told, and the pod is left as it is."""
    firm = firmness(pod, context)
    findings = (*firm.findings, *findings)
    audit = {**_reasons((*findings, denial)), "denied": denial.text}
    if firm.mode is Mode.ENFORCE:
        return Decision(
            allowed=False, reason=denial.reason, warnings=findings, denial=denial, audit=audit, vendors=vendors
        )
    told = () if firm.mode is Mode.OBSERVE else (*findings, denial)
    return Decision(allowed=True, reason=denial.reason, warnings=told, audit=audit, vendors=vendors)


def _reasons(findings: tuple[Finding, ...]) -> dict[str, str]:
    """The codes of everything that is told, for the audit log; nothing where there is nothing to tell."""
    return {"reasons": ",".join(dict.fromkeys(finding.reason.code for finding in findings))} if findings else {}
