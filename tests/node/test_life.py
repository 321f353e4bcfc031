"""The release's life on a real node, while pods are created all the time: none is left untreated, and none refused."""

import os
import signal

import pytest

from tests.controlplane.client import Object
from tests.deploy.charts import RELEASE

from .load import load, unnoticed
from .pods import Pods, share
from .processes import process_of
from .releases import NAMESPACE, Release

pytestmark = [pytest.mark.node, pytest.mark.once("loss")]


def test_installed_as_the_chart_says(release: Release) -> None:
    """Two replicas by the defaults, each as its user, without rights, with a root that nobody can write to."""
    assert len(release.ready()) == 2
    [pod, _] = release.replicas()
    process = process_of(pod, "webhook")
    status = dict(line.split(":\t", 1) for line in (process / "status").read_text().splitlines() if ":\t" in line)
    assert status["Uid"].split() == ["65532"] * 4
    assert set(status["CapEff"]) == set(status["CapBnd"]) == {"0"}
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    fields = [line.split() for line in (process / "mountinfo").read_text().splitlines()]
    mounts = {each[4]: each[5].split(",")[0] for each in fields}
    assert mounts["/"] == "ro"
    assert mounts["/tmp"] == "rw"
    assert (process / "cmdline").read_text().split("\0")[1].endswith("vgpu-webhook")
    registration = release.registration()
    assert registration is not None
    assert {each["clientConfig"]["service"]["name"] for each in registration["webhooks"]} == {RELEASE}


def test_helm_test_passes(release: Release) -> None:
    """The doctor in a pod of its own, with its own rights, finds nothing broken; Helm shows what it says."""
    release.plane.wait_until(release.shim_ready, "shim on the node", 120)
    printed = release.run("test", "--logs")
    assert "Phase:          Succeeded" in printed
    for check in ("api-server", "replicas", "registration", "bundle", "shim"):
        assert f"✓ {check}" in printed


@pytest.mark.long
def test_scaled_and_evicted(release: Release) -> None:
    """From 2 to 5 to 1 to 2, then one replica after the other is evicted, each when the budget allows it."""
    with unnoticed(release):
        for replicas in (5, 1, 2):
            scale = {"spec": {"replicas": replicas}}
            release.plane.client.patch("apps/v1", "deployments", f"{RELEASE}/scale", scale, NAMESPACE).accepted()
            release.plane.wait_until(release.rolled_out, f"{replicas} replicas", 120)
        release.settled()
        first, second = release.ready()
        assert evict(release, first) == 201
        assert evict(release, second) == 429
        release.plane.wait_until(lambda: evict(release, second) == 201, "second replica evicted", 120)
        release.settled()
        assert {first, second}.isdisjoint(release.ready())


def evict(release: Release, pod: str) -> int:
    """As `kubectl drain` does."""
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": NAMESPACE}}
    path = f"/api/v1/namespaces/{NAMESPACE}/pods/{pod}/eviction"
    return release.plane.client.call("POST", path, body).status


def restarts(release: Release) -> int:
    """How often the kubelet has started the replicas' containers again."""
    return sum(status["restartCount"] for pod in release.replicas() for status in pod["status"]["containerStatuses"])


@pytest.mark.long
def test_replica_killed(release: Release) -> None:
    """The kernel ends a replica with its connections: calls fail until the Service excludes it, as the documentation says.

    No pod is left untreated, the kubelet starts the replica again, and then no call fails any more.
    """
    before = restarts(release)
    with load(release) as pods:
        release.plane.wait_until(lambda: pods.created > 50, "fifty pods")
        victim: Object = release.replicas()[0]
        os.kill(int(process_of(victim, "webhook").name), signal.SIGKILL)
        release.plane.wait_until(lambda: restarts(release) == before + 1, "started again", 120)
        release.settled()
        so_far = pods.created
        release.plane.wait_until(lambda: pods.created > so_far + 50, "calls that were in flight have ended")
        refused = len(pods.refused)
        release.plane.wait_until(lambda: pods.created > so_far + 150, "a hundred more pods")
    assert pods.untouched == 0
    assert all("failed calling webhook" in each for each in pods.refused)
    assert len(pods.refused) == refused


@pytest.mark.long
def test_node_restarted(release: Release, pods: Pods) -> None:
    """The container runtime and the kubelet are stopped and started: containers live on, and new ones are started again."""
    cluster = release.plane
    before = restarts(release), set(release.ready())
    with unnoticed(release, drain=False) as load_of_pods:
        cluster.stop_node()
        so_far = load_of_pods.created
        cluster.wait_until(lambda: load_of_pods.created > so_far + 50, "pods created without kubelet and containerd")
        cluster.start_node()
        release.settled()
    assert (restarts(release), set(release.ready())) == before
    pod = pods.create(share())
    pods.finish(pod)
    assert pods.printed(pod)[0]["memory"] == 3000
