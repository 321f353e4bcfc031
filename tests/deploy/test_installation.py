"""The chart installed on a real control plane, its pods really run: registered by Service, and pods are treated."""

import base64
import re
from pathlib import Path

import pytest

from .releases import NAMESPACE, TEAM, Release, namespace, touched

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(1800)]

PLAIN = "plain"


def test_two_replicas_are_ready_and_registered_by_service(release: Release) -> None:
    """As in a cluster: the API server dials the Service's cluster IP, and verifies the Service's name."""
    assert len(release.ready()) == 2
    registration = release.registration()
    assert registration is not None
    for webhook in registration["webhooks"]:
        service = {"namespace": NAMESPACE, "name": "vgpu-webhook", "path": "/mutate", "port": 443}
        assert webhook["clientConfig"]["service"] == service
        assert b"BEGIN CERTIFICATE" in base64.b64decode(webhook["clientConfig"]["caBundle"])


def test_pods_of_opted_in_namespaces_are_treated_and_no_others(release: Release) -> None:
    """A pod with a GPU share is changed where the namespace has opted in, and left alone elsewhere."""
    namespace(release.plane, PLAIN, {})
    release.serving(TEAM)
    answer = release.create(TEAM)
    answer.accepted()
    assert touched(answer)
    assert answer.body["spec"]["schedulerName"] == "hami-scheduler"
    answer = release.create(PLAIN)
    answer.accepted()
    assert not touched(answer)


def test_process_is_what_the_pod_says(release: Release) -> None:
    """Its arguments, user, rights, network and files: as a runtime would make them of the very Pod."""
    [pod, _] = [each for each in release.replicas() if each["metadata"]["name"] in release.ready()]
    [container] = pod["spec"]["containers"]
    process = Path("/proc") / str(release.plane.pid_of(pod["metadata"]["name"]))
    command = (process / "cmdline").read_text().rstrip("\0").split("\0")
    assert command[1:] == ["-m", "webhook", *container["args"]]
    environment = (process / "environ").read_text().split("\0")
    assert "KUBERNETES_SERVICE_HOST=10.0.0.1" in environment
    assert not [each for each in environment if each.startswith(("KUBECONFIG=", "VGPU_WEBHOOK_"))]
    status = (process / "status").read_text()
    assert re.search(r"^CapEff:\t0+$", status, re.MULTILINE)
    assert re.search(r"^NoNewPrivs:\t1$", status, re.MULTILINE)
    assert (process / "uid_map").read_text().split()[0] == str(pod["spec"]["securityContext"]["runAsUser"])
    mounts = {
        fields[4]: fields[5].split(",")[0]
        for fields in map(str.split, (process / "mountinfo").read_text().splitlines())
    }
    assert mounts["/"] == "ro"
    assert mounts["/tmp"] == "rw"
    assert mounts["/run/secrets/kubernetes.io/serviceaccount"] == "ro"
    networks = {(each / "ns" / "net").readlink() for each in (process, Path("/proc/self"))}
    assert len(networks) == 2


def test_helm_test_passes(release: Release) -> None:
    """The doctor, run from its own pod with its own rights, finds nothing broken; Helm shows what it says."""
    release.serving(TEAM)
    output = release.run("test", "--logs")
    assert "Phase:          Succeeded" in output
    for check in ("api-server", "registration", "bundle", "served", "shim"):
        assert f"✓ {check}" in output
