"""A trace shows the decision itself: the same steps with the same results, in every mode."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs

from tests.decisions.test_cases import CASES, context_in, policy_in
from tests.yaml_text import load_yaml
from webhook.admission import decide
from webhook.admission.engine import trace
from webhook.labels import MODE
from webhook.pod import decode_pod

FOLDERS = [pytest.param(folder, id=folder.name) for folder in sorted(CASES.iterdir()) if (folder / "pod.yaml").exists()]


@pytest.mark.parametrize("folder", FOLDERS)
def test_trace_has_the_decision(folder: Path) -> None:
    """In each mode the trace holds what `decide` returns, and what it would return if the namespace enforced."""
    pod = decode_pod(json.dumps(load_yaml((folder / "pod.yaml").read_text())).encode())
    context, policy = context_in(folder), policy_in(folder)
    labels = {key: value for key, value in context.namespace.labels.items() if key != MODE}
    enforcing = structs.replace(context, namespace=replace(context.namespace, labels=labels))
    for mode in ("enforce", "warn", "audit", "enfroce"):
        policy.forget()
        moded = structs.replace(context, namespace=replace(context.namespace, labels={**labels, MODE: mode}))
        traced = trace(pod, moded, policy)
        assert traced.decision == decide(pod, moded, policy)
        assert traced.enforced.denial == decide(pod, enforcing, policy).denial
        resolution = traced.steps.resolution
        if resolution is not None:
            shown = [container.settled for container in traced.containers or () if container.settled is not None]
            assert shown == list(resolution.settled)
