"""Request → keys: write a request in the first form of a target that reads back as the same, or report why none does."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction

import msgspec

from webhook.mapping.model.vendor import Binding, Derived, Form, Key, Row, Vendor
from webhook.mapping.requests.reading import read
from webhook.mapping.requests.templates import claim_text
from webhook.mapping.requests.values import (
    Defaults,
    KeyValue,
    Reading,
    fill_absent,
    number_for,
    unconfigured_size,
    value_of,
)
from webhook.quantity import MAX_VALUE, Number, exact_text
from webhook.reasons import Denied
from webhook.request import ALL, DIMENSIONS, UNLIMITED, Dimension, Memory, Percent, Request, Size


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
        if actual == requested:
            continue
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


class Written(msgspec.Struct, frozen=True, gc=False):
    """A request in a target's keys.

    Attributes:
        form: the form of the keys.
        keys: the keys with their values, by name.
        reading: the result of reading them back, with the defaults that would apply.
    """

    form: Form
    keys: Mapping[str, KeyValue]
    reading: Reading


class NoEquivalent(Exception):  # noqa: N818  (a result, not an internal error)
    """No form of the target can express the request; `reasons` says why, the nearest form first."""

    def __init__(self, reasons: tuple[str, ...]) -> None:
        self.reasons = reasons
        super().__init__("; ".join(reasons))


def write(
    target: Vendor, request: Request, defaults: Defaults, largest_card: int, container: str, *, named: Binding = ()
) -> Written:
    """Write a request in the keys of a vendor; memory and cores are rounded up per device to what it can express.

    Args:
        target: the vendor to write for.
        request: a settled request.
        defaults: those that would apply when the keys are read again; dimensions that they would fill are written.
        largest_card: bytes, as for `read`.
        container: its name, for keys that contain it and for messages.
        named: the value of a variable with a row, if the source's keys name the same one: then that is written, whatever its
            size, in any form.

    Raises:
        NoEquivalent: no form can express it.
    """
    reasons: list[str] = []
    contradictions: list[str] = []
    for form in target.forms:
        if not form.reads or not (form.document.write or named):
            continue
        contradiction = _contradiction(form, request)
        if contradiction is not None:
            contradictions.append(contradiction)
            continue
        try:
            return _write_form(
                target, form, request, defaults, largest_card=largest_card, container=container, named=named
            )
        except NoEquivalent as error:
            reasons.extend(error.reasons)
    raise NoEquivalent(tuple(dict.fromkeys([*reasons, *contradictions])))


def _contradiction(form: Form, request: Request) -> str | None:
    """Return a value of the form itself that differs from the request; None if there is none."""
    for dimension in DIMENSIONS if form.literals else ():
        literal = getattr(form, dimension)
        if literal is not None and not isinstance(literal, Derived) and literal != getattr(request, dimension):
            return f"the form {form.name!r} has {dimension} {literal}"
    return None


def _write_form(
    target: Vendor,
    form: Form,
    request: Request,
    defaults: Defaults,
    *,
    largest_card: int,
    container: str,
    named: Binding,
) -> Written:
    binding, row = _binding(target, request) if not named else (named, target.variables[named[0][0]].rows[named[0][1]])
    numbers = _numbers(target, form, request, row, defaults)
    variables = dict(binding) | {"container": container}
    key_values: dict[str, KeyValue] = {}
    for name, number in numbers.items():
        spelled = form.keys[name].spelled(variables)
        if "{" in spelled:
            raise NoEquivalent((f"the name to write for {spelled} is not configured (`variables`: `write`)",))
        if number > MAX_VALUE:
            raise NoEquivalent(
                (f"{spelled} would be {exact_text(number)}, more than any resource can hold (2^63 - 1)",)
            )
        key = form.keys[name]
        text = exact_text(number) if key.document.claim is None else claim_text(key, number)
        key_values[name] = KeyValue(name, spelled, text, number, binding)
    key_values |= {entry.key_name: entry for entry in _texts(form, variables)}
    try:
        reading = read(target, key_values, defaults, largest_card, container, home=True)
    except Denied as denial:
        raise NoEquivalent((denial.finding.message,)) from None
    if reading.form is not form:
        raise NoEquivalent((f"it would be read back as {reading.form.name!r}",))
    for dimension, default in reading.filled.items():
        value = getattr(request, dimension)
        raise NoEquivalent((f"no key specifies {dimension} {value}, and {default.named(dimension)} would apply",))
    difference = read_back_difference(form, request, reading, numbers, row)
    if difference is not None and not named:
        raise NoEquivalent((difference,))
    return Written(form, key_values, reading)


def _texts(form: Form, variables: Mapping[str, str]) -> Iterator[KeyValue]:
    """Yield the texts that the form requires, the first of each condition, and those of claims that name a row.

    A nodeSelector is never written.
    """
    for key in form.keys.values():
        if key.document.claim is not None and key.document.row_of is not None and key.document.row_of in variables:
            yield KeyValue(key.name, key.spellings[0].text, variables[key.document.row_of])
    for condition in form.when:
        if condition.texts and not condition.absent and form.keys[condition.keys[0]].place != "nodeSelector":
            key = form.keys[condition.keys[0]]
            yield KeyValue(key.name, key.spelled(variables), condition.texts[0])


def _numbers(target: Vendor, form: Form, request: Request, row: Row | None, defaults: Defaults) -> dict[str, Number]:
    """Return the number of each key that a form needs for a request.

    For example, 2 devices with 4 GiB and 30 % of the cores each, where `memory` counts GiB over all devices, and `cores`
    percent of one in steps of 25: ``{"memory": 8, "cores": 50, "devices": 2}``. One key for several dimensions has the
    greatest of their numbers.

    Raises:
        NoEquivalent: no key can express a dimension.
    """
    numbers: dict[str, Number] = {}
    for dimension in ("memory", "cores", "devices"):
        written = _number(target, form, request, dimension, row=row, defaults=defaults)
        if written is not None:
            name, number = written
            numbers[name] = max(number, numbers.get(name, number))
    if isinstance(form.devices, Derived):
        numbers.setdefault(form.devices.key, (request.devices or 1) * form.devices.per)
    return numbers


def _number(
    target: Vendor, form: Form, request: Request, dimension: Dimension, *, row: Row | None, defaults: Defaults
) -> tuple[str, Number] | None:
    """Return the key of one dimension and its number; None if the form, the row or an absent key means the same."""
    value: int | Memory | None = getattr(request, dimension)
    assert value is not None  # noqa: S101  (the request is settled)
    counts = dimension == "devices"
    if isinstance(form.devices, Derived) if counts else row is not None and getattr(row, dimension) is not None:
        return None
    literal = dimension in form.literals
    key = _key_for(form, dimension, value, needed_only=literal)
    if key is None:
        if not literal:
            _check_omittable(target, form, dimension, request)
        return None
    devices = request.devices or 1
    if literal and isinstance(form.devices, Derived) and form.devices.key == key.name:
        return None
    if counts and not key.of_container and _count_implied(form, key, devices, defaults):
        return None
    values = form.values(key, row)
    number = number_for(key if values is key.values else replace(key, values=values), value, devices)
    if number is None:
        raise NoEquivalent((f"{_spelling_of(target, key, request)} cannot express {value}",))
    return key.name, number


def _key_for(form: Form, dimension: Dimension, value: int | Memory, *, needed_only: bool) -> Key | None:
    """Return the first key that can express the value, keys in conditions of the form before others."""
    for key in form.written[dimension]:
        if needed_only and key.name not in form.needed:
            return None
        if _can_express(key, dimension, value):
            return key
    return None


def _can_express(key: Key, dimension: Dimension, value: int | Memory) -> bool:
    if dimension == "devices":
        return True
    if key.unit is None:
        return False
    if dimension == "memory":
        return (isinstance(value, Size) and key.sized) or (isinstance(value, Percent) and not key.sized)
    return isinstance(value, Percent)


def _count_implied(form: Form, key: Key, devices: int, defaults: Defaults) -> bool:
    """Return whether a count in a label or annotation can be omitted, because the form implies it."""
    required = any(key.name in condition.keys and not condition.absent for condition in form.when)
    if required or form.devices is not None:
        return not required and form.devices == devices
    return "devices" not in defaults and form.absent.devices == devices


def _check_omittable(target: Vendor, form: Form, dimension: Dimension, request: Request) -> None:
    """Check that a dimension which no key can express may be omitted with the same meaning."""
    value = getattr(request, dimension)
    meant = fill_absent(
        Request(
            request.devices,
            request.memory if dimension != "memory" else None,
            request.cores if dimension != "cores" else None,
        ),
        form.absent,
    )
    if getattr(meant, dimension) != value:
        for key in form.keys.values():
            if dimension in key.dimensions and key.unit is None:
                raise NoEquivalent(
                    (f"the unit of {_spelling_of(target, key, request)} is not configured: {key.document.why}",)
                )
        raise NoEquivalent((f"no key of {target.name} can express {dimension} {value}",))


def _binding(target: Vendor, request: Request) -> tuple[Binding, Row | None]:
    """Return the values of variables to write, and their row: the smallest that holds the request, or the configured one."""
    if not target.variables:
        return (), None
    for variable in target.variables.values():
        if not variable.write:
            continue
        if not variable.rows:
            return ((variable.name, variable.write[0]),), None
        sufficient = [
            (name, row)
            for name in variable.write
            if (row := variable.rows.get(name)) is not None and _is_sufficient(row, request)
        ]
        if not sufficient:
            raise NoEquivalent((f"none of {', '.join(variable.write)} holds {request}",))
        name, row = min(sufficient, key=lambda pair: _size_of(pair[1]))
        return ((variable.name, name),), row
    if (why := unconfigured_size(target)) is not None:
        raise NoEquivalent((f"the size of its devices is not configured: {why}",))
    if any(variable.rows for variable in target.variables.values()):
        raise NoEquivalent(
            (f"which of its names may be written is not configured (`variables` of {target.name}: `write`)",)
        )
    return (), None


def _spelling_of(target: Vendor, key: Key, request: Request) -> str:
    """Return the name of a key as it would be written, for messages."""
    variables = any(each.variables for each in key.spellings)
    return key.spelled(dict(_binding(target, request)[0]) if variables else {})


def _is_sufficient(row: Row, request: Request) -> bool:
    memory = row.least is None or (
        isinstance(row.least, Size) and isinstance(request.memory, Size) and row.least.bytes >= request.memory.bytes
    )
    cores = request.cores.value if isinstance(request.cores, Percent) else 0
    return memory and (not isinstance(row.least_cores, Percent) or row.least_cores.value >= cores)


def _size_of(row: Row) -> tuple[Number, Number]:
    return (
        row.least.bytes if isinstance(row.least, Size) else 0,
        row.least_cores.value if isinstance(row.least_cores, Percent) else 0,
    )
