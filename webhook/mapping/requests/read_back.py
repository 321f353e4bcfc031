"""Compares a request with what its written keys would be read as: never less, and no more than rounding explains."""

from collections.abc import Mapping
from fractions import Fraction

from webhook.mapping.model.vendor import Form, Row
from webhook.mapping.requests.conversion import value_of
from webhook.mapping.requests.result import Reading
from webhook.quantity import Number
from webhook.request import ALL, UNLIMITED, Dimension, Memory, Percent, Request, Size


def read_back_difference(
    form: Form, request: Request, reading: Reading, numbers: Mapping[str, Number], row: Row | None
) -> str | None:
    """Return how a reading differs from the request, as a sentence; None if it means the same.

    Args:
        form: the form of the written keys.
        request: the request that was written.
        reading: the result of reading the keys back.
        numbers: the written numbers, by the name of their key.
        row: the row that the written names imply, whose devices may be larger than requested.
    """
    read_back = reading.request
    if read_back.devices != request.devices:
        return f"{read_back.devices} devices would be read instead of {request.devices}"
    for dimension in ("memory", "cores"):
        requested, actual = getattr(request, dimension), getattr(read_back, dimension)
        expected = {requested, *_intended(form, dimension, numbers, read_back.devices or 1)}
        if (actual in expected or row is not None) and _at_least(actual, requested):
            continue
        if read_back.whole and requested is UNLIMITED:  # memory was rounded up to all of a device: nothing else fits
            continue
        return f"{dimension} {actual} would be read instead of {requested}"
    return None


def _intended(form: Form, dimension: Dimension, numbers: Mapping[str, Number], devices: int) -> list[Memory]:
    """Return the amounts that the written numbers of a dimension mean per device."""
    return [
        value_of(key, dimension, Fraction(number) / devices if key.total else number)
        for name, number in numbers.items()
        if dimension in (key := form.keys[name]).dimensions and key.unit is not None
    ]


def _at_least(actual: Memory, requested: Memory) -> bool:
    if isinstance(actual, Size) and isinstance(requested, Size):
        return actual.bytes >= requested.bytes
    if isinstance(actual, Percent) and isinstance(requested, Percent):
        return actual.value >= requested.value
    return actual in {requested, ALL} or requested is UNLIMITED
