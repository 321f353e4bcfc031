"""HAMi and Volcano on a node: their schedulers choose, a device plugin registers and answers as theirs, the kubelet allocates.

No program here has a GPU: it prints what the library says that the plugin brings, and its environment. Run by
``make test-systems``; ``SYSTEMS=volcano`` picks one.
"""

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import pytest

from tests.controlplane.client import Object
from tests.systems import programs
from tests.systems.hami import HAMI
from tests.systems.outcomes import peaks, tell
from tests.systems.place import UUIDS, Place, Running, System, make_certificate
from tests.systems.shapes import Share
from tests.systems.volcano import VOLCANO
from webhook.labels import GUARD

from .cluster import NODE
from .pods import ENDED, Pods
from .releases import TEAM, Release
from .small_images import compile_library
from .test_share import HAMI as LIBRARIES
from .test_share import SHARES, WHOLE, allocations, in_force

pytestmark = [pytest.mark.node, pytest.mark.systems, pytest.mark.timeout(1200)]

DEVICES: Final = UUIDS[:2]
DEVICE_MIB: Final = 24_576
"""Of each: a kubelet reads lists of devices up to 4 MiB, and Volcano's plugin offers a device for each MiB."""
WARM: Final = 120.0
"""Seconds for a scheduler to learn of the node's devices: HAMi's looks at Nodes every 15."""
PATIENCE: Final = 10.0
"""Seconds for it to place a pod, once it has."""


@dataclass(frozen=True, slots=True)
class Circle:
    """What a system is on the node.

    Attributes:
        system: how it is run.
        scheduler: the name of its scheduler.
        resource: whose allocation gives devices.
        beside: what its plugin offers besides, of each device.
        annotations: how far the plugin is, and what it has still to give.
        inits: an init container gets a share, too.
    """

    system: System
    scheduler: str
    resource: str
    beside: Mapping[str, int]
    annotations: tuple[str, str]
    inits: bool


CIRCLES: Final = {
    "hami": Circle(
        HAMI,
        "hami-scheduler",
        "nvidia.com/gpu",
        {},
        ("hami.io/bind-phase", "hami.io/vgpu-devices-to-allocate"),
        inits=True,
    ),
    "volcano": Circle(
        VOLCANO,
        "volcano",
        "volcano.sh/vgpu-number",
        {"volcano.sh/vgpu-memory": DEVICE_MIB, "volcano.sh/vgpu-cores": 100},
        ("volcano.sh/bind-phase", "volcano.sh/devices-to-allocate"),
        inits=False,
    ),
}
SWITCHED_OFF: Final[tuple[Object, Object]] = (
    {"env": [{"name": "CUDA_DISABLE_CONTROL", "value": "true"}]},
    {"resources": {"limits": SHARES["nvidia"][0]}},
)
"""A container without a share, with the variable that switches the library off, before one with a share."""
CHOSEN: Final = programs.chosen(CIRCLES)


@dataclass(frozen=True, slots=True)
class RealPlace(Place):
    """A place whose Node has a kubelet: what it offers comes from there."""

    @contextmanager
    def node(self, resources: Mapping[str, Any], metadata: Object) -> Iterator[None]:
        """Write what a device plugin writes on the Node, and take it away at the end."""
        del resources
        self._change(metadata)
        try:
            yield
        finally:
            self._change({kind: dict.fromkeys(each) for kind, each in metadata.items() if kind == "annotations"})

    def annotate_node(self, annotations: Mapping[str, str | None]) -> None:
        self._change({"annotations": dict(annotations)})

    def _change(self, metadata: Object) -> None:
        self.plane.client.patch("v1", "nodes", NODE, {"metadata": metadata}).accepted()


@dataclass(frozen=True, slots=True)
class Started:
    """A system that runs on the node, with the webhook that writes for it."""

    circle: Circle
    running: Running
    pods: Pods

    def ran(self, *containers: Object, annotations: Object | None = None, **spec: Any) -> Object:
        """Create a pod, and return it when its programs have ended well."""
        pod = self.pods.create(*map(telling, containers), annotations=annotations, **spec)
        assert pod["spec"]["schedulerName"] == self.circle.scheduler
        ended = self.pods.finish(pod)
        phase, chosen = (ended["metadata"]["annotations"][name] for name in self.circle.annotations)
        assert (phase, chosen.strip(";")) == ("success", "")
        return ended

    def seen(self, pod: Object, container: str) -> tuple[dict[str, str], dict[str, Any]]:
        """The environment of a container, and what its program has printed."""
        *environment, printed = self.pods.log(pod, container).splitlines()
        return dict(line.partition("=")[::2] for line in environment), json.loads(printed)

    def allocated(self, pod: Object) -> list[Any]:
        """For each container that requests a share, what the kubelet asked the plugin that gives devices, and the answer."""
        return [each for each in allocations(self.pods, pod) if each["resource"] == self.circle.resource]


def telling(container: Object) -> Object:
    """A container that prints its environment, then what its program gets."""
    return {**container, "command": ["/bin/sh", "-c", "env && exec /program"]}


@pytest.fixture(scope="module", params=CHOSEN)
def started(
    request: pytest.FixtureRequest, any_release: Release, all_pods: Pods, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Started]:
    """Each system, the webhook with it as the target, and its library on the node."""
    began, circle, cluster = time.monotonic(), CIRCLES[request.param], any_release.plane
    any_release.ensure()
    values = f"shim.mode=plugin,settings.target={circle.system.target}"
    any_release.run("upgrade", "--reset-then-reuse-values", "--set", values)
    any_release.settled()
    cluster.wait_until(lambda: in_force(any_release, "plugin", circle.scheduler), f"{values} in force")
    folder = tmp_path_factory.mktemp(circle.system.name)
    found_in = programs.SYSTEMS[circle.system.name].folder()
    place = RealPlace(cluster, folder, TEAM, make_certificate(folder), found_in, [], DEVICES, DEVICE_MIB)
    offered = {name: amount * len(DEVICES) for name, amount in {circle.resource: 10, **circle.beside}.items()}
    library = cluster.files / LIBRARIES / "libvgpu.so"
    compile_library("theirs", library)
    library.with_name("ld.so.preload").write_text(f"/{LIBRARIES}/libvgpu.so\n")
    devices = f"{','.join(DEVICES)}={DEVICE_MIB}"
    with (
        cluster.served_by(circle.system.name, circle.scheduler, devices, offered),
        circle.system.start(place) as running,
    ):
        found = Started(circle, running, all_pods)
        warm(found, place)
        yield found
        place.check()
        tell(request.config, f"{request.param} on a node", time.monotonic() - began, peaks(place))
    library.unlink()
    any_release.remove()


def warm(started: Started, place: Place) -> None:
    """Wait until a pod that fits is placed and runs.

    HAMi's scheduler tries one that did not fit again only after minutes, and Volcano's binds pods without devices to a Node
    that it read before it was configured; the kubelet rejects these.
    """
    deadline = time.monotonic() + WARM
    limits, _ = SHARES["nvidia"]
    ended = None
    while ended != "Succeeded":
        assert time.monotonic() < deadline, f"no pod runs: {ended}"
        pod, ended = started.pods.create({"resources": {"limits": limits}}), None
        until = time.monotonic() + PATIENCE
        while ended not in ENDED and time.monotonic() < until:
            place.check()
            time.sleep(0.2)
            found = started.pods.get(pod)
            ended = found["status"].get("phase")
            if "nodeName" in found["spec"]:
                until = deadline
        started.pods.delete(pod)
        started.running.tidy()


@pytest.mark.parametrize("vendor", SHARES)
def test_program_gets_what_was_requested(started: Started, pods: Pods, vendor: str) -> None:
    """In its own keys and in others': the scheduler's choice, the kubelet's allocation, and 4 GiB in the container."""
    limits, annotations = SHARES[vendor]
    pod = started.ran({"resources": {"limits": limits}}, annotations=annotations)
    cores = 50 if limits else None
    assert started.running.given(pod) == {"c0": Share(1, 4096, cores)}
    [allocation] = started.allocated(pod)
    assert len(allocation["devices"]) == 1
    environment, printed = started.seen(pod, "c0")
    assert printed["library"] == "library theirs"
    assert printed["memory"] == 4096
    assert environment.items() >= allocation["envs"].items()
    assert environment["NVIDIA_VISIBLE_DEVICES"] in DEVICES
    assert environment["CUDA_DEVICE_MEMORY_LIMIT_0"] == "4096m"
    assert environment["CUDA_DEVICE_SM_LIMIT"] == str(cores or 0)
    # Nothing of ours is beside what the plugin brings.
    assert not {"LD_PRELOAD", "LD_LIBRARY_PATH", "CUDA_DEVICE_MEMORY_LIMIT"} & environment.keys()


def test_two_devices(started: Started, pods: Pods) -> None:
    """A share of two devices in another system's keys: both are limited, and the kubelet has counted both."""
    limits = {"koordinator.sh/gpu.shared": 2, "koordinator.sh/gpu-memory": "4Gi", "koordinator.sh/gpu-core": 60}
    pod = started.ran({"resources": {"limits": {key: str(amount) for key, amount in limits.items()}}})
    assert started.running.given(pod) == {"c0": Share(2, 2048, 30)}
    assert [len(each["devices"]) for each in started.allocated(pod)] == [2]
    environment, _ = started.seen(pod, "c0")
    assert sorted(environment["NVIDIA_VISIBLE_DEVICES"].split(",")) == sorted(DEVICES)
    assert [environment[f"CUDA_DEVICE_MEMORY_LIMIT_{number}"] for number in (0, 1)] == ["2048m"] * 2


def test_each_container_gets_its_own(started: Started, pods: Pods) -> None:
    """Shares of a pod are allocated one by one, each from its own part of what the scheduler wrote."""
    shares = [{"nvidia.com/gpu": "1", "nvidia.com/gpumem": memory} for memory in ("1000", "2000")]
    first, second = ({"resources": {"limits": each}} for each in shares)
    init = {"name": "init", "image": "localhost/gpu:test", **telling(first)}
    spec: dict[str, Any] = {"initContainers": [init]} if started.circle.inits else {}
    pod = started.ran(first, {}, second, **spec)
    expected = {**({"init": 1000} if started.circle.inits else {}), "c0": 1000, "c2": 2000}
    assert {name: share.memory_mib for name, share in started.running.given(pod).items()} == expected
    limits = [f"{each}m" for each in expected.values()]
    assert [each["envs"]["CUDA_DEVICE_MEMORY_LIMIT_0"] for each in started.allocated(pod)] == limits
    assert {name: started.seen(pod, name)[1]["memory"] for name in expected} == expected
    assert "CUDA_DEVICE_MEMORY_LIMIT_0" not in started.seen(pod, "c1")[0]


@contextmanager
def unguarded(pods: Pods) -> Iterator[None]:
    """In a block, the namespace allows what lifts limits."""
    client = pods.cluster.client
    pod = pods.body(*SWITCHED_OFF)

    def guard(action: str | None, status: int) -> None:
        client.patch("v1", "namespaces", TEAM, {"metadata": {"annotations": {GUARD: action}}}).accepted()
        pods.cluster.wait_until(lambda: client.create(pod, TEAM, dry_run=True).status == status, f"guard {action}")

    guard("allow", 201)
    try:
        yield
    finally:
        guard(None, 403)


def test_variable_of_another_container(started: Started, pods: Pods) -> None:
    """Both plugins look for it in the container that has the number of the part: the guard sees every container."""
    answer = pods.cluster.client.create(pods.body(*SWITCHED_OFF), TEAM)
    assert "VGW605: container c0: the value of env CUDA_DISABLE_CONTROL lifts the limit" in answer.message
    with unguarded(pods):
        pod = started.ran(*SWITCHED_OFF)
    assert started.seen(pod, "c1")[1]["memory"] == WHOLE
