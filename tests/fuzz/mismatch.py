"""Whether what a container gets is what it requested, and no more than the units of the target explain."""

from tests.fuzz.oracle.meaning import ALL, UNLIMITED, Amount, Amounts, Number, at_least
from tests.fuzz.oracle.steps import SETS, core_step, memory_step
from tests.fuzz.trial import Trial


def mismatch(trial: Trial, target: str, asked: Amounts, got: Amounts) -> str | None:
    """What is wrong with what a container gets; None where it is right, and no more than the target's units explain."""
    if got.devices != asked.devices:
        return "devices are those asked for"
    if UNLIMITED in {asked.memory, got.memory}:
        if got.memory != asked.memory and not (asked.memory == UNLIMITED and "VGW207" in trial.codes):
            return "memory is not less than asked"
    elif not any(at_least(got.memory, asked.memory, card) for card in _cards(trial, asked)):
        return "memory is not less than asked"
    elif not _least(target, got.memory, asked.memory, memory_step(target, asked, trial.setup.cluster)):
        return "memory is rounded no further than needed"
    return _cores_mismatch(trial, target, asked, got)


def _cores_mismatch(trial: Trial, target: str, asked: Amounts, got: Amounts) -> str | None:
    if got.cores == asked.cores:
        return None
    dropped = "VGW205" in trial.codes and target in trial.setup.drops
    if dropped and got.cores in {UNLIMITED, ALL}:
        return None
    if asked.cores == UNLIMITED and got.memory == got.cores == ALL:
        return None
    if asked.cores == UNLIMITED:
        return None if "VGW207" in trial.codes else "no limit of cores stays none"
    if not at_least(got.cores, asked.cores):
        return "cores are not less than asked"
    if got.cores[1] - asked.cores[1] >= core_step(target, asked, got):
        return "cores are rounded no further than needed"
    return None


def _least(target: str, got: Amount, asked: Amount, step: Number | None) -> bool:
    """Whether a step less would be too little; `step` None: not known."""
    if got == ALL and asked[0] == "size" and target in SETS:  # the last of the sizes is all of a device
        return asked[1] > SETS[target][-2]
    if got == asked or step is None or got[0] != asked[0]:
        return True
    return got[1] - asked[1] < (step if got[0] == "size" else 1)


def _cards(trial: Trial, asked: Amounts) -> list[Number | None]:
    """Bytes of the devices that the pod may get: of the one that its selector names, or by its affinity any that is known.

    Whole devices are never a size.
    """
    selected: str = (trial.case.pod["spec"].get("nodeSelector") or {}).get("nvidia.com/gpu.product", "")
    if "VGW210" not in trial.codes or asked.whole:
        return [None]
    return [trial.setup.cards[selected]] if selected in trial.setup.cards else [*trial.setup.cards.values()]
