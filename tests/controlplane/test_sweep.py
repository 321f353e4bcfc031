"""The sweep on a real API server: of two replicas one counts the pods that were missed."""

import asyncio
import datetime as dt

import pytest
import structlog

from tests.controlplane.objects import namespace, pod
from tests.controlplane.plane import ControlPlane
from tests.replica.test_sweep import exposed
from webhook.admission.decision import Namespace
from webhook.cluster.client.connection import connect
from webhook.mapping.load import load_policy
from webhook.replica.sweep import LEASE, Sweep

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(600)]

TEAM = "sweep-team"


async def test_one_replica_counts(control_plane: ControlPlane) -> None:
    """The other one leaves it to the holder of the Lease; that `serve` sweeps: test_doctor.py."""
    client = control_plane.client
    control_plane.create_namespace(namespace(TEAM))
    older = pod("older")
    older["metadata"]["annotations"] = {"vgpu-webhook.io/status": "{}"}
    for each in (pod("early"), older, pod("plain", {"cpu": "1"})):
        client.create(each, TEAM).accepted()
    team = Namespace(TEAM, {"vgpu-webhook.io/inject": "enabled"})
    policy, log, api = load_policy(), structlog.get_logger(), await connect(control_plane.kubeconfig)
    replicas = [Sweep(api, TEAM, lambda: [team], lambda: policy, log) for _ in range(2)]
    await asyncio.gather(*(each.turn(dt.datetime.now(dt.UTC)) for each in replicas))
    await api.close()
    assert sorted(map(exposed, replicas), key=len) == [{}, {"missed": 1.0, "outdated": 1.0}]
    lease = client.get("coordination.k8s.io/v1", "leases", LEASE, TEAM).accepted()
    assert lease["spec"].keys() == {"holderIdentity", "renewTime"}
    for name in ("early", "older", "plain"):
        client.delete("v1", "pods", name, TEAM)
