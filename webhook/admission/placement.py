"""Placing: scheduler, runtime class, node selector, tolerations, labels and annotations that a vendor's devices need.

Values of the user are kept and reported, never overwritten; only a scheduler is replaced, if the user did not choose it.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from webhook.admission.affinity import pin_to_node
from webhook.admission.plan import Allocation, Plan
from webhook.finding import Finding, deny
from webhook.mapping.document.schema import Place
from webhook.patch import MapEdits
from webhook.reasons import Reason
from webhook.text import shorten

DEFAULT_SCHEDULER: Final = "default-scheduler"
"""What the API server writes for a pod that names none; a manifest that no API server has seen means the same."""

_tolerations = msgspec.json.Decoder(list[dict[str, Any]] | None)


def place_pod(work: Plan) -> None:
    """Place the pod by the mappings under which its containers run.

    Raises:
        Denied: the containers need different places, the user's scheduler is not permitted, or a share is requested by
            a privileged container or beside ``spec.nodeName``.
    """
    shares = [holding for holding in work.allocations if holding.share]
    for holding in shares:
        _check_privileged(holding)
    if shares and work.pod.spec.node_name:
        _free_from_node(work, work.pod.spec.node_name)
    if not work.allocations:
        return
    places = {holding.vendor.name: holding.vendor.place for holding in work.allocations}
    _set_scheduler(work)
    _set_runtime_class(work, places)
    _set_tolerations(work, places)
    for edits, what, wanted in (
        (work.edits.node_selector, "nodeSelector", {name: place.node_selector for name, place in places.items()}),
        (work.edits.labels, "label", {name: place.labels for name, place in places.items()}),
        (work.edits.annotations, "annotation", {name: place.annotations for name, place in places.items()}),
    ):
        if any(wanted.values()):
            _set_keys(work, edits, what, wanted)


def _check_privileged(holding: Allocation) -> None:
    security = holding.slot.container.security_context
    if security is not None and security.privileged and not holding.vendor.privileged_allowed:
        raise deny(
            Reason.PRIVILEGED,
            "a privileged container sees every device, so its share cannot be enforced: "
            "drop `privileged`, or request whole devices",
            container=holding.slot.name,
            field="securityContext.privileged",
            value="true",
        )


def _free_from_node(work: Plan, node: str) -> None:
    if work.policy.settings.node_name == "deny":
        raise deny(
            Reason.NODE_NAME,
            f"spec.nodeName {node} bypasses the scheduler, so no share can be allocated: "
            "select the node by nodeSelector or affinity instead",
            field="spec.nodeName",
            value=node,
        )
    work.edits.fields["nodeName"] = None
    work.edits.fields["affinity"] = pin_to_node(work.pod.spec.affinity, node)
    message = f"spec.nodeName {node} became a required node affinity, so that the scheduler allocates the share"
    work.findings.append(Finding(Reason.NODE_NAME_TO_AFFINITY, message, field="spec.nodeName", value=node))


def _set_scheduler(work: Plan) -> None:
    current = work.pod.spec.scheduler_name or DEFAULT_SCHEDULER
    left = {
        name
        for holding in work.allocations
        for vendor in holding.vendors
        if vendor is not holding.vendor
        for name in _own_schedulers(vendor.place)
    }
    needing = [holding for holding in work.allocations if holding.vendor.place.scheduler is not None]
    if not needing:
        if current in left and current != DEFAULT_SCHEDULER:
            _write_scheduler(
                work,
                DEFAULT_SCHEDULER,
                f"{_vendors(work.allocations)} needs no scheduler of its own; remove it from the pod",
            )
        return
    fitting = _common_schedulers(needing)
    if current in fitting:
        return
    if current == DEFAULT_SCHEDULER or current in left:
        advice = f"{_vendors(needing)} needs it; write it in the pod to avoid this warning"
        _write_scheduler(work, fitting[0], advice)
        return
    _settle_conflict(work, current, fitting[0], {holding.vendor.place.conflict for holding in needing})


def _write_scheduler(work: Plan, wanted: str, advice: str) -> None:
    """Replace the default scheduler, or that of a vendor under which nothing will run."""
    current = work.pod.spec.scheduler_name or DEFAULT_SCHEDULER
    work.edits.fields["schedulerName"] = wanted
    message = f"schedulerName set to {wanted} (was {current}): {advice}"
    work.findings.append(Finding(Reason.SCHEDULER_SET, message, None, "spec.schedulerName", current))


def _vendors(allocations: Iterable[Allocation]) -> str:
    return " and ".join(dict.fromkeys(allocation.vendor.name for allocation in allocations))


def _own_schedulers(place: Place) -> tuple[str, ...]:
    """The schedulers that belong to a vendor; the first is the one that is written."""
    return () if place.scheduler is None else (place.scheduler, *place.schedulers)


def _common_schedulers(needing: list[Allocation]) -> list[str]:
    """The schedulers that suit all of these containers, of which each needs one."""
    first = needing[0]
    fitting = list(_own_schedulers(first.vendor.place))
    for other in needing[1:]:
        if other.vendor is first.vendor:
            continue
        own = _own_schedulers(other.vendor.place)
        if not any(name in own for name in fitting):
            raise deny(
                Reason.SCHEDULERS_DIFFER,
                f"needs scheduler {own[0]} and container {first.slot.name} needs {fitting[0]}: "
                "use the keys of one vendor, or split the pod",
                container=other.slot.name,
                field="spec.schedulerName",
            )
        fitting = [name for name in fitting if name in own]
    return fitting


def _settle_conflict(work: Plan, current: str, wanted: str, says: set[str]) -> None:
    """The pod names a scheduler of the user's choice; of several mappings the strictest decides."""
    field = "spec.schedulerName"
    if "deny" in says:
        message = f"schedulerName {current} cannot place this request: remove it, or write {wanted}"
        raise deny(Reason.SCHEDULER_CONFLICT, message, field=field, value=current)
    if "override" in says:
        work.edits.fields["schedulerName"] = wanted
        message = f"schedulerName {current} was replaced by {wanted}, which the request needs: remove it"
        work.findings.append(Finding(Reason.SCHEDULER_OVERRIDDEN, message, None, field, current))
        return
    message = f"schedulerName {current} was kept, but the request needs {wanted}: remove it, or write {wanted}"
    work.findings.append(Finding(Reason.SCHEDULER_KEPT, message, None, field, current))


def _set_runtime_class(work: Plan, places: Mapping[str, Place]) -> None:
    wanted = {name: place.runtime_class_name for name, place in places.items() if place.runtime_class_name}
    if not wanted:
        return
    runtime_class = _agreed("runtimeClassName", wanted)
    current = work.pod.spec.runtime_class_name
    if not current:
        work.edits.fields["runtimeClassName"] = runtime_class
    elif current != runtime_class:
        _report_kept(work, f"runtimeClassName {current}", runtime_class, "spec.runtimeClassName")


def _set_tolerations(work: Plan, places: Mapping[str, Place]) -> None:
    wanted = [toleration for place in places.values() for toleration in place.tolerations]
    if not wanted:
        return
    raw = work.pod.spec.tolerations
    there = {_toleration_key(toleration) for toleration in (_tolerations.decode(raw) if bytes(raw) else None) or ()}
    for toleration in wanted:
        key = _toleration_key(toleration)
        if key not in there:
            there.add(key)
            work.edits.tolerations.append(toleration)


def _toleration_key(toleration: Mapping[str, Any]) -> tuple[str, ...]:
    """What a toleration says, with what an absent member means."""
    return (
        str(toleration.get("key") or ""),
        str(toleration.get("operator") or "Equal"),
        str(toleration.get("value") or ""),
        str(toleration.get("effect") or ""),
        str(toleration.get("tolerationSeconds")),
    )


def _set_keys(work: Plan, edits: MapEdits, what: str, wanted: Mapping[str, Mapping[str, str]]) -> None:
    keys = {key: None for values in wanted.values() for key in values}
    for key in keys:
        value = _agreed(f"{what} {key}", {name: values[key] for name, values in wanted.items() if key in values})
        # An earlier step may have taken the key away, with the keys of the source; then it is free.
        there = edits.values[key] if key in edits.values else (edits.current or {}).get(key)
        if there is None:
            edits.values[key] = value
        elif there != value:
            _report_kept(work, f"{what} {key}={there}", value, f"{what}[{key}]")


def _agreed(what: str, wanted: Mapping[str, str]) -> str:
    """The one value that all of these vendors want."""
    (first, value), *others = wanted.items()
    for name, other in others:
        if other != value:
            raise deny(
                Reason.CONTAINERS_DISAGREE,
                f"{what}: {first} needs {value} and {name} needs {other}, and a pod can have only one: split the pod",
            )
    return value


def _report_kept(work: Plan, what: str, wanted: str, field: str) -> None:
    message = f"{_short(what)} was kept, but the mapping sets {wanted}: remove it to get that"
    work.findings.append(Finding(Reason.PLACEMENT_KEPT, message, field=field))


def _short(text: str) -> str:
    return shorten(text, 100)
