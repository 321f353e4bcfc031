"""Variables that the source's device plugin sets and programs read, added where their values are known."""

from fractions import Fraction

from webhook.admission.plan import Allocation, Plan
from webhook.admission.resolution import Resolution
from webhook.admission.settled import Settled
from webhook.finding import Finding
from webhook.mapping.requests.key_values import format_value
from webhook.pod import decode_env
from webhook.reasons import Reason


def keep_environment(plan: Plan, resolution: Resolution) -> None:
    """Add the variables of a translated request that follow from its keys, and report those that are not known.

    Variables of the pod are kept, and those that the target's own plugin sets are left to it.
    """
    for allocation, first in zip(plan.allocations, resolution.settled, strict=True):
        for settled in resolution.passes(first):
            if settled.translated and settled.requested.vendor.document.environment:
                _keep(plan, allocation, settled)


def _keep(plan: Plan, allocation: Allocation, settled: Settled) -> None:
    source, target, requested = settled.requested.vendor, settled.target, settled.requested
    edits = plan.edits.container(allocation.slot)
    taken = (
        {entry.name for entry in decode_env(allocation.slot.container.env)} if plan.watched(allocation.slot) else set()
    )
    taken.update(entry["name"] for entry in edits.env_appended)
    missing: list[str] = []
    for name, key in source.document.environment.items():
        if name in taken or name in target.document.environment:
            continue
        entry = requested.key_values.get(key) if key is not None else None
        if key is None or entry is None:
            missing.append(name)
            continue
        number = Fraction(entry.number) / (settled.request.devices or 1) if source.keys[key].total else entry.number
        value = format_value(number)
        edits.env_appended.append({"name": name, "value": value})
        message = f"env {name}={value} was added: the plugin of {source.name} sets it, that of {target.name} does not"
        plan.findings.append(Finding(Reason.VARIABLE_ADDED, message, requested.name, f"env[{name}]", value))
    if missing:
        message = (
            f"{', '.join(missing)}: set by the plugin of {source.name}, not by that of {target.name}: "
            "set it in the pod if the program needs it"
        )
        plan.findings.append(Finding(Reason.VARIABLE_MISSING, message, requested.name))
