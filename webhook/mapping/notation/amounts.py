"""Amounts in mapping documents and namespace annotations: ``all``, ``unlimited``, ``5000Mi``, ``30``, ``6.25%``."""

from fractions import Fraction

from webhook.quantity import MIB, Number, QuantityError, parse_quantity, simplest
from webhook.request import ALL, UNLIMITED, Cores, Memory, Percent, Size


def parse_memory(written: str | int) -> Memory | None:
    """Parse memory of one device: ``all``, ``unlimited``, or a quantity of bytes; None for 0.

    Raises:
        ValueError: none of these.
    """
    if written == "all":
        return ALL
    if written == "unlimited":
        return UNLIMITED
    try:
        size = parse_quantity(str(written))
    except QuantityError as error:
        raise ValueError(f"{error}: write `all`, `unlimited` or a size such as `4Gi`") from None
    if size < 0:
        raise ValueError(f"{written} is below zero")
    return Size(size) if size else None


def parse_default_memory(written: str | int) -> Memory | None:
    """Parse memory of one device as a default: ``all``, or a size of at least 1 MiB with a suffix; None for 0.

    Raises:
        ValueError: none of these; a bare number is ambiguous, because keys have units of their own.
    """
    if written in {"all", 0, "0"}:
        return ALL if written == "all" else None
    text = str(written)
    if not text[-1:].isalpha():
        raise ValueError("a bare number is ambiguous: write a size such as 4Gi, or all")
    try:
        size = parse_quantity(text)
    except QuantityError as error:
        raise ValueError(f"{error}: write `all` or a size such as `4Gi`") from None
    if size < MIB:
        raise ValueError(f"{text} is less than 1Mi: write a size such as 4Gi, or all")
    return Size(size)


def parse_cores(written: str | int) -> Cores | None:
    """Parse cores of one device: ``unlimited``, or a percentage from 0 to 100 with or without ``%``; None for 0.

    Raises:
        ValueError: none of these.
    """
    if written == "unlimited":
        return UNLIMITED
    try:
        percent = parse_quantity(str(written).removesuffix("%"))
    except QuantityError as error:
        raise ValueError(f"{error}: write `unlimited` or a percentage from 0 to 100") from None
    if not 0 <= percent <= ALL.value:
        raise ValueError(f"{written} is not a percentage from 0 to 100")
    return Percent(percent) if percent else None


def parse_unit(written: str | int) -> tuple[Number, bool]:
    """Parse the unit of a key: bytes and True, or percent of a device and False.

    Raises:
        ValueError: not a quantity above 0.
    """
    text = str(written)
    sized = not text.endswith("%")
    try:
        unit = simplest(Fraction(parse_quantity(text.removesuffix("%"))))
    except QuantityError as error:
        raise ValueError(f"{error}: write a size such as `256Mi`, or a percentage of a device such as `1%`") from None
    if unit <= 0:
        raise ValueError(f"{written} is not above 0")
    return unit, sized
