"""What the request of one container puts where, and the numbers in it."""

from collections.abc import Mapping
from typing import NamedTuple

from tests.fuzz.draw import Draw

Value = str | int | float


class Ask(NamedTuple):
    """What one container's request puts where; `listed` is its entry in a list of counts by position."""

    resources: dict[str, Value]
    labels: dict[str, str]
    annotations: dict[str, str]
    listed: str | None = None


def mib(draw: Draw) -> int:
    """MiB of one device: odd ones, and multiples of what other vendors count in."""
    return draw.pick((draw.whole(1, 82_000), 128 * draw.whole(1, 600), 1024 * draw.whole(1, 80)))


def cores(draw: Draw) -> int:
    """Percent."""
    return draw.pick((draw.whole(1, 99), draw.whole(1, 99), 5 * draw.whole(1, 20), 100))


def cards(draw: Draw) -> int:
    """Devices."""
    return draw.pick((1, 1, 1, 1, 2, 2, 3, 4, 8))


def some(draw: Draw, wanted: float, **parts: Value) -> dict[str, Value]:
    """Some of these parts, each with this probability."""
    return {name: value for name, value in parts.items() if draw.random() < wanted}


def under(prefix: str, parts: Mapping[str, Value]) -> Ask:
    """Resources under a prefix, named after their parts."""
    return Ask({f"{prefix}{name.replace('__', '.').replace('_', '-')}": value for name, value in parts.items()}, {}, {})
