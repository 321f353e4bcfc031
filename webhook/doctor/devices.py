"""What ResourceSlices offer, and whether a request of a claim can ever be given of it, regardless of what is free now.

Source of the rules: ``k8s.io/dynamic-resource-allocation/structured`` 0.36.3 (`consumable_capacity.go`). A CEL expression is
understood in part: what is not, is assumed to hold, so that nothing is reported that could be allocated.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

import msgspec

from webhook.mapping.model.vendor import Key
from webhook.mapping.requests.templates import selects_value
from webhook.pod import View
from webhook.quantity import Number, QuantityError, ceil_to, parse_quantity, simplest, stored_text


class _Range(View, frozen=True):
    min: str | None = None
    max: str | None = None
    step: str | None = None


class _Policy(View, frozen=True):
    default: str | None = None
    valid_range: _Range | None = None
    valid_values: list[str] | None = None


class DeviceCapacity(View, frozen=True):
    """A capacity of a device, with the policy that rounds requests of it."""

    value: str = "0"
    request_policy: _Policy | None = None

    def consumed(self, requested: str | None) -> Number:
        """Return what a request takes of it, rounded up; without one, the default.

        Raises:
            QuantityError: a number is beyond what we read.
        """
        policy = self.request_policy or _Policy()
        if requested is None:
            return parse_quantity(policy.default or self.value)
        number = parse_quantity(requested)
        limits = policy.valid_range
        if limits is not None and limits.min is not None:
            least = parse_quantity(limits.min)
            if number < least or limits.step is None:
                return max(number, least)
            return simplest(least + ceil_to(number - least, parse_quantity(limits.step)))
        return min((each for each in map(parse_quantity, policy.valid_values or ()) if each >= number), default=number)

    @property
    def most(self) -> Number:
        """The largest request that is given.

        Raises:
            QuantityError: a number is beyond what we read.
        """
        value, policy = parse_quantity(self.value), self.request_policy or _Policy()
        limits = policy.valid_range
        if limits is None:
            return max(
                (each for each in map(parse_quantity, policy.valid_values or ()) if each <= value), default=value
            )
        most = value if limits.max is None else min(value, parse_quantity(limits.max))
        if limits.min is None or limits.step is None:
            return most
        least, step = parse_quantity(limits.min), parse_quantity(limits.step)
        return simplest(least + (most - least) // step * step)


class _Attribute(View, frozen=True):
    string: str | None = None
    version: str | None = None
    flag: bool | None = msgspec.field(default=None, name="bool")
    number: int | None = msgspec.field(default=None, name="int")


class Device(View, frozen=True):
    """A device of a ResourceSlice."""

    allow_multiple_allocations: bool | None = None
    attributes: dict[str, _Attribute] | None = None
    capacity: dict[str, DeviceCapacity] | None = None
    node_name: str | None = None

    def attribute(self, driver: str, name: str) -> str | bool | int | None:
        """Return an attribute of its driver; None if it has none of this name."""
        attributes = self.attributes or {}
        found = attributes.get(name) or attributes.get(f"{driver}/{name}") or _Attribute()
        texts = (found.string, found.version, found.flag, found.number)
        return next((each for each in texts if each is not None), None)


class _Pool(View, frozen=True):
    name: str = ""
    generation: int = 0


class _SliceSpec(View, frozen=True):
    driver: str = ""
    pool: _Pool = _Pool()
    node_name: str | None = None
    devices: list[Device] | None = None


class ResourceSlice(View, frozen=True):
    """A ResourceSlice: devices that a driver offers."""

    spec: _SliceSpec = _SliceSpec()


class Offer(NamedTuple):
    """A device, and the node that has it; None if it is not said by a name, so that it may be any."""

    device: Device
    node: str | None


def offers(slices: Iterable[ResourceSlice], driver: str) -> list[Offer]:
    """Return all devices of a driver: those of a pool's newest generation, the only one that the scheduler looks at."""
    own = [each.spec for each in slices if each.spec.driver == driver]
    newest: dict[str, int] = {}
    for spec in own:
        newest[spec.pool.name] = max(spec.pool.generation, newest.get(spec.pool.name, 0))
    return [
        Offer(device, device.node_name or spec.node_name)
        for spec in own
        if spec.pool.generation == newest[spec.pool.name]
        for device in spec.devices or ()
    ]


_TERM: Final = re.compile(
    r"device\.(?:(?P<field>driver|allowMultipleAllocations)|attributes\['(?P<driver>[^'\\]+)'\]\.(?P<name>\w+))"
    r" *== *(?:'(?P<text>[^'\\]*)'|(?P<flag>true|false))"
)
_ALTERNATIVES: Final = re.compile(r"[|?()!]|\"")


def may_hold(expression: str, device: Device, driver: str) -> bool:
    """Return whether a CEL expression may hold for a device: False only if it is known not to.

    Understood are comparisons with texts and with ``true``, all of which have to hold.
    """
    if _ALTERNATIVES.search(expression):
        return True
    terms = (_TERM.fullmatch(term.strip()) for term in expression.split("&&"))
    return all(term is None or _holds(term, device, driver) for term in terms)


def _holds(term: re.Match[str], device: Device, driver: str) -> bool:
    wanted: str | bool = term["text"] if term["flag"] is None else term["flag"] == "true"
    if term["field"] == "driver":
        return wanted == driver
    if term["field"]:
        return wanted == bool(device.allow_multiple_allocations)
    return wanted == device.attribute(term["driver"], term["name"])


@dataclass(frozen=True, slots=True)
class Demand:
    """What one request of a claim needs.

    Attributes:
        device_class: the name of its class.
        count: how many devices.
        capacities: what it requests of each.
        texts: keys of attributes, with what they say.
    """

    device_class: str
    count: int
    capacities: Mapping[str, str]
    texts: Sequence[tuple[Key, str]]


def obstacle(
    demands: Sequence[Demand],
    driver: str,
    distinct: str | None,
    offered: Iterable[Offer],
    classes: Mapping[str, Sequence[str]],
) -> str | None:
    """Return why no device can ever be allocated for a claim; None if nothing is known to be in the way.

    Args:
        demands: its requests; several are of one device.
        driver: the driver of its devices.
        distinct: an attribute that each device must have.
        offered: all devices of the driver.
        classes: the CEL expressions of each DeviceClass.
    """
    left = list(offered)
    if not left:
        return f"{driver} offers no device"
    for holds, reason in _conditions(demands, driver, distinct, classes):
        left = [each for each in left if holds(each.device)]
        if not left:
            return f"no such device of {driver} {reason}"
    fitting = [each for each in left if _fits(each.device, demands)]
    if not fitting:
        return _too_much(demands, driver, [each.device for each in left])
    needed, most = max(demand.count for demand in demands), _most_on_a_node(fitting)
    if needed > most:
        return f"{needed} devices of one node: no node has more than {most} such devices of {driver}"
    return None


def _conditions(
    demands: Sequence[Demand], driver: str, distinct: str | None, classes: Mapping[str, Sequence[str]]
) -> Iterator[tuple[Callable[[Device], bool], str]]:
    """What must hold for a device, whatever its capacities; each with the rest of the sentence that no device does."""
    for demand in demands:
        for expression in classes.get(demand.device_class, ()):
            holds = partial(may_hold, expression, driver=driver)
            yield holds, f"is of the DeviceClass {demand.device_class}"
        for key, text in demand.texts:
            yield (
                partial(_is_selected, driver=driver, key=key, text=text),
                f"has a {key.document.claim} as selected: {text}",
            )
    if distinct is not None:
        yield lambda device: device.attribute(driver, distinct) is not None, f"has the attribute {distinct}"
    if len(demands) > 1:
        yield lambda device: bool(device.allow_multiple_allocations), f"may be shared by {len(demands)} requests"


def _is_selected(device: Device, driver: str, key: Key, text: str) -> bool:
    value = device.attribute(driver, key.document.claim or "")
    return isinstance(value, str) and selects_value(key, text, value)


def _fits(device: Device, demands: Sequence[Demand]) -> bool:
    """Whether a device that is free has enough for all of the requests together."""
    capacities = device.capacity or {}
    if any(name not in capacities for demand in demands for name in demand.capacities):
        return False
    try:
        return all(
            sum(consumed) <= parse_quantity(capacity.value)
            and all(
                each <= capacity.most
                for each, demand in zip(consumed, demands, strict=True)
                if name in demand.capacities
            )
            for name, capacity in capacities.items()
            if (consumed := [capacity.consumed(demand.capacities.get(name)) for demand in demands])
        )
    except QuantityError:
        return True


def _too_much(demands: Sequence[Demand], driver: str, devices: Sequence[Device]) -> str:
    """What is requested, and the most that some device gives of each capacity."""
    names = dict.fromkeys(name for demand in demands for name in demand.capacities)
    wanted = (f"{name} {' + '.join(each.capacities.get(name, '0') for each in demands)}" for name in names)
    offered = [device.capacity or {} for device in devices]
    most = (_most_text(name, [each[name] for each in offered if name in each]) for name in names)
    return f"{', '.join(wanted)}: no device of {driver} gives that; the most is {', '.join(most)}"


def _most_text(name: str, capacities: Sequence[DeviceCapacity]) -> str:
    if not capacities:
        return f"no {name}"
    try:
        most = max(capacity.most for capacity in capacities)
    except QuantityError:
        return f"an unknown {name}"
    return f"{name} {stored_text(int(most), binary=True)}"


def _most_on_a_node(offered: Sequence[Offer]) -> int:
    """How many of these devices a pod on one node may have."""
    nodes = Counter(each.node for each in offered)
    anywhere = nodes.pop(None, 0)
    return anywhere + max(nodes.values(), default=0)
