"""Keys in objects where nothing reads them."""

from typing import Any

import pytest
import yaml

from webhook.admission import Context, Namespace
from webhook.admission.judge import judge_templates
from webhook.admission.stray import MAX_PARTS, strays
from webhook.mapping.load import load_policy
from webhook.reasons import Reason
from webhook.workloads import known_workloads, spots_in

POLICY = load_policy()
JOB = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j%s}\nspec:\n  template:\n    metadata: {%s}\n    spec: %s\n"
SHARE = "{containers: [{name: a, resources: {limits: {nvidia.com/gpu: 1, nvidia.com/gpumem: 3000}}}]}"


def found(text: str) -> list[str]:
    """What is said of an object."""
    data: dict[str, Any] = yaml.safe_load(text)
    group, slash, _ = data["apiVersion"].rpartition("/")
    spots = list(spots_in(data, group if slash else "", data["kind"], known_workloads()))
    return [each.finding.message for each in strays(data, spots, POLICY)]


@pytest.mark.parametrize(
    "key, field",
    [
        ("hami.io/gpu-scheduler-policy", "annotations"),
        ("nvidia.com/use-gputype", "annotations"),
        ("gpu-fraction", "annotations"),
        ("vgpu-webhook.io/target", "annotations"),
        ("vgpu-webhook.io/container.a.memory", "annotations"),
        ("vgpu-webhook.io/inject", "labels"),
        ("aliyun.com/gpu-count", "labels"),
    ],
)
def test_metadata_of_the_object(key: str, field: str) -> None:
    """Keys and hints that its pods do not get; not if the template has them, too."""
    metadata = f"{field}: {{{key}: x}}"
    place = field.removesuffix("s")
    right = f"write it in spec.template.metadata.{field}"
    message = f"{place} {key} has no effect on this Job, whose pods do not get it: {right}"
    assert found(JOB % (f", {metadata}", "", SHARE)) == [message]
    assert found(JOB % (f", {metadata}", metadata, SHARE)) == []
    assert found(JOB % ("", metadata, SHARE)) == []


def test_ordinary_metadata_of_the_object() -> None:
    """It is nobody's business."""
    metadata = "labels: {app: a, kueue.x-k8s.io/queue-name: q}, annotations: {example.com/gpu: b, app: c}"
    assert found(JOB % (f", {metadata}", "", SHARE)) == []


def test_metadata_between() -> None:
    """A template of jobs has metadata of its own, which their pods do not get either."""
    text = """
apiVersion: batch/v1
kind: CronJob
metadata: {name: c}
spec:
  jobTemplate:
    metadata: {annotations: {gpu-memory: "8000"}}
    spec: {template: {spec: {containers: [{name: a}]}}}
"""
    right = "write it in spec.jobTemplate.spec.template.metadata.annotations"
    assert found(text) == [f"annotation gpu-memory has no effect on this CronJob, whose pods do not get it: {right}"]


@pytest.mark.parametrize(
    "kind, spec",
    [
        ("apiVersion: serving.kserve.io/v1beta1, kind: InferenceService", "{predictor: {model: {}}}"),
        ("apiVersion: kubeflow.org/v1, kind: Notebook", "{template: {spec: {containers: [{name: a}]}}}"),
        ("apiVersion: grove.io/v1alpha1, kind: PodClique", "{podSpec: {containers: [{name: a}]}}"),
    ],
)
def test_metadata_that_reaches_pods(kind: str, spec: str) -> None:
    """Controllers that pass it on, or of which that is not known."""
    assert found(f"{{{kind}, metadata: {{labels: {{aliyun.com/gpu-count: x}}}}, spec: {spec}}}") == []


def test_objects_inside_objects() -> None:
    """Of the inner one; the metadata of the outer one is that of something else."""
    text = """
apiVersion: workload.codeflare.dev/v1beta2
kind: AppWrapper
metadata: {name: w}
spec:
  components:
  - template:
      apiVersion: batch/v1
      kind: Job
      metadata: {labels: {aliyun.com/gpu-count: "2"}}
      spec: {template: {spec: {containers: [{name: a, resources: {nvidia.com/gpu: 1}}]}}}
"""
    at = "spec.components[0].template.spec.template"
    inside = f"{at}.spec.containers[0].resources"
    right = f"write it in {at}.metadata.labels"
    message = f"label aliyun.com/gpu-count has no effect on this Job, whose pods do not get it: {right}"
    assert found(text) == [
        f"nothing reads nvidia.com/gpu in {inside}: write it in {inside}.limits",
        message,
    ]


GPU = "{nvidia.com/gpu: 1}"


@pytest.mark.parametrize(
    "spec, wrong, container",
    [
        (f"{{containers: [{{resources: {GPU}}}]}}", "containers[0].resources", "containers[0]"),
        (f"{{containers: [{{resources: {{limit: {GPU}}}}}]}}", "containers[0].resources.limit", "containers[0]"),
        (f"{{containers: [{{}}, {{limits: {GPU}}}]}}", "containers[1].limits", "containers[1]"),
        (f"{{resources: {{limits: {GPU}}}, containers: [{{name: a}}]}}", "resources.limits", "containers[0]"),
        (
            f"{{spec: {{containers: [{{resources: {{limits: {GPU}}}}}]}}}}",
            "spec.containers[0].resources.limits",
            "containers[0]",
        ),
        (f"{{initContainers: [{GPU}], containers: [{{name: a}}]}}", "initContainers[0]", "initContainers[0]"),
    ],
)
def test_amounts_beside_the_amounts(spec: str, wrong: str, container: str) -> None:
    """Of a container, or of the pod."""
    base = "spec.template.spec"
    message = f"nothing reads nvidia.com/gpu in {base}.{wrong}: write it in {base}.{container}.resources.limits"
    assert found(JOB % ("", "", spec)) == [message]


@pytest.mark.parametrize(
    "spec",
    [
        SHARE,
        "{nodeSelector: {nvidia.com/gpu: 'x'}, containers: [{resources: {nvidia.com/gpu: 0, cpu: 1, example.com/a: 1}}]}",
        "{affinity: {a: {nvidia.com/gpu: x}}, containers: [{resources: {requests: {nvidia.com/gpu: 1}}}]}",
        "{containers: 3}",
        "[]",
    ],
)
def test_amounts_where_they_belong(spec: str) -> None:
    """And names of labels, nothing, and other shapes."""
    assert found(JOB % ("", "", spec)) == []


def test_what_is_searched_is_bounded() -> None:
    """Whoever may create objects can make them large; an honest one is read as a whole."""
    for before, told in ((MAX_PARTS // 2, 1), (MAX_PARTS, 0)):
        parts = [*({"a": 1} for _ in range(before)), {"nvidia.com/gpu": 1}]
        data = {"spec": {"template": {"spec": {"containers": [{"name": "a", "parts": parts}]}}}}
        spots = list(spots_in(data, "apps", "Deployment", known_workloads()))
        assert len(list(strays(data, spots, POLICY))) == told


def test_a_request_beside_the_model() -> None:
    """The place is that of the container that the pod has."""
    text = """
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
spec:
  predictor:
    model: {resources: {limits: {nvidia.com/gpu: 1}}}
    workerSpec: {containers: [{name: w, resources: {limits: {nvidia.com/gpu: 1}}}]}
    resources: {limits: {nvidia.com/gpumem: 6144}}
"""
    wrong, right = "spec.predictor.resources.limits", "spec.predictor.model.resources.limits"
    assert found(text) == [f"nothing reads nvidia.com/gpumem in {wrong}: write it in {right}"]


RAY = """
apiVersion: ray.io/v1
kind: RayCluster
spec:
  workerGroupSpecs:
  - rayStartParams: {%s}
    template: {spec: {containers: [{name: w, resources: {limits: {%s}}}, {name: s, resources: {limits: {nvidia.com/gpu: 1}}}]}}
"""


@pytest.mark.parametrize("name", ["aliyun.com/gpu-mem", "tencent.com/vcuda-core", "volcano.sh/vgpu-number"])
def test_what_a_controller_does_not_count(name: str) -> None:
    """KubeRay reads the names of the template, of the first container; a number of the user's counts instead."""
    right = "set num-gpus in spec.workerGroupSpecs[0].rayStartParams"
    message = f"KubeRay counts no device in {name}, before its pods are changed: {right}"
    assert found(RAY % ("", f"{name}: 1")) == [message]
    assert found(RAY % ('num-gpus: "1"', f"{name}: 1")) == []
    for counted in ("nvidia.com/gpu", "koordinator.sh/gpu", "nvidia.com/mig-1g.5gb", "aws.amazon.com/neuron"):
        assert found(RAY % ("", f"{name}: 1, {counted}: 1")) == []
    assert found(RAY % ("", f"{name}: 0, cpu: 1")) == []


def test_misspelled_fields_of_metadata() -> None:
    """Those with keys that somebody would read."""
    metadata = "annotation: {gpu-fraction: '0.5', app: x}, label: {aliyun.com/gpu-count: 2}, other: {gpu-fraction: '1'}"
    at = "spec.template.metadata"
    assert found(JOB % ("", metadata, "{containers: [{name: a}]}")) == [
        f"nothing reads {at}.annotation: write gpu-fraction in {at}.annotations",
        f"nothing reads {at}.label: write aliyun.com/gpu-count in {at}.labels",
    ]
    text = JOB % ("", "", "{containers: [{annotations: {hami.io/gpu-scheduler-policy: x}}]}")
    wrong = "spec.template.spec.containers[0].annotations"
    right = "spec.template.metadata.annotations"
    assert found(text) == [f"nothing reads hami.io/gpu-scheduler-policy in {wrong}: write it in {right}"]


@pytest.mark.parametrize(
    "labels, told",
    [
        ({"inject": "enabled"}, 1),
        ({"inject": "enabled", "mode": "warn"}, 1),
        ({"inject": "enabled", "mode": "audit"}, 0),
        ({}, 0),
    ],
)
def test_whoever_applies_a_workload_is_told(labels: dict[str, str], told: int) -> None:
    """Where its pods would be told."""
    data = yaml.safe_load(JOB % (", annotations: {gpu-fraction: '0.5'}", "", SHARE))
    found = [each.finding for each in strays(data, list(spots_in(data, "batch", "Job", known_workloads())), POLICY)]
    namespace = Namespace("team", {f"vgpu-webhook.io/{key}": value for key, value in labels.items()})
    warnings = judge_templates([], Context(namespace), POLICY, found).warnings
    assert [each.reason for each in warnings] == [Reason.MISPLACED_KEY] * told
