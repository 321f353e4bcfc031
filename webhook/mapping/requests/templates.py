"""Keys of a claim → ResourceClaimTemplate: what the vendors with a section `claim` write.

Source of the fields: ``k8s.io/api/resource/v1/types.go``. A template is written as the API server stores it, with every
default, so that its name can be compared with what is stored.
"""

import string
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, Final, NamedTuple

from webhook.mapping.model.keys import COUNT, Key
from webhook.mapping.model.vendor import Vendor
from webhook.mapping.requests.values import KeyValue
from webhook.quantity import Number, parse_quantity, simplest, stored_text
from webhook.request import ClaimTemplate, sorted_json

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
