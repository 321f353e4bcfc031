"""The release removed, with its replicas alive or dead: nothing is left of it, and no pod is held back."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.controlplane.beside import beside
from tests.controlplane.client import Object
from tests.deploy.break_glass import break_glass
from tests.deploy.charts import RELEASE

from .load import delete_pods, load
from .namespaces import ADDRESS
from .releases import NAMESPACE, OPTED_IN, TEAM, Release, touched

pytestmark = [pytest.mark.node, pytest.mark.once("loss")]

PORTS = (18443, 18080)
"""Of a replica in the node's network."""


def plain_pod(name: str) -> Object:
    """A pod without any GPU, that no scheduler looks at."""
    container = {"name": "main", "image": "registry.example/main:1"}
    spec = {"containers": [container], "schedulingGates": [{"name": "tests.example/none"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


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


@pytest.fixture
def dead_by_url(any_release: Release) -> Iterator[Release]:
    """The same of a release whose one replica is called by URL, in the node's network."""
    any_release.remove()
    webhook, metrics = PORTS
    url = f"https://{ADDRESS}:{webhook}/mutate"
    ports = f"containerPorts.webhook={webhook},containerPorts.metrics={metrics}"
    values = f"replicaCount=1,hostNetwork=true,registration.url={url},{ports}"
    release = replace(any_release, options=(*any_release.options, "--set", values))
    release.ensure()
    registration = release.registration()
    assert registration is not None
    assert {each["clientConfig"].get("url") for each in registration["webhooks"]} == {url}
    release.serving(TEAM)
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


@pytest.mark.long
def test_uninstalled_with_every_process_dead_by_url(dead_by_url: Release) -> None:
    """The same where the API server reaches no Service."""
    removed_dead(dead_by_url)


@pytest.mark.long
def test_nobody_serves(dead: Release) -> None:
    """Whom that never holds back: pods without a GPU, the cluster's and its own, though their namespaces have opted in.

    The documentation's way lets the others through at once. When the node comes back, so do the replicas, and with the same
    release again also what they serve.
    """
    client = dead.plane.client
    for name in (NAMESPACE, "kube-system"):
        client.patch("v1", "namespaces", name, {"metadata": {"labels": OPTED_IN}}).accepted()
    try:
        assert dead.create(TEAM).status == 500
        client.create(plain_pod("no-gpu"), TEAM).accepted()
        dead.create("kube-system", dry_run=True).accepted()
        dead.create(NAMESPACE, dry_run=True).accepted()
        old = {pod["metadata"]["name"] for pod in dead.replicas()}
        for name in old:
            client.delete("v1", "pods", name, NAMESPACE).accepted()
        dead.plane.wait_until(lambda: len(dead.replicas()) == 2, "pods of the Deployment")
        assert dead.create(TEAM).status == 500
        break_glass(dead.plane)
        dead.plane.wait_until(lambda: dead.create(TEAM).status == 201, "pods created again")
        dead.plane.start_node()
        dead.settled()
        assert old.isdisjoint(dead.ready())
        dead.run("upgrade", "--reset-then-reuse-values")
        dead.serving(TEAM)
    finally:
        gone = {"metadata": {"labels": dict.fromkeys(OPTED_IN)}}
        for name in (NAMESPACE, "kube-system"):
            client.patch("v1", "namespaces", name, gone).accepted()
