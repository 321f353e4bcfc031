"""The control plane itself: what it is, and that it does what tests rely on."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from . import build
from .client import Object, plural, read_warnings, wait_until
from .plane import ControlPlane
from .processes import Process, ProcessEndedError

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(1200)]


def container(**more: object) -> Object:
    """Return the smallest container, and what more it needs."""
    return {"name": "main", "image": "registry.invalid/image", **more}


def test_every_component_is_the_version_that_was_built(control_plane: ControlPlane) -> None:
    """The API server and kubectl call themselves so, not v0.0.0."""
    if os.environ.get("KUBEBUILDER_ASSETS"):
        pytest.skip("somebody else's binaries")
    assert control_plane.client.call("GET", "/version").accepted()["gitVersion"] == f"v{build.version()}"
    kubectl = [str(control_plane.binaries.path("kubectl")), f"--kubeconfig={control_plane.kubeconfig}"]
    versions = json.loads(subprocess.check_output([*kubectl, "version", "--output=json"]))
    assert versions["clientVersion"]["gitVersion"] == versions["serverVersion"]["gitVersion"]


def test_pods_are_stored_as_a_cluster_would(control_plane: ControlPlane) -> None:
    """A bare pod gets its service account's token volume, defaults, and requests equal to its limits."""
    control_plane.create_namespace({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "stored"}})
    limits = {"example.com/card": "3000"}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "bare-"},
        "spec": {"containers": [container(resources={"limits": limits})]},
    }
    created = control_plane.client.create(pod, "stored").accepted()
    stored = control_plane.client.get("v1", "pods", created["metadata"]["name"], "stored").accepted()
    assert stored == created
    assert stored["spec"]["schedulerName"] == "default-scheduler"
    assert stored["spec"]["containers"][0]["resources"] == {"limits": {"example.com/card": "3k"}} | {
        "requests": {"example.com/card": "3k"}
    }
    assert [volume["name"][:15] for volume in stored["spec"]["volumes"]] == ["kube-api-access"]


def test_dry_run_stores_nothing(control_plane: ControlPlane) -> None:
    """A dry run answers like a create, and leaves nothing behind."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "dry"}}
    assert control_plane.client.create(namespace, dry_run=True).status == 201
    assert control_plane.client.get("v1", "namespaces", "dry").status == 404


def test_warnings_and_refusals_reach_the_client(control_plane: ControlPlane) -> None:
    """The client gives what a person at kubectl would see: warnings of the server, and why something was refused."""
    control_plane.create_namespace({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "told"}})
    twice = [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "twice"},
        "spec": {"containers": [container(env=twice)]},
    }
    answer = control_plane.client.create(pod, "told")
    assert answer.status == 201
    assert answer.warnings == (
        'spec.containers[0].env[1]: hides previous definition of "A", which may be dropped when using apply',
    )
    refused = control_plane.client.create(pod, "told")
    assert (refused.status, refused.message) == (409, 'pods "twice" already exists')


def test_a_deployment_gets_its_pods(controllers: ControlPlane) -> None:
    """The controller manager makes the pods of a workload and collects them with it."""
    controllers.create_namespace({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "workloads"}})
    labels = {"app": "deployed"}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "deployed"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container()]}},
        },
    }
    client = controllers.client
    client.create(deployment, "workloads").accepted()
    pods = controllers.wait_until(
        lambda: found if len(found := client.list("v1", "pods", "workloads", "app=deployed")) == 2 else None, "two pods"
    )
    assert {pod["metadata"]["ownerReferences"][0]["kind"] for pod in pods} == {"ReplicaSet"}
    client.patch("apps/v1", "deployments", "deployed", {"spec": {"replicas": 0}}, "workloads").accepted()
    controllers.wait_until(lambda: not client.list("v1", "pods", "workloads"), "no pods")


def test_pods_are_bound_to_nodes_that_are_only_objects(scheduler: ControlPlane) -> None:
    """The scheduler counts an extended resource that a test gave a node, and places a pod by it."""
    client = scheduler.client
    client.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}}).accepted()
    capacity = {"example.com/card": "1", "pods": "10", "cpu": "4", "memory": "8Gi"}
    status = {"capacity": capacity, "conditions": [{"type": "Ready", "status": "True"}]}
    client.patch("v1", "nodes", "node-1/status", {"status": status}).accepted()
    scheduler.create_namespace({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "bound"}})
    for name in ("first", "second"):
        requesting = container(resources={"limits": {"example.com/card": "1"}})
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [requesting]}}
        client.create(pod, "bound").accepted()

    def outcomes() -> list[str | None]:
        pods = client.list("v1", "pods", "bound")
        conditions = [condition for pod in pods for condition in pod["status"].get("conditions", [])]
        reasons = {condition.get("reason") for condition in conditions}
        return sorted((pod["spec"].get("nodeName") for pod in pods), key=str) if "Unschedulable" in reasons else []

    # Both may have been told that there is no place before the scheduler heard of the node.
    scheduler.wait_until(lambda: outcomes() == [None, "node-1"], "one pod found a place, and one did not")
    # Pods of other tests shall find no place.
    client.delete("v1", "nodes", "node-1").accepted()


def test_a_process_does_not_outlive_the_run(tmp_path: Path) -> None:
    """What a test run started is ended by the kernel when the run is killed."""
    script = (
        "import sys, time; from pathlib import Path; from tests.controlplane.processes import Process;"
        "process = Process(['sleep', '600'], Path(sys.argv[1]) / 'sleep.log');"
        "print(process.pid, flush=True); time.sleep(600)"
    )
    root = Path(__file__).parents[2]
    with subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, cwd=root) as run:
        assert run.stdout is not None
        pid = int(run.stdout.readline())
        run.kill()
    # As long as nobody has reaped it, it is a zombie.
    wait_until(lambda: not _runs(pid), "the process is gone")


@pytest.mark.parametrize(
    "kind, expected", [("Pod", "pods"), ("Ingress", "ingresses"), ("NetworkPolicy", "networkpolicies")]
)
def test_plural(kind: str, expected: str) -> None:
    """Kinds are spelled in URLs as Kubernetes spells its own."""
    assert plural(kind) == expected


def test_read_warnings() -> None:
    """Warnings come out as they were meant: several of a header, quotes, backslashes and UTF-8 included."""
    header = r'299 - "a \"b\" c\\d", 299 - "größer"'.encode().decode("latin-1")
    assert read_warnings([header, '299 - "more"']) == ('a "b" c\\d', "größer", "more")


def test_an_ended_process_reports_why(tmp_path: Path) -> None:
    """A component that ended is not waited for: its exit status and the end of its log are the error."""
    why = r"component ended with 3\n(.|\n)*no such flag"
    with (
        Process(["sh", "-c", "echo no such flag; exit 3"], tmp_path / "component.log") as process,
        pytest.raises(ProcessEndedError, match=why),
    ):
        wait_until(process.check, "never")


def test_missing_go_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without binaries and without Go the failure names both ways out."""
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(build.BinariesMissingError, match=r"install Go 1\.26(.|\n)*KUBEBUILDER_ASSETS"):
        build.find()


def test_given_binaries_come_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A folder of `KUBEBUILDER_ASSETS` is taken as it is; what it lacks is named when it is needed."""
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    with pytest.raises(build.BinariesMissingError, match="etcd is not in"):
        build.find()
    for component in build.REQUIRED:
        (tmp_path / component).touch()
    binaries = build.find()
    assert binaries.path("etcd") == tmp_path / "etcd"
    with pytest.raises(build.BinariesMissingError, match="kube-controller-manager is not in"):
        binaries.path("kube-controller-manager")


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
