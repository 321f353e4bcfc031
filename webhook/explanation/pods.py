"""The decision on a pod, explained for people: its trace, the same steps as `decide` takes, as the rows that `explain` prints.

A pure function, and no part of any review. It returns data for JSON:

``namespace``   where the pod is created
``mode``        ``enforce``, ``warn`` or ``audit``, with the namespace's roll-out
``sent``        whether the cluster would send it to the webhook; otherwise the findings are what the webhook would say
``allowed``     whether it is created; ``code`` and ``outcome``: the reason
``status``      the status that is written, or would be in the mode ``enforce``
``containers``  of each that requests devices its ``name``; its ``title``: what it is, the vendor of its keys (several, if
                they are mixed), and the form that these take; its ``rows``: what its keys are and mean, what is written and
                why, what is rounded or lost, and its shim
``rows``        what concerns the whole pod
``findings``    all findings except the denial, in order
``denial``      why it is denied; if it is allowed, the mode of its namespace only reports that
``correction``  what to write instead, if that is known

Rows have labels, in the order of the output: ``keys``, ``means``, ``written`` …
"""

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec
from msgspec import structs

from webhook import labels
from webhook.admission.collect import ContainerRequest, collect
from webhook.admission.decision import Allocation, Context, Decision, Plan
from webhook.admission.eligibility import enforcement_of, skip_reason
from webhook.admission.engine import Steps, decide
from webhook.admission.intent import (
    DEFAULT_SCHEDULER,
    Intent,
    Overrides,
    override_source,
    overrides_of,
    target_of,
)
from webhook.admission.settle import Settled, Unchanged, settle
from webhook.admission.survey import ContainerKeys
from webhook.explanation.correction import correction
from webhook.explanation.names import worth
from webhook.labels import CHANGED, MODE, ROLLOUT, STATUS, SUMMARY, TARGET
from webhook.mapping.model.keys import Derived, Form, Key, KeyPlace
from webhook.mapping.model.names import index
from webhook.mapping.model.policy import Policy
from webhook.mapping.model.vendor import Vendor
from webhook.mapping.values import KeyValue, Reading
from webhook.patch import Slot
from webhook.pod import Pod
from webhook.reasons import Denied, Finding, Reason, explanation_of
from webhook.request import (
    ALL,
    DIMENSIONS,
    UNLIMITED,
    Dimension,
    QuantityError,
    Request,
    amount_text,
    exact_text,
    parse_quantity,
)


class ContainerTrace(NamedTuple):
    """How far one requesting container got; in a denied pod, as far as it gets alone."""

    requested: ContainerRequest  # the container and its keys
    settled: Settled | None = None  # what it gets; None if it is denied or left unchanged
    left: Unchanged | None = None  # why it is left unchanged; None if it is not
    reading: Reading | None = None  # the meaning of its keys; None if they have none, or it is left unchanged


class Trace(NamedTuple):
    """Every step of one decision."""

    decision: Decision  # what `decide` returns
    enforced: Decision  # what it would return if the namespace enforced
    skipped: bool  # the pod is not eligible, and no further step is taken; `decision` has the reason
    overrides: Overrides  # of the pod and its namespace
    steps: Steps  # the results of the further steps, as far as they went
    # the requesting containers, in order; None if their keys cannot be collected: two vendors', or no quantities
    containers: tuple[ContainerTrace, ...] | None


def trace(pod: Pod, context: Context, policy: Policy) -> Trace:
    """Trace the decision on a pod that is being created; the arguments are those of `decide`."""
    overrides, steps = overrides_of(pod, context, policy), Steps()
    decision, skipped = decide(pod, context, policy, steps), skip_reason(pod, context, policy) is not None
    return Trace(decision, steps.enforced or decision, skipped, overrides, steps, _traced(steps, overrides, policy))


def _traced(steps: Steps, overrides: Overrides, policy: Policy) -> tuple[ContainerTrace, ...] | None:
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
    """The result for one container of a denied pod, regardless of the others; of a denied one its reading, if it has one."""
    try:
        settled = settle(requested, overrides, policy)
        if isinstance(settled, Unchanged):
            return ContainerTrace(requested, left=settled)
        return ContainerTrace(requested, settled, reading=settled.reading)
    except Denied:
        with contextlib.suppress(Denied):
            intent = Intent(requested, target_of(requested.vendor, overrides, policy), overrides, policy)
            reading = requested.read(policy, intent.defaults(overrides.defaults), home=intent.home)
            return ContainerTrace(requested, reading=reading)
        return ContainerTrace(requested)


Explained: TypeAlias = dict[str, Any]

ExplainedRow: TypeAlias = tuple[str, str]
"""What is, and why it is so; without a reason it is empty."""

ExplainedRows: TypeAlias = Mapping[str, Sequence[ExplainedRow]]


def _reason_data(reason: Reason) -> dict[str, str]:
    return {"code": reason.code, "outcome": explanation_of(reason).title}


def finding_data(finding: Finding) -> dict[str, Any]:
    """Return a finding as data for JSON."""
    reason, means = finding.reason, explanation_of(finding.reason)
    about = {"code": reason.code, "title": means.title, "remedy": means.remedy, "status": reason.status}
    return {**about, **{name: getattr(finding, name) for name in ("message", "container", "field", "value")}}


POD_TARGET: Final = f"the pod's annotation {TARGET}"
"""How the explanation names the source of a target that the pod sets."""


def explain_pod(
    pod: Pod,
    context: Context,
    policy: Policy,
    pod_target: str = POD_TARGET,
    unsent: str | None = None,
    *,
    left_open: Decision | None = None,
) -> Explained:
    """Explain the decision on a pod that is being created."""
    traced = trace(pod, context, policy)
    decision, would = traced.decision, traced.enforced
    enforcement = enforcement_of(pod, context)
    rollout = context.namespace.labels.get(ROLLOUT)
    explained: Explained = {
        "namespace": context.namespace.name,
        "mode": enforcement.mode.value if rollout is None else f"{enforcement.mode.value}, rollout {rollout} %",
        "sent": unsent is None,
        "allowed": decision.allowed,
        **_reason_data(decision.reason),
        "status": {},
        "containers": [],
        "rows": _because(explanation_of(decision.reason).meaning),
        "findings": [],
        "denial": None,
        "correction": None,
    }
    if traced.skipped:
        return explained
    if left_open is not None:
        return explained | _of_template(left_open)
    denial = would.denial
    notes = [note for note in would.notes if not note.expected]  # what is expected is in the rows of the pod
    findings = tuple(dict.fromkeys((*enforcement.findings, *would.warnings, *notes)))
    heard = findings if denial is None else (*findings, denial)
    if unsent is not None and heard:
        rows = _because(unsent) | _finding_rows(heard, _FINDINGS)
        unchanged = {"allowed": True, **_reason_data(Reason.NO_GPU_KEYS)}
        return {**explained, **unchanged, "rows": rows, "findings": list(map(finding_data, heard))}
    corrected = None if denial is None else correction(pod, _enforcing(context), policy, denial)
    decided = _decided(traced, findings, policy, pod_target)
    return {**explained, **decided, **_denial_data(denial), "correction": corrected}


_FINDINGS: Final = ("lost", "warnings", "notes")
"""The labels of findings."""


def _because(meaning: str) -> dict[str, list[ExplainedRow]]:
    return {"because": [(meaning, "")]}


def _denial_data(denial: Finding | None) -> Explained:
    return {"denial": None if denial is None else finding_data(denial)}


def _of_template(decision: Decision) -> Explained:
    """What is said of a template with placeholders."""
    told = [structs.replace(each, message=each.sentence, container=None) for each in decision.warnings]
    rows = _finding_rows(told, _FINDINGS) | _denial_rows(decision.denial, enforced=not decision.allowed)
    findings = list(map(finding_data, decision.warnings))
    reason = {"allowed": decision.allowed, **_reason_data(decision.reason)}
    return {**reason, "rows": rows, "findings": findings, **_denial_data(decision.denial)}


def _decided(traced: Trace, findings: Sequence[Finding], policy: Policy, pod_target: str) -> Explained:
    """What the decision is, or would be in the mode ``enforce``."""
    decision, would = traced.decision, traced.enforced
    # In `warn` and `audit` nothing is written; explained is what would be.
    plan = traced.steps.plan if would.denial is None else None
    containers = list(_containers(traced, plan, findings, policy, pod_target))
    named = {container["name"] for container in containers}
    others = [finding for finding in findings if finding.container not in named]
    quiet = not traced.containers and would.denial is None
    rows = {
        **(_because(explanation_of(decision.reason).meaning) if quiet else {}),
        **_present("pod", () if plan is None else _placement(plan)),
        **_finding_rows(others, _FINDINGS),
        **_denial_rows(would.denial, enforced=not decision.allowed),
    }
    listed = list(map(finding_data, findings))
    return {"status": would.status, "containers": containers, "rows": rows, "findings": listed}


def _enforcing(context: Context) -> Context:
    kept = {key: value for key, value in context.namespace.labels.items() if key not in {MODE, ROLLOUT}}
    return structs.replace(context, namespace=structs.replace(context.namespace, labels=kept))


def _present(label: str, rows: Iterable[ExplainedRow]) -> dict[str, list[ExplainedRow]]:
    """The rows of a label; nothing if there are none."""
    listed = list(rows)
    return {label: listed} if listed else {}


_LOST: Final = {
    Reason.KEY_NOT_CARRIED,
    Reason.HINT_NOT_CARRIED,
    Reason.DIMENSION_DROPPED,
    Reason.SINGLE_DEVICE_LOST,
    Reason.OWNED_STRIPPED,
    Reason.GUARD_STRIPPED,
    Reason.KEY_IGNORED,
}
"""Something that was requested is lost."""


def _finding_rows(findings: Iterable[Finding], labels: Sequence[str]) -> dict[str, list[ExplainedRow]]:
    """The findings of these labels, each once."""
    rows: dict[str, list[ExplainedRow]] = {}
    for finding in findings:
        label = "lost" if finding.reason in _LOST else "notes" if finding.reason.note else "warnings"
        rows.setdefault(label, []).append((f"{finding.reason.code} {finding.message}", ""))
    return {label: rows[label] for label in labels if label in rows}


def _denial_rows(denial: Finding | None, *, enforced: bool) -> dict[str, list[ExplainedRow]]:
    if denial is None:
        return {}
    where = "" if denial.container is None else f"container {denial.container}: "
    text = f"{denial.reason.code} {where}{denial.message}"
    label, text = ("denied", text) if enforced else ("would be", f"denied: {text}")
    remedy = explanation_of(denial.reason).remedy
    return {label: [(text, "")], **({"remedy": [(remedy, "")]} if remedy else {})}


def _placement(plan: Plan) -> Iterator[ExplainedRow]:
    """Yield the changes to where the pod runs, and to its labels and annotations; the scheduler is always included."""
    spec, metadata, fields = plan.pod.spec, plan.pod.metadata, plan.fields
    if plan.allocations:
        before = spec.scheduler_name or DEFAULT_SCHEDULER
        yield _changed("schedulerName", before, fields.get("schedulerName", before))
    if "runtimeClassName" in fields:
        yield _changed("runtimeClassName", spec.runtime_class_name, fields["runtimeClassName"])
    if "nodeName" in fields:
        yield _changed("nodeName", spec.node_name, None)
        yield _changed("affinity", None, f"required: the node is called {spec.node_name}")
    for toleration in plan.tolerations_added:
        yield _changed("tolerations", None, msgspec.json.encode(toleration).decode())
    for sent, after, what in (
        (spec.node_selector or {}, plan.node_selector, "nodeSelector"),
        (metadata.labels or {}, plan.labels, "label"),
        (metadata.annotations or {}, plan.annotations, "annotation"),
    ):
        for key in {**sent, **after}:
            if key not in {STATUS, SUMMARY, CHANGED} and sent.get(key) != after.get(key):
                yield _changed(f"{what} {key}", sent.get(key), after.get(key))


def _changed(name: str, before: str | None, after: str | None) -> ExplainedRow:
    if before == after:
        return f"{name}: {after}", "unchanged"
    if after is None:
        return f"{name}: {before}", "is removed"
    return f"{name}: {after}", "is added" if before is None else f"instead of {before}"


def _containers(
    traced: Trace, plan: Plan | None, findings: Sequence[Finding], policy: Policy, pod_target: str
) -> Iterator[Explained]:
    """Yield the requesting containers; without a plan (of a denied pod), nothing is written to them."""
    if traced.containers is None:
        for unread in traced.steps.survey.keys.containers:
            if unread.resources:
                yield _unread(unread, findings, policy)
        return
    requesting = {container.requested.position for container in traced.containers}
    for position, unrequested in enumerate(traced.steps.survey.keys.containers):
        if unrequested.resources and position not in requesting:
            yield _idle(unrequested, plan, policy)
    for container in traced.containers:
        requested, reading = container.requested, container.reading
        because = _target_by(requested.vendor, traced.overrides, policy, pod_target)
        stays = _stays(requested.vendor, traced.overrides, policy)
        # A form that does not say so itself is not named beside "whole devices": it may be called a share.
        whole = reading is not None and reading.request.whole and "memory" not in reading.form.literals
        form = None if reading is None or whole else reading.form.name
        yield {
            "name": requested.name,
            "title": _title(requested.name, requested.vendor.name, form, init=requested.keys.init),
            "rows": {
                **_steps(container, plan, because, stays, _of_container(findings, requested.name, ("lost",))),
                **_of_container(findings, requested.name, ("warnings", "notes")),
            },
        }


def _title(name: str, vendor: str, form: str | None, *, init: bool) -> str:
    return f"{'init ' if init else ''}container {name}, in the keys of {vendor}{f' ({form})' if form else ''}"


def _of_container(findings: Sequence[Finding], name: str, labels: Sequence[str]) -> dict[str, list[ExplainedRow]]:
    return _finding_rows((finding for finding in findings if finding.container == name), labels)


def _unread(container: ContainerKeys, findings: Sequence[Finding], policy: Policy) -> Explained:
    """A container with keys that cannot even be collected: keys of two vendors, or invalid quantities."""
    rows, vendors = _resource_rows(container, policy)
    title = _title(container.name, " and ".join(vendors), None, init=container.init)
    found = _of_container(findings, container.name, _FINDINGS)
    return {"name": container.name, "title": title, "rows": {"keys": rows, **found}}


def _idle(container: ContainerKeys, plan: Plan | None, policy: Policy) -> Explained:
    """A container with keys that request no device: then its image decides what it sees, unless that is hidden."""
    rows, vendors = _resource_rows(container, policy)
    means: list[ExplainedRow] = [("no device", "no amount is above 0")]
    shown = any(rule.hides for name in vendors for rule in policy.vendors[name].guard.rules)
    if shown and (plan is None or container.name not in plan.hidden):
        means.append(("may see all devices of its node", "if its image asks for them, which `hideDevices` prevents"))
    title = _title(container.name, " and ".join(vendors), None, init=container.init)
    return {"name": container.name, "title": title, "rows": {"keys": rows, "means": means}}


def _resource_rows(container: ContainerKeys, policy: Policy) -> tuple[list[ExplainedRow], list[str]]:
    """The rows of a container's resources, and the vendors of these."""
    vendors: dict[str, None] = {}
    rows: list[ExplainedRow] = []
    for key, (limit, request) in container.resources.items():
        owner = policy.resources.owners(key)[0]
        vendors[owner.vendor] = None
        vendor = policy.vendors[owner.vendor]
        text = limit if limit is not None else request or ""
        try:
            meaning = worth(vendor, vendor.keys[owner.key_name], parse_quantity(text))
        except QuantityError as error:
            meaning = error.why
        if request is not None and limit is not None and request != limit:
            text = f"{limit} in limits, {request} in requests"
        rows.append((f"{key}: {text}", meaning))
    return rows, [*vendors]


def _steps(
    container: ContainerTrace, plan: Plan | None, because: str, stays: str, lost: ExplainedRows
) -> dict[str, Sequence[ExplainedRow]]:
    """The rows of one container, as far as it got; `because` names what sets its target, `stays` why it has none."""
    requested, settled, left, reading = container
    vendor = requested.vendor
    keys = vendor.keys if reading is None else reading.form.keys
    rows: dict[str, Sequence[ExplainedRow]] = {
        "keys": [
            (_spelled(keys[each.key_name].place, each.key, each.text), worth(vendor, keys[each.key_name], each.number))
            for each in requested.all_key_values.values()
        ]
    }
    if left is not None:
        rows["means"] = [(f"stays unchanged: {left.why}", "")]
    elif reading is not None:
        rows["means"] = list(_meaning(requested, reading))
    if reading is not None and settled is not None and settled.translated:
        rows["target"] = [(settled.target.name, f"because: {because}")]
    if reading is None or settled is None or plan is None:  # left, or denied: nothing is written
        return {**rows, **lost}
    rows["written"] = list(_written(settled)) or [("nothing", "" if settled.translated else stays)]
    if settled.claim:
        path = plan.slots[requested.position].path
        request = f"request {plan.requests[path]} " if path in plan.requests else ""
        where = "in the namespace of the pod" + ("; all its requests are of one device" if request else "")
        rows["claim"] = [(f"{request}of the ResourceClaimTemplate {plan.templates[path].name}", where)]
    removed = (*(key for key, number in settled.resources.items() if number is None), *settled.dropped)
    rows |= _present("removed", ((key, "") for key in removed))
    rows |= _present("rounded", _rounded(settled))
    rows |= lost
    if _amounts(settled.request) != _amounts(settled.reading.request):
        rows["gets"] = [(_share(settled.request), "")]
    return rows | _present("shim", _shim(plan, requested.position))


def _spelled(place: KeyPlace, key: str, text: str) -> str:
    return f"{'' if place in {'resource', 'borrowed'} else f'{place} '}{key}: {text}"


def _meaning(container: ContainerRequest, reading: Reading) -> Iterator[ExplainedRow]:
    """Yield what the keys of a container mean, dimension by dimension, and why."""
    request = reading.request
    for dimension in DIMENSIONS:
        why = _origin(container, reading, dimension)
        if dimension == "devices":
            yield _devices(request.devices), why
        else:
            text = amount_text(getattr(request, dimension))
            yield f"{_of(text, dimension)}{'' if text == 'unlimited' else ' per device'}", why
    if amount_text(request.memory) == amount_text(request.cores) == "100%":
        yield "whole devices: not shared with other pods", ""


_WHOLE: Final = {
    "namespace": "the namespace's annotations",
    "settings": "the setting `bareDevices`",
    "mapping": "the mapping's default",
}
"""Who decides that a count alone is whole devices."""


def _origin(container: ContainerRequest, reading: Reading, dimension: Dimension) -> str:
    form, vendor = reading.form, container.vendor
    filled = reading.filled.get(dimension)
    if filled is not None and filled.value == ALL and container.bare:
        return f"a count alone is whole devices here, by {_WHOLE[filled.origin]}"
    if filled is not None and filled.origin == "namespace":
        return f"filled in: the namespace's annotation {labels.DEFAULT_PREFIX}{dimension}"
    if filled is not None:
        return f"filled in: the default of the mapping {vendor.name}"
    entry = _specifying(container, form, dimension)
    if entry is not None:
        return f"{entry}"
    if dimension in form.literals:
        return f"{vendor.name} reads these keys as {form.name!r}"
    if any(vendor.variables[name].rows for entry in container.key_values.values() for name, _ in entry.binding):
        return "implied by the name"
    if dimension == "cores" and form.absent.cores is UNLIMITED and reading.request.whole:
        return "all of the memory leaves nothing for others"
    return f"not specified: the meaning for {vendor.name}"


def _specifying(container: ContainerRequest, form: Form, dimension: Dimension) -> KeyValue | None:
    """The key that specifies a dimension, or None."""
    key_values = container.key_values
    if dimension == "devices" and isinstance(form.devices, Derived):
        return key_values.get(form.devices.key)
    if dimension in form.literals:
        return None
    return next((key_values[name] for name in container.vendor.by_dimension[dimension] if name in key_values), None)


_BY: Final[Mapping[str, str]] = {
    "namespace": f"the namespace's annotation {TARGET}",
    "served": "the setting `served`",
    "settings": "the setting `target`",
    "itself": "no annotation or setting names another",
}


def _target_by(vendor: Vendor, overrides: Overrides, policy: Policy, pod_target: str) -> str:
    origin = override_source(vendor, overrides, policy)
    if origin == "pod":
        return pod_target
    return f"`translateTo` of the mapping {vendor.name}" if origin == "mapping" else _BY[origin]


def _stays(vendor: Vendor, overrides: Overrides, policy: Policy) -> str:
    """Why a request stays in its keys beside another target; empty without one."""
    origin = override_source(vendor, overrides, policy)
    if origin == "served":
        return f"the keys stay: {_BY[origin]}"
    if origin == "itself" and policy.settings.target is not None:
        return f"the keys stay: {vendor.system} serves them, too"
    return ""


def _written(settled: Settled) -> Iterator[ExplainedRow]:
    """Yield the keys that are written, in the order of the status."""
    vendor, form = settled.target, settled.form
    names = index([vendor], "resource")
    for name, number in settled.resources.items():
        if number is not None:
            borrowed = vendor.borrowed.get(name)
            key = form.keys[names.owners(name)[0].key_name if borrowed is None else borrowed.name]
            meaning = worth(vendor, key, number)
            yield f"{name}: {exact_text(number)}", f"{meaning}; {_why(settled, name, key)}"
    for entry in settled.claim.values() if settled.translated else ():
        key = form.keys[entry.key_name]
        yield f"{entry}", f"{worth(vendor, key, entry.number)}; {_why(settled, entry.key, key)}"
    for key, name, text in settled.keys:
        meaning, why = _text_worth(vendor, form.keys[key.name], text), _why(settled, name, key)
        yield _spelled(key.place, name, text), f"{meaning}; {why}" if meaning else why


def _why(settled: Settled, name: str, key: Key) -> str:
    if settled.translated:
        filled = [dimension for dimension in key.dimensions if dimension in settled.reading.filled]
        return "filled in" if filled and len(filled) == len(key.dimensions) else "translated"
    if key.name in settled.reading.corrections:
        return "rounded up"
    return "copied from requests" if name in settled.requested.promoted else "filled in"


def _text_worth(vendor: Vendor, key: Key, text: str) -> str:
    try:
        return worth(vendor, key, parse_quantity(text) if key.kind == "amount" else 0)
    except QuantityError:
        return ""


def _rounded(settled: Settled) -> Iterator[ExplainedRow]:
    """Yield the numbers that the decision changed, in its order."""
    for finding in settled.findings:
        step = finding.step
        if step is not None:
            before, after = ("no limit" if text == "unlimited" else _spaced(text) for text in (step.before, step.after))
            difference = f", {_spaced(step.difference)}" if step.difference else ""
            yield f"{step.what}: {before} became {after}{difference}", finding.reason.code


def _amounts(request: Request) -> tuple[object, ...]:
    return request.devices, amount_text(request.memory), amount_text(request.cores)


def _share(request: Request) -> str:
    if request.whole:
        return f"{_devices(request.devices)}, whole"
    memory, cores = _of(amount_text(request.memory), "memory"), _of(amount_text(request.cores), "cores")
    return f"{_devices(request.devices)}, each with {memory} and {cores}"


def _devices(devices: int | None) -> str:
    return "? devices" if devices is None else "1 device" if devices == 1 else f"{devices} devices"


def _of(amount: str, dimension: str) -> str:
    if amount == "unlimited":
        return f"no limit of {dimension}"
    return f"all {dimension}" if amount == "100%" else f"{_spaced(amount)} of {dimension}"


def _spaced(amount: str) -> str:
    return f"{amount[:-2]} MiB" if amount.endswith("Mi") else amount.replace("%", " %")


def _shim(plan: Plan, position: int) -> Iterator[ExplainedRow]:
    """Yield how the library that enforces the share gets into a container; nothing without an allocation."""
    slot = plan.slots[position]
    allocation = next((allocation for allocation in plan.allocations if allocation.slot is slot), None)
    if allocation is None:
        return
    delivery = plan.deliveries.get(slot.name)
    changes = [*((f"mount {each['mountPath']}", _volume(plan, each)) for each in slot.mounts_added), *_variables(slot)]
    why = _delivery_reason(allocation, delivery, changes=bool(changes))
    yield f"{delivery}: {why}" if delivery else why, ""
    yield from changes


_SOURCES: Final = {
    "hostPath": "the node",
    "image": "an image",
    "emptyDir": "an init container",
    "csi": "a CSI driver",
}
"""What the library comes from, by delivery."""


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
    return f"the library comes from {_SOURCES[delivery or '']}, finds its limit in variables and is loaded first"


def _volume(plan: Plan, mount: Any) -> str:
    volume = next((volume for volume in plan.volumes_added if volume["name"] == mount["name"]), None)
    if volume is None:
        return f"volume {mount['name']}"
    [(kind, source)] = [(key, each) for key, each in volume.items() if key != "name"]
    size = source.get("sizeLimit")
    told = source.get("path") or source.get("reference") or source.get("driver") or (f"of {size}" if size else "")
    return f"{kind} {told}".rstrip()


def _variables(slot: Slot) -> Iterator[ExplainedRow]:
    for position, becomes in sorted(slot.edits.get("env", {}).items()):
        old = slot.sent["env"][position]
        if not becomes:
            yield f"env {old.name} is removed", ""
        for new in becomes:
            if new.name == old.name:
                yield _variable(new.name, new.value or "", "a value from elsewhere" if becomes[1:] else old.value)
            else:
                yield _variable(new.name, f"what {old.name} took from elsewhere", None)
    for entry in slot.env_added:
        yield _variable(entry["name"], entry.get("value", ""), None)


def _variable(name: str, value: str, before: str | None) -> ExplainedRow:
    was = "" if before is None else f" (it was {before or 'empty'})"
    return f"env {name}={value}{was}", ""
