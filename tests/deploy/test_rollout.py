"""Replicas of another version, and mappings of one, while pods are created all the time: no creation notices.

Replicas replaced, added, taken away and evicted are in `tests/node`.
"""

import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.controlplane.client import Answer

from .before import NoVersionBeforeError, unpack, version_before
from .charts import RELEASE, ROOT
from .load import Load, drained, load
from .releases import NAMESPACE, TEAM, Release

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(1800)]


BEFORE = "before"
"""Tag of the image that holds the version before."""

CROWD = 40
"""More than the connections that an API server keeps idle to one address, 25."""

SIDE_BY_SIDE = 20
"""Reviews that each version has to answer while replicas of both are ready."""

log = logging.getLogger(__name__)


@contextmanager
def unnoticed(release: Release) -> Iterator[Load]:
    """Pods that are created in a block: none may be refused, each has to be treated, and every replica that goes drains."""
    release.serving(TEAM)
    gone_before = set(release.plane.logs()) - alive(release)
    with load(release) as pods:
        yield pods
    assert pods.refused == []
    assert pods.untouched == 0
    gone = {pod: log for pod, log in release.plane.logs().items() if pod not in gone_before | alive(release)}
    assert len(gone) >= 2
    for pod, log in gone.items():
        assert drained(log.read_text()), f"{pod} has not drained: {log.read_text()}"


@pytest.fixture
def pods(release: Release) -> Iterator[Load]:
    """Pods that are created during a test, which nobody may notice."""
    with unnoticed(release) as pods:
        yield pods


def alive(release: Release) -> set[str]:
    """Return the names of the replicas that have not gone."""
    return {pod["metadata"]["name"] for pod in release.replicas()}


@pytest.fixture
def before(any_release: Release) -> Iterator[Release]:
    """The release as the version before makes it, chart and program, well and registered; it is removed afterwards."""
    code = any_release.plane.images / BEFORE
    try:
        commit = version_before()
        unpack(commit, code)
    except NoVersionBeforeError as error:
        pytest.skip(f"no version before this one to upgrade from: {error}")
    log.info("upgraded from %s", commit)
    any_release.remove()
    options = ("--set", f"image.tag={BEFORE}", "--set", "logLevel=debug")
    before = replace(any_release, helm=replace(any_release.helm, folder=code / "deploy" / "chart"), options=options)
    before.ensure()
    yield before
    any_release.remove()


def answered(release: Release, replicas: set[str]) -> int:
    """How many reviews these have answered."""
    logs = release.plane.logs()
    return sum(logs[pod].read_text().count('"event":"review"') for pod in replicas)


def crowd(release: Release, pods: Load) -> None:
    """Pods created at the same moment: more than there are open connections, so that new ones are made, to any replica."""
    with ThreadPoolExecutor(CROWD) as clients:
        for answer in clients.map(lambda _: release.create(TEAM, dry_run=True), range(CROWD)):
            pods.add(answer)


@pytest.mark.deep
def test_new_version_and_back(before: Release, any_release: Release) -> None:
    """From the version before to this one and back, as the page says: both serve side by side, and nobody notices."""
    deployment = ("apps/v1", "deployments", RELEASE)
    with unnoticed(before) as pods:
        first = set(before.ready())
        assert {program(before, pod) for pod in first} == {before.plane.images / BEFORE}
        # A new replica that is ready, yet not available: the rollout waits as long as both are looked at.
        before.plane.client.patch(*deployment, {"spec": {"minReadySeconds": 599}}, NAMESPACE).accepted()
        any_release.run("upgrade", "--reset-then-reuse-values", "--set", "image.tag=")
        before.plane.wait_until(lambda: set(before.ready()) - first, "a replica of this version", 120)
        new, old = set(before.ready()) - first, set(before.ready()) & first
        assert {program(before, pod) for pod in new} == {ROOT}
        assert old
        so_far = answered(before, new), answered(before, old)

        def both() -> bool:
            crowd(before, pods)
            since = answered(before, new) - so_far[0], answered(before, old) - so_far[1]
            return min(since) >= SIDE_BY_SIDE

        before.plane.wait_until(both, "reviews by both versions", 120)
        assert set(before.ready()) >= new | old
        before.plane.client.patch(*deployment, {"spec": {"minReadySeconds": 0}}, NAMESPACE).accepted()
        any_release.settled()
        second = set(before.ready())
        assert {program(before, pod) for pod in second} == {ROOT}
        any_release.run("rollback")
        before.settled()
        assert {program(before, pod) for pod in before.ready()} == {before.plane.images / BEFORE}
        assert answered(before, second) > SIDE_BY_SIDE
        assert pods.created > 2 * SIDE_BY_SIDE


def program(release: Release, pod: str) -> Path:
    """Where the code is that a replica runs."""
    environment = (Path("/proc") / str(release.plane.pid_of(pod)) / "environ").read_text().split("\0")
    [path] = [each.removeprefix("PYTHONPATH=") for each in environment if each.startswith("PYTHONPATH=")]
    return Path(path)


def evict(release: Release, pod: str) -> Answer:
    """As `kubectl drain` does."""
    metadata = {"name": pod, "namespace": NAMESPACE}
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
    return release.plane.client.call("POST", f"/api/v1/namespaces/{NAMESPACE}/pods/{pod}/eviction", body)


def evict_when_possible(release: Release, pod: str) -> None:
    """Evict as `kubectl drain` does: repeat the request until it is allowed."""
    release.plane.wait_until(lambda: evict(release, pod).status == 201, f"{pod} evicted", 120)


GOOD = "extends: nvidia\nplace: {scheduler: our-scheduler}\n"
MAPPING = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "nvidia", "namespace": NAMESPACE, "labels": {"vgpu-webhook.io/mapping": "true"}},
    "data": {"mapping.yaml": GOOD},
}


@pytest.mark.deep
def test_mapping_of_a_newer_version(release: Release, pods: Load) -> None:
    """After a roll-back there may be keys that this version does not know: its last good policy stays, also in new pods."""
    client = release.plane.client

    def scheduler() -> str:
        return str(release.create(TEAM, dry_run=True).accepted()["spec"]["schedulerName"])

    client.create(MAPPING).accepted()
    try:
        release.plane.wait_until(lambda: scheduler() == "our-scheduler", "mapping in force", 60)
        last_good = ("v1", "configmaps", "vgpu-webhook-last-good", NAMESPACE)
        release.plane.wait_until(lambda: "nvidia" in client.get(*last_good).accepted()["data"], "kept", 60)
        newer = {"data": {"mapping.yaml": f"{GOOD}ofTheFuture: 1\n"}}
        client.patch("v1", "configmaps", "nvidia", newer, NAMESPACE).accepted()

        def told() -> bool:
            events = client.list("v1", "events", NAMESPACE)
            messages = [each["message"] for each in events if each["involvedObject"]["name"] == "nvidia"]
            return any("In force: its last good version." in each and "key 'ofTheFuture'" in each for each in messages)

        release.plane.wait_until(told, "told", 60)
        for pod in release.ready():
            evict_when_possible(release, pod)
        release.settled()
        assert scheduler() == "our-scheduler"
    finally:
        client.delete("v1", "configmaps", "nvidia", NAMESPACE)
    release.plane.wait_until(lambda: scheduler() == "hami-scheduler", "built-in mapping in force", 60)
