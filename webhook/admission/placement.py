"""Placement: scheduler, runtime class, node selector, tolerations, labels and annotations that a vendor's devices need.

Values of the user are kept and reported, never overwritten; only a scheduler is replaced, if the user did not choose it.

Names that only the source's system knows are kept, too, and reported: its queues, gangs and nodes mean nothing to the target.
References to ConfigMaps that only its scheduler creates are removed: the source's own webhook, which may have been called
before, names them in an annotation, and lets variables, ``envFrom`` and volumes take their content from there. Where another
scheduler places the pod nobody creates them, and its containers would never start.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from webhook.admission.advice import or_whole
from webhook.admission.decision import Allocation, Plan
from webhook.admission.intent import DEFAULT_SCHEDULER
from webhook.mapping.model.policy import Policy
from webhook.mapping.model.vendor import PlacedIn, Placing, Vendor, system_names
from webhook.patch import Slot
from webhook.pod import (
    GATES,
    TOLERATIONS,
    Toleration,
    entries,
    node_terms,
    refers,
    value_source,
)
from webhook.reasons import Finding, Reason, deny
from webhook.text import shorten


def pin_to_node(affinity: msgspec.Raw, node: str) -> dict[str, Any]:
    """Return the affinity with the requirement that the node is called `node`.

    The terms of a node selector are alternatives, so the requirement is added to each of them; an empty term selects no
    node and is kept. It is written as the DaemonSet controller writes it, a form that schedulers handle fast.

    Raises:
        msgspec.ValidationError: it is not an affinity.
    """
    try:
        pinned = _members(msgspec.json.decode(affinity) if bytes(affinity) else None)
    except RecursionError as error:
        raise msgspec.ValidationError("the affinity is nested too deeply") from error
    node_affinity = _members(pinned.get("nodeAffinity"))
    key = "requiredDuringSchedulingIgnoredDuringExecution"
    required = _members(node_affinity.get(key))
    requirement = {"key": "metadata.name", "operator": "In", "values": [node]}
    terms = _objects(required.get("nodeSelectorTerms"))
    required["nodeSelectorTerms"] = [_with(requirement, term) for term in terms] or [{"matchFields": [requirement]}]
    return {**pinned, "nodeAffinity": {**node_affinity, key: required}}


def _with(requirement: dict[str, Any], term: dict[str, Any]) -> dict[str, Any]:
    fields = _objects(term.get("matchFields"))
    if requirement in fields or not (fields or term.get("matchExpressions")):
        return term
    return {**term, "matchFields": [*fields, requirement]}


def _objects(value: object) -> list[dict[str, Any]]:
    """The members of a JSON array of objects; none if it is absent or null."""
    return [] if value is None else msgspec.convert(value, list[dict[str, Any]])


def _members(value: object) -> dict[str, Any]:
    """The members of a JSON object; none if it is absent or null."""
    return {} if value is None else msgspec.convert(value, dict[str, Any])


MAX_REFERENCES: Final = 256
"""The most references that are removed from one pod: an honest pod has a handful."""


def drop_references(plan: Plan) -> None:
    """Remove what the webhook of a translated request's source wrote for that system alone.

    Runs before the guard, which would deny variables with ``valueFrom``.
    """
    keys = {each.source.config_maps for each in plan.allocations if each.source.config_maps != each.vendor.config_maps}
    found = sorted({*plan.annotations} & keys)
    if not found:
        return
    prefixes = tuple([f"{plan.annotations.pop(key)}-" for key in found])
    plan.volume_edits |= {at: () for at, each in enumerate(plan.volumes) if refers(each.config_map, prefixes)}
    dropped = sum([_drop_variables(slot, prefixes) for slot in plan.slots]) + len(plan.volume_edits)
    if dropped > MAX_REFERENCES:
        names = "* and ".join(prefixes)
        message = f"{dropped} references to ConfigMaps {names}* have to be removed: remove them from the manifest"
        raise deny(Reason.TOO_MANY, message)


def _drop_variables(slot: Slot, prefixes: tuple[str, ...]) -> int:
    """Remove a container's references to ConfigMaps, and return how many they are."""
    sources = [(each, value_source(each)) for each in slot.env]
    env = [each for each, of in sources if of and of[0] == "configMapKeyRef" and of[1].startswith(prefixes)]
    env_from = [each for each in slot.env_from if refers(each.config_map_ref, prefixes)]
    slot.drop("env", env)
    slot.drop("env_from", env_from)
    return len(env) + len(env_from)


def place_pod(plan: Plan) -> None:
    """Place the pod by the mappings under which its containers run."""
    if not plan.allocations:
        return
    for allocation in plan.allocations:
        if allocation.share:
            check_privileged(plan, allocation)
    _free_from_node(plan)
    _set_scheduler(plan)
    scheduler = plan.fields.get("schedulerName", plan.pod.spec.scheduler_name) or DEFAULT_SCHEDULER
    for allocation in plan.allocations:
        if not allocation.share and allocation.vendor.place.scheduler == scheduler:
            check_privileged(plan, allocation)
    places = {allocation.vendor.name: allocation.vendor.place for allocation in plan.allocations}
    _set_runtime_class(plan, places)
    _set_tolerations(plan, places)
    _set_keys(plan, places)


def check_privileged(plan: Plan, allocation: Allocation) -> None:
    """Deny any privileged container beside devices, if their mapping says so: it sees those of all containers.

    Beside whole devices only as their own system does.
    """
    vendor, served = allocation.vendor, allocation.slot
    denied = {"deny"} if not allocation.share else {"deny", "shares"}
    if vendor.privileged not in denied:
        return
    for slot in plan.slots:
        security = slot.container.security_context
        if security is None or not security.privileged:
            continue
        whose = "its share" if slot.path == served.path else f"the share of container {served.name}"
        message = f"a privileged container sees every device, so {whose} cannot be enforced: drop `privileged`"
        if not allocation.share:
            message = f"{vendor.system} denies pods with devices and a privileged container: drop `privileged`"
        elif vendor.privileged == "shares":
            message += or_whole(plan, vendor)
        field = "securityContext.privileged"
        plan.deny(Finding(Reason.PRIVILEGED, message, slot.name, field, "true"))


def _by_scheduler(allocation: Allocation) -> bool:
    """Whether a scheduler chooses the devices, so that a pod that bypasses it gets none."""
    vendor = allocation.vendor
    if vendor.allocates is not None:
        return vendor.allocates == "scheduler"
    return allocation.share or vendor.place.scheduler is not None


def _free_from_node(plan: Plan) -> None:
    """Have the scheduler choose the node that a pod names, if it allocates the devices."""
    node = plan.pod.spec.node_name
    allocated = [each for each in plan.allocations if _by_scheduler(each)] if node else []
    if not node or not (allocated or plan.templates):
        return
    if plan.policy.settings.node_name == "deny":
        message = (
            f"spec.nodeName {node} bypasses the scheduler, so {_systems(allocated or plan.allocations)} can allocate no "
            "device: select the node by nodeSelector or affinity instead"
        )
        raise deny(Reason.NODE_NAME, message, field="spec.nodeName", value=node)
    plan.fields["nodeName"] = None
    plan.fields["affinity"] = pin_to_node(plan.pod.spec.affinity, node)
    message = f"spec.nodeName {node} became a required node affinity, so that the scheduler allocates the devices"
    plan.findings.append(Finding(Reason.NODE_NAME_TO_AFFINITY, message, field="spec.nodeName", value=node))


def _set_scheduler(plan: Plan) -> None:
    """Replace the default scheduler, or the scheduler of a vendor under which nothing will run, if another is needed."""
    current = plan.pod.spec.scheduler_name or DEFAULT_SCHEDULER
    needing = [allocation for allocation in plan.allocations if allocation.vendor.place.scheduler is not None]
    suitable = _common_schedulers(needing) if needing else [DEFAULT_SCHEDULER]
    replaceable = current == DEFAULT_SCHEDULER or current in _replaceable(plan)
    if current in suitable or not (needing or replaceable):
        return
    target = plan.policy.vendors.get(plan.policy.settings.target or "")
    preferred = None if target is None else target.place.scheduler
    needed = preferred if preferred in suitable else suitable[0]
    if not replaceable:
        _settle_conflict(plan, current, needed, {allocation.vendor.place.conflict for allocation in needing})
        return
    # Nobody chose another scheduler, nor has the request moved to another system.
    moved = any([each.source is not each.vendor for each in plan.allocations])
    expected = current == DEFAULT_SCHEDULER and not moved
    why = f"{_systems(needing)} needs it" + ("" if expected else "; write it in the pod to avoid this warning")
    if not needing:
        why = f"{_systems(plan.allocations)} needs no scheduler of its own; remove it from the pod"
    plan.fields["schedulerName"] = needed
    message = f"schedulerName set to {needed} (was {current}): {why}"
    plan.findings.append(Finding(Reason.SCHEDULER_SET, message, None, "spec.schedulerName", current, expected=expected))


def _replaceable(plan: Plan) -> set[str]:
    """The schedulers of vendors under which nothing will run."""
    return {
        name
        for allocation in plan.allocations
        for vendor in allocation.vendors
        if vendor is not allocation.vendor
        for name in _own_schedulers(vendor.place)
    }


def _systems(allocations: Iterable[Allocation]) -> str:
    return " and ".join(dict.fromkeys([allocation.vendor.system for allocation in allocations]))


def _own_schedulers(place: Placing) -> tuple[str, ...]:
    """The schedulers that belong to a vendor; the first one is written."""
    return () if place.scheduler is None else (place.scheduler, *place.schedulers)


def _common_schedulers(needing: list[Allocation]) -> list[str]:
    """The schedulers that suit all of these containers, each of which needs one."""
    suitable = list(_own_schedulers(needing[0].vendor.place))
    for other in needing[1:]:
        own = _own_schedulers(other.vendor.place)
        common = [name for name in suitable if name in own]
        if not common:
            raise deny(
                Reason.SCHEDULERS_DIFFER,
                f"needs scheduler {own[0]} and container {needing[0].slot.name} needs {suitable[0]}: "
                "use the keys of one vendor, or split the pod",
                container=other.slot.name,
                field="spec.schedulerName",
            )
        suitable = common
    return suitable


def _settle_conflict(plan: Plan, current: str, needed: str, actions: set[str]) -> None:
    """Handle a scheduler that the user chose; of several mappings the strictest decides."""
    field = "spec.schedulerName"
    if "deny" in actions:
        message = f"schedulerName {current} cannot place this request: remove it, or write {needed}"
        raise deny(Reason.SCHEDULER_CONFLICT, message, field=field, value=current)
    reason = Reason.SCHEDULER_KEPT
    message = f"schedulerName {current} was kept, but the request needs {needed}: remove it, or write {needed}"
    if "override" in actions:
        plan.fields["schedulerName"], reason = needed, Reason.SCHEDULER_OVERRIDDEN
        message = f"schedulerName {current} was replaced by {needed}, which the request needs: remove it"
    plan.findings.append(Finding(reason, message, None, field, current))


def _set_runtime_class(plan: Plan, places: Mapping[str, Placing]) -> None:
    needed = {name: place.runtime_class_name for name, place in places.items() if place.runtime_class_name}
    if not needed:
        return
    runtime_class = _common_value("runtimeClassName", needed)
    current = plan.pod.spec.runtime_class_name
    if not current:
        plan.fields["runtimeClassName"] = runtime_class
    elif current != runtime_class:
        _report_kept(plan, f"runtimeClassName {current}", runtime_class, "spec.runtimeClassName")


def _set_tolerations(plan: Plan, places: Mapping[str, Placing]) -> None:
    needed = [toleration.data() for place in places.values() for toleration in place.tolerations]
    present = {_meaning(each) for each in entries(plan.pod.spec.tolerations, TOLERATIONS)} if needed else set()
    for data in needed:
        meaning = _meaning(msgspec.convert(data, Toleration))
        if meaning not in present:
            present.add(meaning)
            plan.tolerations_added.append(data)


def _meaning(each: Toleration) -> tuple[object, ...]:
    """A toleration as it can be compared, with the meanings of absent members."""
    return each.key or "", each.operator or "Equal", each.value or "", each.effect or "", each.toleration_seconds


def _set_keys(plan: Plan, places: Mapping[str, Placing]) -> None:
    """Set the labels, annotations and node selector keys that the mappings write; what the pod has there is kept."""
    if not any([any(place.written.values()) for place in places.values()]):  # as nearly always
        return
    needed: dict[PlacedIn, dict[str, dict[str, str]]] = {"nodeSelector": {}, "label": {}, "annotation": {}}
    for name, place in places.items():
        for where, written in place.written.items():
            for key, value in written.items():
                needed[where].setdefault(key, {})[name] = value
    for texts, (where, keys) in zip((plan.node_selector, plan.labels, plan.annotations), needed.items(), strict=True):
        for key, values in keys.items():
            value = _common_value(f"{where} {key}", values)
            current = texts.setdefault(key, value)
            if current != value:
                _report_kept(plan, f"{where} {key}={current}", value, f"{where}[{key}]")


def _common_value(what: str, needed: Mapping[str, str]) -> str:
    """The value that all of these vendors need."""
    (first, value), *others = needed.items()
    for name, other in others:
        if other != value:
            raise deny(
                Reason.CONTAINERS_DISAGREE,
                f"{what}: {first} needs {value} and {name} needs {other}, and a pod can have only one: split the pod",
            )
    return value


def _report_kept(plan: Plan, what: str, value: str, field: str) -> None:
    message = f"{shorten(what, 100)} was kept, but the mapping sets {value}: remove it to get that"
    plan.findings.append(Finding(Reason.PLACEMENT_KEPT, message, field=field))


MAX_BELONGINGS: Final = 8
"""The most names that one warning lists; pods of any system carry fewer."""

_encode: Final = msgspec.json.Encoder().encode

_AWAY: Final = {"NotIn", "DoesNotExist"}
"""Operators that keep a pod away from the source's nodes, as it should be after a translation."""


MAX_HINTS: Final = 64
"""The most annotations of a pod that are reported as hints; all vendors together know fewer."""


def report_hints(plan: Plan) -> None:
    """Report hints for the source's scheduler, which have no effect with another target and are left unchanged."""
    moves = [(each.source, each.vendor) for each in plan.allocations if each.vendor is not each.source]
    if not moves:
        return
    for source, target in {(source.name, target.name): (source, target) for source, target in moves}.values():
        source_system, target_system = system_names(source, target)
        for key in sorted(source.owned.hints.among(plan.pod.metadata.annotations or {}))[:MAX_HINTS]:
            if _lost_hint(key, source, target, plan.policy):
                message = (
                    f"annotation {key} is a hint for {source_system} and has no effect with {target_system}: remove it"
                )
                plan.findings.append(Finding(Reason.HINT_NOT_CARRIED, message, field=key))


def _lost_hint(key: str, source: Vendor, target: Vendor, policy: Policy) -> bool:
    """Whether a hint is for the source alone, and neither was translated with the request nor selects devices of a claim."""
    if not source.owned.hint(key) or target.owned.hint(key):
        return False
    selects = {name: kind.removeprefix("not_") for kind, name in source.selects}.get(key)
    selected = any(each.selects == selects for each in target.keys.values() if each.selects)
    return not selected and all(owner.vendor != source.name for owner in policy.annotations.owners(key))


def report_belongings(plan: Plan) -> None:
    """Report, in one warning, what a translated pod keeps though only the systems of its sources know it."""
    translated = [allocation for allocation in plan.allocations if allocation.vendor is not allocation.source]
    if not translated:
        return
    spec, metadata = plan.pod.spec, plan.pod.metadata
    names = _encode([*(metadata.labels or ()), *(metadata.annotations or ()), *(spec.node_selector or ())])
    # One search, with false positives.
    if not plan.policy.marks_of_belongings(b"".join([names, spec.affinity, spec.tolerations, spec.scheduling_gates])):
        return
    kept = [*dict.fromkeys(_belongings(plan, [each.source for each in translated]))]
    if kept:
        more = f" and {len(kept) - MAX_BELONGINGS} more" if len(kept) > MAX_BELONGINGS else ""
        systems = [system_names(allocation.source, allocation.vendor) for allocation in translated]
        source, target = (" and ".join(dict.fromkeys(names)) for names in zip(*systems, strict=True))
        message = f"remove or replace what only {source} knows, for {target} serves the request"
        listed = ", ".join(kept[:MAX_BELONGINGS])
        plan.findings.append(Finding(Reason.BELONGINGS_KEPT, f"{message}: {listed}{more}"))


def _belongings(plan: Plan, sources: Collection[Vendor]) -> Iterator[str]:
    """Yield what a pod keeps that belongs to the systems of these vendors, and that none that serves it knows."""
    carried = [*_carried(plan)]
    known = {*plan.policy.marks.belongs.among([name for _, name in carried])}
    serving = [*(allocation.vendor for allocation in plan.allocations), *(vendor for _, vendor, _ in plan.left_alone)]
    for place, name in carried:
        if name in known and not any(_declares(vendor, name, plan.policy) for vendor in serving):
            owning = (source.owned for source in sources if source.owned.knows(name))
            if any(place != "annotation" or not owned.hint(name) for owned in owning):
                yield f"{place} {shorten(name, 100)}"


def _carried(plan: Plan) -> Iterator[tuple[str, str]]:
    """Yield the names that a pod carries and keeps, each with its place; of nodes also with their values."""
    spec, metadata = plan.pod.spec, plan.pod.metadata
    for place, sent, kept in (
        ("label", metadata.labels, plan.labels),
        ("annotation", metadata.annotations, plan.annotations),
    ):
        yield from ((place, key) for key in filter(kept.__contains__, sent or ()))
    for key, value in (spec.node_selector or {}).items():
        yield from (("nodeSelector", key), ("nodeSelector", f"{key}={value}"))
    yield from (("node affinity", name) for name in _in_affinity(spec.affinity))
    for toleration in entries(spec.tolerations, TOLERATIONS):
        yield from (("toleration", toleration.key or ""), ("toleration", f"{toleration.key}={toleration.value}"))
    yield from (("scheduling gate", gate.name) for gate in entries(spec.scheduling_gates, GATES))


def _in_affinity(affinity: msgspec.Raw) -> Iterator[str]:
    """Yield the labels of nodes that an affinity prefers or requires, also with their values."""
    required, preferred = node_terms(affinity)
    for term in (*required, *preferred):
        for each in term.match_expressions or ():
            if each.operator not in _AWAY:
                yield from (each.key, *(f"{each.key}={value}" for value in each.values or ()))


def _declares(vendor: Vendor, name: str, policy: Policy) -> bool:
    """Whether a vendor knows a name: it belongs to its system, is a hint for it, or one of its keys."""
    read = (policy.labels, policy.annotations, policy.node_selector)
    return (
        vendor.owned.knows(name)
        or vendor.owned.hint(name)
        or any(owner.vendor == vendor.name for names in read for owner in names.owners(name))
    )
