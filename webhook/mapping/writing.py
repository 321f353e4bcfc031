"""Request → keys, in the first form of a target that reads back as the same, or why none does; keys of a claim → its template.

Source of the fields of a ResourceClaimTemplate: ``k8s.io/api/resource/v1/types.go``. It is written as the API server stores
it, with every default, so that its name can be compared with what is stored.
"""

import re
import string
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final, NamedTuple

import msgspec

from webhook.mapping.model.keys import COUNT, Binding, Derived, Form, Key, Row, Variable
from webhook.mapping.model.vendor import Vendor
from webhook.mapping.reading import read
from webhook.mapping.values import (
    Defaults,
    KeyValue,
    Reading,
    fill_absent,
    number_for,
    row_of,
    unconfigured_size,
    value_of,
)
from webhook.reasons import Denied
from webhook.request import (
    ALL,
    DIMENSIONS,
    MAX_VALUE,
    UNLIMITED,
    ClaimTemplate,
    Dimension,
    Memory,
    Number,
    Percent,
    Request,
    Size,
    exact_text,
    parse_quantity,
    simplest,
    sorted_json,
    stored_text,
)


class Written(msgspec.Struct, frozen=True, gc=False):
    """A request in a target's keys, with the result of reading them back under the defaults that would apply."""

    keys: Mapping[str, KeyValue]
    reading: Reading


_ADVICE: Final = re.compile(r": (?:write|leave|add|remove) ")
"""How advice begins: that on keys of the target is none for whoever writes those of the source."""


class NoEquivalent(Exception):  # noqa: N818  (a result, not an internal error)
    """No form of the target can express the request; `reasons` says why, the nearest form first."""

    def __init__(self, *reasons: str) -> None:
        self.reasons = reasons
        super().__init__("; ".join(reasons))


def write(
    target: Vendor, request: Request, defaults: Defaults, most_memory: int, container: str, *, named: Binding = ()
) -> Written:
    """Write a settled request in the keys of a vendor; memory and cores are rounded up per device to what it can express.

    Dimensions that `defaults` would fill when the keys are read again are written. With `named`, the value of a variable with
    a row that the source's keys name, that is written, whatever its size, in any form.

    Raises:
        NoEquivalent: no form can express it.
    """
    reasons: list[str] = []
    contradictions: list[tuple[Form, Dimension]] = []
    for form in (form for form in target.forms if form.reads and (form.write or named)):
        contradiction = _contradiction(form, request)
        if contradiction is not None:
            contradictions.append((form, contradiction))
            continue
        try:
            return _write_form(
                target, form, request, defaults, most_memory=most_memory, container=container, named=named
            )
        except NoEquivalent as error:
            reasons.extend(error.reasons)
    reasons += [f"the form {form.name!r} has {name} {getattr(form, name)}" for form, name in contradictions]
    raise NoEquivalent(*dict.fromkeys(reasons))


def _contradiction(form: Form, request: Request) -> Dimension | None:
    """Return the dimension in which a value of the form itself differs from the request; None if there is none."""
    for dimension in DIMENSIONS if form.literals else ():
        literal = getattr(form, dimension)
        if literal is not None and not isinstance(literal, Derived) and literal != getattr(request, dimension):
            return dimension
    return None


def _write_form(
    target: Vendor,
    form: Form,
    request: Request,
    defaults: Defaults,
    *,
    most_memory: int,
    container: str,
    named: Binding,
) -> Written:
    binding, row = (named, target.variables[named[0][0]].rows[named[0][1]]) if named else _binding(target, request)
    numbers = _numbers(target, form, request, row, defaults)
    variables = {**dict(binding), "container": container}
    key_values = {name: _key_value(form.keys[name], number, variables, binding) for name, number in numbers.items()}
    key_values |= {entry.key_name: entry for entry in _texts(form, variables)}
    try:
        reading = read(target, key_values, defaults, most_memory, container, home=True)
    except Denied as denial:
        raise NoEquivalent(_ADVICE.split(denial.finding.message)[0]) from None
    if reading.form is not form:
        raise NoEquivalent(f"it would be read back as {reading.form.name!r}")
    for dimension, default in reading.filled.items():
        value = getattr(request, dimension)
        raise NoEquivalent(f"no key specifies {dimension} {value}, and {default.named(dimension)} would apply")
    read_row = row and row_of(target, key_values)[0]
    difference = None if named else _read_back_difference(form, request, reading, numbers, read_row)
    if difference is not None:
        raise NoEquivalent(difference)
    return Written(key_values, reading)


def _key_value(key: Key, number: Number, variables: Mapping[str, str], binding: Binding) -> KeyValue:
    spelled = key.spelled(variables)
    if "{" in spelled:
        raise NoEquivalent(f"the name to write for {spelled} is not configured (`variables`: `write`)")
    if number > MAX_VALUE:
        raise NoEquivalent(f"{spelled} would be {exact_text(number)}, more than any resource can hold (2^63 - 1)")
    if binding and spelled in [each.text for each in key.spellings]:
        binding = ()  # no reader learns the values of variables from a name without them
    text = exact_text(number) if key.claim is None else claim_text(key, number)
    return KeyValue(key.name, spelled, text, number, binding)


def _texts(form: Form, variables: Mapping[str, str]) -> Iterator[KeyValue]:
    """Yield the texts that the form requires, the first of each condition, and those of claims that name a row.

    A nodeSelector is never written.
    """
    for key in form.keys.values():
        if key.claim is not None and key.row_of is not None and key.row_of in variables:
            yield KeyValue(key.name, key.spellings[0].text, variables[key.row_of])
    for condition in form.when:
        if condition.texts and not condition.absent and form.keys[condition.keys[0]].place != "nodeSelector":
            key = form.keys[condition.keys[0]]
            yield KeyValue(key.name, key.spelled(variables), condition.texts[0])


def _read_back_difference(
    form: Form, request: Request, reading: Reading, numbers: Mapping[str, Number], row: Row | None
) -> str | None:
    """Return how what is read back from written numbers differs from the request; None if it means the same.

    The devices of a row may be larger than requested.
    """
    read_back = reading.request
    if read_back == request:
        return None
    if read_back.devices != request.devices:
        return f"{read_back.devices} devices would be read instead of {request.devices}"
    for dimension in ("memory", "cores"):
        requested, actual = getattr(request, dimension), getattr(read_back, dimension)
        rounded = row is not None or actual in (requested, *_intended(form, dimension, numbers, read_back.devices or 1))
        # Where memory was rounded up to all of a device, nothing else fits there.
        if not (rounded and _at_least(actual, requested)) and not (read_back.whole and requested is UNLIMITED):
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


def _numbers(target: Vendor, form: Form, request: Request, row: Row | None, defaults: Defaults) -> dict[str, Number]:
    """Return the number of each key that a form needs for a request.

    For example, 2 devices with 4 GiB and 30 % of the cores each, where `memory` counts GiB over all devices, and `cores`
    percent of one in steps of 25: ``{"memory": 8, "cores": 50, "devices": 2}``. One key for several dimensions has the
    greatest of their numbers.
    """
    numbers: dict[str, Number] = {}
    derived = form.devices if isinstance(form.devices, Derived) else None
    for dimension in ("memory", "cores", "devices"):
        if (derived if dimension == "devices" else getattr(row, dimension, None)) is not None:
            continue
        key = _key_for(target, form, request, dimension, defaults)
        if key is None or (key.name == getattr(derived, "key", None) and dimension in form.literals):
            continue
        values, value = form.values(key, row), getattr(request, dimension)
        limited = key if values is key.values else key.model_copy(update={"values": values})
        number = number_for(limited, value, request.devices or 1)
        if number is None:
            raise NoEquivalent(f"{_spelling_of(target, key, request)} cannot express {value}")
        numbers[key.name] = max(number, numbers.get(key.name, number))
    if derived is not None:
        numbers.setdefault(derived.key, (request.devices or 1) * derived.per)
    return numbers


def _key_for(target: Vendor, form: Form, request: Request, dimension: Dimension, defaults: Defaults) -> Key | None:
    """Return the first key that can express a dimension, those in conditions of the form before others.

    None if the form itself, or that the key is missing, means the same.
    """
    value, literal = getattr(request, dimension), dimension in form.literals
    for key in form.written[dimension]:
        if literal and key.name not in form.needed:
            return None
        if _can_express(key, dimension, value):
            implied = dimension == "devices" and not key.of_container and _count_implied(form, key, value, defaults)
            return None if implied else key
    if not literal:
        _check_omittable(target, form, dimension, request)
    return None


def _can_express(key: Key, dimension: Dimension, value: int | Memory) -> bool:
    if dimension == "devices" or key.unit is None:
        return dimension == "devices"
    return isinstance(value, Size if dimension == "memory" and key.sized else Percent)


def _count_implied(form: Form, key: Key, devices: int, defaults: Defaults) -> bool:
    """Return whether a count in a label or annotation can be omitted, because the form implies it."""
    required = any(key.name in condition.keys and not condition.absent for condition in form.when)
    if required or form.devices is not None:
        return not required and form.devices == devices
    return "devices" not in defaults and form.absent.devices == devices


def _check_omittable(target: Vendor, form: Form, dimension: Dimension, request: Request) -> None:
    """Check that a dimension which no key can express may be omitted with the same meaning."""
    without = request if dimension == "devices" else msgspec.structs.replace(request, **{dimension: None})
    value = getattr(request, dimension)
    if getattr(fill_absent(without, form.absent), dimension) != value:
        for key in form.keys.values():
            if dimension in key.dimensions and key.unit is None:
                spelled = _spelling_of(target, key, request)
                raise NoEquivalent(f"the unit of {spelled} is not configured: {key.why}")
        raise NoEquivalent(f"no key of {target.name} can express {dimension} {value}")


def _binding(target: Vendor, request: Request) -> tuple[Binding, Row | None]:
    """Return the values of variables to write, and their row: the smallest that holds the request, or the configured one."""
    for variable in target.variables.values():
        if variable.write:
            return _written_name(variable, request)
    if target.variables and (why := unconfigured_size(target)) is not None:
        raise NoEquivalent(f"the size of its devices is not configured: {why}")
    open_ones = [variable for variable in target.variables.values() if variable.rows]
    if open_ones:
        setting = f"`variables: {{{open_ones[0].name}: {{write: [{next(iter(open_ones[0].rows))}]}}}}`"
        raise NoEquivalent(
            f"which of its names to write is not configured: ask the administrator for those that nodes offer, as in "
            f"{setting} with `extends: {target.name}`"
        )
    return (), None


def _written_name(variable: Variable, request: Request) -> tuple[Binding, Row | None]:
    if not variable.rows:
        return ((variable.name, variable.write[0]),), None
    rows = [(name, row) for name in variable.write if (row := variable.rows.get(name)) and _is_sufficient(row, request)]
    if not rows:
        raise NoEquivalent(f"none of {', '.join(variable.write)} holds {request}")
    name, row = min(rows, key=lambda pair: _size_of(pair[1]))
    return ((variable.name, name),), row


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
    memory = row.least.bytes if isinstance(row.least, Size) else 0
    return memory, row.least_cores.value if isinstance(row.least_cores, Percent) else 0


MAX_SELECTED: Final = 16
"""The most models or devices that a list selects: a selector of a claim has at most 10 KiB, and its cost is limited, too."""

REQUEST: Final = "gpu"  # the name of the one request in a claim of ours; of several, a number follows
MAX_REQUESTS: Final = 32  # the most requests of a claim


class DeviceRequest(NamedTuple):
    """A request of a claim: its keys, and whether it is for whole devices."""

    entries: tuple[KeyValue, ...]
    whole: bool


def template_of(vendor: Vendor, requests: Mapping[str, DeviceRequest]) -> ClaimTemplate:
    """Return the template of requests in the keys of a vendor with claims.

    Devices of one request are never the same: ``distinctAttribute`` is written for one device, too. An API server that drops
    ``capacity``, and so would give a whole device in place of a share, refuses it. Several requests are of one device.
    """
    claim = vendor.claim
    assert claim is not None  # noqa: S101  (by the caller)
    names = sorted(requests, key=lambda name: (len(name), name))
    devices: dict[str, Any] = {
        "requests": [{"name": name, "exactly": _exactly(vendor, requests[name])} for name in names]
    }
    constraints: list[dict[str, Any]] = []
    if claim.distinct is not None:
        constraints.append({"requests": names[:1], "distinctAttribute": f"{claim.driver}/{claim.distinct}"})
    if len(names) > 1:
        constraints.append({"requests": names, "matchAttribute": f"{claim.driver}/{claim.matching}"})
    if constraints:
        devices["constraints"] = constraints
    return ClaimTemplate.of({"spec": {"devices": devices}})


def request_names(vendor: Vendor, requests: Sequence[DeviceRequest]) -> list[str]:
    """Return a name for each request of one claim, in their order: the same requests in any order make the same template."""
    if len(requests) == 1:
        return [REQUEST]
    contents = [sorted_json(_exactly(vendor, request)) for request in requests]
    ranks = {position: rank for rank, position in enumerate(sorted(range(len(contents)), key=contents.__getitem__))}
    return [f"{REQUEST}-{ranks[position]}" for position in range(len(contents))]


def same_request(vendor: Vendor, one: DeviceRequest, other: DeviceRequest) -> bool:
    """Return whether two requests say the same in a claim."""
    return _exactly(vendor, one) == _exactly(vendor, other)


def _exactly(vendor: Vendor, request: DeviceRequest) -> dict[str, Any]:
    claim = vendor.claim
    assert claim is not None  # noqa: S101  (by the caller)
    numbers = {entry.key_name: entry for entry in request.entries}
    count, selectors = 1, []
    for name, entry in numbers.items():
        key = vendor.keys[name]
        if key.claim == COUNT:
            count = int(entry.number)
        elif key.kind == "text":
            expressions = selectors_of(claim.driver, key, entry.text)
            selectors += [{"cel": {"expression": expression}} for expression in expressions]
    whole = claim.whole_class if request.whole else None
    exactly: dict[str, Any] = {
        "deviceClassName": whole or claim.device_class,
        "allocationMode": "ExactCount",
        "count": count,
    }
    if whole is None and (capacities := _capacities(vendor, numbers)):
        exactly["capacity"] = {"requests": capacities}
    if selectors:
        exactly["selectors"] = selectors
    return exactly


def _capacities(vendor: Vendor, numbers: Mapping[str, KeyValue]) -> dict[str, str]:
    capacities: dict[str, str] = {}
    for key in (key for key in vendor.keys.values() if key.capacity):
        entry = numbers.get(key.name)
        if entry is not None or key.unset is not None:
            capacities[str(key.claim)] = str(key.unset) if entry is None else claim_text(key, entry.number)
    return capacities


def selectors_of(driver: str, key: Key, text: str) -> list[str]:
    """Return the CEL expressions for devices whose attribute is as the text of its key says; no value can leave its quotes."""
    attribute = f"device.attributes['{driver}'].{key.claim}"
    if key.selects is None:
        return [f"{attribute} == {_quoted(_replaced(key, text))}"]

    def any_of(values: list[str]) -> str:
        quoted = map(_quoted, values)
        if key.selects == "uuid":
            return " || ".join(f"{attribute} == {value}" for value in quoted)
        return " || ".join(f"{attribute}.lowerAscii().contains({value})" for value in quoted)

    values = text.split(",")
    wanted = [_replaced(key, value) for value in values if not value.startswith("!")]
    others = [_replaced(key, value[1:]) for value in values if value.startswith("!")]
    return [*([any_of(wanted)] if wanted else []), *([f"!({any_of(others)})"] if others else [])]


def _replaced(key: Key, text: str) -> str:
    spelled = text
    for part, driver_spells in key.replace.items():
        spelled = spelled.replace(part, driver_spells)
    return spelled or text  # every name contains an empty one


def _quoted(value: str) -> str:
    return f"'{''.join(each if each in _PLAIN else f'{_ESCAPE}{ord(each):08x}' for each in value)}'"


_ESCAPE: Final = "\\U"
_PLAIN: Final = frozenset(string.ascii_letters + string.digits + " ._-+:/")
"""What stands for itself between the quotes of CEL; everything else is escaped."""


def claim_text(key: Key, number: Number) -> str:
    """Return the quantity of a number of a claim's key: bytes for a size, else the number itself."""
    unit = key.unit if key.sized and key.unit is not None else 1
    return stored_text(int(number * unit), binary=key.sized)


def claim_number(key: Key, text: str) -> Number:
    """Return the number of a claim's key that a quantity means."""
    unit = key.unit if key.sized and key.unit is not None else 1
    return simplest(Fraction(parse_quantity(text)) / unit)
