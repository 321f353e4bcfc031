"""Nothing less isolated, nothing never placed: ``docs/behavior.md``, Translating, and what systems say of isolation."""

from collections.abc import Iterator

from tests.fuzz.amounts import PLAIN, names_in, stays_plain, target_of, whole_counts
from tests.fuzz.misspelled import PREFIX
from tests.fuzz.oracle.names import name_of
from tests.fuzz.oracle.reading import COUNTS, Read
from tests.fuzz.policies import HAMI
from tests.fuzz.trial import Finding, Trial

LOST = "VGW214"
SCHEDULERS = {
    **dict.fromkeys(("volcano", "volcano-legacy", "baidu", "cce"), "volcano"),
    **dict.fromkeys(("kai", "nvfractions"), "kai-scheduler"),
    **dict.fromkeys(("nvidia", *HAMI), "hami-scheduler"),
    "koordinator": "koord-scheduler",
    "vgpu-manager": "vgpu-scheduler",
}
"""Who brings a scheduler of its own."""
ALIKE = {
    "aliyun": {"gpushare"},
    "gpushare": {"aliyun"},
    "timeslicing": {"mps"},
    "mps": {"timeslicing"},
    "mig-single": {"nvidia", "whole"},
}
"""By vendor: who has all of its names."""


def served_findings(trial: Trial) -> Iterator[Finding]:
    """Everything that is wrong with what is admitted."""
    if trial.skipped or not trial.decision.allowed or not trial.enforced:
        return
    told = {finding.container for finding in trial.decision.warnings if finding.reason.code == LOST}
    for before, after in zip(trial.before, trial.after, strict=True):
        vendor = before.vendor
        if vendor is None or before.meaning is None:
            continue
        lost = after.vendor not in {vendor, "mig", "ascend", None} and is_isolated(trial, before)
        if lost and not _is_ordered(trial, vendor):
            yield Finding(
                "13 what hardware isolates is moved by order only", f"{before.name} to {after.vendor}", vendor
            )
        # A default of the namespace makes a share of a whole chip, too.
        if (lost and before.name not in told) or (
            before.name in told and vendor not in {"mig", "ascend", "tensor-fusion"}
        ):
            detail = f"{before.name}: {sorted(map(str, told))}"
            yield Finding("13 who loses isolation is told, nobody else", detail, vendor)
        if target_of(trial, vendor) != vendor and orders_unserved(trial):
            yield Finding("13 an order for what nothing serves is denied", f"{before.name}: {_orders(trial)}", vendor)
        if after.vendor == vendor and is_unserved(trial, before) and not stays_unserved(trial, before):
            yield Finding("13 what nothing serves is denied", before.name, vendor)
    yield from _schedulers(trial)


def _schedulers(trial: Trial) -> Iterator[Finding]:
    written, home = trial.stored["spec"].get("schedulerName"), trial.setup.home
    if not home or written == trial.case.pod["spec"].get("schedulerName"):
        return
    served = {SCHEDULERS.get(vendor, "default-scheduler") for vendor in home}
    if written not in {"default-scheduler", *served}:
        yield Finding("13 no scheduler is written that nobody runs", f"{written}: {sorted(served)}")


def is_isolated(trial: Trial, read: Read) -> bool:
    """Whether hardware isolates a request: a MIG slice, a partition, less than a chip of Ascend by a template."""
    if read.vendor == "mig":
        return True
    amounts = None if read.meaning is None else read.meaning.amounts()
    notes = trial.case.pod["metadata"].get("annotations") or {}
    by_hardware = {
        "ascend": "huawei.com/vnpu-mode" not in notes,
        "tensor-fusion": notes.get("tensor-fusion.ai/isolation") == "partitioned",
    }
    return by_hardware.get(read.vendor or "", False) and amounts is not None and not amounts.whole


def is_unserved(trial: Trial, read: Read) -> bool:
    """Whether a request stays in keys that nobody says the cluster serves, though somebody says what it does."""
    vendor, home = read.vendor or "", trial.setup.home
    return bool(home) and vendor not in home and target_of(trial, vendor) == vendor


def orders_unserved(trial: Trial) -> bool:
    """Whether the annotation that counts names who is not served; NVIDIA's plain plugin needs nobody who serves it."""
    home, ordered = trial.setup.home, next(iter(_orders(trial)), "whole")
    return bool(home) and ordered not in {"whole", *home} and ALIKE.get(ordered, set()).isdisjoint(home)


def stays_unserved(trial: Trial, read: Read) -> bool:
    """Whether such a request may be a plain device plugin's: whole devices by a count alone, to which nothing is added."""
    vendor, meaning = read.vendor or "", read.meaning
    if read.left:
        return vendor not in {"mig", "koordinator"}  # a slice of unknown size, a part of an MLU are shares all the same
    if meaning is None:
        return False
    amounts, names = meaning.amounts(), names_in(trial, read)
    plain = not read.used or all(map(PLAIN.fullmatch, names))
    if trial.setup.defaults.get(vendor, {}).keys() & meaning.unset and not (plain and whole_counts(trial)):
        return False
    if plain:
        return bool(read.used)
    return amounts is not None and amounts.whole and all(_counts(name, vendor) for name in names)


def _counts(name: str, vendor: str) -> bool:
    found = name_of(name)
    return found is not None and found.short.get(vendor) in COUNTS.get(vendor, ())


def stays(trial: Trial, read: Read) -> bool:
    """Whether a plain device plugin serves a container, so that it stays as it was sent."""
    return stays_plain(trial, read) or (is_unserved(trial, read) and stays_unserved(trial, read))


def denied_by_settings(trial: Trial, read: Read) -> bool:
    """Whether a container is denied for what the cluster serves."""
    vendor = read.vendor or ""
    if is_unserved(trial, read):
        return _is_ordered(trial, vendor) or not stays_unserved(trial, read)
    if target_of(trial, vendor) != vendor and orders_unserved(trial):
        return True
    moved = target_of(trial, vendor) not in {vendor, "mig", "mig-single"}
    return moved and not _is_ordered(trial, vendor) and (is_isolated(trial, read) or bool(read.refused))


def _is_ordered(trial: Trial, vendor: str) -> bool:
    return bool(_orders(trial)) or vendor in trial.setup.translate


def _orders(trial: Trial) -> list[str]:
    notes = (trial.case.pod["metadata"].get("annotations") or {}, trial.case.annotations)
    return [str(each[f"{PREFIX}target"]) for each in notes if f"{PREFIX}target" in each]
