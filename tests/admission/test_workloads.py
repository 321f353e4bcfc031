"""What whoever applies a workload is told, to the letter: a table of objects, judged as `/validate` judges them.

`object` is one, or a pod's spec and metadata to put into the template of a Job; `labels` are ours, of its namespace.
``--update-golden`` writes `told` anew.
"""

from pathlib import Path
from typing import Any

import pytest

from tests.decided import POLICY, view
from tests.yaml_text import hold
from webhook.admission import Context, Namespace
from webhook.admission.judge import MAX_PARTS, judge_templates, strays
from webhook.reasons import Finding
from webhook.workloads import known_workloads, pods_in, spots_in

TABLE = Path(__file__).with_name("workloads.yaml")
Json = dict[str, Any]


def object_of(case: Json) -> Json:
    """The object of a case."""
    if "object" in case:
        return dict(case["object"])
    template = {"metadata": case.get("template", {}), "spec": case["spec"]}
    metadata = {"name": "j", **case.get("metadata", {})}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": template}}


def judged(data: Json, labels: Json | None = None) -> tuple[Finding, ...]:
    """What is said of an object, where its namespace has opted in."""
    group, slash, _ = data["apiVersion"].rpartition("/")
    where = data, group if slash else "", data["kind"], known_workloads()
    own = {
        f"vgpu-webhook.io/{key}": value for key, value in ({"inject": "enabled"} if labels is None else labels).items()
    }
    pods = [("", view(pod)) for _, pod in pods_in(*where)]
    found = [each.finding for each in strays(data, list(spots_in(*where)), POLICY)]
    return judge_templates(pods, Context(Namespace("team", own), "privileged"), POLICY, found).warnings


def test_told(*, update_golden: bool) -> None:
    """Each object has what its line says."""

    def told(case: Json) -> str:
        return "\n".join(each.text for each in judged(object_of(case), case.get("labels")))

    hold(TABLE, "objects", told, update=update_golden)


@pytest.mark.parametrize("before, told", [(MAX_PARTS // 2, 1), (MAX_PARTS, 0)])
def test_what_is_searched_is_bounded(before: int, told: int) -> None:
    """Whoever may create objects can make them large; an honest one is read as a whole."""
    parts = [*({"a": 1} for _ in range(before)), {"nvidia.com/gpu": 1}]
    data = object_of({"spec": {"containers": [{"name": "a", "parts": parts}]}})
    assert len(judged(data)) == told
