"""The label and the summary of changed pods: what people see of the status without reading JSON."""

import json
from typing import Any

from tests.strict_patch import apply_strictly
from webhook.admission import decide
from webhook.admission.decision import Context, Namespace
from webhook.admission.engine import MAX_LINES
from webhook.labels import SUMMARY, TARGET
from webhook.mapping.load import load_policy
from webhook.pod import decode_pod

POLICY = load_policy()
SHOWN = 138
"""Characters of a line of an annotation that ``kubectl describe`` shows (kubectl, describe.go, `maxAnnotationLen` less 2)."""


def changed(
    limits: dict[str, str], annotations: dict[str, str] | None = None, name: str = "train", containers: int = 1
) -> dict[str, Any]:
    """The metadata of a pod as it is stored."""
    names = [name, *(f"{name}-{number}" for number in range(1, containers))]
    pod = {
        "metadata": {"annotations": annotations or {}},
        "spec": {"containers": [{"name": each, "resources": {"limits": dict(limits)}} for each in names]},
    }
    context = Context(Namespace("team", {"vgpu-webhook.io/inject": "enabled"}))
    decision = decide(decode_pod(json.dumps(pod).encode()), context, POLICY)
    stored: dict[str, Any] = apply_strictly(pod, decision.patch)["metadata"]
    return stored


def test_lines_are_shown_whole() -> None:
    """A long name and large amounts of every dimension fit into what ``kubectl describe`` shows; containers are counted."""
    limits = {"nvidia.com/gpu": "4096", "nvidia.com/gpumem": "1048575"}
    lines = changed(limits, name="n" * 55, containers=MAX_LINES + 3)["annotations"]
    assert max(map(len, lines[SUMMARY].splitlines())) <= SHOWN
    translated = changed(
        {"tencent.com/vcuda-core": "50", "tencent.com/vcuda-memory": "16"},
        {TARGET: "nvidia"},
        name="n" * 55,
        containers=MAX_LINES + 3,
    )["annotations"][SUMMARY].splitlines()
    assert max(map(len, translated)) <= SHOWN
    assert translated[MAX_LINES:] == ["and 3 more containers", "scheduler: hami-scheduler"]
    assert translated[0].startswith("n" * 29 + "…: 1 device")
