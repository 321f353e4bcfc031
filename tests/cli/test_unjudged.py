"""Requests that stand outside of every pod that was found in an object."""

from typing import Any

import pytest

from tests.cli.test_workloads import POD, kube
from webhook.cli.manifests.workloads import pod_places, unjudged

LIMITS = {"limits": {"nvidia.com/gpu": 1, "cpu": 1}}
OUTSIDE = "is outside of every pod template and pod spec found in it"


def messages(version: str, kind: str, **data: Any) -> list[str]:
    """What is reported of an object."""
    obj = kube(version, kind, **data)
    found = unjudged(obj, pod_places(obj, ()), lambda name: name.startswith("nvidia.com/"))
    return [text.removeprefix("not judged: ").replace(OUTSIDE, "...") for text in found]


def test_what_is_in_no_pod() -> None:
    """It is named with its path; what is nothing, in a pod or in the status is not."""
    container = {"name": "a", "image": "i", "resources": LIMITS}
    spec = {
        "template": {"spec": {"containers": [container]}},
        "workers": [{"resources": LIMITS}],
        "other": {"nvidia.com/gpu": 0, "nvidia.com/gpumem": None, "nvidia.com/gpucores": {"a": 1}},
    }
    found = messages("example.org/v1", "X", spec=spec, status=LIMITS)
    assert found == ["spec.workers[0].resources.limits.nvidia.com/gpu ..."]
    assert messages("example.org/v1", "X", data={"nvidia.com/gpu": "x"}) == ["data.nvidia.com/gpu ..."]
    assert messages("v1", "Pod", spec={"other": LIMITS, "containers": [container]}) == []
    assert messages("apps/v1", "Deployment", spec={"template": POD, "more": LIMITS}) == [
        "spec.more.limits.nvidia.com/gpu ..."
    ]


def test_what_is_assembled_is_judged() -> None:
    """Only the containers: beside them, nothing is read."""
    predictor = {"model": {"resources": LIMITS}, "containers": [{"name": "b", "resources": LIMITS}], "extra": LIMITS}
    found = messages("serving.kserve.io/v1beta1", "InferenceService", spec={"predictor": predictor})
    assert found == ["spec.predictor.extra.limits.nvidia.com/gpu ..."]
    patches = [{"trainingRuntimeSpec": {"containers": [{"name": "a", "resources": LIMITS}]}}]
    job = {"trainer": {"resourcesPerNode": LIMITS}, "runtimePatches": patches}
    (text,) = messages("trainer.kubeflow.org/v1alpha1", "TrainJob", spec=job)
    assert text.startswith("spec.runtimePatches[0].")


@pytest.mark.parametrize(
    "version, kind, spec, found",
    [
        (
            "nvidia.com/v1alpha1",
            "DynamoGraphDeployment",
            {"services": {"a": {"resources": {"limits": {"gpu": "1"}}}, "b": {"resources": {"limits": {"gpu": "0"}}}}},
            ["spec.services.a.resources.limits.gpu requests GPUs without a resource name"],
        ),
        (
            "argoproj.io/v1alpha1",
            "Workflow",
            {
                "podSpecPatch": '{"limits": {"nvidia.com/gpu": 1, "nvidia.com/gpu": 2}}',
                "templates": [{"podSpecPatch": 1}],
            },
            ["spec.podSpecPatch contains nvidia.com/gpu"],
        ),
        ("v1", "ResourceQuota", {"hard": {"nvidia.com/gpu": 1}}, []),
        ("scheduling.volcano.sh/v1beta1", "Queue", {"capability": {"nvidia.com/gpu": 1}}, []),
    ],
)
def test_what_known_kinds_have(version: str, kind: str, spec: dict[str, Any], found: list[str]) -> None:
    """Numbers without a resource name and texts request, too; quotas and capacities do not."""
    assert messages(version, kind, spec=spec) == found


def test_objects_inside_objects_by_their_own_rules() -> None:
    """A quota in an AppWrapper requests nothing, and a Job in it is judged."""
    head = {"metadata": {"name": "a"}}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", **head, "spec": {"hard": {"nvidia.com/gpu": 1}}}
    job = {"apiVersion": "batch/v1", "kind": "Job", **head, "spec": {"template": POD, "more": LIMITS}}
    components = [{"template": quota}, {"template": job}, {"podSets": [LIMITS]}]
    assert messages("workload.codeflare.dev/v1beta2", "AppWrapper", spec={"components": components}) == [
        "spec.components[1].template: not judged: spec.more.limits.nvidia.com/gpu ...",
        "spec.components[2].podSets[0].limits.nvidia.com/gpu ...",
    ]
