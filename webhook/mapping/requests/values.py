"""Numbers of keys ↔ amounts of a device: units, steps, legal numbers, and the meaning of a missing dimension.

Then defaults → keys: those that fill or complete a container's request, and the keys of its vendor that express them.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from fractions import Fraction
from itertools import combinations
from typing import TypeAlias, TypeVar

import msgspec
from msgspec.structs import replace

from webhook.mapping.model.vendor import Binding, Default, Derived, Form, Key, NamePart, Row, Vendor
from webhook.quantity import Number, ceil_to, exact_text, signed_text, simplest
from webhook.reasons import Denied, Finding, Step
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
        if variable.everywhere:
            if variable.write:
                return variable.rows.get(variable.write[0]), None
            continue
        for entry in key_values.values():
            chosen = name_in(vendor, entry, variable)
            if chosen is None or not (variable.rows or vendor.keys[entry.key_name].document.row_of == variable.name):
                continue
            row = variable.rows.get(chosen)
            return (row, None) if row is not None else (None, entry)
    return None, None


def name_in(vendor: Vendor, entry: KeyValue, variable: NamePart) -> str | None:
    """Return the value of a variable in a key, from its text or its name; None if the key does not contain it."""
    return (
        entry.text
        if vendor.keys[entry.key_name].document.row_of == variable.name
        else dict(entry.binding).get(variable.name)
    )


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
        passed_over: the dimensions whose default no key can express, or would change what is specified.
        findings: ignored keys, corrections and roundings.
        added: keys for the defaults, if the request stays in this vendor's keys.
        spelled: the request of the keys with `added`, which may round a default up; None: equal to `request`.
    """

    form: Form
    request: Request
    specified: frozenset[Dimension]
    corrections: Mapping[str, Number]
    filled: Defaults
    passed_over: tuple[Dimension, ...]
    findings: tuple[Finding, ...]
    added: KeyValues = {}
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


ReadForm: TypeAlias = Callable[[Form, KeyValues, Defaults], Reading]
"""A function that reads keys in a form and fills defaults in by value; raises `Denied`."""

_T = TypeVar("_T")


def fewer(defaults: Mapping[Dimension, _T]) -> Iterator[dict[Dimension, _T]]:
    """Yield all defaults, then fewer and fewer: the count of devices, which changes most, goes first; finally none."""
    if not defaults:
        yield {}
        return
    order: tuple[Dimension, ...] = ("memory", "cores", "devices")
    present = [dimension for dimension in order if dimension in defaults]
    for size in range(len(present), -1, -1):
        for chosen in combinations(present, size):
            yield {dimension: default for dimension, default in defaults.items() if dimension in chosen}


def divides(vendor: Vendor, form: Form, key_values: KeyValues) -> bool:
    """Return whether a default count of devices would change what keys specify: a total per device, or a count."""
    counting = {other.devices.key for other in vendor.forms if isinstance(other.devices, Derived)}
    return any(form.keys[name].total or name in counting for name in key_values)


def filled_in(
    vendor: Vendor, key_values: KeyValues, form: Form, defaults: Defaults, read_form: ReadForm, *, home: bool
) -> Reading:
    """Read keys that make a request by themselves, with defaults.

    If the request stays in these keys (`home`), a default fills only what a key can specify; otherwise it fills by value.

    Raises:
        Denied: the keys alone are denied.
    """
    if not home:
        return read_form(form, key_values, defaults)
    for chosen in fewer(defaults):
        if not chosen:
            break
        try:
            reading = _spelled_out(vendor, key_values, read_form(form, key_values, chosen), read_form)
        except Denied:
            continue
        if reading is not None:
            return _passing_over(reading, defaults, chosen)
    return _passing_over(read_form(form, key_values, {}), defaults, {})


def completed(
    vendor: Vendor, key_values: KeyValues, defaults: Defaults, read_form: ReadForm, *, home: bool
) -> Reading | None:
    """Read keys that make no request by themselves, with keys for defaults added; None if there is still no request.

    Each specified key must count with its own value.
    """
    missing = {
        dimension: default
        for dimension, default in defaults.items()
        if not any(name in key_values for name in vendor.by_dimension[dimension])
    }
    for chosen in fewer(missing):
        for devices in _counts(vendor, key_values, chosen) if chosen else ():
            try:
                reading = _completion(vendor, key_values, chosen, devices, read_form, home=home)
            except Denied:
                continue
            if reading is not None:
                return _passing_over(reading, missing, chosen)
    return None


def _passing_over(reading: Reading, defaults: Defaults, chosen: Defaults) -> Reading:
    passed_over = [name for name in defaults if name not in chosen and name not in reading.specified]
    if not passed_over:
        return reading
    return replace(reading, passed_over=tuple(dict.fromkeys((*reading.passed_over, *passed_over))))


def _completion(
    vendor: Vendor, key_values: KeyValues, defaults: Defaults, devices: int, read_form: ReadForm, *, home: bool
) -> Reading | None:
    added: dict[str, KeyValue] = {}
    applied: dict[Dimension, Default] = {}
    for dimension, default in defaults.items():
        entry = next(keys_for(vendor, vendor.keys, dimension, default, devices), None)
        if entry is not None:
            added[entry.key_name] = entry
            applied[dimension] = default
    extended = {**key_values, **added}
    form = form_of(vendor, extended)
    if not added or form is None or not form.reads:
        return None
    rest = {dimension: default for dimension, default in defaults.items() if dimension not in applied}
    reading = read_form(form, extended, rest)
    if any(form.keys[name].total for name in added) and reading.request.devices != devices:
        return None
    if not _all_count(vendor, form, key_values, added, reading) or (
        "devices" in defaults and divides(vendor, form, key_values)
    ):
        return None
    specified = reading.specified - applied.keys()
    if _reduces(reading.request, specified, applied):
        return None
    if home:
        spelled = _spelled_out(vendor, extended, reading, read_form)
        if spelled is None:
            return None
        reading = replace(spelled, filled={**applied, **spelled.filled}, added={**added, **spelled.added})
        written = reading.spelled or reading.request
        return replace(reading, specified=specified, request=_by_value(reading.request, applied), spelled=written)
    request = _by_value(reading.request, applied)
    return replace(reading, specified=specified, request=request, filled={**applied, **reading.filled})


def _reduces(request: Request, specified: Collection[Dimension], applied: Defaults) -> bool:
    """Return whether a default reduces a request for all memory, or all cores, to less than a whole device."""
    pairs: tuple[tuple[Dimension, Dimension], ...] = (("memory", "cores"), ("cores", "memory"))
    return any(
        whole in specified and getattr(request, whole) == ALL and reduced in applied and applied[reduced].value != ALL
        for whole, reduced in pairs
    )


def _by_value(request: Request, applied: Defaults) -> Request:
    """Apply defaults by their exact value: another vendor may be able to express exactly what these keys round."""
    for dimension, default in applied.items():
        if dimension == "memory" and not isinstance(default.value, int):
            request = replace(request, memory=default.value)
        elif dimension == "cores" and isinstance(default.value, Percent):
            request = replace(request, cores=default.value)
    return request


def _all_count(vendor: Vendor, form: Form, key_values: KeyValues, added: KeyValues, reading: Reading) -> bool:
    """Return whether no key, specified or added, is ignored, corrected because of others, or specified twice."""
    keys = {entry.key for entry in added.values()}
    if any(finding.field in keys for finding in reading.findings) or reading.corrections.keys() & added.keys():
        return False
    if any(
        form.keys[name].rounding != vendor.keys[name].rounding
        for name in reading.corrections.keys() & key_values.keys()
    ):
        return False  # the form that the added keys select rounds it differently
    dimensions = {dimension for name in key_values for dimension in vendor.keys[name].dimensions}
    if any(dimension in dimensions for name in added for dimension in vendor.keys[name].dimensions):
        return False
    return all(_counts_in(vendor, form, vendor.keys[name]) for name in key_values)


def _counts_in(vendor: Vendor, form: Form, key: Key) -> bool:
    """Return whether the form uses the number of a key, or has a condition on it."""
    if key.kind == "other":
        return _has_condition(form, key) or not any(_has_condition(other, key) for other in vendor.forms)
    if form.literals.isdisjoint(key.dimensions):
        return True
    if isinstance(form.devices, Derived) and form.devices.key == key.name:
        return True
    return _has_condition(form, key)


def _has_condition(form: Form, key: Key) -> bool:
    return any(key.name in condition.keys and condition.numbers is not None for condition in form.when)


def _counts(vendor: Vendor, key_values: KeyValues, defaults: Defaults) -> list[int]:
    """Return the counts of devices that totals may refer to: those that keys specify or imply, the default, 1."""
    counts = [
        int(-(-key_values[form.devices.key].number // form.devices.per))
        for form in vendor.forms
        if form.reads and isinstance(form.devices, Derived) and form.devices.key in key_values
    ]
    counts += [key_values[name].number.__ceil__() for name in vendor.by_dimension["devices"] if name in key_values]
    if "devices" in defaults and isinstance(defaults["devices"].value, int):
        counts.append(defaults["devices"].value)
    return list(dict.fromkeys((*counts, 1)))


def _spelled_out(vendor: Vendor, key_values: KeyValues, reading: Reading, read_form: ReadForm) -> Reading | None:
    """Add keys for what was filled by value; None if no key can express it, or one would change the rest."""
    if not reading.filled:
        return reading
    form = reading.form
    extended = dict(key_values)
    filled: dict[Dimension, Default] = {}
    for dimension, default in reading.filled.items():
        for entry in keys_for(vendor, form.keys, dimension, default, reading.request.devices or 1):
            if form_of(vendor, {**extended, entry.key_name: entry}) is form:
                extended[entry.key_name] = entry
                filled[dimension] = default
                break
        else:
            if getattr(form.absent, dimension) != default.value:
                return None
    again = read_form(form, extended, {})
    if again.corrections != reading.corrections or len(again.findings) != len(reading.findings):
        return None
    for dimension in ("devices", "memory", "cores"):
        if dimension not in filled and getattr(again.request, dimension) != getattr(reading.request, dimension):
            return None
    added = {name: entry for name, entry in extended.items() if name not in key_values}
    return replace(reading, spelled=again.request, filled=filled, added=added)


def keys_for(
    vendor: Vendor, keys: Mapping[str, Key], dimension: Dimension, default: Default, devices: int
) -> Iterator[KeyValue]:
    """Yield the keys that can specify a default, with the least number that is not less."""
    for name in vendor.by_dimension[dimension]:
        key = keys[name]
        number = number_for(key, default.value, 1 if dimension == "devices" else devices)
        if number is not None:
            yield KeyValue(name, key.spellings[0].text, exact_text(number), number)
