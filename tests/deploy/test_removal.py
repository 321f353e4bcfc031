"""The release removed, with its replicas alive or dead: nothing is left of it, and no pod is held back."""

import re
import shlex
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controlplane.beside import beside
from tests.controlplane.client import Object
from tests.kubelet.node_plane import NodePlane

from .charts import RELEASE
from .load import delete_pods, load
from .releases import NAMESPACE, OPTED_IN, TEAM, Release, touched

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(1800)]

INSTALL = Path(__file__).parents[2] / "docs" / "install.md"


@pytest.fixture
def dead(release: Release) -> Iterator[Release]:
    """The release after its node has lost its power: registered, and nobody serves. The node comes back afterwards."""
    release.serving(TEAM)
    release.plane.lose_node()
    try:
        yield release
    finally:
        if not release.plane.has_agent:
            release.plane.start_agent()
        delete_pods(release.plane)


def plain_pod(name: str) -> Object:
    """A pod without any GPU."""
    container = {"name": "main", "image": "registry.example/main:1"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container]}}


def calls_nobody(release: Release) -> bool:
    """Whether the Service is gone while the webhook configuration still calls it."""
    if release.plane.client.get("v1", "services", RELEASE, NAMESPACE).status != 404:
        return False
    return bool((release.registration() or {}).get("webhooks"))


def test_uninstalled_alive(release: Release) -> None:
    """Under a load of creations no pod is denied, the Service outlives what calls it, and nothing is left in the end."""
    release.serving(TEAM)
    found: list[bool] = []

    def look(over: threading.Event) -> None:
        while not over.wait(0.01):
            found.append(calls_nobody(release))

    with load(release) as pods:
        with beside(look, 1):
            release.run("uninstall")
        release.gone()
        before = pods.created
        release.plane.wait_until(lambda: not release.replicas(), "replicas gone", 120)
        release.plane.wait_until(lambda: pods.created > before, "pods created afterwards")
    assert not any(found)
    assert not pods.refused
    assert release.registration() is None
    answer = release.create(TEAM)
    answer.accepted()
    assert not touched(answer)


def test_uninstalled_with_every_process_dead(dead: Release) -> None:
    """The API server's own garbage collector takes what no replica is left to take."""
    refused = dead.create(TEAM)
    assert refused.status == 500
    assert "enforce.vgpu-webhook.io" in refused.message
    dead.plane.client.create(plain_pod("no-gpu"), TEAM).accepted()
    dead.run("uninstall")
    dead.gone()
    dead.plane.wait_until(lambda: dead.create(TEAM).status == 201, "pods created again")
    dead.plane.start_agent()
    dead.plane.wait_until(lambda: not dead.replicas(), "replicas forgotten", 120)


def test_its_own_pods_and_the_clusters_are_never_held_back(dead: Release) -> None:
    """Nobody serves, and even its own namespace has opted in: its pods are created all the same, and it comes back."""
    client = dead.plane.client
    for name in (NAMESPACE, "kube-system"):
        client.patch("v1", "namespaces", name, {"metadata": {"labels": OPTED_IN}}).accepted()
    assert dead.create(TEAM).status == 500
    dead.create("kube-system", dry_run=True).accepted()
    dead.create(NAMESPACE, dry_run=True).accepted()
    old = {pod["metadata"]["name"] for pod in dead.replicas()}
    for name in old:
        client.delete("v1", "pods", name, NAMESPACE).accepted()
    dead.plane.wait_until(lambda: len(dead.replicas()) == 2, "pods of the Deployment")
    dead.plane.start_agent()
    dead.settled()
    assert old.isdisjoint(dead.ready())
    dead.serving(TEAM)


def test_break_glass(dead: Release) -> None:
    """The one line of the documentation lets pods through at once."""
    section = INSTALL.read_text().partition("## Break-glass")[2]
    line = re.search(r"^(kubectl delete .*)$", section, re.MULTILINE)
    assert line is not None
    assert dead.create(TEAM).status == 500
    kubectl, *arguments = shlex.split(line[1])
    program = str(dead.plane.binaries.path(kubectl))
    command = [program, "--kubeconfig", str(dead.plane.kubeconfig), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    dead.plane.wait_until(lambda: dead.create(TEAM).status == 201, "pods created again")


def test_installed_again_after_all_that(any_release: Release, node_plane: NodePlane) -> None:
    """What is left of a removed release does not stand in the way of the next one."""
    any_release.remove()
    any_release.ensure()
    any_release.serving(TEAM)
    node_plane.check()
