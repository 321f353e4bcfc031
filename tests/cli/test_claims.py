"""Pods with claims, and what `mutate` writes as claims."""

from pathlib import Path

import pytest

from tests.cli.conftest import Run

TEMPLATE = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: one-gpu}
spec: {spec: {devices: {requests: [{name: g, exactly: {deviceClassName: gpu.example}}]}}}
"""
BOTH = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: both}
spec:
  template:
    spec:
      resourceClaims: [{name: gpu, resourceClaimTemplateName: one-gpu}]
      containers:
      - {name: main, image: app, resources: {limits: {nvidia.com/gpu: 1}, claims: [{name: gpu}]}}
"""
NAMED = """\
apiVersion: v1
kind: Pod
metadata: {name: named}
spec:
  containers:
  - {name: main, image: app, resources: {limits: {nvidia.com/gpu: 1, corp.example/nic: 1}}}
"""


@pytest.mark.parametrize("setting", ["resourceClaims: warn", "otherDeviceClasses: [gpu.example, nic.example]"])
def test_check_takes_the_settings_beside_them(run: Run, tmp_path: Path, setting: str) -> None:
    """Where classes may stand beside requests, none is denied for them."""
    (tmp_path / "settings.yaml").write_text(f"apiVersion: vgpu-webhook.io/v1alpha1\nkind: Settings\n{setting}\n")
    named = "deviceclass.resource.kubernetes.io/nic.example"
    (tmp_path / "pod.yaml").write_text(f"{TEMPLATE}---\n{BOTH}---\n{NAMED.replace('corp.example/nic', named)}")
    result = run("check", str(tmp_path))
    assert (result.exit_code, "error" in result.stderr) == (0, False)


def test_explain_a_name_of_a_device_class(run: Run) -> None:
    """It is known, as nobody's key."""
    result = run("explain", "--name", "deviceclass.resource.kubernetes.io/gpu.example")
    assert result.exit_code == 0
    assert "devices of the DeviceClass gpu.example" in result.stdout


def test_mutate_prints_the_template(run: Run, tmp_path: Path) -> None:
    """Once for all pods that need it, in their namespace; its own output stays as it is."""
    pod = NAMED.replace(", corp.example/nic: 1", ", nvidia.com/gpumem: 4096")
    both = f"{pod}---\n{pod.replace('named', 'other')}"
    first = run("mutate", "-f", "-", "--to", "dra-hami", "-n", "team", stdin=both)
    assert first.exit_code == 0
    *pods, template = first.stdout.split("---\n")
    assert len(pods) == 2
    assert "kind: ResourceClaimTemplate" in template
    assert run("mutate", "-f", "-", "-n", "team", stdin=first.stdout).stdout == first.stdout
    explained = run("explain", "-f", "-", "--to", "dra-hami", stdin=pod).stdout
    assert "ResourceClaimTemplate vgpu-" in explained
    assert "hami-core-gpu.project-hami.io/memory: 4Gi" in explained


ON_ONE_DEVICE = """\
apiVersion: v1
kind: Pod
metadata: {name: two}
spec:
  containers:
  - {name: a, image: app, resources: {limits: {volcano.sh/gpu-memory: 1024}}}
  - {name: b, image: app, resources: {limits: {volcano.sh/gpu-memory: 2048}}}
"""


def test_containers_on_one_device(run: Run) -> None:
    """`mutate` is content with what it wrote, and `explain` names each request."""
    first = run("mutate", "-f", "-", "--to", "dra-vgpu-manager", "-n", "team", stdin=ON_ONE_DEVICE)
    assert first.exit_code == 0
    for options in ((), ("--to", "dra-vgpu-manager"), ("--to", "nvidia")):
        assert run("mutate", "-f", "-", *options, "-n", "team", stdin=first.stdout).stdout == first.stdout
    explained = run("explain", "-f", "-", "--to", "dra-vgpu-manager", stdin=ON_ONE_DEVICE).stdout
    explained = " ".join(explained.split())
    assert "request gpu-0 of the ResourceClaimTemplate vgpu-" in explained
    assert "request gpu-1 of the ResourceClaimTemplate vgpu-" in explained
    assert run("check", "-", stdin=first.stdout).exit_code == 0
