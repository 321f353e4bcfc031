"""An installed release, as far as it can be tried without a node: what it has no right to, what no upgrade can change."""

import asyncio
import contextlib
import datetime as dt
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from tests.controlplane.client import Client
from tests.controlplane.plane import ControlPlane
from webhook.admission.decision import Namespace
from webhook.cluster.client.api import StatusError
from webhook.cluster.client.connection import connect
from webhook.mapping.load import load_policy
from webhook.replica.sweep import LEASE, PERIOD, TURN, Sweep

from .charts import INJECT, RELEASE, REQUIRED, Chart
from .helm import HelmError

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(600), pytest.mark.once("rights")]

NAMESPACE = "gpu-installed"
OTHER = "kube-public"
GROUP = "admissionregistration.k8s.io/v1"
KIND = "mutatingwebhookconfigurations"
REGISTRATION = "00-vgpu-webhook"


@pytest.fixture(scope="module")
def where(helm: Chart, control_plane: ControlPlane) -> Iterator[list[str]]:
    """Options that lead Helm to a release with the chart's defaults, of which no pod runs."""
    options = ["--namespace", NAMESPACE, "--kubeconfig", str(control_plane.kubeconfig)]
    helm.run("install", RELEASE, str(helm.folder), "--create-namespace", *REQUIRED, *options)
    yield options
    helm.run("uninstall", RELEASE, *options)


REFUSED = [
    ("GET", f"/api/v1/namespaces/{NAMESPACE}/secrets"),
    ("GET", f"/api/v1/namespaces/{NAMESPACE}/secrets/sh.helm.release.v1.vgpu-webhook.v1"),
    ("GET", "/api/v1/secrets"),
    ("GET", "/api/v1/namespaces/kube-system/secrets/vgpu-webhook-certificates"),
    ("DELETE", f"/api/v1/namespaces/{NAMESPACE}/secrets/vgpu-webhook-certificates"),
    ("GET", "/api/v1/namespaces/kube-system/configmaps"),
    ("GET", f"/api/v1/namespaces/{NAMESPACE}/configmaps/vgpu-webhook-settings"),
    ("PUT", f"/api/v1/namespaces/{NAMESPACE}/configmaps/vgpu-webhook-settings"),
    ("DELETE", f"/api/v1/namespaces/{NAMESPACE}/configmaps/vgpu-webhook-last-good"),
    ("POST", f"/api/v1/namespaces/{OTHER}/configmaps"),
    ("GET", "/api/v1/pods"),
    ("GET", f"/api/v1/namespaces/{OTHER}/pods"),
    ("GET", f"/api/v1/namespaces/{NAMESPACE}/pods/any"),
    ("POST", f"/api/v1/namespaces/{NAMESPACE}/pods"),
    ("PATCH", f"/api/v1/namespaces/{OTHER}"),
    ("GET", "/api/v1/nodes"),
    ("DELETE", f"/api/v1/namespaces/{OTHER}/events/any"),
    ("GET", "/apis/apps/v1/replicasets"),
    ("GET", f"/apis/apps/v1/namespaces/{OTHER}/deployments/any"),
    ("GET", f"/apis/{GROUP}/{KIND}"),
    ("GET", f"/apis/{GROUP}/{KIND}/another"),
    ("PUT", f"/apis/{GROUP}/{KIND}/another"),
    ("DELETE", f"/apis/{GROUP}/{KIND}/{REGISTRATION}"),
    ("GET", f"/apis/{GROUP}/validatingwebhookconfigurations"),
    ("GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles/cluster-admin"),
    ("PATCH", "/apis/rbac.authorization.k8s.io/v1/clusterroles/vgpu-webhook"),
    ("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"),
    ("POST", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/vgpu-webhook/token"),
]
"""What least rights exclude. That all of those that are granted are used: `tests/node/test_rights.py`."""


def test_everything_else_is_refused(control_plane: ControlPlane, where: list[str]) -> None:
    """With a real token of the account: other Secrets, other namespaces, other webhook configurations, any pod."""
    client = control_plane.client
    account = Client(client.server, client.account_token(RELEASE, NAMESPACE), client.ca_file)
    assert account.get("v1", "namespaces", OTHER).status == 200
    answers = [
        (method, path, account.call(method, path, {} if method != "GET" else None).status) for method, path in REFUSED
    ]
    assert [each for each in answers if each[2] != 403] == []


def test_other_selector_is_refused(helm: Chart, where: list[str]) -> None:
    """Of the same Deployment: Kubernetes refuses it in the middle of an upgrade."""
    options = ("--reset-then-reuse-values", "--set", "nameOverride=shares", "--set", "fullnameOverride=vgpu-webhook")
    with pytest.raises(HelmError, match=r"the Deployment vgpu-webhook selects other pods .*restore nameOverride"):
        helm.run("upgrade", RELEASE, str(helm.folder), *INJECT, *where, *options)


POLICY = load_policy()


async def swept(kubeconfig: Path, now: dt.datetime) -> int | None:
    """How many pods a turn counts; None if it is not this replica's."""
    api = await connect(kubeconfig)
    try:
        sweep = Sweep(api, NAMESPACE, lambda: [Namespace(OTHER)], lambda: POLICY, structlog.get_logger())
        await sweep.turn(now)
        return None if sweep.counts is None else sweep.counts.total()
    finally:
        await api.close()


def test_the_sweep_has_the_rights_that_it_needs(
    helm: Chart, control_plane: ControlPlane, where: list[str], tmp_path: Path
) -> None:
    """With a real token: it makes the Lease, takes another turn, and lists pods; without the value, nothing of that."""
    client = control_plane.client
    file = control_plane.write_kubeconfig(tmp_path / "kubeconfig", token=client.account_token(RELEASE, NAMESPACE))
    now = dt.datetime.now(dt.UTC)
    with pytest.raises(StatusError, match="forbidden"):
        asyncio.run(swept(file, now))
    helm.run("upgrade", RELEASE, str(helm.folder), *INJECT, *where, "--reset-then-reuse-values", "--set", "sweep=true")

    def permitted() -> bool:
        with contextlib.suppress(StatusError):  # the API server learns of rights a moment later
            return asyncio.run(swept(file, now)) is not None
        return False

    control_plane.wait_until(permitted, "permitted")
    assert asyncio.run(swept(file, now)) is None
    later = now + dt.timedelta(seconds=PERIOD + TURN)
    assert asyncio.run(swept(file, later)) is not None
    lease = client.get("coordination.k8s.io/v1", "leases", LEASE, NAMESPACE).accepted()["spec"]
    assert dt.datetime.fromisoformat(lease["renewTime"]) == later
