"""The chart where the API server reaches no Service: registered by URL, which any machine can try.

One replica, for its ports are this machine's. Its neighbors and `tests/node` show the rest of the release's life.
"""

import pytest

from tests.controlplane.processes import free_ports
from tests.kubelet.node_plane import NodePlane

from .charts import Chart
from .releases import OPTED_IN, TEAM, Release, namespace, touched

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(1800)]


def test_installed_called_and_removed_dead(helm: Chart, open_node_plane: NodePlane) -> None:
    """Its pod runs and registers the URL, pods are treated; without any process left the release goes without a trace."""
    plane = open_node_plane
    namespace(plane, TEAM, OPTED_IN)
    webhook, metrics = free_ports(2)
    url = f"https://127.0.0.1:{webhook}/mutate"
    ports = f"containerPorts.webhook={webhook},containerPorts.metrics={metrics}"
    release = Release(helm, plane, ("--set", f"replicaCount=1,registration.url={url},{ports}"))
    release.ensure()
    registration = release.registration()
    assert registration is not None
    assert {each["clientConfig"]["url"] for each in registration["webhooks"]} == {url}
    release.serving(TEAM)
    answer = release.create(TEAM)
    answer.accepted()
    assert touched(answer)
    plane.lose_node()
    assert release.create(TEAM).status == 500
    release.run("uninstall")
    release.gone()
    release.plane.wait_until(lambda: release.create(TEAM).status == 201, "pods created again")
