"""A trace shows the decision itself: the same steps with the same results, in every mode."""

from dataclasses import replace
from pathlib import Path

from msgspec import structs

from tests.decisions.test_cases import FOLDERS, context_in, pod_in, policy_in
from tests.depth import few_or_all, in_turn
from tests.naming import naming
from webhook.admission import decide
from webhook.explanation.pods import trace
from webhook.labels import MODE
from webhook.pod import decode_pod

MODES = ("enforce", "warn", "audit", "enfroce")


@few_or_all
def test_trace_has_the_decision(most: int) -> None:
    """The trace holds what `decide` returns, and what it would return if the namespace enforced."""
    for at, folder in enumerate(FOLDERS[:: 8 if most == 1 else 1]):
        for mode in in_turn(MODES, at, most):
            with naming(f"{folder.name} in mode {mode}"):
                assert_traced(folder, mode)


def assert_traced(folder: Path, mode: str) -> None:
    """The trace of a case in a mode has its decision."""
    pod, context, policy = decode_pod(pod_in(folder)), context_in(folder), policy_in(folder)
    labels = {key: value for key, value in context.namespace.labels.items() if key != MODE}
    enforcing = structs.replace(context, namespace=replace(context.namespace, labels=labels))
    moded = structs.replace(context, namespace=replace(context.namespace, labels={**labels, MODE: mode}))
    policy.memo.clear()
    traced = trace(pod, moded, policy)
    assert traced.decision == decide(pod, moded, policy)
    assert traced.enforced.denial == decide(pod, enforcing, policy).denial
    resolution = traced.steps.resolution
    if resolution is not None:
        shown = [container.settled for container in traced.containers or () if container.settled is not None]
        assert shown == list(resolution.settled)
