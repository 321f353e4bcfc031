"""What will be written to a pod besides its keys, told for people: the shim of a container, and where the pod runs."""

from collections.abc import Iterator
from typing import Any

import msgspec

from webhook.admission.placement import DEFAULT_SCHEDULER
from webhook.admission.plan import Allocation, Plan
from webhook.explanation.model import Placed, ShimShown, Variable
from webhook.labels import STATUS
from webhook.patch import ContainerEdits
from webhook.pod import decode_env


def placed(work: Plan) -> tuple[Placed, ...]:
    """What changes of where the pod runs, and of its labels and annotations; the scheduler is always among it."""
    return tuple(_placed(work))


def _placed(work: Plan) -> Iterator[Placed]:
    spec, fields = work.pod.spec, work.edits.fields
    if work.allocations:
        before = spec.scheduler_name or DEFAULT_SCHEDULER
        yield Placed("schedulerName", before, fields.get("schedulerName", before))
    if "runtimeClassName" in fields:
        yield Placed("runtimeClassName", spec.runtime_class_name, fields["runtimeClassName"])
    if "nodeName" in fields:
        yield Placed("nodeName", spec.node_name, None)
        yield Placed("affinity", None, f"required: the node is called {spec.node_name}")
    for toleration in work.edits.tolerations:
        yield Placed("tolerations", None, _json(toleration))
    for edits, what in (
        (work.edits.node_selector, "nodeSelector"),
        (work.edits.labels, "label"),
        (work.edits.annotations, "annotation"),
    ):
        there = edits.current or {}
        for key, value in edits.values.items():
            if key != STATUS and there.get(key) != value:
                yield Placed(f"{what} {key}", there.get(key), value)


def _json(data: Any) -> str:
    return msgspec.json.encode(data).decode()


def shim_shown(work: Plan, position: int) -> ShimShown | None:
    """The shim of one container, by its position; None for one that holds nothing."""
    slot = work.slots[position]
    holding = next((one for one in work.allocations if one.slot is slot), None)
    if holding is None:
        return None
    edits = work.edits.container(slot)
    delivery = work.deliveries.get(slot.name)
    variables = tuple(_variables(edits))
    mounts = {entry["mountPath"]: _volume(work, entry) for entry in edits.mounts}
    return ShimShown(delivery, _why(holding, delivery, changes=bool(variables or mounts)), mounts, variables)


def _why(holding: Allocation, delivery: str | None, *, changes: bool) -> str:
    vendor, shim = holding.vendor, holding.vendor.shim
    if shim is None:
        return f"{vendor.name} has none: what its device plugin or driver does is all that keeps the share"
    if not holding.share:
        return "none: whole devices need no limit"
    if not shim.serves(holding.form):
        return f"none: {vendor.name} has none for {holding.form!r}"
    if delivery == "plugin":
        return "nothing is injected: the device plugin sees to it"
    if shim.limit == "env" and delivery == "none":
        return "nothing is injected: the limit is left to the device plugin"
    if not changes:
        return "already there"
    if delivery == "none":
        return "the device plugin brings the library and enforces; the loader is told where it is"
    return "the library comes from the node, finds its limit in variables and is loaded first"


def _volume(work: Plan, mount: Any) -> str:
    volume = next((one for one in work.edits.volumes if one["name"] == mount["name"]), None)
    if volume is None:
        return f"volume {mount['name']}"
    if "hostPath" in volume:
        return f"hostPath {volume['hostPath']['path']}"
    size = volume["emptyDir"].get("sizeLimit")
    return f"emptyDir{f' of {size}' if size else ''}"


def _variables(edits: ContainerEdits) -> Iterator[Variable]:
    there = decode_env(edits.slot.container.env)
    for index, value in edits.env_values.items():
        yield Variable(there[index].name, value, there[index].value)
    for index, name in edits.env_names.items():
        yield Variable(name, f"what {there[index].name} took from elsewhere", None)
    for entry in edits.env_inserted.values():
        yield Variable(entry["name"], entry["value"], "a value from elsewhere")
    for index in sorted(edits.env_removed):
        yield Variable(there[index].name, None, there[index].value)
    for entry in edits.env_appended:
        yield Variable(entry["name"], entry["value"], None)
