"""What is remembered of one pod is never taken for another; the search over siblings can tell for every field that decides."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import islice

import msgspec
import pytest

from tests.depth import few_or_all
from tests.fuzz.draw import Draw
from tests.fuzz.generate import case_of
from tests.fuzz.policies import SETUPS
from tests.fuzz.remembered import sibling_findings
from tests.fuzz.siblings import FIELDS, has, sibling_of
from tests.fuzz.trial import Trial

SEED = 23
LOOKED_AT = 300
"""Pods that are generated; siblings are drawn of those that have the field, then of the others."""
ENOUGH = 4
"""Pairs that are decided differently, after which a field is done in the ordinary run."""
OF_INSTALLER = {f"spec.containers.{name}" for name in ("image", "command", "args", "restartPolicy")}
"""What matters of the init container that brings the shim, which a pod has once it is stored by one of `SETUPS`."""
_PLACED = ("spec.tolerations", "spec.nodeSelector", "spec.affinity", "spec.runtimeClassName", "context.user")
_NUMBERS = {setup.name: number for number, setup in enumerate(SETUPS)}
SETUPS_OF = {
    **dict.fromkeys(OF_INSTALLER, _NUMBERS["a shim that an init container copies, target nvidia"]),
    **dict.fromkeys(_PLACED, _NUMBERS["target nvidia, everything placed, a scheduler's marks its own"]),
    "context.image_volumes": _NUMBERS["a shim that an image brings, target nvidia"],
}
"""Where a field matters by what is configured; elsewhere a mapping without it is as good."""
BEFORE = {
    *("metadata.name", "metadata.generateName", "metadata.namespace", "metadata.ownerReferences", "spec.os"),
    "context.namespace.name",
}
"""What decides nothing, or before anything is remembered."""


def trials(field: str) -> Iterator[Trial]:
    """Trials of pods: those first that have a field, as they are stored where it is of what brings the shim."""
    cases = [case_of(SEED, number) for number in range(LOOKED_AT)]
    for case in sorted(cases, key=lambda case: not has(sibling_of(case), field)):
        with suppress(msgspec.DecodeError):
            trial = Trial(replace(case, setup=SETUPS_OF.get(field, case.setup)))
            if field not in OF_INSTALLER:
                yield trial
            elif "initContainers" in str(trial.decision.patch):
                yield Trial(replace(trial.case, pod=trial.stored))


@few_or_all
@pytest.mark.parametrize("field", FIELDS)
def test_siblings_are_decided_alike_after_one_another(field: str, most: int) -> None:
    """The property itself, for each field, by some pods that are decided differently from their siblings."""
    draw, differing = Draw(1), 0
    for trial in islice(trials(field), 12 if field in BEFORE else None):
        differ, findings = sibling_findings(trial, draw, field)
        assert not findings
        differing += differ
        if differing >= ENOUGH * most:
            break
    assert differing or field in BEFORE
