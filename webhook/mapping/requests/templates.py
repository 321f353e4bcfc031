"""Keys of a claim ↔ ResourceClaimTemplate: what the vendors with a section `claim` write, and read back.

Source of the fields: ``k8s.io/api/resource/v1/types.go``. A template is written as the API server stores it, with every
default, so that its name can be compared with what is stored.
"""

import string
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any, Final, NamedTuple

import msgspec

from webhook.mapping.model.vendor import COUNT, Key, Vendor
from webhook.mapping.requests.values import KeyValue
from webhook.quantity import Number, QuantityError, parse_quantity, simplest, stored_text
from webhook.request import ClaimTemplate

REQUEST: Final = "gpu"
"""The name of the one request in a claim of ours."""


def template_of(vendor: Vendor, entries: Iterable[KeyValue], *, whole: bool) -> ClaimTemplate:
    """Return the template of a request in the keys of a vendor with claims.

    Devices of one claim are never the same: ``distinctAttribute`` is written for one device, too. An API server that drops
    ``capacity``, and so would give a whole device in place of a share, refuses it.

    Args:
        vendor: has a section `claim`.
        entries: the keys of the request.
        whole: it is for whole devices.
    """
    claim = vendor.document.claim
    assert claim is not None  # noqa: S101  (by the caller)
    numbers = {entry.key_name: entry for entry in entries}
    counts = [int(entry.number) for name, entry in numbers.items() if vendor.keys[name].claimed == COUNT]
    selectors = [
        {"cel": {"expression": selector(claim.driver, vendor.keys[name], entry.text)}}
        for name, entry in numbers.items()
        if vendor.keys[name].kind == "text"
    ]
    without_capacity = whole and claim.whole_class is not None
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
    devices: dict[str, Any] = {"requests": [{"name": REQUEST, "exactly": exactly}]}
    if claim.distinct is not None:
        devices["constraints"] = [{"requests": [REQUEST], "distinctAttribute": f"{claim.driver}/{claim.distinct}"}]
    return ClaimTemplate.of({"spec": {"devices": devices}})


def _capacities(vendor: Vendor, numbers: Mapping[str, KeyValue]) -> dict[str, str]:
    capacities: dict[str, str] = {}
    for key in vendor.keys.values():
        if not key.capacity or key.claimed is None:
            continue
        entry = numbers.get(key.name)
        if entry is not None:
            capacities[key.claimed] = claim_text(key, entry.number)
        elif key.unset is not None:
            capacities[key.claimed] = str(key.unset)
    return capacities


def selector(driver: str, key: Key, value: str) -> str:
    """Return the CEL expression for devices whose attribute has this value; the value cannot leave its quotes."""
    for part, spelled in key.replaced:
        value = value.replace(part, spelled)
    quoted = "".join(character if character in _PLAIN else f"\\U{ord(character):08x}" for character in value)
    return f"device.attributes['{driver}'].{key.claimed} == '{quoted}'"


_PLAIN: Final = frozenset(string.ascii_letters + string.digits + " ._-+:/")
"""What stands for itself between the quotes of CEL; everything else is escaped."""


def claim_text(key: Key, number: Number) -> str:
    """Return the quantity of a number of a claim's key: bytes for a size, else the number itself."""
    unit = key.unit if key.sized and key.unit is not None else 1
    return stored_text(int(number * unit), binary=key.sized)


def claim_number(key: Key, text: str) -> Number:
    """Return the number of a claim's key that a quantity means.

    Raises:
        QuantityError: it is not a quantity.
    """
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
    distinct_attribute: str
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
    entries: tuple[KeyValue, ...]


def read_template(spec: object, vendors: Iterable[Vendor]) -> ClaimRead | None:
    """Return what a template requests; None if it cannot be read: another class, or more than a mapping can say.

    Read are one request for a number of devices with known capacities, our selectors and, at most, our constraint: no other
    selectors, no alternatives, no configuration, no access by administrators.

    Args:
        spec: the ``spec`` of a template, as plain data.
        vendors: those whose claims are known; the first with the class counts.
    """
    try:
        (request,) = (devices := msgspec.convert(spec, _TemplateSpec).spec.devices).requests
    except (msgspec.ValidationError, ValueError):
        return None
    exactly = request.exactly
    for vendor in vendors:
        claim = vendor.document.claim
        if claim is None or exactly.device_class_name not in {claim.device_class, claim.whole_class}:
            continue
        known = {f"{claim.driver}/{claim.distinct}"}
        if (
            exactly.allocation_mode != "ExactCount"
            or not {each.distinct_attribute for each in devices.constraints} <= known
        ):
            return None
        return _read(vendor, exactly)
    return None


def _read(vendor: Vendor, exactly: _Exactly) -> ClaimRead | None:
    claim = vendor.document.claim
    assert claim is not None  # noqa: S101  (by the caller)
    requested = {} if exactly.capacity is None else dict(exactly.capacity.requests)
    expressions = {each.cel.expression for each in exactly.selectors}
    entries: list[KeyValue] = []
    for key in vendor.keys.values():
        name = key.spellings[0].text
        if key.claimed == COUNT:
            entries.append(KeyValue(key.name, name, str(exactly.count), exactly.count))
            continue
        if key.kind == "text":
            known = vendor.variables[key.row_of or ""].rows
            selected = {selector(claim.driver, key, value): value for value in known}
            matching = expressions & selected.keys()
            expressions -= matching
            entries.extend(KeyValue(key.name, name, selected[each]) for each in matching)
            continue
        written = requested.pop(key.claimed or "", requested.pop(f"{claim.driver}/{key.claimed}", None))
        try:
            number = key.omitted if written is None else claim_number(key, str(written))
        except QuantityError:
            return None
        if number is not None and (written is None or number != key.unset):
            entries.append(KeyValue(key.name, name, claim_text(key, number), number))
    return None if requested or expressions else ClaimRead(vendor, tuple(entries))
