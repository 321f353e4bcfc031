"""What whoever wrote a number that its key cannot hold most probably meant: advice for messages, and candidates to be tried.

A fraction of one is a share of a GPU (``0.3`` for 30 %); a size far beyond any GPU was counted in a smaller unit.
"""

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Final

from webhook.mapping.model.vendor import Key, Vendor
from webhook.mapping.requests.denials import spelling
from webhook.mapping.requests.key_values import KeyValue, form_of, format_value
from webhook.quantity import GIB, KIB, MIB, Number, bytes_text, ceil_to, number_text
from webhook.request import ALL

_UNITS: Final = (("bytes", 1), ("KiB", KIB), ("MiB", MIB))

PLAUSIBLE: Final = 256 * MIB
"""Bytes of one GPU that somebody may want; below it, another unit was more probably meant."""

LEAST: Final = Fraction(1, 100)
"""The least fraction that was meant as a share of a GPU."""

FINE: Final = 10
"""Parts of a GPU that a key has to count to be one of percentages: half of one of two cores is not half a GPU."""


def no_whole_number(vendor: Vendor, word: Key, one: KeyValue) -> str:
    """A sentence about a fraction, and what to write instead."""
    least = format_value(-(-one.number // 1))
    share = share_meant(word, one.number)
    if share is not None:
        return f"{one} is not a whole number: write {format_value(share)} for {number_text(share * (word.unit or 1))} %"
    keys = share_keys(vendor, one) if word.dimensions == ("devices",) else []
    if keys:
        pairs = " and ".join(f"{key}: {format_value(number)}" for key, number in keys)
        percent = number_text(one.number * 100)
        return f"{one} is not a whole number of devices: write {least}, with {pairs} for {percent} % of one"
    meant = gibibytes_meant(word, one.number)
    if meant is not None and format_value(meant) != least:
        size = bytes_text(meant * (word.unit or 1))
        gibibytes = f"{format_value(meant)} ({format_value(meant)} means {size})"
        return f"{one} is not a whole number: write {least}, or, if GiB were meant, {gibibytes}"
    return f"{one} is not a whole number: write {least}"


def share_meant(word: Key, number: Number) -> Number | None:
    """The number of a key that counts percent of a GPU for a fraction of one: 30 for 0.3; None where it is neither."""
    if not LEAST <= number < 1 or word.sized or word.unit is None or word.unit * FINE > ALL.value:
        return None
    if not {"memory", "cores"} & set(word.dimensions):
        return None
    meant = ceil_to(Fraction(number) * ALL.value / word.unit, word.step)
    return meant if word.values is None else word.values.ceil(meant)


def gibibytes_meant(word: Key, number: Number) -> Number | None:
    """The number of a key that counts less than GiB for a fraction of GiB: 8704 for 8.5; None where it counts otherwise."""
    if number <= 0 or isinstance(number, int) or not word.sized or word.unit is None or word.unit >= GIB:
        return None
    return ceil_to(Fraction(number) * GIB / word.unit, word.step)


def share_keys(vendor: Vendor, one: KeyValue) -> list[tuple[str, Number]]:
    """The resources that take a fraction of one device beside a whole one, each with its number; that of memory first."""
    found: list[tuple[str, Number]] = []
    words = {one.word: replace(one, text="1", number=1)}
    for dimension in ("memory", "cores"):
        for word in vendor.keys.values():
            if word.dimensions != (dimension,) or word.place != "resource" or word.retired is not None:
                continue
            share = share_meant(word, one.number)
            if share is None:
                continue
            key = spelling(word, dict(one.binding))
            more = {**words, word.name: KeyValue(word.name, key, format_value(share), share, one.binding)}
            form = form_of(vendor, more)
            if form is not None and form.reads:
                words = more
                found.append((key, share))
                break
    return found


def sizes_meant(word: Key, one: KeyValue, value: Number, largest_card: int) -> Iterator[tuple[str, Number]]:
    """What a size that is too large may have been counted in, with the number to write; the likeliest first.

    Args:
        word: whose number it is.
        one: the key as the pod has it.
        value: the bytes that it was read as.
        largest_card: bytes; no GPU has more.
    """
    if word.unit is None or not word.sized:
        return
    # Who writes `40Mi` means bytes; the API server makes such a text of no plain number.
    units = _UNITS[:1] if one.text.endswith("i") else _UNITS
    meant = [(name, one.number * size) for name, size in units]
    meant = [(name, size) for name, size in meant if word.unit <= size <= largest_card and size != value]
    for name, size in sorted(meant, key=lambda pair: pair[1] < PLAUSIBLE):
        yield name, ceil_to(Fraction(size) / word.unit, 1)
