"""The control plane itself: what it is, and that it does what tests rely on."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from . import build
from .client import Object, read_warnings, wait_until
from .objects import namespace
from .plane import ControlPlane

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
    control_plane.create_namespace(namespace("stored"))
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


def test_read_warnings() -> None:
    """Warnings come out as they were meant: several of a header, quotes, backslashes and UTF-8 included."""
    header = r'299 - "a \"b\" c\\d", 299 - "größer"'.encode().decode("latin-1")
    assert read_warnings([header, '299 - "more"']) == ('a "b" c\\d', "größer", "more")


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
