"""The plain manifests: up to date with the chart, and applied by kubectl to the real API server."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from deploy.generate import DEPLOY
from deploy.generate.kustomize import NAMESPACE, base, inject
from tests.controlplane.client import Object
from tests.controlplane.plane import ControlPlane

from .charts import Chart

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(1800)]

BASE = DEPLOY / "kustomize" / "base"
INJECT = DEPLOY / "kustomize" / "inject"
POD_MAKERS = {"Deployment", "DaemonSet"}
"""Kinds whose templates lose Helm's labels."""
OVERLAY = DEPLOY / "kustomize" / "overlays" / "example"


def test_base_is_up_to_date(helm: Chart) -> None:
    """`make manifests` would change nothing."""
    assert {path.name: path.read_text() for path in BASE.iterdir()} == base(helm.helm), "run make manifests"
    assert {path.name: path.read_text() for path in INJECT.iterdir()} == inject(helm.helm), "run make manifests"


def kubectl(plane: ControlPlane, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run kubectl against the control plane."""
    command = [str(plane.binaries.path("kubectl")), f"--kubeconfig={plane.kubeconfig}", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def test_component_is_the_other_mode(helm: Chart, control_plane: ControlPlane, tmp_path: Path) -> None:
    """The base with the component has the objects that the chart has with `shim.mode: inject`: no more, no less."""
    folders = {"resources": [str(BASE)], "components": [str(INJECT)]}
    both = {key: [os.path.relpath(path, tmp_path) for path in paths] for key, paths in folders.items()}
    kind = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump({**kind, **both}))
    done = kubectl(control_plane, "kustomize", str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    built = {(each["kind"], each["metadata"]["name"]): each for each in yaml.safe_load_all(done.stdout)}
    whole = {"settings": {"bareDevices": "whole"}}
    wanted = [each for each in helm.render(whole, "--no-hooks", namespace=NAMESPACE) if each["kind"] != "Namespace"]
    assert built.keys() - {("Namespace", NAMESPACE)} == {(each["kind"], each["metadata"]["name"]) for each in wanted}
    for each in wanted:
        found = built[each["kind"], each["metadata"]["name"]]
        assert (found.get("spec"), found.get("data")) == (each.get("spec"), each.get("data")) or each[
            "kind"
        ] in POD_MAKERS


@pytest.fixture
def applied(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """The control plane, on which what a test has applied is deleted again."""
    # Another test may have made the namespace by other means, and kubectl would warn of that.
    mark = {"kubectl.kubernetes.io/last-applied-configuration": "{}"}
    control_plane.client.patch("v1", "namespaces", NAMESPACE, {"metadata": {"annotations": mark}})
    yield control_plane
    deleted = kubectl(control_plane, "delete", "-k", str(OVERLAY), "--wait=false", "--ignore-not-found")
    assert deleted.returncode == 0, deleted.stderr
    # Without controllers nobody ends a namespace, and tests of other files make this one.
    ended = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}, "spec": {"finalizers": []}}
    control_plane.client.call("PUT", f"/api/v1/namespaces/{NAMESPACE}/finalize", ended)
    control_plane.wait_until(
        lambda: control_plane.client.get("v1", "namespaces", NAMESPACE).status == 404, "the namespace is gone"
    )


def test_apply(applied: ControlPlane) -> None:
    """The base and then the overlay are applied without a warning; a second time changes nothing."""
    done = [kubectl(applied, "apply", "-k", str(folder)) for folder in (BASE, OVERLAY, OVERLAY)]
    assert [(each.returncode, each.stderr) for each in done] == [(0, "")] * 3
    changed = [line for line in done[-1].stdout.splitlines() if not line.endswith(" unchanged")]
    # Of a budget kubectl sends the selector every time: its patch replaces, and does not merge.
    assert [line for line in changed if not line.startswith("poddisruptionbudget")] == []
    deployment: Object = applied.client.get("apps/v1", "deployments", "vgpu-webhook", NAMESPACE).accepted()
    assert deployment["spec"]["replicas"] == 3
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "registry.example/vgpu-webhook:0.1.0"
    settings = applied.client.get("v1", "configmaps", "vgpu-webhook-settings", NAMESPACE).accepted()
    assert "target: nvidia" in settings["data"]["settings.yaml"]
