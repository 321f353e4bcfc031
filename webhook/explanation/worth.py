"""Keys and amounts as text: the meaning of a number of a key, and of 1."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Final

from webhook.mapping.model.vendor import Key, Vendor
from webhook.quantity import MIB, Number, bytes_text, number_text
from webhook.request import ALL, UNLIMITED, Dimension, Memory, Percent

_OTHER: Final[Mapping[str, str]] = {
    "other": "belongs to the request, but is not an amount",
    "text": "a text that chooses between forms",
    "container": "names the container that requests",
}


def worth(vendor: Vendor, key: Key, number: Number) -> str:
    """Return the meaning of a number of a vendor's key: ``16 x 256 MiB = 4096 MiB (4 GiB) of memory per device``."""
    if key.kind != "amount":
        return _OTHER[key.kind]
    if number == 0:
        return "0: not specified"
    if key.unit is None:
        return f"its unit has to be configured: {key.why}"
    return " and ".join(_worth(vendor, key, dimension, number) for dimension in key.dimensions)


def unit_text(vendor: Vendor, key: Key) -> str:
    """Return the meaning of 1 of a vendor's key."""
    if key.kind != "amount":
        return _OTHER[key.kind]
    if key.unit is None:
        return f"to be configured: {key.why}"
    return " and ".join(_unit(vendor, key, dimension) for dimension in key.dimensions)


def amount_phrase(value: int | Memory, dimension: Dimension) -> str:
    """Return an amount of one device, or a count of devices, as text."""
    if isinstance(value, int):
        return "1 device" if value == 1 else f"{value} devices"
    if value is UNLIMITED:
        return "no limit"
    if isinstance(value, Percent):
        return "all of the device" if value == ALL else f"{number_text(value.value)} % of the device's {dimension}"
    return mib_text(value.bytes)


def mib_text(amount: Number) -> str:
    """Return bytes in MiB, as memory of devices is usually counted, with a larger unit in parentheses if one fits."""
    text = bytes_text(amount)
    mib = f"{number_text(Fraction(amount) / MIB)} MiB"
    return text if amount < MIB or text == mib else f"{mib} ({text})"


def _worth(vendor: Vendor, key: Key, dimension: Dimension, number: Number) -> str:
    unit = key.unit or 1
    if dimension == "devices" and vendor.counts_parts(key):
        return "1 part of one device" if number == 1 else f"{number_text(number)} parts of one device"
    if dimension == "devices":
        return amount_phrase(int(number), "devices")
    per = "over all devices together" if key.total else "per device"
    if dimension == "memory" and key.sized:
        total = mib_text(number * unit)
        amount = total if unit == MIB else f"{number_text(number)} x {bytes_text(unit)} = {total}"
    else:
        amount = f"{number_text(number * unit)} %"
    return f"{amount} of {dimension} {per}"


def _unit(vendor: Vendor, key: Key, dimension: Dimension) -> str:
    unit = key.unit or 1
    if dimension == "devices":
        return "a part of one device" if vendor.counts_parts(key) else "a device"
    if key.sized and dimension == "memory":
        return bytes_text(unit)
    return f"{number_text(unit)} % of a device's {dimension}"
