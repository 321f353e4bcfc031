"""What is remembered of one pod is never taken for another; the search over siblings can tell for every field that decides."""

from dataclasses import replace
from functools import cache

import msgspec
import pytest

from tests.fuzz.draw import Draw
from tests.fuzz.generate import case_of
from tests.fuzz.remembered import sibling_findings
from tests.fuzz.siblings import FIELDS, has, sibling_of
from tests.fuzz.trial import Trial

SEED = 23
LOOKED_AT = 300
"""Pods that are generated; siblings are drawn of those that have the field, then of the others."""
ENOUGH = 3
"""Pairs that are decided differently, after which a field is done."""
SETUPS_OF = {
    "spec.tolerations": 16,
    "spec.nodeSelector": 16,
    "spec.affinity": 14,
    "context.user": 16,
    "spec.runtimeClassName": 16,
    "context.image_volumes": 21,
}
"""Where a field matters by what is configured; elsewhere a mapping without it is as good."""
INSTALLING = 22
OF_INSTALLER = {f"spec.containers.{name}" for name in ("image", "command", "args", "restartPolicy")}
"""What matters of the init container that brings the shim, which a pod has once it is stored by one of `SETUPS`."""
BEFORE = {
    *("metadata.name", "metadata.generateName", "metadata.namespace", "metadata.ownerReferences", "spec.os"),
    "context.namespace.name",
}
"""What decides nothing, or before anything is remembered."""


@cache
def trials(setup: int | None) -> list[Trial]:
    """Trials of pods by one of `SETUPS`, or by that which was drawn."""
    found = []
    for number in range(LOOKED_AT):
        case = case_of(SEED, number)
        try:
            found.append(Trial(case if setup is None else replace(case, setup=setup)))
        except msgspec.DecodeError:
            continue
    return found


@cache
def installing() -> list[Trial]:
    """Trials of pods as they are stored with an init container that brings the shim.

    Not where the guard strips: at second sight it takes the limits that the shim itself has written for the author's.
    """
    cases = [trial for trial in trials(INSTALLING) if "initContainers" in str(trial.decision.patch)]
    return [
        Trial(replace(trial.case, pod=trial.stored)) for trial in cases if "strip" not in str(trial.case.annotations)
    ]


@pytest.mark.parametrize("field", FIELDS)
def test_siblings_are_decided_alike_after_one_another(field: str) -> None:
    """The property itself, for each field, by some pods that are decided differently from their siblings."""
    draw, differing = Draw(1), 0
    found = installing() if field in OF_INSTALLER else trials(SETUPS_OF.get(field))
    tried = sorted(found, key=lambda trial: not has(sibling_of(trial), field))
    for trial in tried[: 12 if field in BEFORE else None]:
        differ, findings = sibling_findings(trial, draw, field)
        assert not findings
        differing += differ
        if differing == ENOUGH:
            break
    assert differing or field in BEFORE
