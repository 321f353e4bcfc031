"""`check` without files on a real API server with a real webhook, healthy and with many faults."""

import datetime as dt
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.controlplane import in_cluster
from tests.controlplane.objects import namespace, pod, settings
from tests.controlplane.plane import ControlPlane
from tests.controlplane.processes import Process
from webhook.cli import main
from webhook.mapping.strict import API_VERSION as DOCUMENTS

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(1200)]

OWN = "doctor-own"
TEAM = "doctor-team"
GROUP = "admissionregistration.k8s.io/v1"
KIND = "mutatingwebhookconfigurations"
NAME = "00-vgpu-webhook"
APP = {"app": "shim"}
LABEL = "doctor.example/inject"
"""Other tests have the usual one for webhooks of their own, and namespaces with it."""


@dataclass(frozen=True)
class Diagnosis:
    """The output of `check -o json`."""

    code: int
    checks: dict[str, Any]

    def levels(self) -> dict[str, str]:
        return {name: configured["level"] for name, configured in self.checks.items()}

    def bad(self) -> dict[str, str]:
        """Those that did not end well; but `events`, which also says what other tests did (tests/faults holds it)."""
        return {name: level for name, level in self.levels().items() if level != "ok" and name != "events"}


def run(kubeconfig: Path, *more: str, own: str = OWN) -> Result:
    """`check`, in this process."""
    return CliRunner().invoke(main, ["check", "--kubeconfig", str(kubeconfig), "--release-namespace", own, *more])


def examine(kubeconfig: Path, own: str = OWN) -> Diagnosis:
    """The same as data, of an installation in a namespace."""
    done = run(kubeconfig, "-o", "json", own=own)
    assert done.exit_code in {0, 1}, done.stderr
    printed = json.loads(done.stdout)
    assert printed["ok"] is (done.exit_code == 0)
    return Diagnosis(done.exit_code, {check["name"]: check for check in printed["checks"]})


def options(folder: Path) -> tuple[str, ...]:
    """Where the webhook is at home, and keeps its certificate."""
    return "--release-namespace", OWN, "--state-dir", str(folder / "state")


@contextmanager
def serving(plane: ControlPlane, folder: Path) -> Iterator[Process]:
    """The webhook in a cluster without a webhook configuration, until it has made one."""
    plane.client.delete(GROUP, KIND, NAME)
    with in_cluster.serving(plane, folder, *options(folder)) as process:
        yield process


@pytest.fixture(scope="module")
def plane(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """A cluster with all that a healthy installation has beside the webhook, as objects."""
    client = control_plane.client
    client.delete(GROUP, KIND, NAME)
    labels = {"pod-security.kubernetes.io/enforce": "privileged"}
    control_plane.create_namespace(namespace(OWN))
    control_plane.create_namespace(namespace(TEAM, {LABEL: "enabled", **labels}))
    text = (
        f"apiVersion: {DOCUMENTS}\nkind: Settings\ntarget: nvidia\noptInLabel: {LABEL}\nvalidation: [pods, workloads]\n"
    )
    client.create(settings(text), OWN).accepted()
    client.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "doctor-node"}}).accepted()
    give = {"status": {"capacity": {"nvidia.com/gpu": "10"}, "allocatable": {"nvidia.com/gpu": "10"}}}
    client.patch("v1", "nodes", "doctor-node/status", give).accepted()
    # For no node: where the controller manager runs, it would make pods that nobody starts.
    volumes = [{"name": "host", "hostPath": {"path": "/usr/local/vgpu-shim"}}]
    installer = pod("shim", {}, volumes=volumes, nodeSelector={"doctor.example/none": "true"})["spec"]
    spec = {"selector": {"matchLabels": APP}, "template": {"metadata": {"labels": APP}, "spec": installer}}
    metadata = {"name": "shim", "labels": {"app.kubernetes.io/component": "shim-installer"}}
    client.create({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata, "spec": spec}, OWN).accepted()
    yield control_plane
    client.delete(GROUP, KIND, NAME)
    client.delete("v1", "nodes", "doctor-node")
    client.delete("apps/v1", "daemonsets", "shim", OWN)
    client.delete("v1", "configmaps", "vgpu-webhook-settings", OWN)


@pytest.fixture(autouse=True)
def _lease(plane: ControlPlane) -> None:
    """A Lease that says that the target's scheduler is at work."""
    plane.client.delete("coordination.k8s.io/v1", "leases", "hami-scheduler", OWN)
    plane.client.create(
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": "hami-scheduler", "namespace": OWN},
            "spec": {"holderIdentity": "one", "renewTime": f"{dt.datetime.now(dt.UTC):%Y-%m-%dT%H:%M:%S.%fZ}"},
        }
    ).accepted()


@pytest.fixture(scope="module")
def webhook(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a webhook that has registered itself, and is called."""
    folder = tmp_path_factory.mktemp("doctor")
    with serving(plane, folder):
        plane.wait_until(lambda: touched(plane), "called")
        # What judges pods follows what changes them after some seconds.
        plane.wait_until(lambda: examine(plane.kubeconfig).levels()["validation"] == "ok", "judged")
        yield folder


def touched(plane: ControlPlane) -> bool:
    """Whether a pod is changed."""
    answer = plane.client.create(pod("probe"), TEAM, dry_run=True)
    return "vgpu-webhook.io/status" in answer.body.get("metadata", {}).get("annotations", {})


def test_a_dead_webhook(plane: ControlPlane, tmp_path: Path) -> None:
    """The dry run says it in the API server's words; before those with a webhook, which takes the configuration over."""
    with serving(plane, tmp_path):
        plane.wait_until(lambda: touched(plane), "called")
    dead = examine(plane.kubeconfig)
    assert dead.code == 1
    assert dead.levels()["dry-run"] == "error"
    assert "cannot call" in dead.checks["dry-run"]["message"]
    assert "refused" in str(dead.checks["dry-run"]["details"])
    assert {"registration", "selectors", "match-conditions", "order", "bundle", "mappings"} & dead.bad().keys() == set()


def test_a_healthy_installation(plane: ControlPlane, webhook: Path) -> None:
    """Everything is in order, in both formats, and nothing is left behind."""
    diagnosis = examine(plane.kubeconfig)
    assert diagnosis.bad() == {}, diagnosis.checks
    assert diagnosis.code == 0
    text = run(plane.kubeconfig)
    assert text.exit_code == 0
    # The last one is in the sum; the check `events` has the mark that other tests have left it.
    assert text.stdout.count("✓") - (diagnosis.levels()["events"] == "ok") == len(diagnosis.checks)
    assert "\x1b" not in text.stdout
    assert max(map(len, text.stdout.splitlines())) <= 100
    assert plane.client.list("v1", "pods", TEAM) == []


def test_a_pod_that_was_missed(plane: ControlPlane, webhook: Path) -> None:
    """A GPU pod that is older than the namespace's label is named."""
    client = plane.client
    client.patch("v1", "namespaces", TEAM, {"metadata": {"labels": {LABEL: None}}}).accepted()
    plane.wait_until(lambda: not touched(plane), "opted out")
    client.create(pod("early"), TEAM).accepted()
    client.patch("v1", "namespaces", TEAM, {"metadata": {"labels": {LABEL: "enabled"}}}).accepted()
    try:
        plane.wait_until(lambda: touched(plane), "opted in")
        diagnosis = examine(plane.kubeconfig)
    finally:
        client.delete("v1", "pods", "early", TEAM).accepted()
    assert diagnosis.bad() == {"untouched": "warning"}
    assert diagnosis.code == 0
    assert diagnosis.checks["untouched"]["details"] == [f"{TEAM}/early"]


def test_a_user_without_rights(plane: ControlPlane, webhook: Path, tmp_path: Path) -> None:
    """Every check says what it lacks; none of them fails for it."""
    token = plane.client.account_token("default", OWN)
    diagnosis = examine(plane.write_kubeconfig(tmp_path / "kubeconfig", token=token))
    assert diagnosis.code == 0
    assert diagnosis.levels().pop("api-server") == "ok"
    assert set(diagnosis.levels().values()) == {"ok", "warning"}
    assert "cannot list resource" in str(diagnosis.checks["registration"]["details"])
    assert "mutatingwebhookconfigurations" in diagnosis.checks["registration"]["hint"]
