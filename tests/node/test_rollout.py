"""Replicas of another template, and of another version, while pods are created all the time."""

import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from tests.deploy.before import NoVersionBeforeError, unpack, version_before
from tests.deploy.charts import RELEASE

from . import images
from .conftest import IMAGE
from .load import Load, unnoticed
from .releases import NAMESPACE, TEAM, Release

pytestmark = [pytest.mark.node, pytest.mark.once("loss")]

CROWD = 40
"""More than the connections that an API server keeps idle to one address, 25."""

SIDE_BY_SIDE = 20
"""Reviews that each version has to answer while replicas of both are ready."""

KEEP = "--reset-then-reuse-values"

log = logging.getLogger(__name__)


@pytest.fixture
def before(any_release: Release, tmp_path: Path) -> Iterator[Release]:
    """The release as the version before makes it, chart and program, well and registered; it is removed afterwards."""
    try:
        commit = version_before()
    except NoVersionBeforeError as error:
        pytest.skip(f"no version before this one to upgrade from: {error}")
    log.info("upgraded from %s", commit)
    any_release.plane.load(images.image_before(commit))
    unpack(commit, tmp_path)
    any_release.remove()
    tag = images.IMAGE_BEFORE.rpartition(":")[2]
    options = (*any_release.options, "--set", f"image.tag={tag},logLevel=debug")
    before = replace(any_release, helm=replace(any_release.helm, folder=tmp_path / "deploy" / "chart"), options=options)
    before.ensure()
    before.serving(TEAM)
    yield before
    any_release.remove()


def answered(release: Release, replicas: set[str]) -> int:
    """How many reviews these have answered."""
    return sum(release.log(replica).read_text().count('"event":"review"') for replica in replicas)


def crowd(release: Release, pods: Load) -> None:
    """Pods created at the same moment: more than there are open connections, so that new ones are made, to any replica."""
    with ThreadPoolExecutor(CROWD) as clients:
        for answer in clients.map(lambda _: release.create(TEAM, dry_run=True), range(CROWD)):
            pods.add(answer)


def images_of(release: Release, replicas: set[str]) -> set[str]:
    """The images that the containers of these replicas were made from, as the kubelet reports them."""
    return {
        pod["status"]["containerStatuses"][0]["image"]
        for pod in release.replicas()
        if pod["metadata"]["name"] in replicas
    }


@pytest.mark.long
def test_new_version_and_back(before: Release, any_release: Release) -> None:
    """From the version before to this one and back, as the page says: both serve side by side, and nobody notices."""
    client, deployment = before.plane.client, ("apps/v1", "deployments", RELEASE)
    with unnoticed(before) as pods:
        first = set(before.ready())
        assert images_of(before, first) == {images.IMAGE_BEFORE}
        # A new replica that is ready, yet not available: the rollout waits as long as both are looked at.
        client.patch(*deployment, {"spec": {"minReadySeconds": 599}}, NAMESPACE).accepted()
        any_release.run("upgrade", KEEP, *IMAGE)
        before.plane.wait_until(lambda: set(before.ready()) - first, "a replica of this version", 120)
        new, old = set(before.ready()) - first, set(before.ready()) & first
        assert images_of(before, new) == {images.PRODUCT_IMAGE}
        assert old
        so_far = answered(before, new), answered(before, old)

        def both() -> bool:
            crowd(before, pods)
            since = answered(before, new) - so_far[0], answered(before, old) - so_far[1]
            return min(since) >= SIDE_BY_SIDE

        before.plane.wait_until(both, "reviews by both versions", 120)
        assert set(before.ready()) >= new | old
        client.patch(*deployment, {"spec": {"minReadySeconds": 0}}, NAMESPACE).accepted()
        any_release.settled()
    second = set(before.ready())
    assert images_of(before, second) == {images.PRODUCT_IMAGE}
    with unnoticed(before):
        any_release.run("rollback")
        before.settled()
        assert images_of(before, set(before.ready())) == {images.IMAGE_BEFORE}


def test_new_template(release: Release) -> None:
    """An upgrade replaces every replica, and nobody notices."""
    first = set(release.ready())
    with unnoticed(release):
        release.run("upgrade", KEEP, "--set-string", "podAnnotations.version=2")
        release.settled()
    second = set(release.ready())
    assert len(second) == 2
    assert not first & second
