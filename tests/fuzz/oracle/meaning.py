"""What a request means: devices, and for each of them memory and cores."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

MIB = 1024**2
GIB = 1024**3
LARGEST = 1024**4
"""Bytes; no device has more memory."""
MOST_DEVICES = 4096
"""No node has more."""

Number = int | Fraction
Amount = tuple[str, Number]
"""``("size", bytes)``, ``("percent", of a device)`` or `UNLIMITED`."""

ALL: Amount = ("percent", 100)
UNLIMITED: Amount = ("unlimited", 0)


class Denied(Exception):  # noqa: N818  (it is what the vendor does)
    """The vendor rejects or ignores such a request, or no device can hold it.

    The message says why in keys that are the same for all such requests, then perhaps after a colon which numbers these are.
    """


class Lacks(Denied):
    """The count is missing, without which the vendor ignores the rest; a default may complete it."""


class Unsure(Exception):  # noqa: N818  (it is no error)
    """The vendor's documentation does not say what this means."""


class Alone(Exception):  # noqa: N818  (nothing is wrong)
    """Another system serves the request by what else stands in the pod; nobody else may change anything."""


class Amounts(NamedTuple):
    """What a container gets."""

    devices: int
    memory: Amount
    cores: Amount

    @property
    def whole(self) -> bool:
        """Whole devices, used by nobody else."""
        return self.memory == ALL and self.cores == ALL


@dataclass(frozen=True, slots=True)
class Meaning:
    """What one container requests in the keys of a vendor; None: the pod does not specify it.

    Attributes:
        absent: what an unspecified dimension means to the vendor; where it is missing here, too, the request is none.
        corrected: keys whose number the vendor itself would raise.
    """

    vendor: str
    devices: int | None = None
    memory: Amount | None = None
    cores: Amount | None = None
    absent: Mapping[str, int | Amount] = field(default_factory=dict)
    corrected: bool = False

    @property
    def unset(self) -> frozenset[str]:
        """The dimensions that the pod does not specify."""
        dimensions = {"devices": self.devices, "memory": self.memory, "cores": self.cores}
        return frozenset(name for name, amount in dimensions.items() if amount is None)

    def amounts(self, filled: Mapping[str, int | Amount] | None = None) -> Amounts | None:
        """What the container gets with these defaults; None where something is still missing.

        Where all memory is taken nobody fits beside it, so no limit of the cores is all of them.
        """
        defaults = {**self.absent, **(filled or {})}
        devices = defaults.get("devices") if self.devices is None else self.devices
        memory = defaults.get("memory") if self.memory is None else self.memory
        cores = defaults.get("cores") if self.cores is None else self.cores
        if not isinstance(devices, int) or not isinstance(memory, tuple) or not isinstance(cores, tuple):
            return None
        return Amounts(devices, memory, ALL if memory == ALL and cores == UNLIMITED else cores)


def size(units: Number, unit: Number) -> Amount:
    """Memory of one device.

    Raises:
        Refused: no device has so much.
    """
    if units * unit > LARGEST:
        raise Denied("more memory than any device has")
    return ("size", units * unit)


def percent(number: Number) -> Amount:
    """A part of one device.

    Raises:
        Refused: more than all of it.
    """
    if number > 100:
        raise Denied("more than 100 %")
    return ("percent", number)


def count(number: Number) -> int:
    """Devices.

    Raises:
        Refused: no node has so many.
    """
    if number > MOST_DEVICES:
        raise Denied("more devices than any node has")
    return int(number)


def some_count(number: int | None) -> int | None:
    """The same, if there is one."""
    return None if number is None else count(number)


def some_percent(number: int | None) -> Amount | None:
    """Likewise."""
    return None if number is None else percent(number)


def share(total: Number, devices: int) -> Number:
    """What each device gets of a total that has to divide.

    Raises:
        Refused: it does not.
    """
    if total % devices:
        raise Denied(f"a total that does not divide: {total} by {devices}")
    return total // devices


def at_least(got: Amount, requested: Amount, card: Number | None = None) -> bool:
    """Whether an amount is at least the requested one: no limit stays so, a size stays a size, a percentage a percentage.

    On a device of so many bytes a size and a part are the same.
    """
    if got == ALL and requested[0] == "size":
        return True
    if card is not None and {got[0], requested[0]} == {"size", "percent"}:
        return in_bytes(got, card) >= in_bytes(requested, card)
    return got[0] == requested[0] and got[1] >= requested[1]


def in_bytes(amount: Amount, card: Number) -> Number:
    """A size, or a part of a device, in bytes."""
    return amount[1] if amount[0] == "size" else Fraction(amount[1] * card, 100)
