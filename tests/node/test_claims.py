"""Requests in vendors' keys as resource claims, from the manifest to the container; and templates that fail to come."""

import os
import signal
from collections.abc import Iterator

import pytest

from tests.controlplane.client import Object

from .claims import GROUP, TEMPLATES, Claims, driver, install
from .load import delete_pods
from .pods import Pods
from .processes import process_of
from .releases import OPTED_IN, TEAM, Release, namespace, remove_namespaces

pytestmark = [pytest.mark.node, pytest.mark.long]

LEAVING = "leaving"

VENDORS: dict[str, Object] = {
    "vcuda": {"tencent.com/vcuda-core": "30", "tencent.com/vcuda-memory": "120"},
    "volcano": {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "30720", "volcano.sh/vgpu-cores": "30"},
}
"""30 GiB and 30 % of the cores of one device."""


@pytest.fixture(scope="module")
def installed(any_release: Release, all_pods: Pods, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Claims]:
    """The driver beside the kubelet, and the chart with its claims as the target."""
    cluster = any_release.plane
    with driver(cluster):
        install(any_release, tmp_path_factory.mktemp("claims") / "values.json")
        body = all_pods.body(share(VENDORS["vcuda"]))

        def claimed() -> bool:
            return "resourceClaims" in cluster.client.create(body, TEAM, dry_run=True).body.get("spec", {})

        cluster.wait_until(claimed, "pods get claims")
        yield Claims(any_release, all_pods)
        any_release.remove()
        for name in Claims(any_release, all_pods).templates():
            cluster.client.delete(GROUP, TEMPLATES, name, TEAM).accepted()


@pytest.fixture
def claims(installed: Claims) -> Iterator[Claims]:
    """The same for one test; once its pods are gone, nothing of a claim is left, in the API or on the node."""
    yield installed
    delete_pods(installed.cluster)
    installed.cluster.wait_until(lambda: not installed.left(), "nothing left of claims")


def share(limits: Object) -> Object:
    """A container that prints its environment, and stays."""
    return {"resources": {"limits": limits}, "command": ["/bin/sh", "-c", "env && sleep 1000"]}


def memory(gibibytes: int) -> Object:
    """A container with so much of one device, in Tencent's keys."""
    return share({"tencent.com/vcuda-core": "1", "tencent.com/vcuda-memory": str(4 * gibibytes)})


def template_of(pod: Object) -> str:
    """The template that the only claim of a pod is made from."""
    [claim] = pod["spec"]["resourceClaims"]
    name: str = claim["resourceClaimTemplateName"]
    return name


def given(claims: Claims, pod: Object, container: str = "c0") -> dict[str, str]:
    """What the driver has put into a container's environment, once it runs."""
    claims.pods.phase(pod, "Running")

    def printed() -> dict[str, str]:
        lines = claims.pods.log(pod, container).splitlines()
        return dict(line.split("=", 1) for line in lines if line.startswith("GPU_DEVICE_"))

    return claims.cluster.wait_until(printed, "environment printed")


@pytest.mark.parametrize("vendor", VENDORS)
def test_container_sees_its_share(claims: Claims, vendor: str) -> None:
    """In its vendor's keys in the manifest; in the container what the driver was asked for, and nothing of a device plugin."""
    pod = claims.pods.create(share(VENDORS[vendor]))
    assert pod["spec"]["schedulerName"] == "default-scheduler"
    assert "limits" not in pod["spec"]["containers"][0]["resources"]
    assert given(claims, pod).items() >= {"GPU_DEVICE_0_MEMORY": "30Gi", "GPU_DEVICE_0_COMPUTE": "30"}.items()
    assert len(claims.prepared()) == 2


def test_each_container_sees_its_own(claims: Claims) -> None:
    """Two claims of a pod on one device; a container without one sees none."""
    pod = claims.pods.create(memory(2), memory(3), {"command": ["/bin/sh", "-c", "env && sleep 1000"]})
    assert [given(claims, pod, name)["GPU_DEVICE_0_MEMORY"] for name in ("c0", "c1")] == ["2Gi", "3Gi"]
    assert "GPU_DEVICE" not in claims.pods.log(pod, "c2")


def test_check_finds_the_driver(claims: Claims) -> None:
    """`helm test`, with a pod that has a claim: devices, class and feature gate are as they have to be."""
    claims.pods.phase(claims.pods.create(share(VENDORS["vcuda"])), "Running")
    printed = claims.release.run("test", "--logs")
    assert "✓ drivers" in printed
    assert "✓ claims" in printed


def answering(claims: Claims, gibibytes: int) -> str:
    """The replica that answered a pod; the API server keeps its connection for the next."""
    pod = claims.pods.create(memory(gibibytes))
    [name] = claims.cluster.wait_until(lambda: claims.requests(template_of(pod), 201), "template created")
    claims.pods.delete(pod)
    return name


def unmade(claims: Claims) -> tuple[int, Object, str]:
    """A pod that was answered without its template, that is by a replica that is held back: GiB, pod, template."""
    for gibibytes in range(8, 20):
        pod = claims.pods.create(memory(gibibytes))
        name = template_of(pod)
        if name not in claims.templates():
            return gibibytes, pod, name
        claims.pods.delete(pod)  # the API server has a connection to the other one, too
    pytest.fail("every template was created")


def test_replica_killed_between_answer_and_template(claims: Claims) -> None:
    """The other one makes the template; the pod runs, and is the same pod."""
    release = claims.release
    killed = answering(claims, 7)
    [replica] = [each for each in release.replicas() if each["metadata"]["name"] == killed]
    [other] = set(release.ready()) - {killed}
    with claims.held(30, killed):
        gibibytes, pod, name = unmade(claims)
        os.kill(int(process_of(replica, "webhook").name), signal.SIGKILL)
        assert given(claims, pod)["GPU_DEVICE_0_MEMORY"] == f"{gibibytes}Gi"
        assert claims.requests(name, 201) == [other]
    release.settled()
    assert claims.pods.get(pod)["metadata"]["uid"] == pod["metadata"]["uid"]


def test_namespace_deleted_meanwhile(claims: Claims) -> None:
    """With a pod that runs, and one whose template is still to come: all of it goes. Created again, it serves as before."""
    cluster = claims.cluster
    pods = Pods(cluster, LEAVING)
    there = Claims(claims.release, pods)
    for _ in range(2):
        namespace(cluster, LEAVING, OPTED_IN)
        claims.release.serving(LEAVING)
        runs = pods.create(memory(2))
        assert given(there, runs)["GPU_DEVICE_0_MEMORY"] == "2Gi"
        with claims.held(10):
            waits = pods.create(memory(3))
            assert template_of(waits) not in there.templates(LEAVING)
            remove_namespaces(cluster, LEAVING)
            cluster.wait_until(lambda: not claims.left(), "nothing left of claims")
        assert not there.templates(LEAVING)
