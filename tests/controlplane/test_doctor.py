"""`check` without files on a real API server with a real webhook, healthy and with many faults."""

import datetime as dt
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from click.testing import CliRunner, Result

from tests.controlplane import in_cluster
from tests.controlplane.client import Object
from tests.controlplane.objects import mapping, mutating, namespace, pod, settings
from tests.controlplane.plane import ControlPlane
from tests.controlplane.processes import Process
from webhook.cli import main
from webhook.mapping.document.strict import API_VERSION as DOCUMENTS

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(1200)]

OWN = "doctor-own"
TEAM = "doctor-team"
GROUP = "admissionregistration.k8s.io/v1"
KIND = "mutatingwebhookconfigurations"
NAME = "00-vgpu-webhook"
LABEL = "doctor.example/inject"
"""Other tests have the usual one for webhooks of their own, and namespaces with it."""


@dataclass(frozen=True)
class Diagnosis:
    """The output of `check -o json`."""

    code: int
    checks: dict[str, Any]

    def levels(self) -> dict[str, str]:
        """How each check ended."""
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
    client.create(
        daemon_set("shim", {"app.kubernetes.io/component": "shim-installer"}, "/usr/local/vgpu-shim")
    ).accepted()
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


def daemon_set(name: str, labels: dict[str, str], folder: str) -> Object:
    """A DaemonSet that mounts a folder of the node."""
    app = {"app": name}
    volume = {"name": "host", "hostPath": {"path": folder}}
    # For no node: where the controller manager runs, it would make pods that nobody starts.
    nowhere = {"doctor.example/none": "true"}
    spec = {"containers": [{"name": "main", "image": "app"}], "volumes": [volume], "nodeSelector": nowhere}
    template = {"metadata": {"labels": app}, "spec": spec}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": OWN, "labels": labels},
        "spec": {"selector": {"matchLabels": app}, "template": template},
    }


@pytest.fixture(scope="module")
def left(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a webhook that is gone, whose webhook configuration is there.

    Tests of that come before those that have a webhook running, which would take the configuration over.
    """
    folder = tmp_path_factory.mktemp("left")
    with serving(plane, folder):
        plane.wait_until(lambda: touched(plane), "called")
    return folder


def test_a_dead_webhook(plane: ControlPlane, left: Path) -> None:
    """It is reported where it shows, and by the dry run."""
    dead = examine(plane.kubeconfig)
    assert dead.code == 1
    assert (dead.levels()["served"], dead.levels()["dry-run"]) == ("error", "error")
    assert "refused" in str(dead.checks["served"]["details"])
    assert "cannot call" in dead.checks["dry-run"]["message"]
    assert {"registration", "selectors", "match-conditions", "order", "bundle", "mappings"} & dead.bad().keys() == set()


def test_an_emptied_bundle(plane: ControlPlane, left: Path) -> None:
    """A static webhook configuration is not repaired, and no certificate is served that it does not trust."""
    configuration = plane.client.get(GROUP, KIND, NAME).accepted()
    url = configuration["webhooks"][0]["clientConfig"]["url"]
    port = urlsplit(url).port or 0
    for each in configuration["webhooks"]:
        each["clientConfig"].pop("caBundle")
    plane.client.call("PUT", f"/apis/{GROUP}/{KIND}/{NAME}", configuration).accepted()
    static = (*options(left), "--registration", "static", "--drain-grace", "0")
    with Process(in_cluster.serve_command(plane, port, *static), left / "static.log") as process:
        plane.wait_until(lambda: "does not contain that CA yet" in process.log.read_text(), "told")
        diagnosis = examine(plane.kubeconfig)
        process.stop()
    bad = {"bundle": "error", "served": "error", "certificates": "warning", "dry-run": "error", "validation": "error"}
    assert diagnosis.bad() == bad
    assert "no caBundle" in diagnosis.checks["bundle"]["message"]
    assert "a webhook without a certificate" in diagnosis.checks["served"]["message"]


def test_no_webhook_configuration(plane: ControlPlane, left: Path) -> None:
    """It is reported, and by the dry run."""
    plane.client.delete(GROUP, KIND, NAME).accepted()
    plane.wait_until(lambda: plane.client.create(pod("probe"), TEAM, dry_run=True).status == 201, "called no more")
    gone = examine(plane.kubeconfig)
    assert gone.code == 1
    assert (gone.levels()["registration"], gone.levels()["dry-run"]) == ("error", "error")
    assert "not called" in gone.checks["dry-run"]["message"]


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


def test_a_rejected_config_map(plane: ControlPlane, webhook: Path) -> None:
    """Its problems are reported; everything else is in order."""
    plane.client.create(mapping("bad", "extends: nvidia\nplaec: {}\n"), OWN).accepted()
    try:
        diagnosis = examine(plane.kubeconfig)
    finally:
        plane.client.delete("v1", "configmaps", "bad", OWN).accepted()
    assert diagnosis.bad() == {"mappings": "error"}
    assert diagnosis.code == 1
    assert "did you mean `place`?" in str(diagnosis.checks["mappings"]["details"])


def test_a_configuration_that_is_called_first(plane: ControlPlane, webhook: Path) -> None:
    """It is reported as an error, for a scheduler answers, which has to see what the webhook writes."""
    scheduler = {"service": {"namespace": "kube-system", "name": "hami-scheduler"}}
    of_team = {"namespaceSelector": {"matchLabels": {LABEL: "enabled"}}}
    first = mutating("00-first", "first.doctor.example", scheduler, failurePolicy="Ignore", timeoutSeconds=1, **of_team)
    plane.client.create(first).accepted()
    try:
        diagnosis = examine(plane.kubeconfig)
    finally:
        plane.client.delete(GROUP, KIND, "00-first").accepted()
    assert diagnosis.bad() == {"order": "error"}
    assert "00-first" in json.dumps(diagnosis.checks["order"])


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


def test_two_shims_on_one_node(plane: ControlPlane, webhook: Path) -> None:
    """A device plugin with libraries of its own, beside the installer."""
    plugin = daemon_set("plugin", {}, "/usr/local/device-library")
    volumes = plugin["spec"]["template"]["spec"]["volumes"]
    volumes.append({"name": "plugins", "hostPath": {"path": "/var/lib/kubelet/device-plugins"}})
    plane.client.create(plugin).accepted()
    account = plane.client.get("v1", "serviceaccounts", "default", OWN).accepted()["metadata"]
    # Somebody else's pods, so that no controller takes them for the DaemonSet's own and ends them.
    owner = {"apiVersion": "v1", "kind": "ServiceAccount", "name": "default", "uid": account["uid"], "controller": True}
    for name in ("plugin", "shim"):
        running = pod(name, {}, nodeName="doctor-node")
        running["metadata"] |= {"labels": {"app": name}, "ownerReferences": [owner]}
        plane.client.create(running, OWN).accepted()
    try:
        diagnosis = examine(plane.kubeconfig)
    finally:
        plane.client.delete("apps/v1", "daemonsets", "plugin", OWN).accepted()
        for name in ("plugin", "shim"):
            plane.client.delete("v1", "pods", name, OWN).accepted()
    assert diagnosis.bad() == {"shim": "warning"}
    assert diagnosis.checks["shim"]["details"] == [f"{OWN}/plugin mounts /usr/local/device-library, on doctor-node"]


@pytest.mark.kubernetes("1.36", why="older API servers drop the resource name of a device class")
def test_device_classes_and_shared_nodes(plane: ControlPlane, webhook: Path) -> None:
    """A DeviceClass that serves a key of the policy, and a node that shares its GPUs in time under their own name."""
    client = plane.client
    device_class = {"metadata": {"name": "doctor.example"}, "spec": {"extendedResourceName": "nvidia.com/gpu"}}
    group = "resource.k8s.io/v1"
    client.create({"apiVersion": group, "kind": "DeviceClass", **device_class}).accepted()
    node = {"metadata": {"labels": {"nvidia.com/gpu.product": "Tesla-T4-SHARED"}}}
    client.patch("v1", "nodes", "doctor-node", node).accepted()
    try:
        diagnosis = examine(plane.kubeconfig)
    finally:
        client.delete(group, "deviceclasses", "doctor.example").accepted()
        client.patch("v1", "nodes", "doctor-node", {"metadata": {"labels": None}}).accepted()
    assert diagnosis.bad() == {"sharing": "warning", "claims": "warning"}
    assert diagnosis.checks["claims"]["details"][0].startswith("doctor.example serves nvidia.com/gpu, which is read as")
    assert diagnosis.checks["sharing"]["details"][0].startswith("doctor-node: nvidia.com/gpu is timeslicing's there")


def test_a_user_without_rights(plane: ControlPlane, webhook: Path, tmp_path: Path) -> None:
    """Every check says what it lacks; none of them fails for it."""
    token = plane.client.account_token("default", OWN)
    diagnosis = examine(plane.write_kubeconfig(tmp_path / "kubeconfig", token=token))
    assert diagnosis.code == 0
    assert diagnosis.levels().pop("api-server") == "ok"
    assert set(diagnosis.levels().values()) == {"ok", "warning"}
    assert "cannot list resource" in str(diagnosis.checks["registration"]["details"])
    assert "mutatingwebhookconfigurations" in diagnosis.checks["registration"]["hint"]
