"""Every step of one decision, with its result, also beyond a denial: the same functions as `decide` calls."""

from typing import NamedTuple

from webhook.admission.collect import ContainerRequest, collect
from webhook.admission.decision import Context, Decision, facts_of, untouched
from webhook.admission.eligibility import skip_reason
from webhook.admission.engine import Steps, by_size, in_mode, take_steps
from webhook.admission.overrides import Overrides, defaults_for, defaults_of_whole, overrides_of, target_of
from webhook.admission.settle import settle
from webhook.admission.settled import Settled, Unchanged
from webhook.mapping.model.policy import Policy
from webhook.mapping.reading import read
from webhook.mapping.values import Reading
from webhook.pod import Pod
from webhook.reasons import Denied, Reason


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
    enforced = by_size(pod, policy)
    if enforced is None:
        facts = facts_of(pod, context, policy)
        enforced = untouched(Reason.NO_GPU_KEYS) if facts is None else take_steps(facts, policy, steps)
    decision, containers = in_mode(enforced, pod, context), _containers(steps, overrides, policy)
    return Trace(decision, enforced, skipped=False, overrides=overrides, steps=steps, containers=containers)


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
        target = target_of(vendor, overrides, policy)
        defaults = defaults_for(vendor, target, overrides.defaults)
        home = target is vendor
        if overrides.bare.whole and requested.bare:
            defaults = defaults_of_whole(defaults, overrides.bare, vendor, home=home)
        return read(vendor, requested.key_values, defaults, policy.largest_card, requested.name, home=home)
    except Denied:
        return None
