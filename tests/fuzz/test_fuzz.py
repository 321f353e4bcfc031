"""The fuzzer itself: it finds nothing here in a few thousand pods, and it finds what is broken on purpose."""

import copy
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.fuzz import trial
from tests.fuzz.__main__ import BATCH, fuzz, run_batch
from tests.fuzz.generate import case_of
from tests.fuzz.judge import judge, shown
from tests.fuzz.misspelled import misspelled_in
from webhook.admission import Decision, decide, guard
from webhook.pod import Pod
from webhook.reasons import Reason

SEED = 20
SEED_OF_SANDBOXES = 21
"""Among whose first pods are some for gVisor or Kata that nothing else denies."""
BROKEN = 400
"""Pods in which a mistake that concerns every changed pod has to show."""
ONLY = 200
"""Pods in which it breaks no other rule besides."""

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


def test_pod_of_a_seed_is_always_the_same() -> None:
    """Whatever was generated before, and in another process."""
    alone = case_of(SEED, 77)
    for number in range(20):
        case_of(SEED, number)
    assert case_of(SEED, 77) == alone
    assert case_of(SEED + 1, 77) != alone
    program = (
        "from tests.fuzz.generate import case_of; from tests.fuzz.judge import shown; print(shown(case_of(20, 77)))"
    )
    elsewhere = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert elsewhere.stdout.strip() == shown(alone)


def less_memory(operations: Operations) -> None:
    """One unit less of every number above 1."""
    for operation in operations:
        value = operation.get("value")
        if "/resources/" in operation["path"] and isinstance(value, str) and value.isdecimal() and int(value) > 1:
            operation["value"] = str(int(value) - 1)


def more_memory(operations: Operations) -> None:
    """A tenth more of every number above 1000."""
    for operation in operations:
        value = operation.get("value")
        if "/resources/" in operation["path"] and isinstance(value, str) and value.isdecimal() and int(value) > 1000:
            operation["value"] = str(int(value) * 11 // 10)


def limits_only(operations: Operations) -> None:
    """Nothing is written to the requests."""
    operations[:] = [
        operation for operation in operations if "/requests" not in operation["path"] or operation["op"] == "remove"
    ]


def names_left(operations: Operations) -> None:
    """Nothing is removed."""
    operations[:] = [operation for operation in operations if operation["op"] != "remove"]


def no_limit(operations: Operations) -> None:
    """The shim without its limit."""
    for operation in operations:
        if operation["path"].endswith("/env") and isinstance(operation["value"], list):
            operation["value"] = [each for each in operation["value"] if each["name"] != "CUDA_DEVICE_MEMORY_LIMIT"]


def open_path(operations: Operations) -> None:
    """A search path that ends in a colon."""
    for operation in operations:
        if operation["path"].endswith("/env") and isinstance(operation["value"], list):
            for each in operation["value"]:
                if each["name"] == "LD_LIBRARY_PATH":
                    each["value"] += ":"


def missing_parent(operations: Operations) -> None:
    """Something is added where there is nothing to add it to."""
    if operations:
        operations.append({"op": "add", "path": "/spec/nowhere/at/all", "value": "1"})


MISTAKES: dict[Callable[[Operations], None], str] = {
    less_memory: "5 memory is not less than asked",
    more_memory: "5 memory is rounded no further than needed",
    limits_only: "4 limits and requests agree",
    names_left: "4 no name of the source is left",
    no_limit: "6 no shim without a limit",
    open_path: "6 no search path through the current directory",
    missing_parent: "2 the patch applies strictly",
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


@pytest.mark.parametrize(
    "reason, rule",
    [
        (Reason.OWN_KEY_UNUSED, "9 a misspelled key is reported"),
        (Reason.BELONGINGS_KEPT, "10 names of the source are reported once, others never"),
    ],
)
def test_what_is_not_reported_is_found(reason: Reason, rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A misspelled key, or a name of the source's, that is not reported breaks the rule about it."""

    def silent(*arguments: Any) -> Decision:
        decision = decide(*arguments)
        warnings = tuple(finding for finding in decision.warnings if finding.reason is not reason)
        return msgspec.structs.replace(decision, warnings=warnings)

    monkeypatch.setattr(trial, "decide", silent)
    rules = {rule for rule, _ in run_batch((SEED, 1, ONLY)).findings}
    assert rules == {rule}


def test_share_that_reaches_out_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A guard that lets fields and paths of the node pass breaks the rules about them, and no other."""
    monkeypatch.setattr(guard, "_guard_kept", lambda *_, **__: None)
    rules = {rule for rule, _ in run_batch((SEED_OF_SANDBOXES, 1, BROKEN)).findings}
    assert rules == {
        "6 no share reaches out of its container",
        "6 no share in a sandbox",
        "6 no library in a sandbox",
    }


def test_key_that_counts_although_misspelled_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A decision that depends on a misspelled key breaks the rule about it."""

    def lenient(pod: Pod, *arguments: Any) -> Decision:
        carried = {**(pod.metadata.labels or {}), **(pod.metadata.annotations or {})}
        decision = decide(pod, *arguments)
        return msgspec.structs.replace(decision, denial=None) if misspelled_in(carried) else decision

    monkeypatch.setattr(trial, "decide", lenient)
    assert _is_found("9 a misspelled key changes no decision")


def test_exception_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is raised is a finding with the place where it was."""

    def raising(*arguments: Any) -> Decision:
        raise ZeroDivisionError(arguments)

    monkeypatch.setattr(trial, "decide", raising)
    _, (finding,) = judge(case_of(SEED, 1))
    assert finding.rule == "7 no exception"
    assert "ZeroDivisionError" in finding.detail
