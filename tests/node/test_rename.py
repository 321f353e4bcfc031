"""A release that gets another name, while pods are created: what the API server calls is there until it calls another."""

import re

import pytest

from .load import load
from .releases import NAMESPACE, Release

pytestmark = [pytest.mark.node, pytest.mark.long, pytest.mark.once("loss")]

OLD, NEW = "vgpu-webhook", "gpu-shares"


def services(release: Release) -> set[str]:
    """The names of its Services."""
    return {each["metadata"]["name"] for each in release.plane.client.list("v1", "services", NAMESPACE)}


def called(release: Release) -> set[str]:
    """The Services that the webhook configuration calls."""
    registration = release.registration()
    return {each["clientConfig"]["service"]["name"] for each in registration["webhooks"]} if registration else set()


def deployments(release: Release) -> set[str]:
    """The names of its Deployments that are rolled out whole."""
    return {
        each["metadata"]["name"]
        for each in release.plane.client.list("apps/v1", "deployments", NAMESPACE)
        if each["status"].get("observedGeneration") == each["metadata"]["generation"]
        and [each["status"].get(key) for key in ("replicas", "updatedReplicas", "readyReplicas")] == [2, 2, 2]
    }


def wait_called(release: Release, name: str) -> None:
    """Wait until the webhook configuration calls a Service."""
    release.plane.wait_until(lambda: called(release) == {name}, f"{name} called", 120)


def upgrade(release: Release, *names: str, name: str | None = None) -> str:
    """Upgrade, with another name; wait until there are these Deployments, and no replica of others; return Helm's notes."""
    plane = release.plane
    rename = () if name is None else ("--set", f"fullnameOverride={name}")
    notes = release.run("upgrade", "--reset-then-reuse-values", *rename)
    plane.wait_until(lambda: deployments(release) == set(names), f"rolled out: {names}", 120)
    plane.wait_until(lambda: len(release.replicas()) == 2 * len(names), "others gone", 120)
    return notes


def test_former_service_stays_until_nobody_calls_it(release: Release) -> None:
    """In as many upgrades as it takes, each of which can be the last for a while; no pod is refused or left untreated.

    Before the third one, which would remove the former name, the release gets it back: what is called then is the former.
    """
    both = {OLD, NEW}
    with load(release) as pods:
        notes = upgrade(release, OLD, NEW, name=NEW)
        assert f"calls the former Service {OLD}, which stays" in notes
        assert (services(release), called(release)) == (both, {OLD})
        assert f"changes to the Service {NEW}" in upgrade(release, NEW)
        wait_called(release, NEW)
        assert services(release) == both
        upgrade(release, OLD, NEW, name="")
        assert (services(release), called(release)) == (both, {NEW})
        upgrade(release, OLD)
        wait_called(release, OLD)
        assert services(release) == both
        assert NEW not in re.findall(r"Service ([\w-]+)", upgrade(release, OLD))
        assert (services(release), called(release)) == ({OLD}, {OLD})
        so_far = pods.created
        release.plane.wait_until(lambda: pods.created > so_far + 20, "pods created afterwards")
    assert pods.refused == []
    assert pods.untouched == 0
