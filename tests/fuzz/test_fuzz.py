"""The fuzzer itself: it finds nothing in a few thousand pods, and what is broken on purpose; each denial has a judge."""

import copy
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.fuzz import trial
from tests.fuzz.__main__ import BATCH, fuzz
from tests.fuzz.denials import JUDGES, Verdict, denial_verdict
from tests.fuzz.generate import Case, case_of
from tests.fuzz.judge import judge, shown
from tests.fuzz.trial import Trial
from tests.naming import each_of
from webhook.admission import Decision, decide
from webhook.reasons import Finding, Reason, ReasonKind

SEED = 20
BROKEN = 400
"""Pods in which a mistake that concerns every changed pod has to show."""

Operations = list[dict[str, Any]]


@pytest.mark.parametrize(
    "start, pods",
    [(0, 500), *(pytest.param(at * BATCH, BATCH, marks=pytest.mark.long, id=f"batch {at}") for at in range(10))],
)
def test_nothing_is_found(start: int, pods: int) -> None:
    """Some pods of a fixed seed, of whose denials documentation leaves few open; `make fuzz` takes as many as time permits."""
    tally = fuzz(SEED, start, start + pods, None, 1)
    assert tally.pods == pods
    assert {"changed", "denied", "untouched"} <= tally.outcomes.keys()
    assert not tally.findings, {key: shown(case_of(SEED, number)) for key, number in tally.first.items()}
    assert tally.judged > 0.95


def less_memory(operations: Operations) -> None:
    """One unit less of every number above 1."""
    for operation in operations:
        value = operation.get("value")
        if "/resources/" in operation["path"] and isinstance(value, str) and value.isdecimal() and int(value) > 1:
            operation["value"] = str(int(value) - 1)


def names_left(operations: Operations) -> None:
    """Nothing is removed."""
    operations[:] = [operation for operation in operations if operation["op"] != "remove"]


def no_limit(operations: Operations) -> None:
    """The shim without its limit."""
    for operation in operations:
        if operation["path"].endswith("/env") and isinstance(operation["value"], list):
            operation["value"] = [each for each in operation["value"] if each["name"] != "CUDA_DEVICE_MEMORY_LIMIT"]


MISTAKES: dict[Callable[[Operations], None], str] = {
    less_memory: "5 memory is not less than asked",
    names_left: "4 no name of the source is left",
    no_limit: "6 no shim without a limit",
}


def _is_found(rule: str) -> bool:
    """Whether one of the pods breaks the rule."""
    findings = (finding for number in range(1, BROKEN) for finding in judge(case_of(SEED, number))[1])
    return any(finding.rule == rule for finding in findings)


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.__name__)
def test_mistake_is_found(mistake: Callable[[Operations], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """A patch that is wrong in one respect breaks the rule that is about it."""

    def mistaken(*arguments: Any) -> Decision:
        decision = decide(*arguments)
        operations = copy.deepcopy(list(decision.patch))
        mistake(operations)
        return msgspec.structs.replace(decision, patch_json=msgspec.json.encode(operations) if operations else b"")

    monkeypatch.setattr(trial, "decide", mistaken)
    assert _is_found(MISTAKES[mistake])


LATER = {Reason.UNDONE, Reason.INVALID_DOCUMENT, Reason.OWNED_CHANGED, Reason.CLAIM_REFUSED}
"""Denials that no decision on a new pod makes, but the judge or the API server: test_judge.py, test_dra.py."""
DENIALS = [reason for reason in Reason if reason.kind is ReasonKind.DENIAL and reason not in LATER]
SHARE = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "4096", "nvidia.com/gpucores": "60"}


def test_every_denial_has_a_judge() -> None:
    """A code without one would be passed over by the fuzz."""
    assert JUDGES.keys() == {reason.code for reason in DENIALS}


@each_of("reason", DENIALS)
def test_judge_can_say_no(reason: Reason) -> None:
    """An ordinary share that another vendor can express is denied for no reason at all."""
    container = {"name": "c0", "image": "i", "resources": {"limits": SHARE, "requests": SHARE}}
    pod: dict[str, Any] = {"metadata": {"name": "p", "annotations": {"vgpu-webhook.io/target": "aliyun"}}}
    pod["spec"] = {"containers": [container]}
    plain = Trial(Case(1, {"vgpu-webhook.io/inject": "enabled"}, {}, "", pod))
    assert plain.decision.allowed
    plain.decision = Decision(allowed=False, reason=reason, denial=Finding(reason, "for no reason", "c0"))
    assert denial_verdict(plain) is Verdict.MISTAKEN
