"""The label and the summary of changed pods: what people see of the status without reading JSON."""

import json
from typing import Any

from tests.naming import each_of
from tests.strict_patch import apply_strictly
from webhook.admission import decide
from webhook.admission.decision import Context, Namespace
from webhook.admission.engine import MAX_LINES
from webhook.labels import CHANGED, SUMMARY, TARGET
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


@each_of(
    "limits, annotations, label, line",
    [
        ({"nvidia.com/gpu": "1"}, {}, "filled", "train: 1 device, memory 5000Mi by default, cores unlimited"),
        (
            {"nvidia.com/gpu": "2", "nvidia.com/gpumem": "3000"},
            {},
            "completed",
            "train: 2 devices, memory 3000Mi each, cores unlimited",
        ),
        (
            {"tencent.com/vcuda-core": "50", "tencent.com/vcuda-memory": "16"},
            {TARGET: "nvidia"},
            "translated",
            "train: 1 device, memory 4096Mi, cores 50%, translated from vcuda",
        ),
        (
            {"nvidia.com/gpu": "2", "nvidia.com/gpumem-percentage": "100", "nvidia.com/gpucores": "100"},
            {},
            "completed",
            "train: 2 whole devices",
        ),
    ],
)
def test_what_was_done(limits: dict[str, str], annotations: dict[str, str], label: str, line: str) -> None:
    """The label says the most that was done, the summary what each container gets and where its pod goes."""
    metadata = changed(limits, annotations)
    assert metadata["labels"] == {CHANGED: label}
    assert metadata["annotations"][SUMMARY].splitlines() == [line, "scheduler: hami-scheduler"]


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
