"""The decision on a pod, explained for people: its trace, step by step.

A pure function, and no part of any review.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import msgspec
from msgspec import structs

from webhook import labels
from webhook.admission.collect import ContainerRequest
from webhook.admission.decision import Context, Decision
from webhook.admission.eligibility import enforcement_of
from webhook.admission.engine import ContainerTrace, Trace, trace
from webhook.admission.overrides import DEFAULT_SCHEDULER, Overrides, override_source
from webhook.admission.plan import Allocation, Plan
from webhook.admission.settle import Settled
from webhook.admission.survey import ContainerKeys, Survey
from webhook.explanation.correction import correction
from webhook.explanation.glossary import worth
from webhook.explanation.model import (
    ContainerExplained,
    DenialExplained,
    FindingExplained,
    From,
    Placed,
    PodExplained,
    Rounding,
    Share,
    ShimShown,
    ShownAmount,
    ShownKey,
    ShownVariable,
    WrittenKey,
)
from webhook.finding import Finding
from webhook.labels import CHANGED, MODE, ROLLOUT, STATUS, SUMMARY, TARGET
from webhook.mapping.model.names import index
from webhook.mapping.model.policy import Policy
from webhook.mapping.model.vendor import Derived, Form, Key, Vendor
from webhook.mapping.requests.values import KeyValue, Reading, format_value
from webhook.patch import ContainerEdits
from webhook.pod import Pod, decode_env
from webhook.quantity import QuantityError, parse_quantity
from webhook.reasons import Reason
from webhook.request import ALL, DIMENSIONS, UNLIMITED, Dimension, Request, amount_text


def shown_placement(plan: Plan) -> tuple[Placed, ...]:
    """Return the changes to where the pod runs, and to its labels and annotations; the scheduler is always included."""
    return tuple(_placed(plan))


def _placed(plan: Plan) -> Iterator[Placed]:
    spec, fields = plan.pod.spec, plan.edits.fields
    if plan.allocations:
        before = spec.scheduler_name or DEFAULT_SCHEDULER
        yield Placed("schedulerName", before, fields.get("schedulerName", before))
    if "runtimeClassName" in fields:
        yield Placed("runtimeClassName", spec.runtime_class_name, fields["runtimeClassName"])
    if "nodeName" in fields:
        yield Placed("nodeName", spec.node_name, None)
        yield Placed("affinity", None, f"required: the node is called {spec.node_name}")
    for toleration in plan.edits.tolerations:
        yield Placed("tolerations", None, _json(toleration))
    for edits, what in (
        (plan.edits.node_selector, "nodeSelector"),
        (plan.edits.labels, "label"),
        (plan.edits.annotations, "annotation"),
    ):
        current = edits.current or {}
        for key, value in edits.values.items():
            if key not in {STATUS, SUMMARY, CHANGED} and current.get(key) != value:
                yield Placed(f"{what} {key}", current.get(key), value)


def _json(data: Any) -> str:
    return msgspec.json.encode(data).decode()


def shim_shown(plan: Plan, position: int) -> ShimShown | None:
    """Return the shim of one container, by its position; None for a container without an allocation."""
    slot = plan.slots[position]
    allocation = next((allocation for allocation in plan.allocations if allocation.slot is slot), None)
    if allocation is None:
        return None
    edits = plan.edits.container(slot)
    delivery = plan.deliveries.get(slot.name)
    variables = tuple(_variables(edits))
    mounts = {entry["mountPath"]: _volume(plan, entry) for entry in edits.mounts}
    return ShimShown(
        delivery, _delivery_reason(allocation, delivery, changes=bool(variables or mounts)), mounts, variables
    )


def _delivery_reason(allocation: Allocation, delivery: str | None, *, changes: bool) -> str:
    vendor, shim = allocation.vendor, allocation.vendor.shim
    if shim is None:
        return f"{vendor.name} has none: only its device plugin or driver can enforce the share"
    if not allocation.share:
        return "none: whole devices need no limit"
    if not shim.serves(allocation.form):
        return f"none: {vendor.name} has none for {allocation.form!r}"
    if delivery == "plugin":
        return "nothing is injected: the device plugin sees to it"
    if shim.limit == "env" and delivery == "none":
        return "nothing is injected: the limit is left to the device plugin"
    if not changes:
        return "already there"
    if delivery == "none":
        return "the device plugin mounts the library and enforces the share; LD_LIBRARY_PATH points to it"
    return "the library comes from the node, finds its limit in variables and is loaded first"


def _volume(plan: Plan, mount: Any) -> str:
    volume = next((volume for volume in plan.edits.volumes if volume["name"] == mount["name"]), None)
    if volume is None:
        return f"volume {mount['name']}"
    if "hostPath" in volume:
        return f"hostPath {volume['hostPath']['path']}"
    size = volume["emptyDir"].get("sizeLimit")
    return f"emptyDir{f' of {size}' if size else ''}"


def _variables(edits: ContainerEdits) -> Iterator[ShownVariable]:
    env = decode_env(edits.slot.container.env)
    for position, value in edits.env_values.items():
        yield ShownVariable(env[position].name, value, env[position].value)
    for position, name in edits.env_names.items():
        yield ShownVariable(name, f"what {env[position].name} took from elsewhere", None)
    for entry in edits.env_inserted.values():
        yield ShownVariable(entry["name"], entry["value"], "a value from elsewhere")
    for position in sorted(edits.env_removed):
        yield ShownVariable(env[position].name, None, env[position].value)
    for entry in edits.env_appended:
        yield ShownVariable(entry["name"], entry["value"], None)


def shown_key(vendor: Vendor, key: Key, entry: KeyValue) -> ShownKey:
    """Return a key as it is in the pod."""
    return ShownKey(entry.key, entry.text, key.place, worth(vendor, key, entry.number))


def share_of(request: Request) -> Share:
    """Return a request as the status shows it."""
    return Share(request.devices, amount_text(request.memory), amount_text(request.cores), request.whole)


def meaning(container: ContainerRequest, reading: Reading) -> Iterator[ShownAmount]:
    """Yield what the keys of a container mean, dimension by dimension, and why."""
    for dimension in DIMENSIONS:
        value = getattr(reading.request, dimension)
        amount = str(value) if dimension == "devices" else amount_text(value)
        yield ShownAmount(dimension, amount, *_origin(container, reading, dimension))


def _origin(container: ContainerRequest, reading: Reading, dimension: Dimension) -> tuple[From, str]:
    form, vendor = reading.form, container.vendor
    filled = reading.filled.get(dimension)
    if filled is not None and filled.value == ALL and container.bare:
        return filled.origin, f"a count alone is whole devices here, by {_WHOLE[filled.origin]}"
    if filled is not None and filled.origin == "namespace":
        return "namespace", f"filled in: the namespace's annotation {labels.DEFAULT_PREFIX}{dimension}"
    if filled is not None:
        return "mapping", f"filled in: the default of the mapping {vendor.name}"
    entry = _specifying(container, form, dimension)
    if entry is not None:
        return "pod", f"{entry}"
    if form.literal(dimension):
        return "form", f"{vendor.name} reads these keys as {form.name!r}"
    if any(vendor.variables[name].rows for entry in container.key_values.values() for name, _ in entry.binding):
        return "name", "implied by the name"
    if dimension == "cores" and form.absent.cores is UNLIMITED and reading.request.whole:
        return "absent", "all of the memory leaves nothing for others"
    return "absent", f"not specified: the meaning for {vendor.name}"


def _specifying(container: ContainerRequest, form: Form, dimension: Dimension) -> KeyValue | None:
    """The key that specifies a dimension, or None."""
    key_values = container.key_values
    if dimension == "devices" and isinstance(form.devices, Derived):
        return key_values.get(form.devices.key)
    if form.literal(dimension):
        return None
    return next((key_values[name] for name in container.vendor.by_dimension[dimension] if name in key_values), None)


def written(settled: Settled) -> Iterator[WrittenKey]:
    """Yield the keys that are written, in the order of the status."""
    vendor, form = settled.target, next(form for form in settled.target.forms if form.name == settled.form)
    names = index([vendor], "resource")
    for name, number in settled.resources.items():
        if number is not None:
            key = form.keys[names.owners(name)[0].key_name]
            yield WrittenKey(
                name, format_value(number), "resource", worth(vendor, key, number), _why(settled, name, key)
            )
    for key, name, text in settled.keys:
        yield WrittenKey(
            name, text, key.place, _text_worth(vendor, form.keys[key.name], text), _why(settled, name, key)
        )


def _why(settled: Settled, name: str, key: Key) -> str:
    if settled.translated:
        filled = [dimension for dimension in key.dimensions if dimension in settled.filled]
        return "filled in" if filled and len(filled) == len(key.dimensions) else "translated"
    if key.name in settled.reading.corrections:
        return "rounded up"
    return "copied from requests" if name in settled.requested.promoted else "filled in"


def _text_worth(vendor: Vendor, key: Key, text: str) -> str:
    try:
        return worth(vendor, key, parse_quantity(text) if key.kind == "amount" else 0)
    except QuantityError:
        return ""


def rounded(settled: Settled) -> tuple[Rounding, ...]:
    """Return the numbers that the decision changed, in its order."""
    return tuple(
        Rounding(step.what, step.before, step.after, step.difference, finding.reason.code)
        for finding in settled.findings
        if (step := finding.step) is not None
    )


_WHOLE: Final = {
    "namespace": "the namespace's annotations",
    "settings": "the setting `bareDevices`",
    "mapping": "the mapping's default",
}
"""Who decides that a count alone is whole devices."""

_LOST: Final = {
    Reason.KEY_NOT_CARRIED,
    Reason.HINT_NOT_CARRIED,
    Reason.DIMENSION_DROPPED,
    Reason.SINGLE_DEVICE_LOST,
    Reason.OWNED_STRIPPED,
    Reason.GUARD_STRIPPED,
    Reason.KEY_IGNORED,
}
POD_TARGET: Final = f"the pod's annotation {TARGET}"
"""How the explanation names the source of a target that the pod sets."""

_BY: Final[Mapping[str, str]] = {
    "namespace": f"the namespace's annotation {TARGET}",
    "served": "the setting `served`",
    "settings": "the setting `target`",
    "itself": "no annotation or setting names another",
}


def explain_pod(pod: Pod, context: Context, policy: Policy, pod_target: str = POD_TARGET) -> PodExplained:
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
        placed=shown_placement(plan) if plan is not None else (),
        findings=tuple(
            _finding(finding) for finding in dict.fromkeys((*enforcement.findings, *would.warnings, *would.notes))
        ),
        denial=_denial(pod, context, policy, would, decision),
    )


def unsent(explained: PodExplained, why: str) -> PodExplained:
    """Explain a pod that the cluster does not send to the webhook: it stays as it is, and what is wrong with it is said.

    Args:
        explained: the explanation of the decision that the webhook would make.
        why: why it is not sent.
    """
    denial = () if explained.denial is None else (explained.denial.finding,)
    findings = (*explained.findings, *denial)
    if not findings:
        return replace(explained, sent=False)
    outcome = Reason.NO_GPU_KEYS
    return PodExplained(
        namespace=explained.namespace,
        mode=explained.mode,
        code=outcome.code,
        outcome=outcome.value.title,
        meaning=why,
        allowed=True,
        policy=explained.policy,
        findings=findings,
        sent=False,
    )


def _denial(pod: Pod, context: Context, policy: Policy, would: Decision, decision: Decision) -> DenialExplained | None:
    if would.denial is None:
        return None
    reason = would.denial.reason.value
    labels = {key: value for key, value in context.namespace.labels.items() if key not in {MODE, ROLLOUT}}
    enforced = structs.replace(context, namespace=replace(context.namespace, labels=labels))
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
