"""What programs read from the source's device plugin, kept for them where it is known without it."""

from fractions import Fraction

from webhook.admission.plan import Holding, Work
from webhook.admission.resolve import Resolution
from webhook.admission.settle import Settled
from webhook.finding import Finding
from webhook.mapping.requests.key_values import spoken
from webhook.pod import decode_env
from webhook.reasons import Reason


def keep_environment(work: Work, resolution: Resolution) -> None:
    """Sets the variables of a translated request that follow from its words, and tells of those that cannot be known.

    Variables of the pod stay as they are, and so is the business of a target whose own plugin sets one of that name.
    """
    for holding, first in zip(work.holdings, resolution.settled, strict=True):
        for one in resolution.passes(first):
            if one.translated and one.asking.vendor.document.environment:
                _keep(work, holding, one)


def _keep(work: Work, holding: Holding, one: Settled) -> None:
    source, target = one.asking.vendor, one.target
    edits = work.edits.container(holding.slot)
    taken = {entry.name for entry in decode_env(holding.slot.container.env)}
    taken.update(entry["name"] for entry in edits.env_appended)
    missing: list[str] = []
    for name, word in source.document.environment.items():
        if name in taken or name in target.document.environment:
            continue
        said = one.asking.said.get(word) if word is not None else None
        if word is None or said is None:
            missing.append(name)
            continue
        number = Fraction(said.number) / (one.request.devices or 1) if source.words[word].total else said.number
        value = spoken(number)
        edits.env_appended.append({"name": name, "value": value})
        message = f"env {name}={value} was set, which {source.name} sets there; {target.name} does not"
        work.findings.append(Finding(Reason.VARIABLE_KEPT, message, one.asking.name, f"env[{name}]", value))
    if missing:
        message = f"{target.name} does not set {', '.join(missing)}, as {source.name} does: a program must do without"
        work.findings.append(Finding(Reason.VARIABLE_MISSING, message, one.asking.name))
