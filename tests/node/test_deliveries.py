"""Deliveries that bring the library themselves, in real containers: an image volume, and an init container that copies it."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.controlplane.client import Object

from .pods import Pods, share
from .releases import NAMESPACE, TEAM, Release
from .small_images import LIBRARY, LIBRARY_PATH, VERSIONS

pytestmark = pytest.mark.node

FOLDER = "/usr/local/vgpu-shim"
IMAGE, FILE = f"{LIBRARY}:{VERSIONS[0]}", f"libvgpu.so.{VERSIONS[0]}"
VOLUME = {"volume": "vgpu-shim", "mountPath": FOLDER}
COPY = ["/bin/sh", "-ec", f"cp {LIBRARY_PATH}/{FILE} {FOLDER}/{FILE}"]
DELIVERIES: dict[str, Any] = {
    "image": {**VOLUME, "reference": IMAGE, "pullPolicy": "Never", "subPath": LIBRARY_PATH.lstrip("/")},
    "emptyDir": {**VOLUME, "sizeLimit": "1Mi", "image": IMAGE, "pullPolicy": "Never", "command": COPY},
}


@contextmanager
def delivered(release: Release, delivery: Object) -> Iterator[None]:
    """A mapping with this delivery alone is in force until the end of the block."""
    [kind] = delivery
    shim = {
        "delivery": [delivery],
        "preload": {"prefix": [f"{FOLDER}/{FILE}"]},
        "env": {"CUDA_REDIRECT": f"{FOLDER}/{FILE}"},
    }
    config_map = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "nvidia", "namespace": NAMESPACE, "labels": {"vgpu-webhook.io/mapping": "true"}},
        "data": {"mapping.yaml": json.dumps({"extends": "nvidia", "shim": shim})},
    }
    client = release.plane.client
    client.create(config_map).accepted()
    try:
        release.plane.wait_until(lambda: source(release) == kind, f"delivery {kind} in force", 60)
        yield
    finally:
        client.delete("v1", "configmaps", "nvidia", NAMESPACE).accepted()
        release.plane.wait_until(lambda: source(release) == "hostPath", "built-in mapping in force", 60)


def source(release: Release) -> str:
    """Which kind of volume brings the library to a new pod; none while replicas have different policies, and one denies it."""
    volumes = release.create(TEAM, dry_run=True).body.get("spec", {}).get("volumes", [])
    return next((str(*(each.keys() - {"name"})) for each in volumes if each["name"] == "vgpu-shim"), "")


@pytest.mark.parametrize("kind", DELIVERIES)
def test_the_library_is_there_and_its_limit_holds(release: Release, pods: Pods, kind: str) -> None:
    """In an init container, a sidecar and a container, for any user, with a root file system that is read-only."""
    context: Object = {"readOnlyRootFilesystem": True, "runAsUser": 4711, "allowPrivilegeEscalation": False}
    common = {"image": "localhost/gpu:test", "securityContext": context}
    first = {"name": "first", **common, **share(memory=1000)}
    beside = {"name": "beside", **common, **share(memory=2000), "restartPolicy": "Always", "args": ["hold"]}
    with delivered(release, {kind: DELIVERIES[kind]}):
        pod = pods.create(share(securityContext=context), initContainers=[first, beside])
        names = [each["name"] for each in pod["spec"]["initContainers"]]
        assert names == (["vgpu-shim", "first", "beside"] if kind == "emptyDir" else ["first", "beside"])
        pods.finish(pod)
        seen = [pods.printed(pod, name)[0] for name in ("first", "beside", "c0")]
    assert [each["memory"] for each in seen] == [1000, 2000, 3000]
    assert {each["library"] for each in seen} == {f"library {VERSIONS[0]}"}


def test_without_its_library_no_container_starts(release: Release, pods: Pods) -> None:
    """What copies it fails: the pod fails with it, and no share runs without a limit."""
    broken = {**DELIVERIES["emptyDir"], "command": ["/bin/sh", "-ec", f"cp /nowhere {FOLDER}/{FILE}"]}
    with delivered(release, {"emptyDir": broken}):
        pod = pods.create(share())
        failed = pods.phase(pod, "Failed")
    assert failed["status"]["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 1
    assert "running" not in json.dumps(failed["status"]["containerStatuses"])
