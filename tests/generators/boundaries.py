"""Pods that request amounts and counts at, beside and between the boundaries of two documents.

The boundaries are the numbers that stand in the documents, in any unit that one of their keys has: the engine is not asked.
"""

import random
import re
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from typing import Any

from tests.generators.requests import Json, drawn, pod_of
from webhook.mapping.model.keys import Derived, Key
from webhook.mapping.model.vendor import Vendor
from webhook.quantity import QuantityError, parse_quantity

COUNTS = (1, 2, 3, 4, 8, 4095, 4096)
_RULES = {"values", "when", "per", "memory", "cores", "devices", "step", "rows", "keys", "forms", "variables", "absent"}
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?")


def boundary_pods(source: Vendor, target: Vendor, random_: random.Random) -> Iterator[Json]:
    """Pods without end in the source's terms; not all of their requests are such as it takes."""
    forms = [form for form in source.forms if form.deny is None]
    while True:
        form = random_.choice(forms)
        numbers = drawn(source, form, random_)
        counts = [*COUNTS, *(int(each) + by for each in (*_written(source), *_written(target)) for by in (-1, 0, 1))]
        devices = random_.choice([1, random_.choice([count for count in counts if 1 <= count <= COUNTS[-1]])])
        derived = form.devices
        for name, key in form.keys.items():
            if name not in numbers or key.kind != "amount":
                continue
            if "devices" in key.dimensions:
                numbers[name] = devices
            elif random_.random() < 0.8:
                numbers[name] = _number(key, source, target, devices, random_)
        if isinstance(derived, Derived) and (derived.round != "up" or random_.random() < 0.1):
            numbers[derived.key] = devices * derived.per
        if numbers:
            yield pod_of(source, numbers, random_)


def _number(key: Key, source: Vendor, target: Vendor, devices: int, random_: random.Random) -> Fraction | int:
    unit = Fraction(key.unit or 1)
    amounts = [amount for vendor in (source, target) for amount in _amounts(vendor, sized=key.sized)]
    amount = random_.choice(amounts) / random_.choice([1, 1, devices])
    if random_.random() < 0.2:
        amount = Fraction(random_.random()) * min(amount, random_.choice(amounts))
    step = Fraction(1, 10**4) if key.written == "decimal" else 1
    number = Fraction(amount) / unit // step * step + random_.choice([-1, 0, 0, 1, 2]) * step
    number = max(step, number)
    if key.written == "decimal":
        return number
    return int(number) * (devices if key.total else 1)


@cache
def _amounts(vendor: Vendor, *, sized: bool) -> list[Fraction]:
    """Bytes, or percent of a device."""
    units = {
        Fraction(key.unit) for form in vendor.forms for key in form.keys.values() if key.unit and key.sized == sized
    }
    most = Fraction(2**40 if sized else 100)
    found = {number * unit for number in _written(vendor) for unit in units} | {most}
    if sized:
        found |= set(_sizes(vendor.document.model_dump()))
    return sorted(number for number in found if 0 < number <= most)


def _sizes(node: Any) -> Iterator[Fraction]:
    """Every quantity with a suffix in a document."""
    if isinstance(node, dict | list):
        for each in node.values() if isinstance(node, dict) else node:
            yield from _sizes(each)
    elif isinstance(node, str) and node.endswith("i"):
        try:
            yield Fraction(parse_quantity(node))
        except QuantityError:
            return


@cache
def _written(vendor: Vendor) -> list[Fraction]:
    """Every number in the rules of a document."""
    found: set[Fraction] = set()

    def walk(node: Any, *, rule: bool) -> None:
        if isinstance(node, dict):
            for key, child in node.items():
                walk(child, rule=rule or key in _RULES)
        elif isinstance(node, list):
            for child in node:
                walk(child, rule=rule)
        elif rule and isinstance(node, str | int) and not isinstance(node, bool):
            found.update(Fraction(text) for text in _NUMBER.findall(str(node)) if float(text) > 0)

    walk({key: value for key, value in vendor.document.model_dump().items() if key in _RULES}, rule=False)
    return sorted(found | {Fraction(1), Fraction(2)})
