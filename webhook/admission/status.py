"""The status annotation: what was requested, its meaning, the defaults that applied, and what was written.

It is for people and tools; no decision reads it.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from webhook.admission.plan import Plan
from webhook.admission.resolve import PodResult
from webhook.admission.settle import Settled
from webhook.mapping.requests.values import format_value
from webhook.request import Request, amount_text
from webhook.text import shown

_encode = msgspec.json.Encoder().encode


def status_of(plan: Plan, resolution: PodResult) -> dict[str, Any]:
    """Return the status of a pod, as plain data with a stable order of keys."""
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
    """Return a status as the annotation contains it: compact JSON."""
    return shown(_encode(data).decode())


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
    if settled.filled:
        status["defaults"] = {dimension: default.origin for dimension, default in settled.filled.items()}
    if settled.translated:
        status["target"] = settled.target.name
    written = {name: format_value(number) for name, number in settled.resources.items() if number is not None}
    written |= {key: text for _, key, text in settled.keys}
    if written:
        status["written"] = written
    if delivery:
        status["shim"] = delivery
    if notes:
        status["notes"] = notes
    return status
