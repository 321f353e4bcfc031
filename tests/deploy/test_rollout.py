"""Replicas replaced, added, taken away and evicted while pods are created all the time: no creation notices."""

from collections.abc import Iterator
from functools import partial

import pytest

from tests.controlplane.client import Answer

from .charts import RELEASE
from .load import Load, load
from .releases import NAMESPACE, TEAM, Release

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(1800)]


@pytest.fixture
def pods(release: Release) -> Iterator[Load]:
    """Pods that are created during a test: none may be refused, each has to be treated."""
    release.serving(TEAM)
    with load(release) as pods:
        yield pods
    assert pods.refused == []
    assert pods.untouched == 0


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


def _as_many(release: Release, replicas: int) -> bool:
    return len(release.ready()) == replicas


def test_scaled_out_and_in(release: Release, pods: Load) -> None:
    """From 2 to 5 to 1 to 2: who goes drains, who comes is ready before it is asked."""
    for replicas in (5, 1, 2):
        scale = {"spec": {"replicas": replicas}}
        release.plane.client.patch("apps/v1", "deployments", f"{RELEASE}/scale", scale, NAMESPACE).accepted()
        release.plane.wait_until(release.rolled_out, f"{replicas} replicas", 120)
        release.plane.wait_until(partial(_as_many, release, replicas), f"{replicas} ready", 120)
    assert pods.created > 20
    release.settled()


def evict(release: Release, pod: str) -> Answer:
    """As `kubectl drain` does."""
    metadata = {"name": pod, "namespace": NAMESPACE}
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
    return release.plane.client.call("POST", f"/api/v1/namespaces/{NAMESPACE}/pods/{pod}/eviction", body)


def test_evicted_one_at_a_time(release: Release, pods: Load) -> None:
    """A drain of the node gets the second replica only when there is another one again."""
    first, second = release.ready()
    evict(release, first).accepted()
    refused = evict(release, second)
    assert refused.status == 429
    assert "disruption budget" in refused.message
    release.plane.wait_until(lambda: evict(release, second).status == 201, "the other one, too", 120)
    release.settled()
    assert {first, second}.isdisjoint(release.ready())
    assert pods.created > 20
