"""Amounts as documents and annotations write them."""

import pytest

from tests.naming import each_of
from webhook.mapping.notation import parse_cores, parse_memory, parse_unit
from webhook.quantity import Number, parse_quantity
from webhook.request import ALL, UNLIMITED, Cores, Memory, Percent, Size


@each_of(
    "written, memory",
    [
        ("all", ALL),
        ("unlimited", UNLIMITED),
        ("4Gi", Size(4 * 1024**3)),
        (1, Size(1)),
        (0, None),
        ("0k", None),
        ("5M", Size(5_000_000)),
    ],
)
def test_memory(written: str | int, memory: Memory | None) -> None:
    """All of a device, no limit, a size; 0 says nothing."""
    assert parse_memory(written) == memory


@each_of(
    "written, cores",
    [
        ("unlimited", UNLIMITED),
        (30, Percent(30)),
        ("30%", Percent(30)),
        ("0.5", Percent(parse_quantity("0.5"))),
        (0, None),
    ],
)
def test_cores(written: str | int, cores: Cores | None) -> None:
    """No limit or a percentage, with or without its sign; 0 says nothing."""
    assert parse_cores(written) == cores


@each_of(
    "written, unit, sized",
    [
        ("256Mi", 256 * 1024**2, True),
        (1, 1, True),
        ("1%", 1, False),
        ("6.25%", parse_quantity("6250m"), False),
        ("50%", 50, False),
    ],
)
def test_unit(written: str | int, unit: Number, sized: bool) -> None:  # noqa: FBT001
    """Bytes, or percent of a device."""
    assert parse_unit(written) == (unit, sized)


@each_of("written", ["", "most", "-1", "50%", "1e99", "4 Gi"])
def test_what_is_no_memory(written: str) -> None:
    """Percentages belong to keys; nothing below zero."""
    with pytest.raises(ValueError, match=r"below zero|write `all`"):
        parse_memory(written)


@each_of("written", ["", "all", "-1", "101", "100.1%", "5%%"])
def test_what_are_no_cores(written: str) -> None:
    """From 0 to 100."""
    with pytest.raises(ValueError, match="from 0 to 100"):
        parse_cores(written)


@each_of("written", ["", "0", "0%", "-1Mi", "%", "Mi"])
def test_what_is_no_unit(written: str) -> None:
    """A unit is worth something."""
    with pytest.raises(ValueError, match=r"above 0|write a size"):
        parse_unit(written)
