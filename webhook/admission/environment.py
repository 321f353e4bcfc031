"""Variables that the source's device plugin sets and programs read, added where their values are known."""

from fractions import Fraction

from webhook.admission.plan import Allocation, Plan
from webhook.admission.resolution import Resolution
from webhook.admission.settled import Settled
from webhook.finding import Finding
from webhook.mapping.requests.key_values import format_value
from webhook.pod import decode_env
from webhook.reasons import Reason


def keep_environment(work: Plan, resolution: Resolution) -> None:
    """Add the variables of a translated request that follow from its keys, and report those that are not known.

    Variables of the pod stay, and so do those that the target's own plugin sets.
    """
    for holding, first in zip(work.allocations, resolution.settled, strict=True):
        for one in resolution.passes(first):
            if one.translated and one.requested.vendor.document.environment:
                _keep(work, holding, one)


def _keep(work: Plan, holding: Allocation, one: Settled) -> None:
    source, target = one.requested.vendor, one.target
    edits = work.edits.container(holding.slot)
    taken = {entry.name for entry in decode_env(holding.slot.container.env)} if work.watched(holding.slot) else set()
    taken.update(entry["name"] for entry in edits.env_appended)
    missing: list[str] = []
    for name, key in source.document.environment.items():
        if name in taken or name in target.document.environment:
            continue
        said = one.requested.key_values.get(key) if key is not None else None
        if key is None or said is None:
            missing.append(name)
            continue
        number = Fraction(said.number) / (one.request.devices or 1) if source.keys[key].total else said.number
        value = format_value(number)
        edits.env_appended.append({"name": name, "value": value})
        message = f"env {name}={value} was added: the plugin of {source.name} sets it, that of {target.name} does not"
        work.findings.append(Finding(Reason.VARIABLE_KEPT, message, one.requested.name, f"env[{name}]", value))
    if missing:
        message = (
            f"{', '.join(missing)}: set by the plugin of {source.name}, not by that of {target.name}: "
            "set it in the pod if the program needs it"
        )
        work.findings.append(Finding(Reason.VARIABLE_MISSING, message, one.requested.name))
