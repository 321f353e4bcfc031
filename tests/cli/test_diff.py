"""``vgpu-webhook diff``: manifests under two policies."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run

MANIFESTS = """
apiVersion: v1
kind: Pod
metadata: {name: share}
spec:
  containers:
  - {name: main, image: app, resources: {limits: {nvidia.com/gpu: 1, nvidia.com/gpumem: 3000}}}
---
apiVersion: v1
kind: Pod
metadata: {name: named}
spec:
  nodeName: node-1
  containers:
  - {name: main, image: app, resources: {limits: {nvidia.com/gpu: 1, nvidia.com/gpumem: 3000}}}
---
apiVersion: v1
kind: Pod
metadata: {name: plain}
spec:
  containers:
  - {name: main, image: app}
"""


@pytest.fixture
def manifests(tmp_path: Path) -> str:
    """A share, one with a node, and a pod that requests nothing."""
    file = tmp_path / "manifests.yaml"
    file.write_text(MANIFESTS)
    return str(file)


def policy(folder: Path, settings: str, mapping: str = "") -> str:
    """Write a policy of documents."""
    folder.mkdir()
    (folder / "settings.yaml").write_text(settings)
    if mapping:
        (folder / "mappings").mkdir()
        (folder / "mappings/ours.yaml").write_text(mapping)
    return str(folder)


def test_nothing_differs(run: Run, manifests: str, tmp_path: Path) -> None:
    """Another digest alone is no difference."""
    other = policy(tmp_path / "other", "timeoutSeconds: 7\n")
    result = run("diff", "built-in", other, "-f", manifests)
    assert (result.exit_code, result.stdout) == (0, "0 of 3 objects would be treated differently\n")


def test_what_differs(run: Run, manifests: str, tmp_path: Path) -> None:
    """The verdict, what is told and what is stored, by object; those that are treated alike are only counted."""
    other = policy(tmp_path / "other", "{target: volcano, nodeName: affinity}\n")
    result = run("diff", "built-in", other, "-f", manifests)
    assert result.exit_code == 2
    assert result.stdout.startswith("pod/share\n")
    assert "\n-  schedulerName: hami-scheduler\n" in result.stdout
    assert "\n+  schedulerName: volcano\n" in result.stdout
    named = result.stdout.partition("pod/named\n")[2]
    assert named.startswith("- denied, 403: ")
    assert "\n+ allowed: changed\n" in named
    assert named.endswith("\n\n2 of 3 objects would be treated differently\n")


def test_a_mapping_differs(run: Run, manifests: str, tmp_path: Path) -> None:
    """As data: both reports, and what is stored; null if it is denied."""
    other = policy(
        tmp_path / "other", "{}", "{apiVersion: vgpu-webhook.io/v1alpha1, kind: Mapping, extends: nvidia, shim: null}"
    )
    result = run("diff", other, "built-in", "-f", manifests, "-o", "json")
    assert result.exit_code == 2
    (share,) = json.loads(result.stdout)
    assert share["object"] == "pod/share"
    assert "env" not in share["old"]["stored"]["spec"]["containers"][0]
    assert "env" in share["new"]["stored"]["spec"]["containers"][0]


def test_values_of_the_chart(run: Run, manifests: str, tmp_path: Path) -> None:
    """Two files of values, as before an upgrade."""
    files = []
    for mode in ("plugin", "inject"):
        files.append(str(tmp_path / f"{mode}.yaml"))
        Path(files[-1]).write_text(f"{{shim: {{mode: {mode}}}, settings: {{bareDevices: whole}}}}\n")
    result = run("diff", *files, "-f", manifests)
    assert result.exit_code == 2
    assert "LD_PRELOAD" in result.stdout


@pytest.mark.parametrize("name", ["nothing-there", ""])
def test_no_policy(run: Run, manifests: str, name: str) -> None:
    """A usage error that says what may be written."""
    result = run("diff", "built-in", name, "-f", manifests)
    assert result.exit_code == 1
    assert "is no file of values, no folder with settings.yaml or mappings, and not built-in" in result.stderr


def test_what_only_one_can_read(run: Run, tmp_path: Path) -> None:
    """A kind that only the new settings know, with a pod that Kubernetes could not decode: an error, and the rest is shown."""
    documents = (
        "{apiVersion: example.com/v1, kind: Job, metadata: {name: bad}, spec: {pods: {spec: {containers: 1}}}}\n",
        MANIFESTS,
        "{apiVersion: v1, kind: List, items: [{kind: Pod, metadata: {name: a}}, {kind: Pod, metadata: {name: a}}]}\n",
    )
    (tmp_path / "manifests.yaml").write_text("---\n".join(documents))
    other = policy(
        tmp_path / "other", "{target: volcano, workloads: [{group: example.com, kind: Job, templates: [spec.pods]}]}\n"
    )
    result = run("diff", "built-in", other, "-f", str(tmp_path / "manifests.yaml"))
    assert result.exit_code == 1
    assert result.stdout.startswith("pod/share\n")
    assert "manifests.yaml:1: spec.pods.spec.containers: a list is expected here" in result.stderr
