"""Memory and CPU of the replicas as the kubelet measures them: idle, and while pods are created."""

import datetime as dt
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.controlplane.client import Object

from .cluster import NODE
from .pods import Pods
from .releases import NAMESPACE, TEAM, Release, touched

pytestmark = pytest.mark.node

RATE = 50
SECONDS = 30
MEBIBYTE = 1 << 20
REQUESTED = 96
"""MiB, the chart's default of `resources.requests.memory`: what a replica has to do with, idle or not."""


def measured(release: Release) -> dict[str, Object]:
    """By replica, what the kubelet says of its container."""
    summary = release.plane.client.call("GET", f"/api/v1/nodes/{NODE}/proxy/stats/summary").accepted()
    found: dict[str, Object] = {}
    for pod in summary["pods"]:
        for container in pod.get("containers", []):
            if pod["podRef"]["namespace"] == NAMESPACE and container["name"] == "webhook" and "cpu" in container:
                found[pod["podRef"]["name"]] = container
    return found


def since(release: Release, moment: dt.datetime) -> dict[str, Object] | None:
    """A measurement of every replica that the kubelet made after a moment, if there is one."""
    found = measured(release)
    return found if all(name in found and measured_at(found[name]) > moment for name in release.ready()) else None


def measured_at(container: Object) -> dt.datetime:
    """When the kubelet measured it."""
    return dt.datetime.fromisoformat(container["cpu"]["time"])


def test_what_the_kubelet_measures(release: Release, pods: Pods, capsys: pytest.CaptureFixture[str]) -> None:
    """Both fit into what the chart requests, and 50 pods a second are created without any being held up."""
    cluster = release.plane
    start_of_test = dt.datetime.now(dt.UTC)
    idle = cluster.wait_until(lambda: since(release, start_of_test), "measured", 120)
    began = time.monotonic()
    waits: list[float] = []

    def create(number: int) -> bool:
        time.sleep(max(0.0, began + number / RATE - time.monotonic()))
        start = time.monotonic()
        answer = release.create(TEAM)
        waits.append(time.monotonic() - start)
        return answer.status == 201 and touched(answer)

    with ThreadPoolExecutor(16) as clients:
        assert all(clients.map(create, range(RATE * SECONDS)))
    took = time.monotonic() - began
    end_of_load = dt.datetime.now(dt.UTC)
    busy = cluster.wait_until(lambda: since(release, end_of_load), "measured again", 120)
    lines = []
    for name in release.ready():
        before = idle[name]
        memory = [each["memory"]["workingSetBytes"] / MEBIBYTE for each in (before, busy[name])]
        spent = (busy[name]["cpu"]["usageCoreNanoSeconds"] - before["cpu"]["usageCoreNanoSeconds"]) / 1e9
        lines.append(f"{name}: {memory[0]:.0f} MiB idle, {memory[1]:.0f} MiB after; {spent:.1f} s of CPU")
        assert max(memory) < REQUESTED
    waits.sort()
    half, most = (1000 * waits[int(len(waits) * part)] for part in (0.5, 0.99))
    lines.append(
        f"{len(waits)} pods in {took:.0f} s: {half:.0f} ms at the median, {most:.0f} ms at the 99th percentile"
    )
    with capsys.disabled():
        sys.stdout.write("\n" + "\n".join(lines) + "\n")
