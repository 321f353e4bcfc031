"""Judging ephemeral containers by the steps that any other container takes: guard, shim, hiding.

An ephemeral container has no resources, and may reach the devices of its pod. So it is judged as a container with each share
of the pod, whatever that is requested by, and denied where such a container would be denied, or something in it removed.
"""

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from webhook.admission.decision import Allocation, Context, Decision, Plan, facts_of, untouched
from webhook.admission.delivery import check_node_folders
from webhook.admission.eligibility import Mode, enforcement_of, exceeded, overfull, skip_reason
from webhook.admission.engine import Steps, denied, take_steps
from webhook.admission.guard import guard_pod
from webhook.admission.hide import hide_devices, hiding_of
from webhook.admission.judge import what_counts
from webhook.admission.placement import check_privileged
from webhook.admission.shim import check_covered, inject_shim
from webhook.admission.survey import all_at_once
from webhook.labels import STATUS
from webhook.mapping.model.policy import Policy
from webhook.mapping.model.vendor import Vendor
from webhook.patch import Slot, slots
from webhook.pod import DEVICE_CLASS, Container, Pod, PodSpec
from webhook.reasons import Denied, Finding, Reason
from webhook.request import Request

MAX_DECISIONS: Final = 512
"""The most ephemeral containers times shares: honest pods have some dozens."""

_RIGHT: Final = untouched(Reason.ALREADY_RIGHT)


def judge_ephemeral(pod: Pod, added: Sequence[Container], context: Context, policy: Policy) -> Decision:
    """Judge what is added to a pod: denied if a container with a share of the pod would be, or would lose something."""
    pod = what_counts(pod, pod, policy)
    if skip_reason(pod, context, policy) is not None or enforcement_of(pod, context).mode is not Mode.ENFORCE:
        return _RIGHT
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
    return _RIGHT


def _shares_of(pod: Pod, context: Context, policy: Policy) -> list[Allocation]:
    """What the pod's containers have; where that cannot be said, a share of each vendor that the cluster serves."""
    steps, decision = Steps(), _RIGHT
    facts = facts_of(pod, context, policy)
    if facts is not None:
        decision = take_steps(facts, policy, steps)
    plan = steps.plan
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
    alone = alone if facts is None else facts.pod
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
    return _shown(Plan(alone, context, policy, slots(alone)), policy) if policy.settings.hide_devices else None


def _shown(plan: Plan, policy: Policy) -> Finding | None:
    """The denial of a container that would be changed to hide devices."""
    hide_devices(plan)
    hiding = hiding_of(policy)
    if hiding is None or not plan.hidden:
        return None
    needed = " ".join(f"{name}={value}" for name, value in hiding.variables.items())
    message = (
        f"it requests no device, and its image may ask for all: set {needed}, with kubectl debug by --env={needed}"
    )
    return Finding(Reason.GUARDED, message, field="env")
