"""Resource claims by the oracle: never beside a request in one container, never changed, never called no GPU."""

from collections.abc import Iterator

from tests.fuzz.oracle.claims import claims_in, names_a_gpu_class
from tests.fuzz.oracle.reading import Read
from tests.fuzz.served import stays
from tests.fuzz.trial import Finding, Trial

BESIDE = "VGW324"
REPORTED = "VGW112"
ONLY = "VGW011"
NOTHING = "VGW001"


def claim_findings(trial: Trial) -> Iterator[Finding]:
    """Everything that is wrong with what is made of a pod's claims."""
    if trial.skipped or not trial.enforced:
        return
    code = trial.decision.reason.code
    if not claims_in(trial.case.pod):
        if {code, *trial.codes} & {BESIDE, REPORTED, ONLY}:
            yield Finding("8 without claims none is reported", code)
        return
    if code == NOTHING:
        yield Finding("8 claims are not called no GPU", "")
    pairs = zip(trial.containers(), trial.before, strict=True)
    beside = [read for (container, _), read in pairs if read.vendor is not None and names_a_gpu_class(container)]
    if code == BESIDE and (not beside or trial.setup.claims_permitted):
        yield Finding("8 only a claim beside a request is denied", "")
    if trial.decision.allowed:
        yield from _admitted(trial, beside)


def _admitted(trial: Trial, beside: list[Read]) -> Iterator[Finding]:
    denied = [read for read in beside if read.meaning is not None and not trial.setup.claims_permitted]
    if denied:
        yield Finding("8 a claim beside a request is denied", denied[0].name, denied[0].vendor or "")
    requesting = [read for read in trial.before if read.meaning is not None and not stays(trial, read)]
    if requesting and REPORTED not in trial.codes:
        yield Finding("8 claims beside a request are reported", "")
    for before, after in trial.containers():
        if (before.get("resources") or {}).get("claims") != (after.get("resources") or {}).get("claims"):
            yield Finding("8 claims stay as they are", before["name"])
