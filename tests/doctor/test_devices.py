"""What a device allows: rounding by its policy, CEL that is understood, and why a claim would stay Pending."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest

from webhook.doctor.devices import Demand, Device, DeviceCapacity, ResourceSlice, may_hold, obstacle, offers
from webhook.mapping.load import load_policy

DRIVER = "gpu.example"
KEYS = load_policy().vendors["dra-hami"].keys
RANGE = {"min": "1Gi", "step": "2Gi", "max": "9Gi"}


def capacity(value: str, **policy: Any) -> DeviceCapacity:
    """A capacity with a policy."""
    return msgspec.convert({"value": value, "requestPolicy": policy or None}, DeviceCapacity)


def device(memory: str = "80Gi", *, shared: bool = True, **more: Any) -> dict[str, Any]:
    """A device with memory and cores."""
    texts = {"uuid": "GPU-0", "productName": "Tesla T4"} | more.pop("texts", {})
    attributes = {name: {"string": text} for name, text in texts.items()}
    sizes = {"memory": {"value": memory}, "cores": {"value": "100", "requestPolicy": {"default": "100"}}}
    return {"allowMultipleAllocations": shared, "attributes": attributes, "capacity": sizes, **more}


def slice_of(
    *devices: dict[str, Any], node: str | None = "n1", driver: str = DRIVER, pool: str = "p", generation: int = 1
) -> ResourceSlice:
    """A slice of a node."""
    spec = {"driver": driver, "nodeName": node, "devices": devices, "pool": {"name": pool, "generation": generation}}
    return msgspec.convert({"metadata": {"name": "s"}, "spec": spec}, ResourceSlice)


def demand(memory: str | None = "4Gi", count: int = 1, **texts: str) -> Demand:
    """A request of a claim, without a limit of cores."""
    capacities = {} if memory is None else {"memory": memory, "cores": "0"}
    return Demand("share", count, capacities, [(KEYS[name], text) for name, text in texts.items()])


def why(
    demands: Demand | Sequence[Demand], *slices: ResourceSlice, classes: Mapping[str, Sequence[str]] | None = None
) -> str:
    """What is in the way; empty if nothing is."""
    several = [demands] if isinstance(demands, Demand) else demands
    return obstacle(several, DRIVER, "uuid", offers(slices, DRIVER), classes or {}) or ""


@pytest.mark.parametrize(
    "found, requested, consumed, most",
    [
        (capacity("80Gi"), "4Gi", "4Gi", "80Gi"),
        (capacity("80Gi"), "100Gi", "100Gi", "80Gi"),
        (capacity("80Gi"), None, "80Gi", "80Gi"),
        (capacity("80Gi", default="0"), None, "0", "80Gi"),
        (capacity("80Gi", validRange=RANGE), "1", "1Gi", "9Gi"),
        (capacity("80Gi", validRange=RANGE), "1Gi", "1Gi", "9Gi"),
        (capacity("80Gi", validRange=RANGE), "3221225473", "5Gi", "9Gi"),
        (capacity("80Gi", validRange=RANGE), "9.5Gi", "11Gi", "9Gi"),
        (capacity("8Gi", validRange={"min": "1Gi", "step": "2Gi"}), "8Gi", "9Gi", "7Gi"),
        (capacity("8Gi", validRange={"min": "1Gi"}), "4.5Gi", "4.5Gi", "8Gi"),
        (capacity("8Gi", validRange={"min": "1Gi", "max": "4Gi"}), "1Mi", "1Gi", "4Gi"),
        (capacity("80Gi", validValues=["10Gi", "20Gi", "40Gi"]), "11Gi", "20Gi", "40Gi"),
        (capacity("80Gi", validValues=["10Gi", "20Gi", "40Gi"]), "50Gi", "50Gi", "40Gi"),
    ],
)
def test_rounding(found: DeviceCapacity, requested: str | None, consumed: str, most: str) -> None:
    """As the scheduler does it: up, from the least on; what no step or value covers is beyond the most."""
    exact = capacity(consumed), capacity(most)
    assert (found.consumed(requested), found.most) == tuple(each.consumed(None) for each in exact)


T4 = msgspec.convert(device(), Device)
OF_TYPE = "device.driver == 'gpu.example' && device.attributes['gpu.example'].productName == {}"


@pytest.mark.parametrize(
    "expression, holds",
    [
        ("device.driver == 'gpu.example'", True),
        ("device.driver == 'other.example'", False),
        ("device.driver == 'gpu.example' && device.allowMultipleAllocations == true", True),
        ("device.driver == 'gpu.example' && device.allowMultipleAllocations == false", False),
        (OF_TYPE.format("'Tesla T4'"), True),
        (OF_TYPE.format("'A100'"), False),
        ("device.attributes['gpu.example'].absent == 'x'", False),
        # Not understood, whatever they say: they may hold.
        ("device.driver == 'other.example' || true", True),
        ("!(device.driver != 'x' && device.driver == 'other.example' && true)", True),
        ("device.driver == 'other.example' ? false : true", True),
        ('device.driver == "other.example"', True),
        ("device.capacity['gpu.example'].memory.isGreaterThan(quantity('1Gi'))", True),
        ("device.driver != 'gpu.example'", True),
        ("", True),
    ],
)
def test_expressions(*, expression: str, holds: bool) -> None:
    """Only what is understood excludes a device."""
    assert may_hold(expression, T4, DRIVER) is holds


MODELS = {"uuid": "GPU-1", "productName": "NVIDIA A100-SXM4-80GB"}
TWO = slice_of(device("16Gi"), device("80Gi", texts=MODELS))


@pytest.mark.parametrize(
    "demands, slices, reason",
    [
        (demand(), [slice_of(device())], ""),
        (demand("80Gi"), [slice_of(device("16Gi")), slice_of(device())], ""),
        (demand("81Gi"), [TWO], "memory 81Gi, cores 0: no device of gpu.example gives that; the most is memory 80Gi"),
        (demand(None), [TWO], ""),
        (demand(), [], "gpu.example offers no device"),
        (demand(), [slice_of(device(), driver="other.example")], "gpu.example offers no device"),
        (demand(model="a100,h100"), [TWO], ""),
        (demand(model="h100"), [TWO], "no such device of gpu.example has a productName as selected: h100"),
        (demand(model="!tesla,!nvidia a100"), [TWO], "has a productName as selected: !tesla,!nvidia a100"),
        (demand("20Gi", model="tesla"), [TWO], "gives that; the most is memory 16Gi, cores 100"),
        (demand(uuid="GPU-1"), [TWO], ""),
        (demand(uuid="GPU"), [TWO], "has a uuid as selected: GPU"),
        (demand(count=2), [TWO], ""),
        (demand("20Gi", count=2), [TWO], "2 devices of one node: no node has more than 1 such devices of gpu.example"),
        (demand(count=2), [slice_of(device()), slice_of(device(), node="n2")], "no node has more than 1"),
        (demand(count=2), [slice_of(device()), slice_of(device(), node=None)], ""),
        ([demand("50Gi"), demand("30Gi")], [TWO], ""),
        ([demand("50Gi"), demand("40Gi")], [TWO], "memory 50Gi + 40Gi, cores 0 + 0: no device"),
        ([demand("5Gi"), demand("4Gi")], [slice_of(device(shared=False))], "may be shared by 2 requests"),
        ([demand(None), demand(None)], [TWO], ": no device of gpu.example gives that"),
    ],
)  # fmt: skip
def test_obstacles(demands: Demand | Sequence[Demand], slices: Sequence[ResourceSlice], reason: str) -> None:
    """Each thing that leaves no device, with what is requested and what there is."""
    found = why(demands, *slices)
    assert reason in found
    assert bool(found) is bool(reason)


def test_older_generations_of_a_pool() -> None:
    """Their devices do not count: the driver has replaced them, and the scheduler leaves them out."""
    old, new = slice_of(device("80Gi"), generation=1), slice_of(device("16Gi"), generation=2)
    for slices in ([old, new], [new, old]):
        assert "the most is memory 16Gi" in why(demand("20Gi"), *slices)
    assert why(demand("20Gi"), slice_of(device("80Gi"), pool="other"), new) == ""
    assert why(demand("20Gi"), old, slice_of(device("16Gi"), driver="other.example", generation=2)) == ""


def test_the_class_and_the_attribute() -> None:
    """Devices that the class does not have do not count, nor those without what tells them apart."""
    shared = {"share": ["device.allowMultipleAllocations == true"]}
    slices = [slice_of(device("16Gi")), slice_of(device("80Gi", shared=False))]
    assert why(demand("20Gi"), *slices) == ""
    assert "the most is memory 16Gi" in why(demand("20Gi"), *slices, classes=shared)
    assert why(demand(), slices[1], classes=shared) == "no such device of gpu.example is of the DeviceClass share"
    nameless = slice_of(device(attributes={}))
    assert why(demand(), nameless) == "no such device of gpu.example has the attribute uuid"


def test_a_capacity_that_is_not_there() -> None:
    """No device is ever chosen for one that it lacks; a number beyond ours is left to the scheduler."""
    bare = slice_of(device() | {"capacity": {"memory": {"value": "80Gi"}}})
    assert why(demand(), bare).endswith("the most is memory 80Gi, no cores")
    huge = slice_of(device("99999E"))
    assert why(demand(), huge) == ""
