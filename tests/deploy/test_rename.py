"""A release that gets another name, while pods are created: what the API server calls is there until it calls another."""

import re
from collections.abc import Iterator

import pytest

from .charts import HelmError
from .load import load
from .releases import NAMESPACE, TEAM, Release

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(1800)]

OLD, NEW = "vgpu-webhook", "gpu-shares"


@pytest.fixture
def renamed(release: Release) -> Iterator[Release]:
    """The release, which is removed afterwards."""
    yield release
    release.remove()


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


def rolled_out(release: Release, *names: str) -> None:
    """Wait until there are these Deployments, and no replica of another one."""
    plane = release.plane
    plane.wait_until(lambda: deployments(release) == set(names), f"rolled out: {names}", 120)
    plane.wait_until(lambda: len(release.replicas()) == 2 * len(names), "others gone", 120)


@pytest.mark.deep
def test_former_service_stays_while_it_is_called(renamed: Release) -> None:
    """After the first upgrade, which can be the last for a while."""
    renamed.serving(TEAM)
    with load(renamed) as pods:
        notes = renamed.run("upgrade", "--reset-then-reuse-values", "--set", f"fullnameOverride={NEW}")
        assert f"calls the former Service {OLD}, which stays" in notes
        rolled_out(renamed, OLD, NEW)
        assert (services(renamed), called(renamed)) == ({OLD, NEW}, {OLD})
    assert pods.refused == []
    assert pods.untouched == 0


@pytest.mark.deep
def test_former_service_stays_until_nobody_calls_it(renamed: Release) -> None:
    """In three upgrades, each of which can be the last for a while; no pod is refused or passed over."""
    keep = "--reset-then-reuse-values"
    renamed.serving(TEAM)
    with load(renamed) as pods:
        notes = renamed.run("upgrade", keep, "--set", f"fullnameOverride={NEW}")
        assert f"calls the former Service {OLD}, which stays" in notes
        rolled_out(renamed, OLD, NEW)
        assert (services(renamed), called(renamed)) == ({OLD, NEW}, {OLD})
        assert f"changes to the Service {NEW}" in renamed.run("upgrade", keep)
        renamed.plane.wait_until(lambda: called(renamed) == {NEW}, "the webhook configuration calls the new one", 120)
        rolled_out(renamed, NEW)
        assert services(renamed) == {OLD, NEW}
        notes = renamed.run("upgrade", keep)
        assert OLD not in re.findall(r"Service ([\w-]+)", notes)
        rolled_out(renamed, NEW)
        assert (services(renamed), called(renamed)) == ({NEW}, {NEW})
        created = pods.created
        renamed.plane.wait_until(lambda: pods.created > created + 20, "pods created afterwards")
    assert pods.refused == []
    assert pods.untouched == 0


@pytest.mark.deep
def test_renamed_back_on_the_way(renamed: Release) -> None:
    """After the second of the three: what is called then is a former name now, and treated as one."""
    renamed.serving(TEAM)
    with load(renamed) as pods:
        for options in (("--set", f"fullnameOverride={NEW}"), ()):
            renamed.run("upgrade", "--reset-then-reuse-values", *options)
            renamed.plane.wait_until(lambda: NEW in deployments(renamed), "rolled out", 120)
        renamed.plane.wait_until(lambda: called(renamed) == {NEW}, "the webhook configuration calls the new one", 120)
        rolled_out(renamed, NEW)
        renamed.run("upgrade", "--reset-then-reuse-values", "--set", "fullnameOverride=")
        rolled_out(renamed, OLD, NEW)
        assert (services(renamed), called(renamed)) == ({OLD, NEW}, {NEW})
    assert pods.refused == []
    assert pods.untouched == 0


def test_other_selector_is_refused(renamed: Release) -> None:
    """Of the same Deployment: Kubernetes refuses it in the middle of an upgrade."""
    options = ("--set", "nameOverride=shares", "--set", "fullnameOverride=vgpu-webhook")
    with pytest.raises(HelmError, match=r"the Deployment vgpu-webhook selects other pods .*restore nameOverride"):
        renamed.run("upgrade", "--reset-then-reuse-values", *options)
