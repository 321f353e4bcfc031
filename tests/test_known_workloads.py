"""The table of kinds that contain pods."""

import re
from typing import Any

import pytest

from tests.mapping.vendors import policy
from webhook.cli.files import Manifest
from webhook.cli.simulate import UNPLACED, simulate
from webhook.cli.workloads import KubeObject, kube_object, pod_places
from webhook.doctor import Level
from webhook.workloads import (
    MAX_PATCH,
    Pattern,
    PodPath,
    known_workloads,
    matches,
    parse_path,
    patch_of,
    patched,
    pods_in,
    workloads_of,
)

WORKLOADS = known_workloads()
CONTAINER = {"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": 1}}}


def built(pattern: Pattern, value: Any) -> Any:
    """Data with a value at a path; a list for ``*``."""
    for part in reversed(pattern):
        value = [value] if part == "*" else {part: value}
    return value


def merged(one: Any, other: Any) -> Any:
    """Both values in one."""
    if isinstance(one, dict) and isinstance(other, dict):
        return {key: merged(one.get(key), other.get(key)) for key in {**one, **other}}
    if isinstance(one, list) and isinstance(other, list):
        return [merged(one[0], other[0])]
    return one if other is None else other


def example(pod: PodPath) -> dict[str, Any]:
    """What such a path describes, with one container for each place of one."""
    if pod.template:
        return {"metadata": {}, "spec": {"containers": [CONTAINER]}}
    spec: dict[str, Any] = {}
    for pattern in pod.containers:
        spec = merged(spec, built(pattern, CONTAINER))
    for pattern in pod.resources:
        spec = merged(spec, built(pattern, CONTAINER["resources"]))
    return spec or {"containers": [CONTAINER]}


def kube(group: str, kind: str, data: dict[str, Any]) -> KubeObject:
    """An object of a kind."""
    data = {"apiVersion": f"{group}/v1" if group else "v1", "kind": kind, "metadata": {"name": "x"}, **data}
    return kube_object(Manifest("a.yaml", data, {(): 1}), data)


@pytest.mark.parametrize(
    "group, kind, pod", [(*key, pod) for key, workload in WORKLOADS.items() for pod in workload.pods]
)
def test_every_path_of_every_kind(group: str, kind: str, pod: PodPath) -> None:
    """A pod is found there, with every container at the place that it has in the object."""
    obj = kube(group, kind, built(pod.at, example(pod)))
    places = {tuple("*" if isinstance(part, int) else part for part in place.path): place for place in pod_places(obj)}
    place = places[pod.at]
    judged = {path: judged["spec"] for path, judged in pods_in(obj.data, group, kind, WORKLOADS)}
    assert judged[place.path] == place.pod["spec"]
    containers = [each for key in ("containers", "initContainers") for each in place.pod["spec"].get(key, ())]
    assert len(containers) == max(1, len(pod.containers) + len(pod.resources))
    for key in ("containers", "initContainers"):
        for i, container in enumerate(place.pod["spec"].get(key, ())):
            pointer = place.target(f"/spec/{key}/{i}/resources")
            assert pointer is not None
            ((_, resources),) = matches(obj.data, tuple(pointer[1:].split("/")))
            assert resources == container["resources"] == CONTAINER["resources"]


REFUSED = {
    ("serving.knative.dev", "Service"): "schedulerName runtimeClassName nodeSelector tolerations",
    ("serving.knative.dev", "Configuration"): "schedulerName runtimeClassName nodeSelector tolerations",
    ("serving.knative.dev", "Revision"): "schedulerName runtimeClassName nodeSelector tolerations",
    ("serving.kserve.io", "ServingRuntime"): "schedulerName runtimeClassName",
    ("serving.kserve.io", "ClusterServingRuntime"): "schedulerName runtimeClassName",
    ("ome.io", "ServingRuntime"): "runtimeClassName",
    ("ome.io", "ClusterServingRuntime"): "runtimeClassName",
    ("apps.kruise.io", "SidecarSet"): "schedulerName runtimeClassName nodeSelector tolerations",
}
PLACED = """\
vendor: acme
family: acme
place: {scheduler: acme, conflict: override, runtimeClassName: acme, nodeSelector: {acme.com/a: b},
        tolerations: [{key: acme.com/a}]}
keys: {gpu: {resource: acme.com/gpu, is: devices}, mem: {resource: acme.com/mem, is: memory, unit: 1Mi}}
forms: [{name: share, absent: {devices: 1, memory: all, cores: unlimited}}]
"""


@pytest.mark.parametrize(
    "group, kind, pod",
    [
        (*key, pod)
        for key, workload in WORKLOADS.items()
        for pod in workload.pods
        if not (pod.containers or pod.resources)
    ],
)
def test_nothing_is_written_that_a_kind_refuses(group: str, kind: str, pod: PodPath) -> None:
    """What its API lacks is left out and told; everything else of the pod is written."""
    container = {"name": "c", "image": "i", "resources": {"limits": {"acme.com/gpu": 1, "acme.com/mem": 1000}}}
    spec = {"containers": [container]}
    obj = kube(group, kind, built(pod.at, {"metadata": {}, "spec": spec} if pod.template else spec))
    (result,) = simulate([obj.manifest], policy(PLACED)).objects
    refused = sorted(REFUSED.get((group, kind), "").split())
    at = (*pod.at, "spec") if pod.template else pod.at
    ((_, after),) = matches(result.after, at)
    written = {"schedulerName", "runtimeClassName", "nodeSelector", "tolerations"}
    assert written & after.keys() == written - set(refused)
    assert list(result.told(Level.OK)) == ([UNPLACED.format(", ".join(refused))] if refused else [])


def test_the_table() -> None:
    """Each kind is there once, with a source; the most frequent ones of public manifests are there."""
    assert all(re.fullmatch(r"[\w.-]+/[\w.-]+ [\w./-]+\.(?:go|ya?ml)", each.source) for each in WORKLOADS.values())
    paths = [(*key, pod.at) for key, workload in WORKLOADS.items() for pod in workload.pods]
    assert len(set(paths)) == len(paths)
    names = "RayService PyTorchJob TFJob MPIJob JobSet LeaderWorkerSet RayJob InferenceService NIMService TrainJob"
    names += " LLMInferenceService PodCliqueSet Workflow Rollout Task SparkApplication Notebook AppWrapper"
    assert set(names.split()) <= {kind for (_, kind), workload in WORKLOADS.items() if workload.requests}
    assert not WORKLOADS["", "ResourceQuota"].requests


def test_any_key_may_be_something_else() -> None:
    """Beside what a star means, there may be texts."""
    spec = {"replicas": 2, "worker": {"resources": CONTAINER["resources"]}, "master": {}}
    (place,) = pod_places(kube("data.fluid.io", "JindoRuntime", {"spec": spec}))
    assert place.path == ("spec", "worker")


def test_paths() -> None:
    """Dots in keys are escaped; a star is any key or element, and null is nothing."""
    assert parse_path("spec.a\\.b.*") == ("spec", "a.b", "*")
    assert parse_path(".") == ()
    data = {"a": {"x": [{"b": 1}, {"b": None}, {"c": 2}], "y": "b"}}
    assert list(matches(data, ("a", "*", "*", "b"))) == [(("a", "x", 0, "b"), 1)]
    assert list(matches(data, ("a", "x", "2", "c"))) == [(("a", "x", 2, "c"), 2)]


def test_the_setting_adds_kinds() -> None:
    """A kind that nobody knows, and a path of a known one; without it, the table itself."""
    further = (
        "workloads: [{group: example.com, kind: TrainJob, templates: [spec.template, spec.workers.*.template]}, "
        "{group: ray.io, kind: RayCluster, templates: [spec.more.template, spec.headGroupSpec.template]}]"
    )
    kinds = workloads_of(policy(settings=further).settings)
    template = {"metadata": {}, "spec": {"containers": [CONTAINER]}}
    data = {"spec": {"template": template, "workers": {"a": {"template": template}}}}
    found = [path for path, _ in pods_in(data, "example.com", "TrainJob", kinds)]
    assert found == [("spec", "template"), ("spec", "workers", "a", "template")]
    assert list(pods_in(data, "example.com", "TrainJob", WORKLOADS)) == []
    known, extended = (each["ray.io", "RayCluster"].pods for each in (WORKLOADS, kinds))
    assert [pod.at for pod in extended[len(known) :]] == [("spec", "more", "template")]
    assert workloads_of(policy().settings) == WORKLOADS


def test_patches() -> None:
    """Mappings and named entries are merged, null removes, and anything else is replaced."""
    base = {"a": {"b": 1, "c": 2}, "containers": [{"name": "x", "env": [1]}, {"name": "y"}, "odd"], "args": ["1"]}
    patch = {"a": {"b": None, "d": 3}, "containers": [{"name": "y", "image": "i"}, {"name": "z"}], "args": ["2"]}
    assert patched(base, patch) == {
        "a": {"c": 2, "d": 3},
        "containers": [{"name": "x", "env": [1]}, {"name": "y", "image": "i"}, "odd", {"name": "z"}],
        "args": ["2"],
    }
    assert patched({"args": []}, {"args": [{"value": 1}]}) == {"args": [{"value": 1}]}
    assert patch_of('{"a": 1}') == {"a": 1}
    assert [patch_of(each) for each in ("1", "", "{", "a: &x [*x]", f"a: {'b' * MAX_PATCH}")] == [None] * 5
