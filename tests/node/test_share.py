"""From a pod in a vendor's terms to what its program gets: translated, placed, allocated by the kubelet, started."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.client import Object
from tests.controlplane.objects import pod
from tests.controlplane.written import STATUS

from .cluster import DEVICE
from .pods import Pods, share
from .releases import TEAM, Release
from .small_images import compile_library

pytestmark = [pytest.mark.node, pytest.mark.once("isolation")]

HAMI = Path("usr/local/vgpu")
"""Where HAMi's device plugin has its library on a node."""

WHOLE = 81920
"""MiB that the driver reports where nobody limits."""

SHARES: dict[str, tuple[Object, Object]] = {
    "nvidia": ({"nvidia.com/gpu": "1", "nvidia.com/gpumem": "4096", "nvidia.com/gpucores": "50"}, {}),
    "vcuda": ({"tencent.com/vcuda-core": "50", "tencent.com/vcuda-memory": "16"}, {}),
    "aliyun": ({"aliyun.com/gpu-mem": "4", "aliyun.com/gpu-core.percentage": "50"}, {}),
    "volcano": ({"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "4096", "volcano.sh/vgpu-cores": "50"}, {}),
    "elastic-gpu": ({"elasticgpu.io/gpu-memory": "4096", "elasticgpu.io/gpu-core": "50"}, {}),
    "kai": ({}, {"gpu-memory": "4096"}),
}
"""4 GiB and, but for the last, half the cores of one GPU, in the terms of six vendors: limits, and annotations of the pod."""


@pytest.fixture(scope="module", params=["plugin", pytest.param("inject", marks=pytest.mark.long)])
def mode(request: pytest.FixtureRequest, any_release: Release) -> Iterator[str]:
    """What brings the library: HAMi's device plugin, or the webhook beside one that only gives devices."""
    mode: str = request.param
    folder = any_release.plane.files / HAMI
    if mode == "plugin":
        compile_library("hami", folder / "libvgpu.so")
        (folder / "ld.so.preload").write_text("/usr/local/vgpu/libvgpu.so\n")
    any_release.ensure()
    any_release.run("upgrade", "--reset-then-reuse-values", "--set", f"shim.mode={mode},settings.target=nvidia")
    any_release.settled()
    any_release.plane.wait_until(lambda: in_force(any_release, mode), f"{mode} in force")
    yield mode
    any_release.remove()
    if mode == "plugin":
        (folder / "libvgpu.so").unlink()


def in_force(release: Release, mode: str, scheduler: str = "hami-scheduler") -> bool:
    """Whether every replica treats pods so, and translates for a scheduler."""
    answer = release.plane.client.create(pod("try", {"aliyun.com/gpu-mem": "4"}), TEAM, dry_run=True)
    if answer.status != 201 or answer.body["spec"].get("schedulerName") != scheduler:
        return False
    if json.loads(answer.body["metadata"]["annotations"][STATUS])["policy"] != release.policy():
        return False
    injected = any(each["name"] == "vgpu-shim" for each in answer.body["spec"].get("volumes", []))
    return injected == (mode == "inject")


def allocations(pods: Pods, pod: Object) -> list[Any]:
    """What the kubelet asked the device plugin for a pod."""
    lines = map(json.loads, pods.cluster.allocations.read_text().splitlines())
    return [each for each in lines if each["uid"] == pod["metadata"]["uid"]]


def test_programs_get_what_was_requested(mode: str, pods: Pods) -> None:
    """The target's scheduler places the pods, the kubelet allocates devices, and each program gets 4 GiB of the 80."""
    made = [
        pods.create({"resources": {"limits": limits}}, annotations=annotations)
        for limits, annotations in SHARES.values()
    ]
    for each, (limits, _) in zip(made, SHARES.values(), strict=True):
        assert each["spec"]["schedulerName"] == "hami-scheduler"
        assert each["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpumem"] == "4096"
        pods.finish(each)
        [printed] = pods.printed(each)
        [allocation] = allocations(pods, each)
        assert allocation["resource"] == DEVICE
        assert [printed["NVIDIA_VISIBLE_DEVICES"]] == allocation["devices"]
        assert printed["memory"] == 4096
        cores = "50" if limits else None
        if mode == "plugin":
            # Nothing of ours is beside what the plugin brings.
            assert printed["library"] == "library hami"
            assert not {"LD_PRELOAD", "LD_LIBRARY_PATH", "CUDA_DEVICE_MEMORY_LIMIT"} & printed.keys()
            assert (printed["CUDA_DEVICE_MEMORY_LIMIT_0"], printed.get("CUDA_DEVICE_SM_LIMIT")) == ("4096m", cores)
        else:
            assert printed["library"] == "library v1"
            assert (printed["CUDA_DEVICE_MEMORY_LIMIT"], printed.get("CUDA_DEVICE_SM_LIMIT")) == ("4096m", cores)


def test_two_containers_get_a_device_each(mode: str, pods: Pods) -> None:
    """Two shares in a pod are two allocations, each with its own limit; a container without a share has none."""
    pod = pods.create(share(memory=1000), share(memory=2000), {})
    pods.finish(pod)
    printed = [pods.printed(pod, container)[0] for container in ("c0", "c1", "c2")]
    assert [each["memory"] for each in printed] == [1000, 2000, WHOLE]
    assert {each["container"] for each in allocations(pods, pod)} == {"c0", "c1"}
