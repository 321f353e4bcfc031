"""Keys of a claim ↔ ResourceClaimTemplate: what the vendors with a section `claim` write, and read back.

Source of the fields: ``k8s.io/api/resource/v1/types.go``. A template is written as the API server stores it, with every
default, so that its name can be compared with what is stored.
"""

import re
import string
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final, NamedTuple

import msgspec

from webhook.mapping.model.keys import COUNT, Key
from webhook.mapping.model.schema import Claim
from webhook.mapping.model.vendor import Vendor
from webhook.mapping.requests.values import KeyValue
from webhook.quantity import Number, QuantityError, parse_quantity, simplest, stored_text
from webhook.request import ClaimTemplate, sorted_json

MAX_SELECTED: Final = 16
"""The most models or devices that a list selects: a selector of a claim has at most 10 KiB, and its cost is limited, too."""

REQUEST: Final = "gpu"
"""The name of the one request in a claim of ours; of several, a number follows."""

MAX_REQUESTS: Final = 32
"""The most requests of a claim."""


class DeviceRequest(NamedTuple):
    """A request of a claim: its keys, and whether it is for whole devices."""

    entries: tuple[KeyValue, ...]
    whole: bool


def template_of(vendor: Vendor, requests: Mapping[str, DeviceRequest]) -> ClaimTemplate:
    """Return the template of requests in the keys of a vendor with claims.

    Devices of one request are never the same: ``distinctAttribute`` is written for one device, too. An API server that drops
    ``capacity``, and so would give a whole device in place of a share, refuses it. Several requests are of one device.
    """
    claim = _claim(vendor)
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


def _claim(vendor: Vendor) -> Claim:
    assert vendor.claim is not None  # noqa: S101  (by the caller)
    return vendor.claim


def _exactly(vendor: Vendor, request: DeviceRequest) -> dict[str, Any]:
    claim = _claim(vendor)
    numbers = {entry.key_name: entry for entry in request.entries}
    counts = [int(entry.number) for name, entry in numbers.items() if vendor.keys[name].claim == COUNT]
    selectors = [
        {"cel": {"expression": expression}}
        for name, entry in numbers.items()
        if vendor.keys[name].kind == "text"
        for expression in selectors_of(claim.driver, vendor.keys[name], entry.text)
    ]
    without_capacity = request.whole and claim.whole_class is not None
    capacities = {} if without_capacity else _capacities(vendor, numbers)
    exactly: dict[str, Any] = {
        "deviceClassName": claim.whole_class if without_capacity else claim.device_class,
        "allocationMode": "ExactCount",
        "count": counts[0] if counts else 1,
    }
    if capacities:
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
_VALUE: Final = re.compile(r"(?:== |contains\()'([^'\\]*)'")
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


class _Known(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    pass


class _Capacity(_Known, frozen=True):
    requests: dict[str, str | int] = {}


class _Cel(_Known, frozen=True):
    expression: str


class _Selector(_Known, frozen=True):
    cel: _Cel


class _Exactly(_Known, frozen=True):
    device_class_name: str
    allocation_mode: str = "ExactCount"
    count: int = 1
    capacity: _Capacity | None = None
    selectors: list[_Selector] = []


class _DeviceRequest(_Known, frozen=True):
    name: str
    exactly: _Exactly


class _Constraint(_Known, frozen=True):
    distinct_attribute: str | None = None
    match_attribute: str | None = None
    requests: list[str] = []


class _Devices(_Known, frozen=True):
    requests: list[_DeviceRequest]
    constraints: list[_Constraint] = []


class _ClaimSpec(_Known, frozen=True):
    devices: _Devices


class _TemplateSpec(_Known, frozen=True):
    spec: _ClaimSpec
    metadata: dict[str, Any] = {}


class ClaimRead(NamedTuple):
    """The keys that a template requests in: those of a vendor with claims, as they are written in a pod's."""

    vendor: Vendor
    requests: Mapping[str, tuple[KeyValue, ...]]


def read_template(spec: object, vendors: Iterable[Vendor]) -> ClaimRead | None:
    """Return what a template requests; None if it cannot be read: another class, or more than a mapping can say.

    Read are one request for a number of devices with known capacities, our selectors and, at most, our constraint, or several
    on one device: no other selectors, no alternatives, no configuration, no access by administrators.
    """
    try:
        devices = msgspec.convert(spec, _TemplateSpec).spec.devices
    except msgspec.ValidationError:
        return None
    classes = {request.exactly.device_class_name for request in devices.requests}
    for vendor in vendors:
        claim = vendor.document.claim
        if claim is None or not classes or not classes <= {claim.device_class, claim.whole_class}:
            continue
        if not _of_known_devices(claim, devices):
            return None
        read = {request.name: _read(vendor, request.exactly) for request in devices.requests}
        requests = {name: entries for name, entries in read.items() if entries is not None}
        return ClaimRead(vendor, requests) if len(requests) == len(devices.requests) else None
    return None


def _of_known_devices(claim: Claim, devices: _Devices) -> bool:
    """Whether requests take devices as ours do: one any, or several one and the same."""
    if any(request.exactly.allocation_mode != "ExactCount" for request in devices.requests):
        return False
    distinct = [each for each in devices.constraints if each.match_attribute is None]
    if any(each.distinct_attribute != f"{claim.driver}/{claim.distinct}" for each in distinct):
        return False
    names = {request.name for request in devices.requests}
    if len(names) == 1:
        return len(distinct) == len(devices.constraints)
    matching = [each for each in devices.constraints if each.match_attribute is not None]
    return (
        claim.matching is not None
        and all(request.exactly.count == 1 for request in devices.requests)
        and all(len(each.requests) == 1 for each in distinct)
        and len(matching) == 1
        and matching[0].match_attribute == f"{claim.driver}/{claim.matching}"
        and matching[0].distinct_attribute is None
        and set(matching[0].requests or names) == names
    )


def _read(vendor: Vendor, exactly: _Exactly) -> tuple[KeyValue, ...] | None:
    claim = _claim(vendor)
    requested = {} if exactly.capacity is None else dict(exactly.capacity.requests)
    expressions = {each.cel.expression for each in exactly.selectors}
    entries: list[KeyValue] = []
    for key in vendor.keys.values():
        name = key.spellings[0].text
        if key.claim == COUNT:
            entries.append(KeyValue(key.name, name, str(exactly.count), exactly.count))
            continue
        if key.kind == "text":
            text = _text_in(claim.driver, vendor, key, expressions)
            entries.extend([KeyValue(key.name, name, text)] if text else [])
            expressions.difference_update(selectors_of(claim.driver, key, text) if text else ())
            continue
        if not key.counted:
            continue
        written = requested.pop(key.claim or "", requested.pop(f"{claim.driver}/{key.claim}", None))
        try:
            number = key.omitted if written is None else claim_number(key, str(written))
        except QuantityError:
            return None
        if number is not None and (written is None or number != key.unset):
            entries.append(KeyValue(key.name, name, claim_text(key, number), number))
    return None if requested or expressions else tuple(entries)


def _text_in(driver: str, vendor: Vendor, key: Key, expressions: Iterable[str]) -> str:
    """Return the text of an attribute's key from which expressions were written; empty if none was."""
    if key.row_of is not None:
        rows = vendor.variables[key.row_of].rows
        return next((name for name in rows if selectors_of(driver, key, name)[0] in expressions), "")
    texts: list[str] = []
    for expression in sorted(expressions, key=lambda each: each.startswith("!")):
        sign = "!" if expression.startswith("!") else ""
        text = ",".join(f"{sign}{value}" for value in _VALUE.findall(expression))
        texts.extend([text] if text and selectors_of(driver, key, text) == [expression] else [])
    return ",".join(texts)
