"""The chart as a release on the real API server: installed, refused a second time, upgraded, removed."""

import pytest

from tests.controlplane.plane import ControlPlane

from .charts import CHART, REQUIRED, Chart
from .helm import HelmError

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(1800)]

PLACE = "gpu-release"
CIDRS = "networkPolicy.apiServerCidrs={0.0.0.0/0}"


def test_one_release_to_a_cluster_and_no_trace_of_it(helm: Chart, control_plane: ControlPlane) -> None:
    """A second release is refused by name, an upgrade is taken, and nothing of the release is left when it is gone."""
    client = control_plane.client
    server = ["--kubeconfig", str(control_plane.kubeconfig)]
    own = [*server, "--namespace", PLACE]
    values = [*REQUIRED, "--create-namespace"]
    notes = helm.run("install", "vgpu-webhook", str(CHART), *own, *values)
    assert "The NetworkPolicy does not restrict who sends reviews" in notes
    try:
        with pytest.raises(HelmError, match=r'ClusterRole "vgpu-webhook".* exists and cannot be imported'):
            helm.run("install", "other", str(CHART), *server, "--namespace", f"{PLACE}-2", *values)
        role = client.get("rbac.authorization.k8s.io/v1", "clusterroles", "vgpu-webhook").accepted()
        changes = [*REQUIRED, "--set", "settings.optInLabel=gpu/in", "--set", CIDRS]
        notes = helm.run("upgrade", "vgpu-webhook", str(CHART), *own, *changes)
        assert "NetworkPolicy" not in notes
        assert "kubectl label namespace NAMESPACE gpu/in=enabled vgpu-webhook.io/mode=audit" in notes
        assert "kubectl rollout status deployment/vgpu-webhook --namespace gpu-release" in notes
        # The webhook configuration hangs on this very object.
        after = client.get("rbac.authorization.k8s.io/v1", "clusterroles", "vgpu-webhook").accepted()
        assert after["metadata"]["uid"] == role["metadata"]["uid"]
    finally:
        helm.run("uninstall", "vgpu-webhook", *own)
    for resource in ("clusterroles", "clusterrolebindings"):
        assert client.get("rbac.authorization.k8s.io/v1", resource, "vgpu-webhook").status == 404
    assert client.get("rbac.authorization.k8s.io/v1", "roles", "vgpu-webhook-events", "default").status == 404
    left = [each for resource in ("services", "configmaps", "secrets") for each in client.list("v1", resource, PLACE)]
    assert {each["metadata"]["name"] for each in left} <= {"kube-root-ca.crt"}
