"""Memory and CPU of the replicas as the kubelet measures them: idle, while pods are created, and after that."""

import datetime as dt
import itertools
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self

import pytest

from tests.controlplane.client import Object
from tests.yaml_text import load_yaml
from webhook.quantity import parse_quantity

from .cluster import NODE
from .pods import Pods
from .releases import NAMESPACE, TEAM, Release, touched

pytestmark = [pytest.mark.node, pytest.mark.long]

RATE = 50
SECONDS = 30
MEASURED = 2
"""How often each replica has to be measured under load, at least: the kubelet does it every 10 to 15 seconds."""
MEBIBYTE = 1 << 20
VALUES = load_yaml((Path(__file__).parents[2] / "deploy" / "chart" / "values.yaml").read_text())
REQUESTED = parse_quantity(VALUES["resources"]["requests"]["memory"]) / MEBIBYTE
"""MiB by the chart's default: what a replica has to do with, idle or not; `docs/install.md` says so."""


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


class Watch:
    """Collects, beside the test, what the kubelet measures of each replica."""

    def __init__(self, release: Release) -> None:
        self.found: dict[str, list[Object]] = {name: [] for name in release.ready()}
        self._release = release
        self._since = dt.datetime.now(dt.UTC)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def enough(self) -> bool:
        """Whether each replica was measured often enough since the beginning."""
        return all(len(each) >= MEASURED for each in self.found.values())

    def _run(self) -> None:
        while not self._ended.wait(1):
            for name, container in measured(self._release).items():
                times = [self._since, *map(measured_at, self.found.get(name, []))]
                if name in self.found and measured_at(container) > times[-1]:
                    self.found[name].append(container)


def test_what_the_kubelet_measures(release: Release, pods: Pods, capsys: pytest.CaptureFixture[str]) -> None:
    """Both fit into what the chart requests, at any time, and 50 pods a second are created without any being held up."""
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

    with ThreadPoolExecutor(16) as clients, Watch(release) as watch:
        for second in itertools.count():
            if second >= SECONDS and watch.enough():
                break
            assert all(clients.map(create, range(RATE * second, RATE * (second + 1))))
    took = time.monotonic() - began
    end_of_load = dt.datetime.now(dt.UTC)
    busy = cluster.wait_until(lambda: since(release, end_of_load), "measured again", 120)
    lines = []
    for name in release.ready():
        before = idle[name]
        memory = [each["memory"]["workingSetBytes"] / MEBIBYTE for each in (before, busy[name], *watch.found[name])]
        spent = (busy[name]["cpu"]["usageCoreNanoSeconds"] - before["cpu"]["usageCoreNanoSeconds"]) / 1e9
        told = f"{memory[0]:.0f} MiB idle, at most {max(memory[2:]):.0f} under load, {memory[1]:.0f} after"
        lines.append(f"{name}: {told}; {spent:.1f} s of CPU")
        assert max(memory) < REQUESTED
    waits.sort()
    half, most = (1000 * waits[int(len(waits) * part)] for part in (0.5, 0.99))
    lines.append(
        f"{len(waits)} pods in {took:.0f} s: {half:.0f} ms at the median, {most:.0f} ms at the 99th percentile"
    )
    with capsys.disabled():
        sys.stdout.write("\n" + "\n".join(lines) + "\n")
