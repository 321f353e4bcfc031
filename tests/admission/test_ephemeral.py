"""Ephemeral containers of pods of any size; what else is said of them is in `later/ephemeral.yaml`."""

import json
from typing import Any

from tests.decided import CONTEXT, POLICY, view
from webhook.admission.judge import MAX_DECISIONS, judge_ephemeral
from webhook.pod import decode_ephemeral

Json = dict[str, Any]
LIMITS = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000"}
PLAIN: Json = {"name": "shell", "image": "shell"}
ALL_DEVICES: Json = {**PLAIN, "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}


def code(*added: Json, **metadata: Any) -> str | None:
    """Why containers that are added to a pod with a share are denied."""
    pod = {"metadata": metadata, "spec": {"containers": [{"name": "main", "resources": {"limits": LIMITS}}]}}
    containers = decode_ephemeral(json.dumps({"spec": {"ephemeralContainers": list(added)}}).encode())
    denial = judge_ephemeral(view(pod), containers, CONTEXT, POLICY).denial
    return None if denial is None else denial.reason.code


def test_no_size_hides_anything() -> None:
    """Neither do thousands of annotations."""
    assert code(ALL_DEVICES, annotations={f"a.b/{number}": "" for number in range(2_000)}) == "VGW605"


def test_many() -> None:
    """Every one is judged, and too many at once are denied."""
    harmless = [{**PLAIN, "name": f"d{number}"} for number in range(MAX_DECISIONS // 2)]
    assert code(*harmless) is None
    assert code(*harmless[:-1], ALL_DEVICES) == "VGW605"
    assert code(*harmless, PLAIN) == "VGW318"
