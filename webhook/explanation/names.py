"""A name explained: the vendors whose key it is, what its values are worth, and similar names."""

import re
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any, Final, Literal, TypeAlias

from webhook.mapping.model.keys import PLACEHOLDER, Condition, Derived, Form, Key, KeyPlace
from webhook.mapping.model.names import Owner, index
from webhook.mapping.model.policy import Policy
from webhook.mapping.model.vendor import OtherName, Vendor
from webhook.mapping.notation import glob_pattern
from webhook.mapping.values import unconfigured_size
from webhook.pod import DEVICE_CLASS
from webhook.request import ALL, MIB, UNLIMITED, Dimension, Memory, Number, Percent, bytes_text, number_text

_OTHER: Final[Mapping[str, str]] = {
    "other": "belongs to the request, but is not an amount",
    "text": "a text that chooses between forms",
    "selector": "selects devices",
    "container": "names the container that requests",
}


def counts_parts(vendor: Vendor, key: Key) -> bool:
    """Return whether a number of the key counts parts of one device: forms with several of it define the devices."""
    if "devices" not in key.dimensions:
        return False
    several = [form for form in vendor.forms if form.reads and any(_several(key, each) for each in form.when)]
    return bool(several) and all(isinstance(form.devices, int) for form in several)


def _several(key: Key, condition: Condition) -> bool:
    """Return whether the condition holds for numbers of the key above 1, but not without the key."""
    several = condition.present or (condition.numbers is not None and 2 in condition.numbers)  # noqa: PLR2004
    return key.name in condition.keys and not condition.absent and several


def worth(vendor: Vendor, key: Key, number: Number) -> str:
    """Return the meaning of a number of a vendor's key: ``16 x 256 MiB = 4096 MiB (4 GiB) of memory per device``."""
    if key.kind != "amount":
        return _OTHER["selector" if key.claim is not None else key.kind]
    if number == 0:
        return "0: not specified"
    if key.unit is None:
        return f"its unit has to be configured: {key.why}"
    return " and ".join(_worth(vendor, key, dimension, number) for dimension in key.dimensions)


def unit_text(vendor: Vendor, key: Key) -> str:
    """Return the meaning of 1 of a vendor's key."""
    if key.kind != "amount":
        return _OTHER["selector" if key.claim is not None else key.kind]
    if key.unit is None:
        return f"to be configured: {key.why}"
    return " and ".join(_unit_size(vendor, key, dimension) for dimension in key.dimensions)


def amount_phrase(value: int | Memory, dimension: Dimension) -> str:
    """Return an amount of one device, or a count of devices, as text."""
    if isinstance(value, int):
        return "1 device" if value == 1 else f"{value} devices"
    if value is UNLIMITED:
        return "no limit"
    if isinstance(value, Percent):
        return "all of the device" if value == ALL else f"{number_text(value.value)} % of the device's {dimension}"
    return mib_text(value.bytes)


def mib_text(amount: Number) -> str:
    """Return bytes in MiB, as memory of devices is usually counted, with a larger unit in parentheses if one fits."""
    text = bytes_text(amount)
    mib = f"{number_text(Fraction(amount) / MIB)} MiB"
    return text if amount < MIB or text == mib else f"{mib} ({text})"


def _worth(vendor: Vendor, key: Key, dimension: Dimension, number: Number) -> str:
    unit = key.unit or 1
    if dimension == "devices" and counts_parts(vendor, key):
        return "1 part of one device" if number == 1 else f"{number_text(number)} parts of one device"
    if dimension == "devices":
        return amount_phrase(int(number), "devices")
    per = "over all devices together" if key.total else "per device"
    if dimension == "memory" and key.sized:
        total = mib_text(number * unit)
        amount = total if unit == MIB else f"{number_text(number)} x {bytes_text(unit)} = {total}"
    else:
        amount = f"{number_text(number * unit)} %"
    return f"{amount} of {dimension} {per}"


def _unit_size(vendor: Vendor, key: Key, dimension: Dimension) -> str:
    unit = key.unit or 1
    if dimension == "devices":
        return "a part of one device" if counts_parts(vendor, key) else "a device"
    if key.sized and dimension == "memory":
        return bytes_text(unit)
    return f"{number_text(unit)} % of a device's {dimension}"


MAX_NEAR: Final = 3
"""The most names that are suggested for an unknown one."""

_PLACES: Final[Mapping[KeyPlace, str]] = {
    "resource": "resource, in limits",
    "borrowed": "resource of another vendor, in limits of containers that these keys request for",
    "label": "label of the pod",
    "annotation": "annotation of the pod",
    "nodeSelector": "nodeSelector of the pod; read only",
}
"""The places of keys."""


def similar_names(policy: Policy, name: str) -> tuple[str, ...]:
    """Return names that are probably meant, as the webhook takes them for what is misspelled in pods."""
    near = policy.near.find(name) or policy.near.find_in_metadata(name)
    if near is not None and near.meant:
        return (near.meant,)
    return policy.near.vaguely(name, policy.settings.target)[:MAX_NEAR]


Mark: TypeAlias = Literal["hint", "owned", "placed", "known"]
"""How a vendor uses a name that is not a key; see the fields of these names in a mapping."""

MARKS: Final[Mapping[Mark, str]] = {
    "hint": "an annotation that its scheduler reads; it is left, and has no effect where the pod is translated, "
    "unless into claims that select devices by it",
    "owned": "as an annotation or label written by its scheduler only; it is removed from new pods",
    "placed": "written to pods that run in its keys, unless they have another value (`place` of the mapping)",
    "known": "a name of another system: never read, and never taken for a misspelled key",
}


NameUse: TypeAlias = dict[str, Any]
"""The meaning of a name to one vendor, see `look_up`."""


def look_up(policy: Policy, name: str) -> dict[str, Any] | None:
    """Look up a name in a policy: a key, or the spelling of one with its variables (``a/{chip}.vMem``)."""
    explained: dict[str, Any] = {"name": name, "owner": None, "choice": None, "uses": [], "marks": []}
    explained |= {"advice": [], "device_class": None}
    device_class = name.removeprefix(DEVICE_CLASS)
    if device_class not in {name, ""}:
        return explained | {"device_class": device_class}
    vendors = sorted(policy.vendors.values(), key=lambda vendor: vendor.inactive)
    found = [(place, use) for vendor in vendors for place, use in _uses(vendor, name, policy)]
    if found:
        sharing = {use["vendor"] for place, use in found if place == "resource"}
        in_force = (use["vendor"] for _, use in found if use["in_force"])
        owner = next((each.vendor for each in policy.resources.owners(name)), None) or next(in_force, None)
        others = sorted(sharing - {owner})
        choice = f"owners: {{{name}: {others[0]}}}" if others and owner is not None else None
        return explained | {"owner": owner if sharing else None, "choice": choice, "uses": [use for _, use in found]}
    marks = [(vendor.name, mark) for vendor in vendors for mark in _marks(vendor, name)]
    return explained | {"marks": marks, "advice": _advice(vendors, name)} if marks else None


def _advice(vendors: Iterable[Vendor], name: str) -> list[str]:
    """What mappings say about a name of another system, each once."""
    advice = (entry.advice for vendor in vendors for entry in _known(vendor, name))
    return [*dict.fromkeys(filter(None, advice))]


def _uses(vendor: Vendor, name: str, policy: Policy) -> Iterator[tuple[KeyPlace, NameUse]]:
    inactive = ", inactive: not read here" if vendor.inactive else ""
    title = f"{vendor.name}{inactive}{f': {vendor.about}' if vendor.about else ''}"
    for place in _PLACES:
        owners = index([vendor], place).owners(name) or _templates(vendor, place, name)
        for owner in {owner.key_name: owner for owner in owners}.values():
            key = vendor.keys[owner.key_name]
            rows = {label: each for label, each in _rows(vendor, key, owner, policy) if each}
            yield place, {"vendor": vendor.name, "in_force": not vendor.inactive, "title": title, "rows": rows}


def _templates(vendor: Vendor, place: KeyPlace, name: str) -> tuple[Owner, ...]:
    return tuple(
        Owner(vendor.name, key.name)
        for key in vendor.keys.values()
        if key.place == place and any(template.text == name for template in (*key.spellings, key.twin) if template)
    )


def _rows(vendor: Vendor, key: Key, owner: Owner, policy: Policy) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield what a key is to a vendor, by labels."""
    spelled = tuple(template.text for template in (*key.spellings, key.twin) if template is not None)
    unit = _unit(vendor, key, owner)
    yield "place", (_PLACES[key.place],)
    yield "spelled", (" or ".join(spelled),) if len(spelled) > 1 else ()
    yield "for", () if owner.container is None else (f"container {owner.container}",)
    yield "specifies", (" and ".join(key.dimensions) or unit,)
    if key.dimensions:
        sized = {"memory", "cores"} & set(key.dimensions)
        yield "1 is", (f"{unit}{(', over all devices together' if key.total else ', per device') if sized else ''}",)
    yield "legal", (_legal(key),)
    yield "missing", tuple(_missing(vendor, key, policy))
    yield "rules", tuple(_rules(vendor))
    yield "traps", tuple(_traps(vendor, key))


def _unit(vendor: Vendor, key: Key, owner: Owner) -> str:
    """The meaning of 1, with the size in the name itself, or the configured size of every device."""
    chosen = dict(owner.binding)
    for variable in vendor.variables.values():
        value = next(iter(variable.write), None) if variable.everywhere else chosen.get(variable.name)
        row = variable.rows.get(value) if value is not None else None
        if row is not None and (row.memory or row.cores or "devices" in key.dimensions):
            sizes: tuple[tuple[Dimension, Memory | None], ...] = (("memory", row.memory), ("cores", row.cores))
            contained = [
                f"{dimension} {amount_phrase(size, dimension)}" for dimension, size in sizes if size is not None
            ]
            listed = f": {', '.join(contained)}" if contained else ""
            return f"{unit_text(vendor, key)} called {value}{listed}"
        if row is None and value is not None and variable.rows:
            known = value in vendor.variables[variable.name].listed
            return f"{unit_text(vendor, key)} called {value}, {'of unknown size' if known else 'which no known device has'}"
    why = unconfigured_size(vendor) if "devices" in key.dimensions else None
    unit = unit_text(vendor, key)
    return unit if why is None else f"{unit}; what it holds has to be configured: {why}"


def _legal(key: Key) -> str:
    if key.kind in {"text", "container"}:
        return "text"
    text = (
        str(key.values) if key.values is not None else "numbers from 0" if key.written == "decimal" else "whole numbers"
    )
    if key.written == "quantity":
        text = "a quantity such as 4Gi"
    if key.listed:
        text = f"{text}, one for each container by position"
    return f"{text}; written in multiples of {number_text(key.step)}" if key.step != 1 else text


def _missing(vendor: Vendor, key: Key, policy: Policy) -> Iterator[str]:
    """Yield the meaning of an absent key, for each of its dimensions."""
    for dimension in key.dimensions:
        if dimension == "devices" and counts_parts(vendor, key):
            continue
        others = [vendor.keys[name].spellings[0].text for name in vendor.by_dimension[dimension] if name != key.name]
        are = "is" if len(others) == 1 else "are"
        beside = f", if {' and '.join(others)} {are} missing too" if others else ""
        default = vendor.defaults.get(dimension)
        whole = dimension != "devices" and policy.settings.bare_devices == "whole"
        alone = "all of the device for a count alone, by the setting `bareDevices`, else " if whole else ""
        meanings = (
            [f"{alone}{amount_phrase(default.value, dimension)}, filled in by the mapping's default"]
            if default is not None
            else list(_meanings(vendor, key, dimension)) or ["it must be specified"]
        )
        yield from (f"{dimension}: {meaning}{beside}" for meaning in meanings)


def _meanings(vendor: Vendor, key: Key, dimension: Dimension) -> Iterator[str]:
    """Yield the meanings of a dimension in the forms that apply without the key, each once."""
    meanings: dict[str, list[str]] = {}
    for form in vendor.forms:
        conditions = [condition for condition in form.when if key.name in condition.keys]
        if any(not condition.absent for condition in conditions):
            continue
        decides = len(conditions) == len(form.when)
        if form.reads:
            meanings.setdefault(_in_form(form, dimension), []).append(form.name)
        if decides:
            break
    for meaning, forms in meanings.items():
        yield f"{meaning} ({' and '.join(forms)})" if forms and len(meanings) > 1 else meaning


def _in_form(form: Form, dimension: Dimension) -> str:
    literal = getattr(form, dimension)
    meaning = getattr(form.absent, dimension) if literal is None or isinstance(literal, Derived) else literal
    return "it must be specified" if meaning is None else amount_phrase(meaning, dimension)


def _rules(vendor: Vendor) -> Iterator[str]:
    """Yield the forms in the order in which they are tried; none if one accepts every combination."""
    if len(vendor.forms) == 1 and not vendor.forms[0].when:
        return
    for form in vendor.forms:
        where = " and ".join(_condition(vendor, condition) for condition in form.when) or "otherwise"
        yield f"read as {form.name!r} {where}" if form.reads else _verdict(vendor, form, where)


def _condition(vendor: Vendor, condition: Condition) -> str:
    """A condition as a part of a sentence: ``with the key``, ``without it``, ``with the key: 1``, ``… or without it``."""
    keys = " or ".join(vendor.keys[name].spellings[0].text for name in condition.keys)
    values = sorted(condition.texts) + ([] if condition.numbers is None else [str(condition.numbers)])
    having = f"with {keys}: {' or '.join(values)}" if values else f"with {keys}" if condition.present else ""
    if not condition.absent:
        return having
    return f"{having} or without it" if having else f"without {keys}"


def _verdict(vendor: Vendor, form: Form, where: str) -> str:
    """The text of a form that makes no request."""
    does = "denied" if form.deny is not None else "left unchanged"
    shown = {"value": "N", "below": "the next number below", "above": "the next number above"}
    shown |= {key.name: key.spellings[0].text for key in vendor.keys.values()}
    sentence = PLACEHOLDER.sub(lambda match: shown.get(match[1], match[0]), form.deny or form.leave or "")
    return f"{does} {where}: {sentence}"


def _traps(vendor: Vendor, key: Key) -> Iterator[str]:
    note = key.note
    if note is not None:
        yield " ".join(note.split())
    if key.retired is not None:
        yield f"Retired: {' '.join(key.retired.split())}"
    if key.total:
        does = "what does not divide is rounded down" if key.round == "down" else "has to divide by their number"
        yield f"It counts over all devices together, and {does}."
    for dimension in key.dimensions:
        yield from _not_counting(vendor, key, dimension)
    if key.place != "resource" and "devices" in key.dimensions:
        yield f"By itself the {key.place} requests nothing."
    if key.per_container:
        yield "The key names the container that it is meant for."
    for form in vendor.forms:
        if form.keys[key.name].total != key.total:
            yield f"In the form {form.name!r} it counts {'over all devices together' if not key.total else 'per device'}."


def _not_counting(vendor: Vendor, key: Key, dimension: Dimension) -> Iterator[str]:
    """Yield where the key has no effect on a dimension; a key for parts of a device never counts devices."""
    if dimension == "devices" and counts_parts(vendor, key):
        return
    first, *_ = vendor.by_dimension[dimension]
    if first != key.name:
        yield f"Beside {vendor.keys[first].spellings[0].text} it has no effect: that one counts."


def _marks(vendor: Vendor, name: str) -> Iterator[Mark]:
    if vendor.owned.hint(name):
        yield "hint"
    if name in vendor.owned.annotations or name in vendor.owned.labels:
        yield "owned"
    if any(name in written for written in vendor.place.written.values()):
        yield "placed"
    if any(_known(vendor, name)):
        yield "known"


def _known(vendor: Vendor, name: str) -> Iterator[OtherName]:
    entries = vendor.names_of_others()
    yield from (each for each in entries if re.fullmatch(glob_pattern(each.name), name, re.DOTALL))
