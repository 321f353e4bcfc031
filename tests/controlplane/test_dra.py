"""Requests in any vendor's keys become claims, which Kubernetes' own scheduler allocates, without a device plugin.

The driver's part, its ResourceSlices, is written by hand; the scheduler and the controller of claims are real.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.yaml_text import load_yaml
from webhook.cluster.claims import RESOURCE
from webhook.labels import CLAIM, ENABLED, TARGET

from .client import Object
from .in_cluster import installed
from .objects import namespace
from .plane import ControlPlane

pytestmark = [
    pytest.mark.controlplane,
    pytest.mark.kubernetes("1.36", why="older API servers drop the capacity of a claim"),
]

OWN = "dra-webhook"
TEAM = "dra"
OPT_IN = "dra.example/inject"
"""A label of its own: what other tests have registered must not change these pods first."""
GROUP = "resource.k8s.io/v1"
DRIVER = "hami-core-gpu.project-hami.io"
NODE = "dra-node"
CARD_GIB = 80
_TABLES: dict[str, Any] = load_yaml((Path(__file__).parent / "dra.yaml").read_text())
REQUESTS: dict[str, dict[str, Any]] = _TABLES["requests"]
WHOLE: dict[str, dict[str, Any]] = _TABLES["whole"]


def pod(name: str, *limits: dict[str, Any], **metadata: Any) -> Object:
    """A pod with a container for each of these limits."""
    containers = [
        {
            "name": f"c{number}",
            "image": "app",
            "resources": {"limits": {key: str(value) for key, value in each.items()}},
        }
        for number, each in enumerate(limits)
    ]
    spec = {"containers": containers, "terminationGracePeriodSeconds": 0}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **metadata}, "spec": spec}


def device_class(name: str, expression: str) -> Object:
    """A class of the devices of which an expression is true."""
    spec = {"selectors": [{"cel": {"expression": expression}}]}
    return {"apiVersion": GROUP, "kind": "DeviceClass", "metadata": {"name": name}, "spec": spec}


def resource_slice(name: str, driver: str, pool: str, slices: int = 1, **content: Any) -> Object:
    """One of the slices of a driver's pool on the node."""
    of_pool = {"name": pool, "generation": 1, "resourceSliceCount": slices}
    spec = {"driver": driver, "nodeName": NODE, "pool": of_pool, **content}
    return {"apiVersion": GROUP, "kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec}


def shared(amount: str, highest: str, step: str, lowest: str = "0") -> Object:
    """A capacity that is shared in steps, and all of which is given to whoever names none."""
    policy = {"default": highest, "validRange": {"min": lowest, "step": step, "max": highest}}
    return {"value": amount, "requestPolicy": policy}


# Memory in steps of 1 MiB, all of it by default; cores of 0 to 100, 100 by default.
CARD = {"memory": shared(f"{CARD_GIB}Gi", f"{CARD_GIB}Gi", "1Mi"), "cores": shared("100", "100", "1")}


def _driver(plane: ControlPlane) -> None:
    """A node with one card, as its driver would publish it, and the class of the driver's chart."""
    client = plane.client
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE, "labels": {"kubernetes.io/hostname": NODE}}}
    client.create(node).accepted()
    ready = [{"type": "Ready", "status": "True", "reason": "Test", "message": ""}]
    allocatable = {"cpu": "64", "memory": "256Gi", "pods": "200"}
    status = {"conditions": ready, "allocatable": allocatable, "capacity": allocatable}
    client.patch("v1", "nodes", f"{NODE}/status", {"status": status}).accepted()
    client.create(device_class(DRIVER, f"device.driver == '{DRIVER}'")).accepted()
    # k8s-dra-driver of HAMi, hami_core.go.
    attributes = {"uuid": {"string": "GPU-0"}, "productName": {"string": "NVIDIA A100-SXM4-80GB"}}
    device = {"name": "card-0", "allowMultipleAllocations": True, "attributes": attributes, "capacity": CARD}
    client.create(resource_slice(NODE, DRIVER, NODE, devices=[device])).accepted()


NVIDIA = "gpu.nvidia.com"
CLASSES = {"gpu.nvidia.com": "gpu", "share.gpu.nvidia.com": "gpu", "mig.nvidia.com": "mig"}
"""Of NVIDIA's driver, and of shares by our chart: the type of their devices."""


def _nvidia(plane: ControlPlane) -> None:
    """A card on the same node as NVIDIA's driver would publish it: whole, or in slices, which shared counters keep apart."""
    client = plane.client
    for name, kind in CLASSES.items():
        expression = f"device.driver == '{NVIDIA}' && device.attributes['{NVIDIA}'].type == '{kind}'"
        client.create(device_class(name, expression)).accepted()

    def device(name: str, parts: int, **fields: Any) -> Object:
        counters = {"parts": {"value": str(parts)}}
        return {"name": name, "consumesCounters": [{"counterSet": "gpu-0", "counters": counters}], **fields}

    def attributes(**texts: str) -> Object:
        return {name: {"string": text} for name, text in texts.items()}

    # kubernetes-sigs/dra-driver-nvidia-gpu: consumable_shares.go, deviceinfo.go.
    whole = device("gpu-0", 7, attributes=attributes(type="gpu", uuid="GPU-1", productName="NVIDIA A100-SXM4-80GB"))
    whole |= {"allowMultipleAllocations": True, "capacity": {"memory": shared("80Gi", "80Gi", "1Mi", "1Mi")}}
    profiles = {"2g.20gb": (2, 3), "1g.10gb+me": (1, 1), "1g.10gb": (1, 7)}
    slices = [
        device(f"gpu-0-mig-{row}-{place}", parts, attributes=attributes(type="mig", profile=profile))
        for row, (profile, (parts, places)) in enumerate(profiles.items())
        for place in range(places)
    ]
    counters = {"sharedCounters": [{"name": "gpu-0", "counters": {"parts": {"value": "7"}}}]}
    pool = f"{NODE}-nvidia"
    client.create(resource_slice(f"{NODE}-counters", NVIDIA, pool, 2, **counters)).accepted()
    client.create(resource_slice(pool, NVIDIA, pool, 2, devices=[whole, *slices])).accepted()


MANAGER = "manager.nvidia.com"
MANAGER_CLASS = "vgpu-manager"


def _manager(plane: ControlPlane) -> None:
    """Two cards on the same node as vgpu-manager's driver would publish them: pkg/kubeletplugin/vgpu.go."""
    plane.client.create(device_class(MANAGER_CLASS, f"device.driver == '{MANAGER}'")).accepted()
    shares = {"allowMultipleAllocations": True, "capacity": CARD}
    devices = [
        {"name": f"vgpu-{number}", "attributes": {"uuid": {"string": f"GPU-{number}"}}, **shares} for number in range(2)
    ]
    name = f"{NODE}-manager"
    plane.client.create(resource_slice(name, MANAGER, name, devices=devices)).accepted()


@pytest.fixture(scope="module")
def plane(scheduler: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """The scheduler, a driver's objects, and a webhook whose target is that driver."""
    client = scheduler.client
    scheduler.create_namespace(namespace(TEAM, {OPT_IN: ENABLED}))
    _driver(scheduler)
    _nvidia(scheduler)
    _manager(scheduler)
    served = "target: dra-hami, served: [dra-nvidia, dra-vgpu-manager]"
    settings = f"{{optInLabel: {OPT_IN}, {served}, owners: {{aliyun.com/gpu-mem: gpushare}}}}\n"
    with installed(scheduler, tmp_path_factory.mktemp("dra"), OWN, settings, "--claims"):
        probe = pod("probe", REQUESTS["vcuda"])
        scheduler.wait_until(
            lambda: "resourceClaims" in client.create(probe, TEAM, dry_run=True).body.get("spec", {}), "called"
        )
        yield scheduler
    for name in (NODE, f"{NODE}-counters", f"{NODE}-nvidia", f"{NODE}-manager"):
        client.delete(GROUP, "resourceslices", name)
    for name in (DRIVER, MANAGER_CLASS, *CLASSES):
        client.delete(GROUP, "deviceclasses", name)
    client.delete("v1", "nodes", NODE)


@pytest.fixture(autouse=True)
def _nothing_left(plane: ControlPlane) -> Iterator[None]:
    """Each test has the whole card."""
    yield
    client = plane.client
    for each in client.list("v1", "pods", TEAM):
        client.delete("v1", "pods", each["metadata"]["name"], TEAM)
    plane.wait_until(lambda: not client.list(GROUP, "resourceclaims", TEAM), "claims gone")


def bound(plane: ControlPlane, name: str) -> Object:
    """The pod, once it is bound."""

    def found() -> Object | None:
        stored = plane.client.get("v1", "pods", name, TEAM).accepted()
        return stored if stored["spec"].get("nodeName") else None

    return plane.wait_until(found, f"{name} bound")


def allocated(plane: ControlPlane, stored: Object) -> list[Object]:
    """The devices that the claims of a pod were given."""
    claims = [each["resourceClaimName"] for each in stored["status"]["resourceClaimStatuses"]]
    read = [plane.client.get(GROUP, "resourceclaims", name, TEAM).accepted() for name in claims]
    return [result for each in read for result in each["status"]["allocation"]["devices"]["results"]]


def consumed(plane: ControlPlane, stored: Object) -> list[dict[str, str]]:
    """What each claim of a pod was given of the card."""
    return [result["consumedCapacity"] for result in allocated(plane, stored)]


def wait_pending(plane: ControlPlane, name: str) -> None:
    """Wait until the scheduler has found no node for a pod."""

    def unschedulable() -> bool:
        conditions = plane.client.get("v1", "pods", name, TEAM).accepted()["status"].get("conditions", [])
        return any((each["type"], each["status"]) == ("PodScheduled", "False") for each in conditions)

    plane.wait_until(unschedulable, f"{name} pending")


def templates_of(plane: ControlPlane, requests: Iterable[tuple[dict[str, Any], ...]], **metadata: Any) -> set[str]:
    """The templates that pods would have, with a container for each request; they would have no limits any more."""
    names = set()
    for number, limits in enumerate(requests):
        shown = plane.client.create(pod(f"shown-{number}", *limits, **metadata), TEAM, dry_run=True).accepted()
        assert shown["metadata"]["labels"][CLAIM] == "true"
        assert not any(each["resources"].get("limits") for each in shown["spec"]["containers"])
        names |= {claim["resourceClaimTemplateName"] for claim in shown["spec"]["resourceClaims"]}
    return names


def test_bound_with_what_was_requested(plane: ControlPlane) -> None:
    """The claim has exactly that, and the scheduler is Kubernetes' own; in whatever keys, there is one template."""
    (name,) = templates_of(plane, ((limits,) for limits in REQUESTS.values()))
    for vendor in ("vcuda", "nvidia"):
        plane.client.create(pod(f"{vendor}-share", REQUESTS[vendor]), TEAM).accepted()
        stored = bound(plane, f"{vendor}-share")
        assert stored["spec"]["resourceClaims"][0]["resourceClaimTemplateName"] == name
        assert (stored["spec"]["nodeName"], stored["spec"]["schedulerName"]) == (NODE, "default-scheduler")
        assert consumed(plane, stored) == [{"cores": "30", "memory": "4Gi"}]
    assert name in {each["metadata"]["name"] for each in plane.client.list(GROUP, RESOURCE, TEAM)}


def test_a_whole_device(plane: ControlPlane) -> None:
    """In any keys: nobody else gets a part of it, until it is free again."""
    plane.client.create(pod("whole", WHOLE["vcuda"]), TEAM).accepted()
    stored = bound(plane, "whole")
    assert consumed(plane, stored) == [{"cores": "100", "memory": f"{CARD_GIB}Gi"}]
    (name,) = templates_of(plane, ((limits,) for limits in WHOLE.values()))
    assert stored["spec"]["resourceClaims"][0]["resourceClaimTemplateName"] == name
    plane.client.create(pod("share", REQUESTS["vcuda"]), TEAM).accepted()
    wait_pending(plane, "share")
    plane.client.delete("v1", "pods", "whole", TEAM)
    bound(plane, "share")


def test_no_limit_of_cores_takes_none(plane: ControlPlane) -> None:
    """Without cores the driver would give all: a second pod would not fit."""
    memory_only = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 4096}
    for name in ("a", "b"):
        plane.client.create(pod(name, memory_only), TEAM).accepted()
        assert consumed(plane, bound(plane, name)) == [{"cores": "0", "memory": "4Gi"}]


def test_devices_that_a_pod_selects(plane: ControlPlane) -> None:
    """By parts of the model's name and by uuid: the card, or others, which there are none of."""
    for number, annotations in enumerate(_TABLES["selects"]):
        plane.client.create(pod(f"on-{number}", REQUESTS["nvidia"], annotations=annotations), TEAM).accepted()
        if number < 3:  # With 30 % of the cores each; the scheduler does not keep to the order of creation.
            bound(plane, f"on-{number}")
    for number, annotations in enumerate(_TABLES["selects_others"]):
        plane.client.create(pod(f"off-{number}", REQUESTS["nvidia"], annotations=annotations), TEAM).accepted()
        wait_pending(plane, f"off-{number}")
    plane.client.delete("v1", "pods", "on-0", TEAM)
    bound(plane, "on-3")


TO_NVIDIA = {"annotations": {TARGET: "dra-nvidia"}}


def test_slices_by_their_profile(plane: ControlPlane) -> None:
    """Each container has slices of its profile, and the whole card waits until they are gone."""
    client = plane.client
    limits = ({"nvidia.com/mig-2g.20gb": 2}, {"nvidia.com/mig-1g.10gb.me": 1})
    client.create(pod("slices", *limits, **TO_NVIDIA), TEAM).accepted()
    devices = sorted(each["device"] for each in allocated(plane, bound(plane, "slices")))
    assert [name.rpartition("-")[0] for name in devices] == ["gpu-0-mig-0", "gpu-0-mig-0", "gpu-0-mig-1"]
    whole = {"nvidia.com/gpu": 1, "nvidia.com/gpumem-percentage": 100, "nvidia.com/gpucores": 100}
    client.create(pod("whole", whole, **TO_NVIDIA), TEAM).accepted()
    wait_pending(plane, "whole")
    client.delete("v1", "pods", "slices", TEAM)
    assert [each["device"] for each in allocated(plane, bound(plane, "whole"))] == ["gpu-0"]
    client.create(pod("slice", {"nvidia.com/mig-1g.10gb": 1}, **TO_NVIDIA), TEAM).accepted()
    wait_pending(plane, "slice")


TO_MANAGER = {"annotations": {TARGET: "dra-vgpu-manager"}}


def of_requests(plane: ControlPlane, stored: Object) -> dict[str, tuple[str, dict[str, str]]]:
    """The device of each container that has a request of a claim, and what it consumes of it."""
    found = {result["request"]: result for result in allocated(plane, stored)}
    results = {
        container["name"]: found[claim["request"]]
        for container in stored["spec"]["containers"]
        for claim in container["resources"]["claims"]
    }
    return {name: (result["device"], result["consumedCapacity"]) for name, result in results.items()}


def memory_of(*gibibytes: int) -> tuple[dict[str, Any], ...]:
    """So many gibibytes of the device that all containers of the pod are on."""
    return tuple({"aliyun.com/gpu-mem": each} for each in gibibytes)


def test_containers_on_one_device(plane: ControlPlane) -> None:
    """One claim, whose requests are of one device, each with its own amount, also if they are equal."""
    plane.client.create(pod("one", *memory_of(30, 20, 20), **TO_MANAGER), TEAM).accepted()
    stored = bound(plane, "one")
    (claim,) = stored["spec"]["resourceClaims"]
    legacy = tuple({"volcano.sh/gpu-memory": gibibytes * 1024} for gibibytes in (30, 20, 20))
    assert templates_of(plane, [legacy], **TO_MANAGER) == {claim["resourceClaimTemplateName"]}
    found = of_requests(plane, stored)
    assert [consumed["memory"] for _, consumed in found.values()] == ["30Gi", "20Gi", "20Gi"]
    assert len(allocated(plane, stored)) == 3
    assert len({device for device, _ in found.values()}) == 1


def test_a_dry_run_creates_nothing(plane: ControlPlane) -> None:
    """The pod is shown as it would be stored."""
    odd = {"tencent.com/vcuda-core": 17, "tencent.com/vcuda-memory": 3}
    before = {each["metadata"]["name"] for each in plane.client.list(GROUP, RESOURCE, TEAM)}
    shown = plane.client.create(pod("odd", odd), TEAM, dry_run=True).accepted()
    assert shown["spec"]["resourceClaims"][0]["resourceClaimTemplateName"] not in before
    assert {each["metadata"]["name"] for each in plane.client.list(GROUP, RESOURCE, TEAM)} == before


@pytest.mark.parametrize(
    "limits, metadata, memory",
    [
        ([{"tencent.com/vcuda-core": 23, "tencent.com/vcuda-memory": 7}], {}, ["1792Mi"]),
        (memory_of(7, 5), TO_MANAGER, ["7Gi", "5Gi"]),
    ],
    ids=["one request", "several"],
)
def test_a_template_that_is_deleted_comes_back(
    plane: ControlPlane, limits: Sequence[dict[str, Any]], metadata: dict[str, Any], memory: list[str]
) -> None:
    """The pod waits without it, and is bound when it is made up for, from the pod's status, which has each request."""
    shown = plane.client.create(pod("late", *limits, **metadata), TEAM, dry_run=True).accepted()
    bare = {"apiVersion": "v1", "kind": "Pod", "metadata": shown["metadata"], "spec": shown["spec"]}
    for key in ("uid", "creationTimestamp", "managedFields", "resourceVersion", "namespace"):
        bare["metadata"].pop(key, None)
    # As a replica leaves it that is killed between its answer and the template: another one has admitted this pod already.
    plane.client.create(bare, TEAM).accepted()
    name = shown["spec"]["resourceClaims"][0]["resourceClaimTemplateName"]
    plane.client.delete(GROUP, RESOURCE, name, TEAM)
    stored = bound(plane, "late")
    found = consumed(plane, stored) if len(memory) == 1 else [each for _, each in of_requests(plane, stored).values()]
    assert [each["memory"] for each in found] == memory
