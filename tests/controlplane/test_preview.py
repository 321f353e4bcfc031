"""`preview` of a real API server: what runs there, each template once, and whether its nodes fit; nothing is changed."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from tests.controlplane.client import Object
from tests.controlplane.objects import namespace, pod, settings
from tests.controlplane.plane import ControlPlane
from webhook.cli import main
from webhook.cluster.policy.documents import SETTINGS_NAME

pytestmark = pytest.mark.controlplane

TEAM = "preview-team"
NODE = "preview-node"
APP = {"app": "train"}
UID = "00000000-0000-0000-0000-000000000000"


def preview(plane: ControlPlane, *options: str) -> Result:
    """The command, in this process."""
    where = ("--kubeconfig", str(plane.kubeconfig), "--release-namespace", TEAM)
    return CliRunner().invoke(main, ["preview", *where, *options])


def owned(kind: str, version: str, name: str) -> list[Object]:
    """The reference of a controller."""
    return [{"apiVersion": version, "kind": kind, "name": name, "uid": UID, "controller": True}]


def on_node(name: str, *owner: str) -> Object:
    """A pod that requests a GPU, on a node; of a controller's kind, version and name."""
    made = pod(name, nodeName=NODE)
    made["metadata"] |= {"namespace": TEAM, "ownerReferences": owned(*owner) if owner else []}
    return made


@pytest.fixture(scope="module")
def plane(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """A namespace that has not opted in, with workloads, their pods, and pods of a controller that nobody knows."""
    client = control_plane.client
    control_plane.create_namespace(namespace(TEAM))
    client.create(settings("bareDevices: share\n"), TEAM)
    client.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}}).accepted()
    template = {"metadata": {"labels": APP}, "spec": pod("train")["spec"]}
    spec = {"replicas": 0, "selector": {"matchLabels": APP}, "template": template}
    named = {"name": "train", "namespace": TEAM}
    client.create({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": named, "spec": spec}).accepted()
    rolled = {
        "name": "rolled",
        "namespace": TEAM,
        "ownerReferences": owned("Rollout", "argoproj.io/v1alpha1", "rolled"),
    }
    client.create({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": rolled, "spec": spec}).accepted()
    for each in (
        on_node("alone"),
        on_node("worker-0", "RayCluster", "ray.io/v1", "ray"),
        on_node("worker-1", "RayCluster", "ray.io/v1", "ray"),
        on_node("train-1", "ReplicaSet", "apps/v1", "train-5d4f8c7b9"),
    ):
        client.create(each).accepted()
    yield control_plane
    for resource in ("pods", "replicasets", "deployments"):
        version = "v1" if resource == "pods" else "apps/v1"
        for each in client.list(version, resource, TEAM):
            client.delete(version, resource, each["metadata"]["name"], TEAM)
    client.delete("v1", "nodes", NODE)


def written(plane: ControlPlane) -> dict[str, tuple[Any, ...]]:
    """What somebody writes of the pods; not what the garbage collector does to those whose owner does not exist."""
    pods = plane.client.list("v1", "pods", TEAM)
    fields = ("labels", "annotations", "ownerReferences")
    return {each["metadata"]["name"]: (each["spec"], *map(each["metadata"].get, fields)) for each in pods}


def test_what_runs_there(plane: ControlPlane) -> None:
    """Workloads, pods of nobody, and pods of other controllers, once; a pod is judged as if it had no node yet."""
    before = written(plane)
    done = preview(plane, "-n", TEAM, "-o", "json")
    assert done.exit_code == 0, done.stderr
    printed = json.loads(done.stdout)
    assert [pod["workload"] for pod in printed["pods"]] == [
        "deployment/train",
        "pod/alone",
        "pod/of RayCluster ray",
        "replicaset/rolled",
    ]
    assert {(pod["outcome"], *pod["effects"]) for pod in printed["pods"]} == {
        ("changed", "default filled", "other scheduler", "shim")
    }
    checks = {check["name"]: (check["level"], check["message"]) for check in printed["cluster"]}
    assert list(checks) == ["resources", "sharing", "scheduler", "shim"]
    assert checks["resources"][0] == "warning"  # of nvidia.com/gpu, which no node of this cluster has
    assert written(plane) == before


def test_settings_in_force(plane: ControlPlane) -> None:
    """The policy is that of the cluster's ConfigMaps; ``--set`` changes it."""
    plane.client.patch("v1", "configmaps", SETTINGS_NAME, settings("bareDevices: whole\n"), TEAM).accepted()
    try:
        whole = json.loads(preview(plane, "-n", TEAM, "-o", "json").stdout)
        share = json.loads(preview(plane, "-n", TEAM, "-o", "json", "--set", "bareDevices=share").stdout)
    finally:
        plane.client.patch("v1", "configmaps", SETTINGS_NAME, settings("bareDevices: share\n"), TEAM).accepted()
    assert "default filled" not in whole["effects"]
    assert share["effects"]["default filled"] == 4


def test_what_other_values_would_change(plane: ControlPlane, tmp_path: Path) -> None:
    """Of what runs there, under the cluster's policy and under that of a file."""
    (tmp_path / "values.yaml").write_text("{shim: {mode: inject}, settings: {bareDevices: whole}}\n")
    done = preview(plane, "-n", TEAM, "-o", "json", "--compare", str(tmp_path / "values.yaml"))
    assert done.exit_code == 1, done.stderr
    pods = json.loads(done.stdout)["pods"]
    assert len(pods) == 4
    assert all("default filled" in pod["before"]["effects"] and "default filled" not in pod["effects"] for pod in pods)


def test_values_for_this_cluster(plane: ControlPlane) -> None:
    """`check --pre` proposes values before anything is installed."""
    done = CliRunner().invoke(main, ["check", "--pre", "--kubeconfig", str(plane.kubeconfig)])
    assert done.exit_code == 0
    assert yaml.safe_load(done.stdout)["settings"]["bareDevices"] == "whole"
    assert "# " in done.stdout


def test_all_namespaces(plane: ControlPlane) -> None:
    """With ``-A``, those of every namespace; the table says how many, and ends with the checks."""
    done = preview(plane, "-A")
    assert done.exit_code in {0, 2}, done.stderr
    assert f"{TEAM}  " in done.stdout
    printed = " ".join(done.stdout.split())
    assert "as if every namespace had opted in and enforced; policy: in force in context" in printed
    assert "before you opt namespaces in" in done.stdout
