"""Numbers of keys ↔ amounts of a device: units, steps, legal numbers, and the meaning of a missing dimension."""

from collections.abc import Iterator, Mapping
from fractions import Fraction
from itertools import combinations
from typing import TypeAlias, TypeVar

import msgspec

from webhook.mapping.model.keys import Binding, Derived, Form, Key, Row, Variable
from webhook.mapping.model.vendor import Default, Vendor
from webhook.quantity import Number, ceil_to, exact_text, signed_text, simplest
from webhook.reasons import Finding, Step
from webhook.request import ALL, UNLIMITED, Dimension, Memory, Percent, Request, Size, amount_text

_T = TypeVar("_T")


class KeyValue(msgspec.Struct, frozen=True, gc=False):
    """One key and its value in a pod, whose text the API server may have rewritten; the number of a text is 0."""

    key_name: str
    key: str
    text: str
    number: Number = 0
    binding: Binding = ()

    def __str__(self) -> str:
        return f"{self.key}: {self.text}"


KeyValues: TypeAlias = Mapping[str, KeyValue]
"""Keys with their values, by name; without those that are 0, which counts as unset."""

Defaults: TypeAlias = Mapping[Dimension, Default]  # the default of each dimension that has one


class Reading(msgspec.Struct, frozen=True, gc=False):
    """The meaning of a container's keys."""

    form: Form  # the form of the keys
    request: Request  # the settled request
    specified: frozenset[Dimension]  # the dimensions that the keys, or their form, specify
    corrections: Mapping[str, Number]  # keys whose number the vendor raises, with the raised number
    filled: Defaults  # the dimensions from defaults
    passed_over: tuple[Dimension, ...]  # those whose default no key can express, or would change what is specified
    findings: tuple[Finding, ...]  # ignored keys, corrections and roundings
    added: KeyValues = {}  # keys for the defaults, if the request stays in this vendor's keys
    spelled: Request | None = None  # that of the keys with `added`, which may round a default up; None: `request`


def form_of(vendor: Vendor, key_values: KeyValues) -> Form | None:
    """Return the first form whose conditions all hold, even one that denies; None if there is none."""
    for form in vendor.forms:
        for condition in form.when:
            absent = True
            for key_name in condition.keys:
                if key_name in key_values:
                    absent, entry, numbers = False, key_values[key_name], condition.numbers
                    if condition.present or entry.text in condition.texts or (numbers and entry.number in numbers):
                        break
            else:
                if not (absent and condition.absent):
                    break
        else:
            return form
    return None


def bound_in(key_values: KeyValues) -> dict[str, str]:
    """Return the values of the variables in the names of keys."""
    return {name: value for entry in key_values.values() for name, value in entry.binding}


def row_of(vendor: Vendor, key_values: KeyValues) -> tuple[Row | None, KeyValue | None]:
    """Return the row that the names imply, and the key whose value has no row although its variable has rows."""
    for variable in vendor.variables.values():
        if variable.everywhere and variable.write:
            return variable.rows.get(variable.write[0]), None
        if variable.everywhere:
            continue
        for entry in key_values.values():
            chosen = name_in(vendor, entry, variable)
            if chosen is not None and (variable.rows or vendor.keys[entry.key_name].row_of == variable.name):
                row = variable.rows.get(chosen)
                return row, (entry if row is None else None)
    return None, None


def name_in(vendor: Vendor, entry: KeyValue, variable: Variable) -> str | None:
    """Return the value of a variable in a key, from its text or its name; None if the key does not contain it."""
    picked = vendor.keys[entry.key_name].row_of == variable.name
    return entry.text if picked else dict(entry.binding).get(variable.name)


def unconfigured_size(vendor: Vendor) -> str | None:
    """Return what has to be configured about the size of all devices of a vendor; None if nothing is missing."""
    for variable in vendor.variables.values():
        if variable.everywhere and not variable.write:
            return variable.why or f"set `variables: {{{variable.name}: {{write: …}}}}` with `extends: {vendor.name}`"
    return None


def number_for(key: Key, value: int | Memory, devices: int) -> Number | None:
    """Return the least number of a key for at least `value`; None if the key cannot express that kind of value.

    A total is multiplied after rounding per device, so that it is divisible by the devices.
    """
    if isinstance(value, int):
        amount: Number = value
    elif value is UNLIMITED or key.unit is None or key.sized is not isinstance(value, Size):
        return None
    else:  # of whole numbers without a fraction where there is none, which is much faster
        amount = value.bytes if isinstance(value, Size) else value.value
        exact = type(amount) is int and type(key.unit) is int and amount % key.unit == 0
        amount = amount // key.unit if exact else Fraction(amount) / key.unit
    number = ceil_to(amount, key.step)
    if key.values is not None:
        legal = key.values.ceil(number)
        number = -1 if legal is None else ceil_to(legal, key.step)
        if number not in key.values:
            return None
    return simplest(number * devices) if key.total else number


def value_of(key: Key, dimension: Dimension, number: Number) -> Memory:
    """Return the memory or cores that `number` per device of a key means."""
    assert key.unit is not None  # noqa: S101  (a key without a unit is denied before)
    amount = number * key.unit
    if type(amount) is not int:
        amount = simplest(amount)
    return Size(amount) if key.sized and dimension == "memory" else Percent(amount)


def keys_for(
    vendor: Vendor, keys: Mapping[str, Key], dimension: Dimension, default: Default, devices: int
) -> Iterator[KeyValue]:
    """Yield the keys that can specify a default, with the least number that is not less."""
    for name in vendor.by_dimension[dimension]:
        key = keys[name]
        number = number_for(key, default.value, 1 if dimension == "devices" else devices)
        if number is not None:
            yield KeyValue(name, key.spellings[0].text, exact_text(number), number)


def fewer(defaults: Mapping[Dimension, _T]) -> Iterator[dict[Dimension, _T]]:
    """Yield all defaults, then fewer and fewer: the count of devices, which changes most, goes first; finally none."""
    order: tuple[Dimension, ...] = ("memory", "cores", "devices")
    present = [dimension for dimension in order if dimension in defaults]
    for size in range(len(present), -1, -1):
        for chosen in combinations(present, size):
            yield {dimension: default for dimension, default in defaults.items() if dimension in chosen}


def divides(vendor: Vendor, form: Form, key_values: KeyValues) -> bool:
    """Return whether a default count of devices would change what keys specify: a total per device, or a count."""
    counting = {other.devices.key for other in vendor.forms if isinstance(other.devices, Derived)}
    return any(form.keys[name].total or name in counting for name in key_values)


def fill_absent(request: Request, absent: Request) -> Request:
    """Fill missing dimensions with their meaning; a dimension without one stays None."""
    memory = absent.memory if request.memory is None else request.memory
    cores = absent.cores if request.cores is None else request.cores
    if memory == ALL and cores is UNLIMITED:
        cores = ALL
    return Request(request.devices if request.devices is not None else absent.devices, memory, cores)


def for_device_size(request: Request, device_size: int) -> Request | None:
    """Convert memory between bytes and percent for devices of `device_size` bytes; never to less than requested.

    None for whole devices, which are no share of a size, for memory without a limit, and for more than the device has.
    """
    memory = request.memory
    if request.whole or not isinstance(memory, Size | Percent):
        return None
    if isinstance(memory, Percent):
        return Request(request.devices, Size(ceil_to(Fraction(memory.value) * device_size / 100, 1)), request.cores)
    if memory.bytes > device_size:
        return None
    percent = Percent(simplest(Fraction(memory.bytes) * 100 / device_size))
    return fill_absent(Request(request.devices, percent, request.cores), Request())


def step_between(dimension: Dimension, before: Memory | None, after: Memory | None) -> Step:
    """Return the step from one amount of a device to another, for explanations."""
    difference = ""
    if isinstance(before, Size) and isinstance(after, Size):
        difference = f"+{amount_text(Size(after.bytes - before.bytes))}"
    elif isinstance(before, Percent) and isinstance(after, Percent):
        difference = f"{signed_text(after.value - before.value)}%"
    return Step(f"{dimension} per device", amount_text(before), amount_text(after), difference)
