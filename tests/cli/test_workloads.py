"""Where pods stand in objects."""

import pytest

from webhook.cli.manifests.read import Manifest, ManifestError
from webhook.cli.manifests.workloads import (
    KubeObject,
    PodOwner,
    PodPlace,
    kube_object,
    list_items,
    parse_path,
    pod_places,
    pointer,
    untreated_templates,
)

POD = {"spec": {"containers": [{"name": "a"}]}}


def kube(version: str, kind: str, **more: object) -> KubeObject:
    """An object called demo."""
    data = {"apiVersion": version, "kind": kind, "metadata": {"name": "demo"}, **more}
    return kube_object(Manifest("a.yaml", data, {(): 1}), data)


@pytest.mark.parametrize(
    "version, kind, owner",
    [
        ("apps/v1", "Deployment", PodOwner("ReplicaSet", "demo-5d4f8c7b9")),
        ("extensions/v1beta1", "Deployment", PodOwner("ReplicaSet", "demo-5d4f8c7b9")),
        ("apps/v1", "StatefulSet", PodOwner("StatefulSet", "demo")),
        ("apps/v1", "DaemonSet", PodOwner("DaemonSet", "demo")),
        ("apps/v1", "ReplicaSet", PodOwner("ReplicaSet", "demo")),
        ("v1", "ReplicationController", PodOwner("ReplicationController", "demo")),
        ("batch/v1", "Job", PodOwner("Job", "demo")),
    ],
)
def test_workloads(version: str, kind: str, owner: PodOwner) -> None:
    """Each has its template, and its pods an owner."""
    assert pod_places(kube(version, kind, spec={"template": POD}), ()) == [PodPlace(("spec", "template"), owner)]
    assert pod_places(kube(version, kind), ()) == []
    assert pod_places(kube(version, kind, spec=None), ()) == []


def test_pods_and_cron_jobs() -> None:
    """A pod is its own place; a CronJob's template is deep, and a Job with digits owns its pods."""
    assert pod_places(kube("v1", "Pod", **POD), ()) == [PodPlace((), None)]
    cron = kube("batch/v1", "CronJob", spec={"jobTemplate": {"spec": {"template": POD}}})
    (place,) = pod_places(cron, ())
    assert place.path == ("spec", "jobTemplate", "spec", "template")
    assert place.owner == PodOwner("Job", "demo-28000000")


@pytest.mark.parametrize(
    "version, kind",
    [("batch.volcano.sh/v1alpha1", "Job"), ("v1", "Deployment"), ("example.org/v1", "Pod"), ("v1", "PodTemplate")],
)
def test_other_groups_are_other_kinds(version: str, kind: str) -> None:
    """No template is known for a kind of the same name in another API group."""
    assert pod_places(kube(version, kind, spec={"template": POD}), ()) == []


def test_template_paths() -> None:
    """A star is any key or element; what holds no containers is passed over, and nothing counts twice."""
    worker = {"replicas": 2, "template": POD}
    job = kube("kubeflow.org/v1", "PyTorchJob", spec={"specs": {"Master": {"template": POD}, "Worker": worker, "x": 1}})
    assert [place.path for place in pod_places(job, ["spec.specs.*.template", "spec.specs.Worker.template"])] == [
        ("spec", "specs", "Master", "template"),
        ("spec", "specs", "Worker", "template"),
    ]
    ray = kube("ray.io/v1", "RayCluster", spec={"groups": [{"template": POD}, {"template": POD}, {"template": {}}]})
    assert [place.path[2] for place in pod_places(ray, ["spec.groups.*.template"])] == [0, 1]
    assert [place.path[2] for place in pod_places(ray, ["spec.groups.1.template"])] == [1]
    assert pod_places(ray, ["spec.nothing.*"]) == []
    assert pod_places(ray, ["spec.groups.*.template"])[0].owner == PodOwner("RayCluster", "demo")


def test_untreated_templates_are_found_anywhere() -> None:
    """Templates of unknown kinds are listed as paths that `--template-path` accepts."""
    obj = kube(
        "ray.io/v1",
        "RayCluster",
        spec={
            "headGroupSpec": {"template": POD},
            "workerGroupSpecs": [{"template": POD}, {"template": POD}],
            "flink.org/podTemplate": POD,
            "template": {"spec": {"containers": "none"}},
        },
    )
    paths = untreated_templates(obj)
    assert paths == ["spec.headGroupSpec.template", "spec.workerGroupSpecs.*.template", "spec.flink\\.org/podTemplate"]
    assert len(pod_places(obj, paths)) == 4
    assert untreated_templates(kube("v1", "Service", spec={"ports": [{"port": 1}]})) == []


def test_paths_and_pointers() -> None:
    """Dots in keys are escaped in paths, slashes and tildes in pointers."""
    assert parse_path("spec.a\\.b.*") == ("spec", "a.b", "*")
    assert pointer(("spec", "a/b~c", 0)) == "/spec/a~1b~0c/0"


def test_lists() -> None:
    """Items of typed lists need not say what they are."""
    items = list_items(kube("apps/v1", "DeploymentList", items=[{"metadata": {"name": "x"}}]))
    assert items is not None
    assert [(item.group, item.kind, item.title, item.path) for item in items] == [
        ("apps", "Deployment", "deployment/x", ("items", 0))
    ]
    assert list_items(kube("v1", "List", items=[])) == []
    assert list_items(kube("v1", "Pod", items=[])) is None
    assert list_items(kube("example.org/v1", "AccessList", spec={})) is None


@pytest.mark.parametrize(
    "metadata, title",
    [({"name": "x"}, "pod/x"), ({"generateName": "x-"}, "pod/x-*"), ({}, "pod/?"), (None, "pod/?")],
)
def test_titles(metadata: object, title: str) -> None:
    """Whatever is known of the name."""
    data = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
    assert kube_object(Manifest("a", data, {(): 1}), data).title == title


@pytest.mark.parametrize("data", [{}, {"kind": "Pod"}, {"apiVersion": "v1"}, {"apiVersion": 1, "kind": "Pod"}, [], "x"])
def test_what_is_no_object(data: object) -> None:
    """It has to say what it is."""
    with pytest.raises(ManifestError, match=r"^a:1: "):
        kube_object(Manifest("a", {}, {(): 1}), data)


def test_templates_that_are_none() -> None:
    """A workload whose spec is a list is reported."""
    with pytest.raises(ManifestError, match="spec: a mapping is expected here"):
        pod_places(kube("apps/v1", "Deployment", spec=[]), ())
