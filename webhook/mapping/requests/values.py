"""Numbers of keys ↔ amounts of a device: units, steps, legal numbers, and the meaning of a missing dimension."""

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import TypeAlias

import msgspec

from webhook.finding import Finding, Step
from webhook.mapping.document.key_template import Binding
from webhook.mapping.model.vendor import Default, Form, Key, NamePart, Row, Vendor
from webhook.quantity import Number, ceil_to, exact_text, signed_text, simplest
from webhook.request import ALL, UNLIMITED, Dimension, Memory, Percent, Request, Size, amount_text


class KeyValue(msgspec.Struct, frozen=True, gc=False):
    """One key and its value in a pod.

    Attributes:
        key_name: the name of the key in the mapping.
        key: the resource name, label or annotation in the pod.
        text: the value in the pod (the API server may have rewritten what the user typed).
        number: the value as a number; 0 for a text.
        binding: the values of the variables of the key.
    """

    key_name: str
    key: str
    text: str
    number: Number = 0
    binding: Binding = ()

    def __str__(self) -> str:
        return f"{self.key}: {self.text}"


KeyValues: TypeAlias = Mapping[str, KeyValue]
"""Keys with their values, by name; without those that are 0, which counts as unset."""


def format_value(number: Number) -> str:
    """Format a number as the text of a value, exactly: it is read again."""
    return exact_text(number)


def form_of(vendor: Vendor, key_values: KeyValues) -> Form | None:
    """Return the first form whose conditions all hold, even one that denies; None if there is none."""
    for form in vendor.forms:
        for condition in form.when:
            values = [key_values[key_name] for key_name in condition.keys if key_name in key_values]
            if not values:
                if not condition.absent:
                    break
            elif not condition.present and not any(
                entry.text in condition.texts or (condition.numbers is not None and entry.number in condition.numbers)
                for entry in values
            ):
                break
        else:
            return form
    return None


def row_of(vendor: Vendor, key_values: KeyValues) -> tuple[Row | None, KeyValue | None]:
    """Return the row that the names imply, and the key whose value has no row although its variable has rows."""
    for variable in vendor.variables.values():
        if variable.everywhere:
            if variable.write:
                return variable.rows.get(variable.write[0]), None
            continue
        for entry in key_values.values():
            chosen = name_in(vendor, entry, variable)
            if chosen is None or not (variable.rows or vendor.keys[entry.key_name].row_of == variable.name):
                continue
            row = variable.rows.get(chosen)
            return (row, None) if row is not None else (None, entry)
    return None, None


def name_in(vendor: Vendor, entry: KeyValue, variable: NamePart) -> str | None:
    """Return the value of a variable in a key, from its text or its name; None if the key does not contain it."""
    return entry.text if vendor.keys[entry.key_name].row_of == variable.name else dict(entry.binding).get(variable.name)


def unconfigured_size(vendor: Vendor) -> str | None:
    """Return what has to be configured about the size of all devices of a vendor; None if nothing is missing."""
    for variable in vendor.variables.values():
        if variable.everywhere and not variable.write:
            return variable.why or f"set `variables: {{{variable.name}: {{write: …}}}}` with `extends: {vendor.name}`"
    return None


def unreadable(vendors: Iterable[Vendor]) -> Iterator[str]:
    """Yield a sentence for each active vendor whose keys cannot be read until the size of its devices is configured."""
    for vendor in vendors:
        if not vendor.inactive and (why := unconfigured_size(vendor)) is not None:
            yield f"{vendor.name} is in force, but its keys cannot be read until it is configured: {why}"


Defaults: TypeAlias = Mapping[Dimension, Default]
"""The default of each dimension that has one."""


class Reading(msgspec.Struct, frozen=True, gc=False):
    """The meaning of a container's keys.

    Attributes:
        form: the form of the keys.
        request: the settled request.
        specified: the dimensions that the keys, or their form, specify.
        corrections: keys whose number the vendor raises, with the raised number.
        filled: the dimensions from defaults.
        added: keys for the defaults, if the request stays in this vendor's keys.
        passed_over: the dimensions whose default no key can express, or would change what is specified.
        findings: ignored keys, corrections and roundings.
        spelled: the request of the keys with `added`, which may round a default up; None: equal to `request`.
    """

    form: Form
    request: Request
    specified: frozenset[Dimension] = frozenset()
    corrections: Mapping[str, Number] = {}
    filled: Defaults = {}
    added: KeyValues = {}
    passed_over: tuple[Dimension, ...] = ()
    findings: tuple[Finding, ...] = ()
    spelled: Request | None = None


def number_for(key: Key, value: int | Memory, devices: int) -> Number | None:
    """Return the least number of a key for at least `value`; None if the key cannot express that kind of value.

    A total is multiplied after rounding per device, so that it is divisible by the devices.
    """
    if isinstance(value, int):
        amount: Number = value
    elif isinstance(value, Size):
        if not key.sized or key.unit is None:
            return None
        amount = _divided(value.bytes, key.unit)
    elif isinstance(value, Percent):
        if key.sized or key.unit is None:
            return None
        amount = _divided(value.value, key.unit)
    else:
        return None
    number: Number | None = ceil_to(amount, key.step)
    if key.values is not None:
        number = key.values.ceil(number) if number is not None else None
        if number is not None:
            number = ceil_to(number, key.step)
            if number not in key.values:
                return None
    if number is None:
        return None
    return simplest(number * devices) if key.total else number


def _divided(number: Number, by: Number) -> Number:
    """A quotient; of whole numbers without a fraction where there is none, which is much faster."""
    if type(number) is int and type(by) is int and number % by == 0:
        return number // by
    return Fraction(number) / by


def value_of(key: Key, dimension: Dimension, number: Number) -> Memory:
    """Return the memory or cores that `number` per device of a key means."""
    assert key.unit is not None  # noqa: S101  (a key without a unit is denied before)
    amount = number * key.unit
    if type(amount) is not int:
        amount = simplest(amount)
    return Size(amount) if key.sized and dimension == "memory" else Percent(amount)


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
