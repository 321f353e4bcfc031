"""ResourceClaimTemplate → keys of a claim: what a template in manifests requests, if this webhook could have written it."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from webhook.mapping.model.keys import COUNT, Key
from webhook.mapping.model.schema import Claim
from webhook.mapping.model.vendor import Vendor
from webhook.mapping.requests.templates import claim_number, claim_text, selectors_of
from webhook.mapping.requests.values import KeyValue
from webhook.quantity import QuantityError

_VALUE: Final = re.compile(r"(?:== |contains\()'([^'\\]*)'")


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
        claim = vendor.claim
        if claim is None or not classes or not classes <= {claim.device_class, claim.whole_class}:
            continue
        if not _of_known_devices(claim, devices):
            return None
        read = {request.name: _read(vendor, claim.driver, request.exactly) for request in devices.requests}
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


def _read(vendor: Vendor, driver: str, exactly: _Exactly) -> tuple[KeyValue, ...] | None:
    requested = {} if exactly.capacity is None else dict(exactly.capacity.requests)
    expressions = {each.cel.expression for each in exactly.selectors}
    entries: list[KeyValue] = []
    for key in vendor.keys.values():
        name = key.spellings[0].text
        if key.claim == COUNT:
            entries.append(KeyValue(key.name, name, str(exactly.count), exactly.count))
            continue
        if key.kind == "text":
            text = _text_in(driver, vendor, key, expressions)
            entries.extend([KeyValue(key.name, name, text)] if text else [])
            expressions.difference_update(selectors_of(driver, key, text) if text else ())
            continue
        if not key.counted:
            continue
        written = requested.pop(key.claim or "", requested.pop(f"{driver}/{key.claim}", None))
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
