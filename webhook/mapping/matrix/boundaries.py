"""Boundaries of a document's rules: counts and amounts at which forms, legal numbers, rows and limits begin and end.

Between two neighboring boundaries a vendor treats all amounts alike, except those that are not multiples of its unit.
"""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Final, Literal, TypeAlias

from webhook.mapping.model.vendor import Default, Derived, Form, Key, Row, Vendor
from webhook.mapping.notation import Numbers, Span
from webhook.quantity import Number, ceil_to, simplest
from webhook.request import ALL, MAX_DEVICES, Percent, Size

AmountDimension: TypeAlias = Literal["memory", "cores"]
_HUNDRED: Final = ALL.value


def device_boundaries(vendor: Vendor) -> set[int]:
    """Return the counts of devices at which rules change, with their neighbors."""
    found = {1, 2}
    for form in vendor.forms:
        literals = [form.devices, form.absent.devices]
        found |= {count for count in literals if isinstance(count, int)}
        for key in form.keys.values():
            if "devices" in key.dimensions:
                for number in _numbers(vendor, form, key, (), 1):
                    whole = int(number)
                    found |= {whole - 1, whole, whole + 1}
    found |= {row.devices for variable in vendor.variables.values() for row in variable.rows.values() if row.devices}
    default = vendor.defaults.get("devices")
    if default is not None and isinstance(default.value, int):
        found.add(default.value)
    return {count for count in found if 1 <= count <= MAX_DEVICES}


def written_rows(vendor: Vendor) -> tuple[Row, ...]:
    """Return the rows of the names that may be written."""
    return tuple(
        row for variable in vendor.variables.values() for name in variable.write if (row := variable.rows.get(name))
    )


def amount_boundaries(
    vendor: Vendor,
    rows: Sequence[Row],
    dimension: AmountDimension,
    devices: int,
    largest_card: int,
    *,
    sized: bool,
) -> set[Number]:
    """Return the amounts of one device at which rules change: bytes if `sized`, else percent of a device.

    Args:
        vendor: the source or target with the rules.
        rows: the rows of the relevant names.
        dimension: the dimension of the amounts.
        devices: the devices of the request; conditions on a number over all of them are divided by it.
        largest_card: bytes; no device has more.
        sized: memory as a size.
    """
    found: set[Number] = {largest_card if sized else _HUNDRED}
    kind = Size if sized else Percent
    for constant in _constants(vendor, rows, dimension):
        if isinstance(constant, kind):
            found.add(constant.bytes if isinstance(constant, Size) else constant.value)
    most = largest_card if sized else _HUNDRED
    for form in vendor.forms:
        for key in form.keys.values():
            if dimension not in key.dimensions or key.unit is None or key.sized != sized:
                continue
            numbers = {*_numbers(vendor, form, key, rows, devices if key.total else 1), Fraction(most) / key.unit}
            legal = {form.values(key, row) for row in (None, *rows)}
            near = {around for number in numbers for values in legal for around in _around(key, values, number)}
            found |= {simplest(number * key.unit) for number in near}
    return {amount for amount in found if 0 < amount <= most}


class Bounds:
    """The boundaries of one vendor; each set is computed once."""

    def __init__(self, vendor: Vendor, largest_card: int) -> None:
        self.vendor = vendor
        self.largest_card = largest_card
        self.devices = device_boundaries(vendor)
        self._amounts: dict[tuple[object, ...], set[Number]] = {}

    def amounts(self, rows: tuple[Row, ...], dimension: AmountDimension, devices: int, *, sized: bool) -> set[Number]:
        """Return what `amount_boundaries` returns."""
        key = (*map(id, rows), dimension, devices, sized)
        if key not in self._amounts:
            self._amounts[key] = amount_boundaries(
                self.vendor, rows, dimension, devices, self.largest_card, sized=sized
            )
        return self._amounts[key]


def _numbers(vendor: Vendor, form: Form, key: Key, rows: Sequence[Row], devices: int) -> Iterator[Number]:
    """Yield the numbers per device at which legal sets, conditions of forms and derived counts change."""
    legal = [key.values, *(form.values(key, row) for row in rows), *(row.all.get(key.name) for row in rows)]
    for values in legal:
        yield from _ends(values)
    # Conditions of other forms, too: this form does not get what an earlier one accepts or denies.
    for condition in (condition for other in vendor.forms for condition in other.when):
        if key.name in condition.keys:
            yield from (Fraction(number) / devices for number in _ends(condition.numbers))
    if isinstance(form.devices, Derived) and form.devices.key == key.name:
        yield form.devices.per
        yield Fraction(form.devices.per * (devices - 1)) / devices


def _ends(values: Numbers | None) -> Iterator[Number]:
    for span in () if values is None else values.spans:
        yield from _span_ends(span)


def _span_ends(span: Span) -> Iterator[Number]:
    yield span.low
    if span.step is not None:
        yield span.low + span.step
    if span.high is not None:
        yield span.high
        if span.step is not None:
            yield span.high - span.step


def _around(key: Key, values: Numbers | None, number: Number) -> Iterator[Number]:
    """Yield a number, and the results of rounding it and its lower neighbor."""
    above = ceil_to(number, key.step)
    below = above - key.step
    yield from (number, above, below)
    if values is not None:
        yield from (
            found for multiple in (above, below) for found in (values.ceil(multiple), values.floor(multiple)) if found
        )


def _constants(vendor: Vendor, rows: Sequence[Row], dimension: AmountDimension) -> Iterator[object]:
    """Yield the amounts that are not numbers of keys: those of forms, rows and defaults."""
    for form in vendor.forms:
        yield from (getattr(form, dimension), getattr(form.absent, dimension))
    for row in rows:
        yield from (row.memory, row.least) if dimension == "memory" else (row.cores, row.least_cores)
    default = vendor.defaults.get(dimension)
    if isinstance(default, Default):
        yield default.value
