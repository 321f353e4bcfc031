"""What a changed pod says of itself, for people and tools: the status, a summary of it, and what was done most."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal

from webhook.admission.decision import Plan
from webhook.admission.settled import Settled
from webhook.admission.together import PodResult
from webhook.quantity import exact_text
from webhook.reasons import Finding
from webhook.request import DIMENSIONS, Request, amount_text

_BY_DEFAULT: Final = " by default"

MAX_LINES: Final = 8
"""Lines of a summary for containers."""

MAX_NAME: Final = 30
"""Characters of a container's name in it: ``kubectl describe`` shows 138 of a line."""


def most_done(settled: Sequence[Settled]) -> Literal["translated", "filled", "completed", "hidden"]:
    """Return the most that was done to a pod; one that requests nothing was changed only to hide devices."""
    if any([each.translated for each in settled]):
        return "translated"
    if any([each.reading.filled for each in settled]):
        return "filled"
    return "completed" if settled else "hidden"


def summary_of(status: Mapping[str, Any], plan: Plan) -> str:
    """Return what became of a pod, by its status: a line for each requesting container, and one for what concerns the pod."""
    lines = [_line(name, container) for name, container in status["containers"].items()]
    if len(lines) > MAX_LINES:
        lines[MAX_LINES:] = [f"and {len(lines) - MAX_LINES} more containers"]
    if plan.hidden:
        names = [name[:MAX_NAME] for name in plan.hidden[:MAX_LINES]]
        more = f" and {len(plan.hidden) - MAX_LINES} more" if len(plan.hidden) > MAX_LINES else ""
        lines.append(f"devices hidden from: {', '.join(names)}{more}")
    if plan.stripped:
        lines.append(f"removed by the guard: {plan.stripped}")
    if "scheduler" in status:
        lines.append(f"scheduler: {status['scheduler']}")
    return "\n".join(lines)


def _line(name: str, container: Mapping[str, Any]) -> str:
    request = container["allocation"] if "allocation" in container else container["request"]
    defaults = container.get("defaults", ())
    devices, memory, cores = request["devices"], request["memory"], request["cores"]
    many, each = ("device", "") if devices == 1 else ("devices", " each")
    counted, sized, parted = [_BY_DEFAULT if dimension in defaults else "" for dimension in DIMENSIONS]
    if memory == cores == "100%":
        amounts = f"{devices} whole {many}{counted}"
    else:
        amounts = f"{devices} {many}{counted}, memory {memory}{each}{sized}, cores {cores}{parted}"
    source = f", translated from {container['vendor']}" if "target" in container else ""
    claim = f", claim of {container['claim']}" if "claim" in container else ""
    claim += f", its request {container['claimRequest']}" if "claimRequest" in container else ""
    return f"{name if len(name) <= MAX_NAME else name[: MAX_NAME - 1] + '…'}: {amounts}{source}{claim}"


def status_of(plan: Plan, resolution: PodResult, noted: Iterable[Finding]) -> dict[str, Any]:
    """Return the status of a pod: what was requested, its meaning, the defaults that applied, and what was written.

    Plain data with a stable order of keys.
    """
    notes: dict[str | None, list[str]] = {}
    for finding in noted:
        notes.setdefault(finding.container, []).append(f"{finding.reason.code}: {finding.message}")
    containers: dict[str, Any] = {}
    for settled in resolution.settled:
        name = settled.requested.name
        containers[name] = _container(settled, plan.deliveries.get(name), notes.get(name))
        if settled.claim:
            path = plan.slots[settled.requested.position].path
            containers[name]["claim"] = plan.templates[path].name
            if path in plan.requests:
                containers[name]["claimRequest"] = plan.requests[path]
    status: dict[str, Any] = {"policy": plan.policy.digest, "containers": containers}
    if "schedulerName" in plan.fields:
        status["scheduler"] = plan.fields["schedulerName"]
    if plan.hidden:
        status["hidden"] = plan.hidden
    return status


def _amounts(request: Request) -> dict[str, Any]:
    return {
        "devices": request.devices,
        "memory": amount_text(request.memory),
        "cores": amount_text(request.cores),
    }


def _container(settled: Settled, delivery: str | None, notes: list[str] | None) -> dict[str, Any]:
    status: dict[str, Any] = {
        "vendor": settled.requested.vendor.name,
        "keys": {entry.key: entry.text for entry in settled.requested.all_key_values.values()},
        "request": _amounts(settled.reading.request),
    }
    if settled.request != settled.reading.request:
        status["allocation"] = _amounts(settled.request)
    if settled.reading.filled:
        status["defaults"] = {dimension: default.origin for dimension, default in settled.reading.filled.items()}
    if settled.translated:
        status["target"] = settled.target.name
    written = {name: exact_text(number) for name, number in settled.resources.items() if number is not None}
    written |= {key: text for _, key, text in settled.keys}
    written |= {entry.key: entry.text for entry in settled.claim.values()}
    if written:
        status["written"] = written
    if delivery:
        status["shim"] = delivery
    if notes:
        status["notes"] = notes
    return status
