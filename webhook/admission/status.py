"""The status annotation: what was requested, its meaning, the defaults that applied, and what was written.

It is for people and tools; no decision reads it.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from webhook.admission.plan import Plan
from webhook.admission.resolution import Resolution
from webhook.admission.settled import Settled
from webhook.mapping.requests.key_values import format_value
from webhook.request import Request, amount_text

_encode = msgspec.json.Encoder().encode


def status_of(plan: Plan, resolution: Resolution) -> dict[str, Any]:
    """The status of one pod, as plain data with a stable order of keys."""
    notes: dict[str | None, list[str]] = {}
    for finding in plan.findings:
        if finding.reason.note:
            notes.setdefault(finding.container, []).append(f"{finding.reason.code}: {finding.message}")
    containers: dict[str, Any] = {}
    for settled in resolution.settled:
        name = settled.requested.name
        containers[name] = _container(settled, plan.deliveries.get(name), notes.get(name))
    return {"policy": plan.policy.digest, "containers": containers}


def status_text(data: Mapping[str, Any]) -> str:
    """A status as the annotation `vgpu-webhook.io/status` has it: compact JSON."""
    return _encode(data).decode()


def _amounts(request: Request) -> dict[str, Any]:
    return {
        "devices": request.devices,
        "memory": amount_text(request.memory),
        "cores": amount_text(request.cores),
    }


def _container(one: Settled, delivery: str | None, notes: list[str] | None) -> dict[str, Any]:
    requested, allocated = _amounts(one.reading.request), _amounts(one.request)
    entry: dict[str, Any] = {
        "vendor": one.requested.vendor.name,
        "keys": {said.key: said.text for said in one.requested.all_key_values.values()},
        "request": requested,
    }
    if allocated != requested:
        entry["allocation"] = allocated
    if one.filled:
        entry["defaults"] = {dimension: default.origin for dimension, default in one.filled.items()}
    if one.translated:
        entry["target"] = one.target.name
    written = {name: format_value(number) for name, number in one.resources.items() if number is not None}
    written |= {key: text for _, key, text in one.keys}
    if written:
        entry["written"] = written
    if delivery:
        entry["shim"] = delivery
    if notes:
        entry["notes"] = notes
    return entry
