"""What is written to a pod besides its keys, explained: the shim of a container, and where the pod runs."""

from collections.abc import Iterator
from typing import Any

import msgspec

from webhook.admission.placement import DEFAULT_SCHEDULER
from webhook.admission.plan import Allocation, Plan
from webhook.explanation.model import Placed, ShimShown, Variable
from webhook.labels import STATUS
from webhook.patch import ContainerEdits
from webhook.pod import decode_env


def placed(plan: Plan) -> tuple[Placed, ...]:
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
            if key != STATUS and current.get(key) != value:
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
    return ShimShown(delivery, _why(allocation, delivery, changes=bool(variables or mounts)), mounts, variables)


def _why(allocation: Allocation, delivery: str | None, *, changes: bool) -> str:
    vendor, shim = allocation.vendor, allocation.vendor.shim
    if shim is None:
        return f"{vendor.name} has none: what its device plugin or driver does is all that keeps the share"
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


def _variables(edits: ContainerEdits) -> Iterator[Variable]:
    env = decode_env(edits.slot.container.env)
    for index, value in edits.env_values.items():
        yield Variable(env[index].name, value, env[index].value)
    for index, name in edits.env_names.items():
        yield Variable(name, f"what {env[index].name} took from elsewhere", None)
    for entry in edits.env_inserted.values():
        yield Variable(entry["name"], entry["value"], "a value from elsewhere")
    for index in sorted(edits.env_removed):
        yield Variable(env[index].name, None, env[index].value)
    for entry in edits.env_appended:
        yield Variable(entry["name"], entry["value"], None)
