"""Workloads: whoever applies one is told at once what would become of its pods."""

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from webhook.cluster.registration.wanted import NAME, VALIDATING

from .client import definition
from .in_cluster import calls, installed, set_settings
from .objects import GPU, namespace, pod
from .plane import ControlPlane
from .processes import Process
from .product import PROGRAM

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(1200)]

Json = dict[str, Any]
OWN = "workloads-own"
TEAM = "workloads-team"
AUDITED = "workloads-audited"
LABEL = "workloads.example/gpu"
TEXT = f"optInLabel: {LABEL}\n"
FURTHER = "workloads: [{group: example.com, kind: TrainJob, templates: [spec.template]}]\n"


@pytest.fixture(scope="module")
def plane(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """A cluster with a namespace that enforces and one that audits, with JobSets."""
    control_plane.create_namespace(namespace(TEAM, {LABEL: "enabled"}))
    control_plane.create_namespace(namespace(AUDITED, {LABEL: "enabled", "vgpu-webhook.io/mode": "audit"}))
    for each in (JOB_SETS, TRAIN_JOBS):
        control_plane.client.create(each).accepted()
    control_plane.start_controller_manager()
    yield control_plane
    for each in (JOB_SETS, TRAIN_JOBS):
        control_plane.client.delete("apiextensions.k8s.io/v1", "customresourcedefinitions", each["metadata"]["name"])


@pytest.fixture(scope="module")
def webhook(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """The webhook, which is called for workloads."""
    with installed(plane, tmp_path_factory.mktemp("workloads"), OWN, TEXT) as process:
        plane.wait_until(lambda: warned(plane, "Deployment"), "called")
        yield process


JOB_SETS = definition("jobset.x-k8s.io/v1alpha2", "JobSet")
TRAIN_JOBS = definition("example.com/v1", "TrainJob")


def template(limits: dict[str, str], **spec: Any) -> Json:
    """A pod template."""
    return {"metadata": {"labels": {"app": "demo"}}, "spec": pod("demo", limits, **spec)["spec"]}


def workload(kind: str, limits: dict[str, str] | None = None) -> Json:
    """A workload of a kind."""
    pods = template(limits or GPU)
    sets = {"replicas": 0, "selector": {"matchLabels": {"app": "demo"}}, "template": pods}
    finite = template(limits or GPU, restartPolicy="Never")
    job = {"suspend": True, "template": finite}
    version, spec = {
        "Deployment": ("apps/v1", sets),
        "StatefulSet": ("apps/v1", {**sets, "serviceName": "demo"}),
        "ReplicaSet": ("apps/v1", sets),
        "DaemonSet": ("apps/v1", {key: value for key, value in sets.items() if key != "replicas"}),
        "Job": ("batch/v1", job),
        "CronJob": (
            "batch/v1",
            {"schedule": "0 0 1 1 *", "suspend": True, "jobTemplate": {"spec": {"template": finite}}},
        ),
        "ReplicationController": ("v1", {**sets, "selector": {"app": "demo"}}),
        "JobSet": (
            "jobset.x-k8s.io/v1alpha2",
            {"replicatedJobs": [{"name": name, "template": {"spec": job}} for name in ("a", "b")]},
        ),
        "TrainJob": ("example.com/v1", {"workers": 2, "template": pods}),
    }[kind]
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "demo"}, "spec": spec}


def warned(plane: ControlPlane, kind: str, limits: dict[str, str] | None = None, namespace: str = TEAM) -> str:
    """What `kubectl` would print for a workload that is created, of what the API server answers."""
    answer = plane.client.create(workload(kind, limits), namespace, dry_run=True)
    answer.accepted()
    return "".join(f"Warning: {text}\n" for text in answer.warnings)


def apply(plane: ControlPlane, manifest: Json, *options: str) -> tuple[int, str]:
    """What `kubectl apply` says on stderr, and its exit code."""
    command = [str(plane.binaries.path("kubectl")), "--kubeconfig", str(plane.kubeconfig), "--namespace", TEAM]
    done = subprocess.run(
        [*command, "apply", "--filename", "-", *options],
        input=json.dumps(manifest),
        capture_output=True,
        text=True,
        check=False,
        env={"KUBECTL_APPLYSET": "false", "HOME": str(plane.folder)},
    )
    return done.returncode, done.stderr


WRONG = {"nvidia.com/gpu": "1", "nvidia.com/gpucores": "150"}
KINDS = ["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job", "CronJob", "ReplicationController"]
FILLED = """\
Warning: VGW101: container main: no memory requested: 5000 MiB by the mapping's default (share is assumed); set \
nvidia.com/gpumem-percentage: 100 for a whole device, nvidia.com/gpumem for another size, or annotate the namespace \
vgpu-webhook.io/bare-devices: whole
"""


DENIED = (
    "Warning: VGW303: container main: the pods will be denied: nvidia.com/gpucores: 150 is 150 % of a device: "
    "write 1 to 100\n"
)


def test_nothing_is_said_without_it(plane: ControlPlane) -> None:
    """What was seen: `kubectl` says only "created", and whoever wrote the template hears nothing of what pods get.

    It comes before the tests with a webhook.
    """
    assert not plane.client.call("GET", f"{VALIDATING.collection}/{NAME}").body.get("webhooks")
    assert warned(plane, "Deployment") == ""


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_said(plane: ControlPlane, webhook: Process, kind: str) -> None:
    """The very words, for each kind: what is filled in and changed, or that the pods will be denied, and why."""
    assert warned(plane, kind) == FILLED
    assert warned(plane, kind, WRONG) == DENIED
    assert warned(plane, kind, {"cpu": "1"}) == ""


def test_templates_of_other_kinds(plane: ControlPlane, webhook: Process) -> None:
    """A known kind of another group: each template with its path."""
    said = warned(plane, "JobSet", WRONG)
    assert "spec.replicatedJobs.0.template.spec.template: the pods will be denied: " in said
    assert "spec.replicatedJobs.1.template.spec.template: the pods will be denied: " in said


def test_kinds_of_the_settings(plane: ControlPlane, webhook: Process) -> None:
    """Nobody hears anything of a kind that is not known; with the setting the very words, here and in other commands."""
    assert warned(plane, "TrainJob") == ""
    set_settings(plane, OWN, TEXT + FURTHER).accepted()
    plane.wait_until(lambda: warned(plane, "TrainJob") == FILLED, "warned of")
    assert warned(plane, "TrainJob", WRONG) == DENIED
    assert warned(plane, "Deployment") == FILLED
    assert apply(plane, workload("TrainJob"), "--server-side") == (0, FILLED)
    assert "trainjob/demo" in run(plane, "preview", "--namespace", TEAM).stdout
    plane.client.delete("example.com/v1", "trainjobs", "demo", TEAM).accepted()
    set_settings(plane, OWN, TEXT).accepted()
    plane.wait_until(lambda: warned(plane, "TrainJob") == "", "no longer warned of")


def run(plane: ControlPlane, *command: str) -> subprocess.CompletedProcess[str]:
    """A command about the cluster, as a user runs it."""
    options = ("--kubeconfig", str(plane.kubeconfig), "--release-namespace", OWN)
    return subprocess.run([*PROGRAM, *command, *options], capture_output=True, text=True, check=False, timeout=120)


def test_calls(plane: ControlPlane, webhook: Process) -> None:
    """Only the author of a template calls: not for its scale, nor for what controllers make of it."""
    before = validations(plane)
    assert apply(plane, workload("Deployment"), "--server-side") == (0, FILLED)
    assert validations(plane) == before + 1
    patched = plane.client.patch("apps/v1", "deployments", "demo", {"metadata": {"labels": {"a": "b"}}}, TEAM)
    assert patched.accepted()
    assert plane.client.patch(
        "apps/v1", "deployments", "demo", {"spec": {"paused": False, "minReadySeconds": 1}}, TEAM
    ).accepted()
    plane.wait_until(lambda: plane.client.list("apps/v1", "replicasets", TEAM), "ReplicaSet")
    assert validations(plane) == before + 1
    change = {"spec": {"template": {"metadata": {"annotations": {"a": "b"}}}}}
    answer = plane.client.patch("apps/v1", "deployments", "demo", change, TEAM)
    assert answer.accepted()
    assert [f"Warning: {text}" for text in answer.warnings] == FILLED.splitlines()
    assert validations(plane) == before + 2
    plane.client.delete("apps/v1", "deployments", "demo", TEAM).accepted()


def validations(plane: ControlPlane) -> int:
    """How often the API server has called for workloads."""
    return calls(plane, "workloads.validate.vgpu-webhook.io")
