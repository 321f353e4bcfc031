"""Workloads: whoever applies one is told at once what would become of its pods."""

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from webhook.cluster.registration.wanted import NAME, VALIDATING

from .in_cluster import calls, installed
from .objects import GPU, namespace, pod
from .plane import ControlPlane
from .processes import Process

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(1200)]

Json = dict[str, Any]
OWN = "workloads-own"
TEAM = "workloads-team"
AUDITED = "workloads-audited"
LABEL = "workloads.example/gpu"
TEXT = f"optInLabel: {LABEL}\n"


@pytest.fixture(scope="module")
def plane(control_plane: ControlPlane) -> ControlPlane:
    """A cluster with a namespace that enforces and one that audits."""
    control_plane.create_namespace(namespace(TEAM, {LABEL: "enabled"}))
    control_plane.create_namespace(namespace(AUDITED, {LABEL: "enabled", "vgpu-webhook.io/mode": "audit"}))
    control_plane.start_controller_manager()
    return control_plane


@pytest.fixture(scope="module")
def webhook(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """The webhook, which is called for workloads."""
    with installed(plane, tmp_path_factory.mktemp("workloads"), OWN, TEXT) as process:
        plane.wait_until(lambda: warned(plane, "Deployment"), "called")
        yield process


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
