"""Replicas replaced, added, taken away and evicted while pods are created all the time: no creation notices."""

import datetime as dt
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controlplane.client import Answer

from .charts import RELEASE
from .load import Load, load
from .releases import NAMESPACE, TEAM, Release

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(1800)]


GRACE = 10.0
"""Seconds, the chart's default of `drain.graceSeconds`."""


@pytest.fixture
def pods(release: Release) -> Iterator[Load]:
    """Pods that are created during a test: none may be refused, each has to be treated, and every replica that goes drains."""
    release.serving(TEAM)
    gone_before = set(release.plane.logs()) - alive(release)
    with load(release) as pods:
        yield pods
    assert pods.refused == []
    assert pods.untouched == 0
    gone = {pod: log for pod, log in release.plane.logs().items() if pod not in gone_before | alive(release)}
    assert len(gone) >= 2
    for pod, log in gone.items():
        assert drained(log), f"{pod} has not drained: {log.read_text()}"


def alive(release: Release) -> set[str]:
    """Return the names of the replicas that have not gone."""
    return {pod["metadata"]["name"] for pod in release.replicas()}


def drained(log: Path) -> bool:
    """Whether a replica answered for the whole grace after it was told to end, left nothing unanswered, and ended itself.

    Whoever creates pods would not notice: an API server repeats a call that is cut off, and keeps a connection for the next.
    """
    lines = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    ends = [line for line in lines if line["event"] in {"draining", "refusing", "stopped"}]
    if [line["event"] for line in ends] != ["draining", "refusing", "stopped"]:
        return False
    begin, end = (dt.datetime.fromisoformat(line["timestamp"]) for line in ends[:2])
    # The log has the wall's clock, the grace another one.
    whole = (end - begin).total_seconds() > GRACE * 0.9
    troubled = any(line["level"] == "error" for line in lines[lines.index(ends[0]) :])
    return whole and ends[1]["in_flight"] == 0 and not troubled


def test_new_version_and_back(release: Release, pods: Load) -> None:
    """An upgrade replaces every replica, a roll-back does it again, and all the time pods are created and treated."""
    first = set(release.ready())
    release.run("upgrade", "--reuse-values", "--set-string", "podAnnotations.version=2")
    release.settled()
    second = set(release.ready())
    assert first.isdisjoint(second)
    assert len(second) == 2
    created = pods.created
    assert created > 20
    release.run("rollback")
    release.settled()
    assert second.isdisjoint(release.ready())
    assert pods.created > created


def test_scaled_out_and_in(release: Release, pods: Load) -> None:
    """From 2 to 5 to 1 to 2: who goes drains, who comes is ready before it is asked."""
    for replicas in (5, 1, 2):
        scale = {"spec": {"replicas": replicas}}
        release.plane.client.patch("apps/v1", "deployments", f"{RELEASE}/scale", scale, NAMESPACE).accepted()
        release.plane.wait_until(release.rolled_out, f"{replicas} replicas", 120)
    assert pods.created > 20
    release.settled()


def evict(release: Release, pod: str) -> Answer:
    """As `kubectl drain` does."""
    metadata = {"name": pod, "namespace": NAMESPACE}
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
    return release.plane.client.call("POST", f"/api/v1/namespaces/{NAMESPACE}/pods/{pod}/eviction", body)


def evict_when_possible(release: Release, pod: str) -> None:
    """As `kubectl drain` does: it asks until it may."""
    release.plane.wait_until(lambda: evict(release, pod).status == 201, f"{pod} evicted", 120)


def test_evicted_one_at_a_time(release: Release, pods: Load) -> None:
    """A drain of the node gets the second replica only when there is another one again."""
    first, second = release.ready()
    evict(release, first).accepted()
    refused = evict(release, second)
    assert refused.status == 429
    assert "disruption budget" in refused.message
    evict_when_possible(release, second)
    release.settled()
    assert {first, second}.isdisjoint(release.ready())
    assert pods.created > 20


GOOD = "extends: nvidia\nplace: {scheduler: our-scheduler}\n"
MAPPING = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "nvidia", "namespace": NAMESPACE, "labels": {"vgpu-webhook.io/mapping": "true"}},
    "data": {"mapping.yaml": GOOD},
}


def test_mapping_of_a_newer_version(release: Release, pods: Load) -> None:
    """After a roll-back there may be keys that this version does not know: its last good policy stays, also in new pods."""
    client = release.plane.client

    def scheduler() -> str:
        return str(release.create(TEAM, dry_run=True).accepted()["spec"]["schedulerName"])

    client.create(MAPPING).accepted()
    try:
        release.plane.wait_until(lambda: scheduler() == "our-scheduler", "mapping in force", 60)
        kept = ("v1", "configmaps", "vgpu-webhook-last-good", NAMESPACE)
        release.plane.wait_until(lambda: "nvidia" in client.get(*kept).accepted()["data"], "kept", 60)
        newer = {"data": {"mapping.yaml": f"{GOOD}ofTheFuture: 1\n"}}
        client.patch("v1", "configmaps", "nvidia", newer, NAMESPACE).accepted()

        def told() -> bool:
            events = client.list("v1", "events", NAMESPACE)
            said = [each["message"] for each in events if each["involvedObject"]["name"] == "nvidia"]
            return any("In force: its last good version." in each and "key 'ofTheFuture'" in each for each in said)

        release.plane.wait_until(told, "told", 60)
        for pod in release.ready():
            evict_when_possible(release, pod)
        release.settled()
        assert scheduler() == "our-scheduler"
    finally:
        client.delete("v1", "configmaps", "nvidia", NAMESPACE)
    release.plane.wait_until(lambda: scheduler() == "hami-scheduler", "built-in mapping in force", 60)
