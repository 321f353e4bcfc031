"""Whether what a container gets is what it requested, and no more than the units of the target explain."""

from tests.fuzz.oracle.meaning import ALL, UNLIMITED, Amount, Amounts, Number, at_least
from tests.fuzz.oracle.steps import SETS, core_step, memory_step
from tests.fuzz.trial import Trial


def mismatch(trial: Trial, target: str, requested: Amounts, got: Amounts) -> str | None:
    """What is wrong with what a container gets; None where it is right, and no more than the target's units explain."""
    if got.devices != requested.devices:
        return "devices are those asked for"
    if UNLIMITED in {requested.memory, got.memory}:
        if got.memory != requested.memory and not (requested.memory == UNLIMITED and "VGW207" in trial.codes):
            return "memory is not less than asked"
    elif not any(at_least(got.memory, requested.memory, card) for card in _cards(trial, requested)):
        return "memory is not less than asked"
    elif not _least(target, got.memory, requested.memory, memory_step(target, requested, trial.setup.cluster)):
        return "memory is rounded no further than needed"
    return _cores_mismatch(trial, target, requested, got)


def _cores_mismatch(trial: Trial, target: str, requested: Amounts, got: Amounts) -> str | None:
    if got.cores == requested.cores:
        return None
    dropped = "VGW205" in trial.codes and target in trial.setup.drops
    if dropped and got.cores in {UNLIMITED, ALL}:
        return None
    if requested.cores == UNLIMITED and got.memory == got.cores == ALL:
        return None
    if requested.cores == UNLIMITED:
        return None if "VGW207" in trial.codes else "no limit of cores stays none"
    if not at_least(got.cores, requested.cores):
        return "cores are not less than asked"
    if got.cores[1] - requested.cores[1] >= core_step(target, requested, got):
        return "cores are rounded no further than needed"
    return None


def _least(target: str, got: Amount, requested: Amount, step: Number | None) -> bool:
    """Whether a step less would be too little; `step` None: not known."""
    if got == ALL and requested[0] == "size" and target in SETS:  # the last of the sizes is all of a device
        return requested[1] > SETS[target][-2]
    if got == requested or step is None or got[0] != requested[0]:
        return True
    return got[1] - requested[1] < (step if got[0] == "size" else 1)


def _cards(trial: Trial, requested: Amounts) -> list[Number | None]:
    """Bytes of the devices that the pod may get: of the one that its selector names, or by its affinity any that is known.

    Whole devices are never a size.
    """
    selected: str = (trial.case.pod["spec"].get("nodeSelector") or {}).get("nvidia.com/gpu.product", "")
    if "VGW210" not in trial.codes or requested.whole:
        return [None]
    return [trial.setup.cards[selected]] if selected in trial.setup.cards else [*trial.setup.cards.values()]
