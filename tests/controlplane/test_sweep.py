"""The sweep on a real API server: of two replicas one counts the pods that were missed."""

import re
from collections.abc import Iterator
from contextlib import ExitStack
from http.client import HTTPConnection
from pathlib import Path

import pytest

from tests.controlplane.client import Object
from tests.controlplane.in_cluster import serve_command, wait_ready
from tests.controlplane.plane import ControlPlane
from tests.controlplane.processes import Process, free_ports
from webhook.replica.sweep import LEASE

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(600)]

OWN = "sweep-webhook"
TEAM = "sweep-team"
OPT_IN = "sweep.example/inject"


def pod(name: str, limits: dict[str, str], annotations: dict[str, str] | None = None) -> Object:
    """A pod with one container."""
    container = {"name": "main", "image": "app", "resources": {"limits": limits}}
    metadata = {"name": name, "annotations": annotations or {}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}


@pytest.fixture
def replicas(control_plane: ControlPlane, tmp_path: Path) -> Iterator[list[int]]:
    """Two replicas that sweep, by their ports for metrics, in a cluster with pods from before."""
    client = control_plane.client
    for name, labels in ((OWN, {}), (TEAM, {OPT_IN: "enabled"})):
        metadata = {"name": name, "labels": labels}
        control_plane.create_namespace({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    metadata = {"name": "vgpu-webhook-settings", "namespace": OWN}
    data = {"settings.yaml": f"optInLabel: {OPT_IN}\n"}
    client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}).accepted()
    for each in (
        pod("early", {"nvidia.com/gpu": "1"}),
        pod("older", {"nvidia.com/gpu": "1"}, {"vgpu-webhook.io/status": "{}"}),
        pod("plain", {"cpu": "1"}),
    ):
        client.create(each, TEAM).accepted()
    ports = []
    with ExitStack() as stack:
        for number in range(2):
            port, plain = free_ports(2)
            state = tmp_path / str(number)
            options = ("--release-namespace", OWN, "--state-dir", str(state), "--registration", "off", "--sweep")
            command = serve_command(control_plane, port, *options, "--drain-grace", "0", plain=plain)
            process = stack.enter_context(Process(command, tmp_path / f"{number}.log"))
            wait_ready(control_plane, process)
            ports.append(plain)
        yield ports
    for name in ("early", "older", "plain"):
        client.delete("v1", "pods", name, TEAM)


def counted(port: int) -> dict[str, float]:
    """What a replica says, by state."""
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    connection.close()
    return {
        state: float(value)
        for state, value in re.findall(r'^vgpu_webhook_untreated_pods\{state="(\w+)"\} (\S+)$', text, re.MULTILINE)
    }


def test_one_replica_counts(control_plane: ControlPlane, replicas: list[int]) -> None:
    """The other one leaves it to the holder of the Lease."""
    control_plane.wait_until(lambda: any(map(counted, replicas)), "counted", 30)
    assert sorted((counted(port) for port in replicas), key=len) == [{}, {"missed": 1.0, "outdated": 1.0}]
    lease = control_plane.client.get("coordination.k8s.io/v1", "leases", LEASE, OWN).accepted()
    assert lease["spec"].keys() == {"holderIdentity", "renewTime"}
