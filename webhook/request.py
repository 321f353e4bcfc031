"""What one container asks for, in canonical terms: exact, per device, and the same for every vendor.

| field | values |
|---|---|
| `Request.devices` | a count of devices from 1, or None: the pod did not say |
| `Request.memory` | per device: `Size` (bytes), `Percent` of a device, `FREE` (no size, no limit), or None |
| `Request.cores` | per device: `Percent` of a device, `FREE` (no limit, nothing reserved), or None |

None lives only between reading and settling. All of a device is ``Percent(100)``; a whole, exclusive device is that for memory
and for cores, and there is no flag for it.
"""

import enum
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Literal, TypeAlias

from webhook.quantity import MIB, Number, bytes_text, exact_text, number_text


@dataclass(frozen=True, slots=True)
class Size:
    """Memory of one device, in exact bytes."""

    bytes: Number

    def __str__(self) -> str:
        return bytes_text(self.bytes)


@dataclass(frozen=True, slots=True)
class Percent:
    """A part of one device's memory or cores, above 0 and at most 100."""

    value: Number

    def __str__(self) -> str:
        return f"{number_text(self.value)} %"


class Free(enum.Enum):
    """The one value of a dimension that is not limited."""

    FREE = "no limit"

    def __str__(self) -> str:
        return self.value


FREE: Final = Free.FREE
ALL: Final = Percent(100)
"""All of a device's memory, or all of its cores."""

MAX_DEVICES: Final = 4096
"""Devices of one container; more is a size that was written for a count (``nvidia.com/gpu: 8Gi``)."""

Memory: TypeAlias = Size | Percent | Free
Cores: TypeAlias = Percent | Free
Dimension: TypeAlias = Literal["devices", "memory", "cores"]
DIMENSIONS: Final[tuple[Dimension, ...]] = ("devices", "memory", "cores")


def amount_text(amount: Memory | None) -> str:
    """An amount of one device, exactly, as the status has it: ``4096Mi``, ``0.5Mi``, ``50%``, ``free``."""
    if isinstance(amount, Size):
        return f"{exact_text(Fraction(amount.bytes) / MIB)}Mi"
    return f"{exact_text(amount.value)}%" if isinstance(amount, Percent) else "free"


@dataclass(frozen=True, slots=True)
class Request:
    """A GPU request of one container; see the module's table for what the fields hold."""

    devices: int | None = None
    memory: Memory | None = None
    cores: Cores | None = None

    @property
    def whole(self) -> bool:
        """Whole, exclusive devices: shim, guard and several refusals concern only what is not."""
        return self.memory == ALL and self.cores == ALL

    @property
    def settled(self) -> bool:
        """Every dimension is known."""
        return self.devices is not None and self.memory is not None and self.cores is not None

    def __str__(self) -> str:
        cards = "? devices" if self.devices is None else "1 device" if self.devices == 1 else f"{self.devices} devices"
        if self.whole:
            return f"{cards}, whole"
        memory = "memory not said" if self.memory is None else f"memory {self.memory}"
        cores = "cores not said" if self.cores is None else f"cores {self.cores}"
        return f"{cards}, each with {memory}, {cores}"
