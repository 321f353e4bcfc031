"""The decision on a pod, explained for people: its trace, step by step.

A pure function, and no part of any review.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from webhook.admission.context import Context
from webhook.admission.decision import Decision
from webhook.admission.eligibility import enforcement_of
from webhook.admission.overrides import Overrides, override_source
from webhook.admission.plan import Plan
from webhook.admission.survey import ContainerKeys, Survey
from webhook.admission.trace import ContainerTrace, Trace, trace
from webhook.explanation.correction import correction
from webhook.explanation.edits import placed, shim_shown
from webhook.explanation.keys import meaning, rounded, share_of, shown_key, written
from webhook.explanation.model import (
    ContainerExplained,
    DenialExplained,
    FindingExplained,
    PodExplained,
    ShownKey,
)
from webhook.explanation.worth import worth
from webhook.finding import Finding
from webhook.labels import MODE, ROLLOUT, TARGET
from webhook.mapping.model.policy import Policy
from webhook.mapping.model.vendor import Vendor
from webhook.pod import Pod
from webhook.quantity import QuantityError, parse_quantity
from webhook.reasons import Reason

_LOST: Final = {
    Reason.KEY_NOT_CARRIED,
    Reason.HINT_NOT_CARRIED,
    Reason.DIMENSION_DROPPED,
    Reason.SINGLE_DEVICE_LOST,
    Reason.OWNED_STRIPPED,
    Reason.GUARD_STRIPPED,
    Reason.KEY_IGNORED,
}
_SHOWN: Final = {
    Reason.DEFAULT_FILLED,
    Reason.ROUNDED,
    Reason.ROUNDED_DOWN,
    Reason.CORRECTED,
    Reason.LIMIT_ADDED,
    Reason.SCHEDULER_SET,
}
"""Findings that meaning and roundings of a container, or the placement of the pod, show already."""

POD_TARGET: Final = f"the pod's annotation {TARGET}"
"""How the explanation names the source of a target that the pod sets."""

_BY: Final[Mapping[str, str]] = {
    "namespace": f"the namespace's annotation {TARGET}",
    "settings": "the setting `target`",
    "itself": "no annotation or setting names another",
}


def explain(pod: Pod, context: Context, policy: Policy, pod_target: str = POD_TARGET) -> PodExplained:
    """Explain the decision on a pod that is being created.

    Args:
        pod: as for `decide`.
        context: as for `decide`.
        policy: as for `decide`.
        pod_target: how to name the source of the pod's target, if it is not the manifest (an option, for example).
    """
    traced = trace(pod, context, policy)
    decision, would = traced.decision, traced.enforced
    enforcement = enforcement_of(pod, context)
    rollout = context.namespace.labels.get(ROLLOUT)
    explained = PodExplained(
        namespace=context.namespace.name,
        mode=enforcement.mode.value if rollout is None else f"{enforcement.mode.value}, rollout {rollout} %",
        code=decision.reason.code,
        outcome=decision.reason.value.title,
        meaning=decision.reason.value.meaning,
        allowed=decision.allowed,
        policy=policy.digest,
    )
    if traced.skipped:
        return explained
    # In `warn` and `audit` nothing is written; explained is what would be.
    plan = traced.steps.plan if would.denial is None else None
    return replace(
        explained,
        containers=tuple(_containers(traced, plan, policy, pod_target)),
        placed=placed(plan) if plan is not None else (),
        findings=tuple(
            _finding(finding) for finding in dict.fromkeys((*enforcement.findings, *would.warnings, *would.notes))
        ),
        denial=_denial(pod, context, policy, would, decision),
    )


def _denial(pod: Pod, context: Context, policy: Policy, would: Decision, decision: Decision) -> DenialExplained | None:
    if would.denial is None:
        return None
    reason = would.denial.reason.value
    labels = {key: value for key, value in context.namespace.labels.items() if key not in {MODE, ROLLOUT}}
    enforced = replace(context, namespace=replace(context.namespace, labels=labels))
    instead = correction(pod, enforced, policy, would.denial)
    return DenialExplained(_finding(would.denial), reason.status, reason.remedy, not decision.allowed, instead)


def _finding(finding: Finding) -> FindingExplained:
    return FindingExplained(
        code=finding.reason.code,
        title=finding.reason.value.title,
        message=finding.message,
        container=finding.container,
        field=finding.field,
        value=finding.value,
        lost=finding.reason in _LOST,
        shown=finding.reason in _SHOWN,
        note=finding.reason.note,
    )


def _containers(traced: Trace, plan: Plan | None, policy: Policy, pod_target: str) -> Iterator[ContainerExplained]:
    """Yield the requesting containers; without a plan (of a denied pod), nothing is written to them."""
    if traced.containers is not None:
        for container in traced.containers:
            because = _because(container.requested.vendor, traced.overrides, policy, pod_target)
            yield _container(container, plan, because)
    else:
        yield from _unread(traced.steps.survey, policy)


def _unread(seen: Survey, policy: Policy) -> Iterator[ContainerExplained]:
    """Yield containers with keys that cannot even be collected: keys of two vendors, or invalid quantities."""
    for container in seen.keys.containers:
        keys = tuple(_unread_keys(container, policy))
        vendors = dict.fromkeys(policy.resources.owners(key.key)[0].vendor for key in keys)
        if keys:
            yield ContainerExplained(container.name, container.init, " and ".join(vendors), keys)


def _unread_keys(container: ContainerKeys, policy: Policy) -> Iterator[ShownKey]:
    for key, limit, request in container.resources:
        owner = policy.resources.owners(key)[0]
        text = limit if limit is not None else request or ""
        try:
            vendor = policy.vendors[owner.vendor]
            meaning = worth(vendor, vendor.keys[owner.key_name], parse_quantity(text))
        except QuantityError as error:
            meaning = error.why
        if request is not None and limit is not None and request != limit:
            text = f"{limit} in limits, {request} in requests"
        yield ShownKey(key, text, "resource", meaning)


def _container(container: ContainerTrace, plan: Plan | None, because: str) -> ContainerExplained:
    """One container, as far as it got; `because` names what sets its target."""
    requested, settled, left, reading = container
    vendor = requested.vendor
    keys = vendor.keys if reading is None else reading.form.keys
    explained = ContainerExplained(
        requested.name,
        requested.keys.init,
        vendor.name,
        tuple(shown_key(vendor, keys[value.key_name], value) for value in requested.all_key_values.values()),
        unchanged=None if left is None else left.why,
    )
    if reading is None:
        return explained
    explained = replace(explained, form=reading.form.name, meaning=tuple(meaning(requested, reading)))
    if settled is None:
        return explained
    explained = replace(explained, target=settled.target.name, because=because)
    if plan is None:  # denied: nothing is written
        return explained
    return replace(
        explained,
        request=share_of(settled.reading.request),
        allocation=share_of(settled.request),
        written=tuple(written(settled)),
        removed=(*(key for key, number in settled.resources.items() if number is None), *settled.dropped),
        rounded=rounded(settled),
        shim=shim_shown(plan, requested.position),
    )


def _because(vendor: Vendor, overrides: Overrides, policy: Policy, pod_target: str) -> str:
    origin = override_source(vendor, overrides, policy)
    if origin == "pod":
        return pod_target
    return f"`translateTo` of the mapping {vendor.name}" if origin == "mapping" else _BY[origin]
