"""Names of a system that a pod keeps: who is translated is told once, and nobody else."""

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Any

from tests.fuzz.belongings import NAMES, PLACED
from tests.fuzz.misspelled import PREFIX
from tests.fuzz.trial import Finding, Trial

Json = dict[str, Any]

REPORTED = "VGW510"
HINT = "VGW204"
"""An annotation with this is a hint that has no effect: as a label, the same name may be one that the pod keeps."""


def belonging_findings(trial: Trial) -> Iterator[Finding]:
    """Everything that is wrong with what is told of such names."""
    reports = [finding.message for finding in trial.decision.warnings if finding.reason.code == REPORTED]
    if trial.skipped or not trial.decision.allowed or trial.case.labels.get(f"{PREFIX}mode", "enforce") != "enforce":
        return
    expected = list(dict.fromkeys(_expected(trial)))
    if len(reports) != bool(expected):
        yield Finding("10 names of the source are reported once, others never", f"{expected}: {reports}")
    elif expected and " more" not in reports[0]:
        listed = reports[0].rpartition(": ")[2].split(", ")
        if sorted(listed) != sorted(expected):
            yield Finding("10 each name of the source is listed", f"{expected}: {reports}")


def _expected(trial: Trial) -> Iterator[str]:
    """What is to be listed: what the pod keeps, a source knows, and no vendor that serves one of its containers."""
    entries = {read.name: trial.entry(read.name) for read in trial.before}
    translated = [
        entry for entry in entries.values() if entry.get("target", entry.get("vendor")) != entry.get("vendor")
    ]
    sources = {entry["vendor"] for entry in translated}
    serving = {entry.get("target", entry.get("vendor")) for entry in entries.values()}
    serving |= {read.vendor for read in trial.before if not entries[read.name]}
    hints = [finding.message for finding in trial.decision.warnings if finding.reason.code == HINT]
    for place, name in _kept(trial.case.pod, trial.stored):
        if place == "annotation" and any(message.startswith(f"annotation {name} ") for message in hints):
            continue
        if _is_of(sources, name, trial) and not _is_of(serving, name, trial):
            yield f"{place} {name}"


def _is_of(vendors: Iterable[str | None], name: str, trial: Trial) -> bool:
    placed = PLACED if "everything placed" in trial.setup.name else {}
    known = [each for vendor in vendors for each in (*NAMES.get(vendor or "", ()), *placed.get(vendor or "", ()))]
    return any(name == each or ("=" not in name + each and fnmatchcase(name, each)) for each in known)


def _kept(sent: Json, stored: Json) -> Iterator[tuple[str, str]]:
    """The names in a pod as it was sent that are in the stored one, too."""
    for what, kind in (("label", "labels"), ("annotation", "annotations")):
        left = stored["metadata"].get(kind) or {}
        yield from ((what, key) for key in sent["metadata"].get(kind) or {} if key in left)
    spec = sent["spec"]
    for key, value in (spec.get("nodeSelector") or {}).items():
        yield from (("nodeSelector", each) for each in (key, f"{key}={value}"))
    nodes = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = nodes.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    preferred = nodes.get("preferredDuringSchedulingIgnoredDuringExecution") or []
    for term in (*(required.get("nodeSelectorTerms") or ()), *(each["preference"] for each in preferred)):
        for each in term.get("matchExpressions") or ():
            if each["operator"] in {"In", "Exists"}:
                values = (f"{each['key']}={value}" for value in each["values"])
                yield from (("node affinity", name) for name in (each["key"], *values))
    for each in spec.get("tolerations") or ():
        if "key" in each:
            yield from (("toleration", name) for name in (each["key"], f"{each['key']}={each.get('value')}"))
    yield from (("scheduling gate", each["name"]) for each in spec.get("schedulingGates") or ())
