"""The release removed, with its replicas alive or dead: nothing is left of it, and no pod is held back."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controlplane.beside import beside
from tests.deploy.charts import RELEASE

from .load import delete_pods, load
from .releases import NAMESPACE, TEAM, Release, touched

pytestmark = [pytest.mark.node, pytest.mark.once("loss")]

PORTS = (18443, 18080)
"""Of a replica in the node's network."""


def calls_nobody(release: Release) -> bool:
    """Whether the Service is gone while the webhook configuration still calls it."""
    if release.plane.client.get("v1", "services", RELEASE, NAMESPACE).status != 404:
        return False
    return bool((release.registration() or {}).get("webhooks"))


def test_uninstalled_alive(release: Release) -> None:
    """Under a load of creations no pod is denied, the Service outlives what calls it, and nothing is left in the end.

    On the node the library stays, for who has loaded it.
    """
    found: list[bool] = []

    def look(over: threading.Event) -> None:
        while not over.wait(0.01):
            found.append(calls_nobody(release))

    with load(release) as pods:
        with beside(look):
            release.run("uninstall")
        release.gone()
        release.plane.wait_until(lambda: not release.replicas(), "replicas gone", 120)
        so_far = pods.created
        release.plane.wait_until(lambda: pods.created > so_far, "pods created afterwards")
    assert not any(found)
    assert not pods.refused
    assert release.registration() is None
    release.plane.wait_until(lambda: not touched(release.create(TEAM)), "unchanged")
    assert Path(release.plane.files / "usr/local/vgpu-shim/libvgpu.so").resolve().name


@pytest.fixture
def dead(release: Release) -> Iterator[Release]:
    """The release after its node has lost its power: registered, and nobody serves. The node comes back afterwards."""
    release.plane.cut_power()
    yield release
    power_back(release)


def power_back(release: Release) -> None:
    """Start the node, unless it runs."""
    if not release.plane.has_power:
        release.plane.start_node()
    delete_pods(release.plane)


def removed_dead(release: Release) -> None:
    """Uninstall it while nobody serves: nothing is left, pods are created again, and when the node comes back, no replica."""
    refused = release.create(TEAM)
    assert refused.status == 500
    assert "enforce.vgpu-webhook.io" in refused.message
    release.run("uninstall")
    release.gone()
    release.plane.wait_until(lambda: release.create(TEAM).status == 201, "pods created again")
    release.plane.start_node()
    release.plane.wait_until(lambda: not release.replicas(), "replicas forgotten", 120)


def test_uninstalled_with_every_process_dead(dead: Release) -> None:
    """What no replica is left to take is taken all the same, and does not stand in the way of the next release."""
    removed_dead(dead)
    dead.ensure()
    dead.serving(TEAM)
