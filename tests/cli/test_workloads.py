"""Where pods stand in objects."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.conftest import SHARES, Run
from webhook.cli.manifests.files import Manifest, ManifestError
from webhook.cli.manifests.workloads import (
    KubeObject,
    kube_object,
    list_items,
    pod_places,
    pointer,
    unjudged,
)
from webhook.mapping.document.problem import FieldPath
from webhook.workloads import MAX_PATCH, patch_of, patched

POD = {"spec": {"containers": [{"name": "a", "image": "i"}]}}


def owners(obj: KubeObject) -> dict[FieldPath, tuple[str, str] | None]:
    """The paths of the pods in an object, with their owners."""
    return {place.path: place.owner for place in pod_places(obj)}


def kube(version: str, kind: str, **more: object) -> KubeObject:
    """An object called demo."""
    data = {"apiVersion": version, "kind": kind, "metadata": {"name": "demo"}, **more}
    return kube_object(Manifest("a.yaml", data, {(): 1}), data)


@pytest.mark.parametrize(
    "version, kind, owner",
    [
        ("apps/v1", "Deployment", ("ReplicaSet", "demo-5d4f8c7b9")),
        ("extensions/v1beta1", "Deployment", ("ReplicaSet", "demo-5d4f8c7b9")),
        ("apps/v1", "StatefulSet", ("StatefulSet", "demo")),
        ("apps/v1", "DaemonSet", ("DaemonSet", "demo")),
        ("apps/v1", "ReplicaSet", ("ReplicaSet", "demo")),
        ("v1", "ReplicationController", ("ReplicationController", "demo")),
        ("batch/v1", "Job", ("Job", "demo")),
    ],
)
def test_workloads(version: str, kind: str, owner: tuple[str, str]) -> None:
    """Each has its template, and its pods an owner."""
    assert owners(kube(version, kind, spec={"template": POD})) == {("spec", "template"): owner}
    assert pod_places(kube(version, kind)) == []
    assert pod_places(kube(version, kind, spec=None)) == []


def test_pods_and_cron_jobs() -> None:
    """A pod is its own place; a CronJob's template is deep, and a Job with digits owns its pods."""
    assert owners(kube("v1", "Pod", **POD)) == {(): None}
    cron = kube("batch/v1", "CronJob", spec={"jobTemplate": {"spec": {"template": POD}}})
    (place,) = pod_places(cron)
    assert place.path == ("spec", "jobTemplate", "spec", "template")
    assert place.owner == ("Job", "demo-28000000")


def test_pods_of_unknown_kinds_are_found_anywhere() -> None:
    """A template is rewritten as a whole; a pod spec beside other fields has no place for metadata."""
    obj = kube(
        "example.org/v1",
        "Group",
        metadata={"name": "demo", "x": POD},
        spec={
            "head": {"template": POD},
            "workers": [{"template": {"metadata": {}, **POD}}, {"replicas": 2, **POD}],
            "flat": POD["spec"],
            "other": {"containers": [{"name": "a", "ports": []}], "deep": {"containers": "none"}},
        },
        status={"template": POD},
    )
    places = {place.path: place for place in pod_places(obj)}
    assert {path: place.template for path, place in places.items()} == {
        ("spec", "head", "template"): True,
        ("spec", "workers", 0, "template"): True,
        ("spec", "workers", 1, "spec"): False,
        ("spec", "flat"): False,
    }
    assert places["spec", "flat"].target("/spec/x") == "/spec/flat/x"
    assert places["spec", "flat"].target("/metadata/labels") is None
    assert owners(kube("v1", "Service", spec={"ports": [{"port": 1}]})) == {}
    # The metadata beside it is that of the object.
    (root,) = pod_places(kube("example.org/v1", "Set", spec=POD["spec"]))
    assert (root.path, root.template) == (("spec",), False)


def test_assembled_pods() -> None:
    """Fields of the pod stand beside its containers, which may be anywhere below, and without a name."""
    data = {
        "nodeSelector": {"a": "b"},
        "model": {"resources": {}},
        "containers": [{"name": "own"}],
        "labels": {"l": "1"},
    }
    (place,) = pod_places(kube("serving.kserve.io/v1beta1", "InferenceService", spec={"predictor": data}))
    assert place.pod["metadata"] == {"labels": {"l": "1"}}
    assert place.pod["spec"]["nodeSelector"] == {"a": "b"}
    assert [container["name"] for container in place.pod["spec"]["containers"]] == ["own", "model"]
    assert place.target("/spec/containers/0/env") == "/spec/predictor/containers/0/env"
    assert place.target("/spec/containers/1/resources/limits") == "/spec/predictor/model/resources/limits"
    assert place.target("/spec/volumes") is None
    assert place.field(("spec", "containers", 1, "env")) == ("spec", "predictor", "model", "env")
    assert place.field(("spec", "nodeSelector")) == ("spec", "predictor")
    train = kube("trainer.kubeflow.org/v1alpha1", "TrainJob", spec={"trainer": {"resourcesPerNode": {"limits": {}}}})
    (place,) = pod_places(train)
    assert place.target("/spec/containers/0/resources/limits") == "/spec/trainer/resourcesPerNode/limits"
    assert place.target("/spec/containers/0/env") is None
    assert owners(kube("trainer.kubeflow.org/v1alpha1", "TrainJob", spec={"trainer": {"numNodes": 2}})) == {}


def workflow(template: dict[str, Any], **spec: Any) -> tuple[str, dict[str, Any]]:
    """An Argo workflow with one template, as text and as data."""
    main = {"image": "i", "resources": {"limits": {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 3000}}}
    data: dict[str, Any] = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": {"name": "w"}}
    data["spec"] = {"templates": [{"name": "t", "container": main, **template}], **spec}
    return yaml.safe_dump(data), data


@pytest.mark.parametrize("kind", ["Workflow", "CronWorkflow"])
def test_argo_templates_are_written(run: Run, kind: str) -> None:
    """Scheduler and volumes have a place in a template, its container is `main`, and mutated again it stays the same."""
    text, data = workflow({})
    if kind == "CronWorkflow":
        text = yaml.safe_dump({**data, "kind": kind, "spec": {"schedule": "0 0 * * *", "workflowSpec": data["spec"]}})
    mutated = run("mutate", "-f", "-", *SHARES, stdin=text)
    stored = yaml.safe_load(mutated.stdout)
    [template] = stored["spec"].get("workflowSpec", stored["spec"])["templates"]
    assert template["schedulerName"] == "hami-scheduler"
    assert "schedulerName" not in template["container"]
    volumes = {volume["name"] for volume in template["volumes"]}
    assert {mount["name"] for mount in template["container"]["volumeMounts"]} == volumes != set()
    assert {each["name"]: each.get("value") for each in template["container"]["env"]}[
        "CUDA_DEVICE_MEMORY_SHARED_CACHE"
    ].endswith("/main.cache")
    assert "stays as it is" not in mutated.output
    assert yaml.safe_load(run("mutate", "-f", "-", *SHARES, stdin=mutated.stdout).stdout) == stored


def test_argo_templates_inherit() -> None:
    """A template without scheduler, node selector, affinity or tolerations has the workflow's, and may replace the first."""
    inherited = {"schedulerName": "own", "nodeSelector": {"a": "b"}, "tolerations": [{"key": "k"}], "dnsPolicy": "None"}
    own = {"nodeSelector": {"c": "d"}, "schedulerName": ""}
    [place] = pod_places(kube_object(Manifest("a.yaml", {}, {(): 1}), workflow(own, **inherited)[1]))
    spec = place.pod["spec"]
    assert [spec[key] for key in ("schedulerName", "nodeSelector")] == ["own", {"c": "d"}]
    assert spec["tolerations"] == inherited["tolerations"]
    assert "dnsPolicy" not in spec
    template = "/spec/templates/0"
    assert place.target("/spec/schedulerName") == f"{template}/schedulerName"
    assert place.target("/spec/nodeSelector/e") == f"{template}/nodeSelector/e"
    assert place.target("/spec/volumes/-") == f"{template}/volumes/-"
    assert place.target("/spec/tolerations/-") is None
    assert place.target("/spec/resourceClaims") is None
    [place] = pod_places(kube_object(Manifest("a.yaml", {}, {(): 1}), workflow({}, hostNetwork=True)[1]))
    assert place.pod["spec"]["hostNetwork"]


@pytest.mark.parametrize("key", ["container", "script"])
def test_argo_calls_a_container_main(run: Run, key: str) -> None:
    """Whatever the manifest calls it, outside of a list; that name stays."""
    container = {"name": "foo", **workflow({})[1]["spec"]["templates"][0]["container"]}
    stored = yaml.safe_load(
        run("mutate", "-f", "-", *SHARES, stdin=workflow({"container": None, key: container})[0]).stdout
    )
    [template] = stored["spec"]["templates"]
    assert template[key]["name"] == "foo"
    assert "/tmp/vgpu-cache/main.cache" in str(template[key]["env"])
    listed = {"container": None, "containerSet": {"containers": [container]}}
    [place] = pod_places(kube_object(Manifest("a.yaml", {}, {(): 1}), workflow(listed)[1]))
    assert [each["name"] for each in place.pod["spec"]["containers"]] == ["foo"]


PATCH = "containers: [{name: main, resources: {limits: {nvidia.com/gpu: 1, nvidia.com/gpumem: %s}}}]"


@pytest.mark.parametrize("kind", ["Workflow", "WorkflowTemplate", "CronWorkflow"])
def test_argo_patches_are_judged(run: Run, kind: str) -> None:
    """Of a template and of all of them, merged by the names of containers; nothing is written beside them."""
    main = {"image": "i", "resources": {"limits": {"cpu": 1}}}
    for template, spec in (({"podSpecPatch": PATCH % "16Gi"}, {}), ({}, {"podSpecPatch": PATCH % "16Gi"})):
        denied = run(
            "mutate", "-f", "-", *SHARES, stdin=in_kind(kind, workflow({"container": main, **template}, **spec)[0])
        )
        assert denied.exit_code == 2
        assert "VGW303: container main: nvidia.com/gpumem counts MiB: write 16384 for 16 GiB" in denied.stderr
        assert "not judged" not in denied.stderr
    # The template's own comes last.
    both = workflow({"container": main, "podSpecPatch": PATCH % 3000}, podSpecPatch=PATCH % "16Gi")[0]
    allowed = run("mutate", "-f", "-", *SHARES, stdin=in_kind(kind, both))
    assert allowed.exit_code == 0
    assert yaml.safe_load(allowed.stdout) == yaml.safe_load(in_kind(kind, both))
    assert "its pods are changed when they are created" in allowed.stderr
    unread = workflow({"container": main, "podSpecPatch": f"{{{{x}}}}: {{{PATCH % 3000}"})[0]
    assert (
        "podSpecPatch contains nvidia.com/gpu" in run("mutate", "-f", "-", *SHARES, stdin=in_kind(kind, unread)).stderr
    )


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


def in_kind(kind: str, text: str) -> str:
    """A workflow as one of another kind."""
    data = yaml.safe_load(text)
    spec = {"schedule": "0 0 * * *", "workflowSpec": data["spec"]} if kind == "CronWorkflow" else data["spec"]
    return yaml.safe_dump({**data, "kind": kind, "spec": spec})


SOCKET = {"name": "s", "hostPath": {"path": "/run/containerd/containerd.sock"}}


@pytest.mark.parametrize("kind", ["Workflow", "WorkflowTemplate", "CronWorkflow"])
def test_argo_volumes_of_the_workflow(run: Run, kind: str) -> None:
    """A template has those that it mounts, below its own; nothing is written into them."""
    main = {**workflow({})[1]["spec"]["templates"][0]["container"], "volumeMounts": [{"name": "s", "mountPath": "/s"}]}
    denied = run("mutate", "-f", "-", *SHARES, stdin=in_kind(kind, workflow({"container": main}, volumes=[SOCKET])[0]))
    assert denied.exit_code == 2
    assert "containerd.sock" in denied.stderr
    assert run("mutate", "-f", "-", *SHARES, stdin=in_kind(kind, workflow({}, volumes=[SOCKET])[0])).exit_code == 0
    for own in ([], [{"name": "o", "emptyDir": {}}]):
        text = in_kind(kind, workflow({"container": main, "volumes": own}, volumes=[{"name": "s", "emptyDir": {}}])[0])
        mutated = run("mutate", "-f", "-", *SHARES, stdin=text)
        stored = yaml.safe_load(mutated.stdout)["spec"]
        stored = stored.get("workflowSpec", stored)
        assert stored["volumes"] == [{"name": "s", "emptyDir": {}}]
        names = [each["name"] for each in stored["templates"][0]["volumes"]]
        assert names[: len(own)] == [each["name"] for each in own]
        assert len(names) > len(own)
        assert "s" not in names
        assert run("mutate", "-f", "-", *SHARES, stdin=mutated.stdout).stdout == mutated.stdout
    own = [{"name": "s", "emptyDir": {}}]
    text = in_kind(kind, workflow({"container": main, "volumes": own}, volumes=[SOCKET])[0])
    assert run("mutate", "-f", "-", *SHARES, stdin=text).exit_code == 0


@pytest.mark.parametrize("kind", ["Workflow", "CronWorkflow"])
def test_argo_metadata_of_the_workflow(run: Run, kind: str) -> None:
    """Labels and annotations of a workflow are below those of its defaults, and these below a template's."""
    disabled, enabled = ({"labels": {"vgpu-webhook.io/inject": each}} for each in ("disabled", "enabled"))
    for spec, template, changed in (
        ({"podMetadata": disabled}, {}, False),
        ({"templateDefaults": {"metadata": disabled}}, {}, False),
        ({"podMetadata": disabled, "templateDefaults": {"metadata": enabled}}, {}, True),
        ({"podMetadata": disabled}, {"metadata": enabled}, True),
        ({"podMetadata": disabled}, {"metadata": {"annotations": {"a": "b"}}}, False),
        ({"podMetadata": {"labels": None}}, {"metadata": {"labels": None}}, True),
    ):
        text = in_kind(kind, workflow(template, **spec)[0])
        assert ("hami-scheduler" in run("mutate", "-f", "-", *SHARES, stdin=text).stdout) is changed
    target = {"annotations": {"vgpu-webhook.io/target": "nothing"}}
    denied = run("mutate", "-f", "-", *SHARES, stdin=in_kind(kind, workflow({}, podMetadata=target)[0]))
    assert denied.exit_code == 2


@pytest.mark.parametrize("kind", ["Workflow", "CronWorkflow"])
def test_argo_defaults_are_reported(run: Run, kind: str) -> None:
    """What its controller merges into templates is said not to be judged, if it concerns pods that request GPUs."""
    for field, value in (("volumes", [SOCKET]), ("container", {"securityContext": {"privileged": True}})):
        found = run("mutate", "-f", "-", *SHARES, stdin=in_kind(kind, workflow({}, templateDefaults={field: value})[0]))
        assert f"templateDefaults.{field} is merged into every pod" in found.stderr
    for template, defaults in (({}, {"retryStrategy": {}}), ({"container": {"image": "i"}}, {"volumes": [SOCKET]})):
        found = run("mutate", "-f", "-", *SHARES, stdin=in_kind(kind, workflow(template, templateDefaults=defaults)[0]))
        assert "not judged" not in found.stderr


def test_objects_inside_objects() -> None:
    """Each is read as its own kind says."""
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "inner"}, "spec": {"template": POD}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, **POD}
    wrapper = kube(
        "workload.codeflare.dev/v1beta2", "AppWrapper", spec={"components": [{"template": job}, {"template": pod}]}
    )
    assert owners(wrapper) == {
        ("spec", "components", 0, "template", "spec", "template"): ("Job", "inner"),
        ("spec", "components", 1, "template"): ("AppWrapper", "demo"),
    }
    assert pod_places(wrapper)[1].template
    broken = kube("workload.codeflare.dev/v1beta2", "AppWrapper", spec={"components": [{"template": {}}]})
    with pytest.raises(ManifestError, match=r"spec\.components\[0\]\.template: no Kubernetes object"):
        pod_places(broken)


def test_pointers() -> None:
    """Slashes and tildes are escaped."""
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
        pod_places(kube("apps/v1", "Deployment", spec=[]))
    with pytest.raises(ManifestError, match="podSpec: a pod spec is not a mapping"):
        pod_places(kube("grove.io/v1alpha1", "PodClique", spec={"podSpec": 1}))


LIMITS = {"limits": {"nvidia.com/gpu": 1, "cpu": 1}}
OUTSIDE = "is outside of every pod template and pod spec found in it"


def messages(version: str, kind: str, **data: Any) -> list[str]:
    """What is reported of an object."""
    obj = kube(version, kind, **data)
    found = unjudged(obj, pod_places(obj), lambda name: name.startswith("nvidia.com/"))
    return [text.removeprefix("not judged: ").replace(OUTSIDE, "...") for _, text in found]


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
    """Only the containers; beside them in their pod are stray keys."""
    predictor = {"model": {"resources": LIMITS}, "containers": [{"name": "b", "resources": LIMITS}], "extra": LIMITS}
    found = messages("serving.kserve.io/v1beta1", "InferenceService", spec={"predictor": predictor, "more": LIMITS})
    assert found == ["spec.more.limits.nvidia.com/gpu ..."]
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


TRAIN = """\
apiVersion: example.com/v1
kind: TrainJob
metadata: {name: train}
spec:
  worker:
    pods:
      metadata: {labels: {vgpu-webhook.io/injekt: disabled}}
      spec: {containers: [{name: main, resources: {limits: {nvidia.com/gpu: 1, nvidia.com/gpumem: 3000}}}]}
      restarts: 3
"""


@pytest.mark.parametrize(
    "command, said",
    [
        (("mutate", "-o", "patch"), "/spec/worker/pods/metadata/annotations"),
        (("explain",), "trainjob/train, spec.worker.pods in namespace"),
        (("preview",), "1 VGW113"),
        (("check",), "vgpu-webhook.io/injekt"),
    ],
)
def test_kinds_of_the_settings(run: Run, tmp_path: Path, command: tuple[str, ...], said: str) -> None:
    """Offline commands read the same setting: without it this is no template, because it has a key that none has."""
    settings, train = tmp_path / "settings.yaml", tmp_path / "train.yaml"
    settings.write_text("workloads: [{group: example.com, kind: TrainJob, templates: ['spec.*.pods']}]\n")
    train.write_text(TRAIN)
    files = (str(train),) if command == ("check",) else ("-f", str(train))
    assert said in run(*command, "--settings", str(settings), *files).output
    assert said not in run(*command, *files).output
