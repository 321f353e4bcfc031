"""Misspelled labels and annotations: each is reported; those of the webhook change nothing else."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from tests.fuzz.generate import Case
from tests.fuzz.misspelled import PREFIX, misspelled_in, nearly_read
from tests.fuzz.trial import Finding, Trial

REPORTED = "VGW113"


def own_key_findings(trial: Trial) -> Iterator[Finding]:
    """Everything that is wrong with what is made of misspelled keys."""
    case, metadata = trial.case, trial.case.pod["metadata"]
    on_pod = [key for place in ("labels", "annotations") for key in misspelled_in(metadata.get(place))]
    on_namespace = [*misspelled_in(case.labels), *misspelled_in(case.annotations)]
    reports = [finding.text for finding in trial.decision.warnings if finding.reason.code == REPORTED]
    quiet = trial.skipped or case.labels.get(f"{PREFIX}mode") == "audit"
    requests = any(read.vendor for read in trial.before)
    expected = [] if quiet else [*on_pod, *(on_namespace if requests else ())]
    for key in expected:
        if not any(f" {key} " in text for text in reports):
            yield Finding("9 a misspelled key is reported", key)
    if len(reports) > len(on_pod) + len(on_namespace):
        yield Finding("9 nothing else is reported as misspelled", "; ".join(reports))
    if on_pod or on_namespace:
        yield from _differences(trial, Trial(_correct(case)))
    denial = trial.decision.denial
    if not quiet and denial is None:
        told = [finding.text for finding in trial.decision.warnings]
        for key in nearly_read(trial.keys):
            if not any(f"{key} is not a known" in text for text in told):
                yield Finding("9 a misspelled key of a system is reported", key)


def _differences(trial: Trial, correct: Trial) -> Iterator[Finding]:
    """How the decision differs from the one on the same pod without misspelled keys."""
    seen, expected = ((each.decision.allowed, _denial(each)) for each in (trial, correct))
    if seen != expected:
        yield Finding("9 a misspelled key changes no decision", f"{seen}, without: {expected}")
    elif trial.decision.patch_json:
        stored = _correct(replace(trial.case, pod=trial.stored)).pod
        if stored != _correct(replace(trial.case, pod=correct.stored)).pod:
            yield Finding("9 a misspelled key changes nothing that is stored", trial.decision.patch_json.decode())


def _denial(trial: Trial) -> str | None:
    return None if trial.decision.denial is None else trial.decision.denial.text


def _correct(case: Case) -> Case:
    """The case without misspelled keys; maps that are left empty are left out."""
    metadata = {key: value for key, value in case.pod["metadata"].items() if key not in {"labels", "annotations"}}
    for place in ("labels", "annotations"):
        if known := _known(case.pod["metadata"].get(place) or {}):
            metadata[place] = known
    pod = {**case.pod, "metadata": metadata}
    return replace(case, labels=_known(case.labels), annotations=_known(case.annotations), pod=pod)


def _known(carried: Mapping[str, str]) -> dict[str, str]:
    unknown = set(misspelled_in(carried))
    return {key: value for key, value in carried.items() if key not in unknown}
