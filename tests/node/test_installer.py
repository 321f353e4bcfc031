"""The DaemonSet that brings the library to the node, while containers use what was there before."""

from collections.abc import Iterator

import pytest

from tests.controlplane.client import Object

from .pods import Pods, share
from .processes import processes_of
from .releases import NAMESPACE, Release

pytestmark = [pytest.mark.node, pytest.mark.long, pytest.mark.once("isolation")]

LOOP = "while :; do /program || echo '{\"result\": -1}'; done"
NAME = "vgpu-webhook-shim"


def installer(release: Release, namespace: str = NAMESPACE) -> Object:
    """Return the DaemonSet as it is now."""
    return release.plane.client.get("apps/v1", "daemonsets", NAME, namespace).accepted()


def installed(release: Release, namespace: str = NAMESPACE) -> bool:
    """Whether its newest template runs on the node, and finds its library there."""
    found = installer(release, namespace)
    status = found["status"]
    if status.get("observedGeneration") != found["metadata"]["generation"]:
        return False
    return bool(
        status["desiredNumberScheduled"] == status.get("updatedNumberScheduled") == status.get("numberReady") == 1
    )


def library(release: Release) -> Object:
    """What is on the node: its version, its file, and when that was written."""
    folder = release.plane.files / "usr/local/vgpu-shim"
    file = folder / (folder / "libvgpu.so").readlink()
    version = (folder / "VERSION").read_text().strip()
    return {
        "version": version,
        "file": file.stat().st_ino,
        "written": file.stat().st_mtime_ns,
        "mode": file.stat().st_mode,
    }


@pytest.fixture
def upgraded(release: Release) -> Iterator[Release]:
    """A release with the first version of the library, which is there again afterwards."""
    release.plane.wait_until(lambda: installed(release), "installer ready")
    yield release
    release.run("upgrade", "--reset-then-reuse-values", "--set", "shim.installer.image.tag=v1")
    release.plane.wait_until(lambda: installed(release), "first version installed again", 120)


def test_library_replaced_while_it_is_used(upgraded: Release, pods: Pods) -> None:
    """Who has the old version mapped keeps it; whoever starts finds one of both, whole, and is limited all the time."""
    assert library(upgraded)["version"] == "v1"
    held = pods.phase(pods.create(share(args=["hold"])), "Running")
    loop = pods.phase(pods.create(share(command=["/bin/sh", "-c", LOOP])), "Running")
    upgraded.plane.wait_until(lambda: len(pods.printed(loop)) > 10, "programs have run")
    upgraded.run("upgrade", "--reset-then-reuse-values", "--set", "shim.installer.image.tag=v2")
    upgraded.plane.wait_until(lambda: installed(upgraded), "second version installed", 120)
    assert library(upgraded)["version"] == "v2"

    def second() -> bool:
        return '"library v2"' in pods.log(loop)

    upgraded.plane.wait_until(second, "programs have loaded the second version")
    runs = [each for each in pods.log(loop).splitlines() if each.endswith("}")]
    versions = ["v1" if '"library v1"' in each else "v2" for each in runs]
    assert all('"result": 0, "memory": 3000, "library": "library v' in each for each in runs)
    assert versions == sorted(versions)
    [process] = processes_of(held, "c0")
    mapped = {line.split()[-1] for line in (process / "maps").read_text().splitlines() if "libvgpu" in line}
    assert mapped == {"/usr/local/vgpu-shim/libvgpu.so.v1"}
    assert (upgraded.plane.files / "usr/local/vgpu-shim/libvgpu.so.v1").exists()
