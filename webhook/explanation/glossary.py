"""Whose key a name is in a policy and what it means there, for people."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from webhook.explanation.similar import PLACES, similar_names
from webhook.explanation.worth import amount_in_words, unit_text
from webhook.mapping.model.names import Owner, index
from webhook.mapping.model.policy import Policy
from webhook.mapping.model.vendor import Condition, Derived, Form, Key, KeyPlace, Vendor
from webhook.mapping.notation.glob import glob_pattern
from webhook.mapping.requests.denials import PLACEHOLDER
from webhook.mapping.requests.key_values import unset
from webhook.pod import DEVICE_CLASS
from webhook.quantity import number_text
from webhook.request import Dimension, Memory

Mark: TypeAlias = Literal["hint", "owned", "known"]
"""What a name that is no key is to a vendor; see the keys of that name in a mapping."""


@dataclass(frozen=True, slots=True)
class Use:
    """What one vendor takes a name for.

    Attributes:
        vendor, family, about: the vendor.
        in_force: its keys are read here; else it is inactive.
        place: where the name has to stand.
        key_name: the mapping's name of the key.
        keys: all its spellings; the first is written.
        container: the container that this key is meant for, where the key names one.
        kinds: the dimensions, or ``other``, ``text``, ``container``.
        unit: what 1 is worth, in keys.
        per: ``card`` or ``total``; None where neither makes sense.
        legal: the numbers that are taken, in keys.
        missing: what it means that the key is not there.
        rules: the forms of the vendor, in the order in which they are tried.
        traps: what is easily misunderstood.
    """

    vendor: str
    family: str
    about: str | None
    in_force: bool
    place: KeyPlace
    key_name: str
    keys: tuple[str, ...]
    container: str | None
    kinds: tuple[str, ...]
    unit: str
    per: Literal["device", "total"] | None
    legal: str
    missing: tuple[str, ...]
    rules: tuple[str, ...]
    traps: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """All there is to say about a name.

    Attributes:
        name: as it was asked for.
        owner: the vendor whose key it is here as a resource, None where that is nobody's.
        choice: the setting that would put another vendor in force, where several have the key.
        uses: as a key, those in force first.
        marks: (vendor, what it is to that vendor) where it is no key.
        near: known names that resemble it, where nobody knows it.
        device_class: the DeviceClass whose own name as a resource it is.
    """

    name: str
    owner: str | None
    choice: str | None
    uses: tuple[Use, ...] = ()
    marks: tuple[tuple[str, Mark], ...] = ()
    near: tuple[str, ...] = ()
    device_class: str | None = None

    @property
    def known(self) -> bool:
        """Whether any vendor knows the name, or Kubernetes does."""
        return bool(self.uses or self.marks or self.device_class)


def look_up(policy: Policy, name: str) -> Entry:
    """What the vendors of a policy take a name for: a key, or the spelling of one with its variables (``a/{chip}.vMem``)."""
    if name.startswith(DEVICE_CLASS):
        return Entry(name, None, None, device_class=name.removeprefix(DEVICE_CLASS))
    vendors = sorted(policy.vendors.values(), key=lambda vendor: vendor.inactive)
    uses = [use for vendor in vendors for use in _uses(vendor, name)]
    owners = policy.resources.owners(name)
    marks = [(vendor.name, mark) for vendor in vendors for mark in _marks(vendor, name)] if not uses else []
    sharing = {use.vendor for use in uses if use.place == "resource"}
    owner = owners[0].vendor if owners else next((use.vendor for use in uses if use.in_force), None)
    others = sorted(sharing - {owner})
    choice = f"owners: {{{name}: {others[0]}}}" if others and owner is not None else None
    near = () if uses or marks else similar_names(policy, name)
    return Entry(name, owner if sharing else None, choice, tuple(uses), tuple(marks), near)


def _uses(vendor: Vendor, name: str) -> Iterator[Use]:
    for place in PLACES:
        owners = index([vendor], place).owners(name) or _templates(vendor, place, name)
        for owner in {one.key_name: one for one in owners}.values():
            yield _use(vendor, vendor.keys[owner.key_name], owner)


def _templates(vendor: Vendor, place: KeyPlace, name: str) -> tuple[Owner, ...]:
    return tuple(
        Owner(vendor.name, word.name)
        for word in vendor.keys.values()
        if word.place == place and any(template.text == name for template in (*word.spellings, word.twin) if template)
    )


def _use(vendor: Vendor, word: Key, owner: Owner) -> Use:
    sizes = {"memory", "cores"} & set(word.dimensions)
    return Use(
        vendor=vendor.name,
        family=vendor.family,
        about=vendor.document.about,
        in_force=not vendor.inactive,
        place=word.place,
        key_name=word.name,
        keys=tuple(template.text for template in (*word.spellings, word.twin) if template is not None),
        container=owner.container,
        kinds=word.dimensions or (word.kind,),
        unit=_unit(vendor, word, owner),
        per=None if not sizes else "total" if word.total else "device",
        legal=_legal(word),
        missing=tuple(_missing(vendor, word)),
        rules=tuple(_rules(vendor)),
        traps=tuple(_traps(vendor, word)),
    )


def _unit(vendor: Vendor, word: Key, owner: Owner) -> str:
    """What 1 is worth, with what the name itself says, or what the cluster says of every device."""
    chosen = dict(owner.binding)
    for variable in vendor.variables.values():
        value = next(iter(variable.write), None) if variable.everywhere else chosen.get(variable.name)
        row = variable.rows.get(value) if value is not None else None
        if row is not None and (row.memory or row.cores or "devices" in word.dimensions):
            sizes: tuple[tuple[Dimension, Memory | None], ...] = (("memory", row.memory), ("cores", row.cores))
            held = [f"{dimension} {amount_in_words(size, dimension)}" for dimension, size in sizes if size is not None]
            told = f": {', '.join(held)}" if held else ""
            return f"{unit_text(vendor, word)} called {value}{told}"
    why = unset(vendor) if "devices" in word.dimensions else None
    one = unit_text(vendor, word)
    return one if why is None else f"{one}; what it holds has to be configured: {why}"


def _legal(word: Key) -> str:
    if word.kind in {"text", "container"}:
        return "text"
    said = (
        str(word.values)
        if word.values is not None
        else "numbers from 0"
        if word.written == "decimal"
        else "whole numbers"
    )
    if word.written == "quantity":
        said = "a quantity such as 4Gi"
    if word.listed:
        said = f"{said}, one for each container by position"
    return f"{said}; written in multiples of {number_text(word.step)}" if word.step != 1 else said


def _missing(vendor: Vendor, word: Key) -> Iterator[str]:
    """What it means for each dimension that the key says that it is not there."""
    for dimension in word.dimensions:
        if dimension == "devices" and vendor.counts_parts(word):
            continue
        others = [vendor.keys[name].spellings[0].text for name in vendor.by_dimension[dimension] if name != word.name]
        are = "is" if len(others) == 1 else "are"
        beside = f", if {' and '.join(others)} {are} missing too" if others else ""
        default = vendor.defaults.get(dimension)
        meanings = (
            [f"{amount_in_words(default.value, dimension)}, filled in by the mapping's default"]
            if default is not None
            else list(_meanings(vendor, word, dimension)) or ["it has to be said"]
        )
        yield from (f"{dimension}: {meaning}{beside}" for meaning in meanings)


def _meanings(vendor: Vendor, word: Key, dimension: Dimension) -> Iterator[str]:
    """What the forms that can hold without the key take the dimension for, each meaning once."""
    found: dict[str, list[str]] = {}
    for form in vendor.forms:
        about = [condition for condition in form.when if word.name in condition.keys]
        if any(not condition.absent for condition in about):
            continue
        decides = len(about) == len(form.when)
        if form.reads:
            found.setdefault(_in_form(form, dimension), []).append(form.name)
        elif decides:
            found.setdefault(_verdict(vendor, form), [])
        if decides:
            break
    for meaning, forms in found.items():
        yield f"{meaning} ({' and '.join(forms)})" if forms and len(found) > 1 else meaning


def _in_form(form: Form, dimension: Dimension) -> str:
    literal = getattr(form, dimension)
    meaning = getattr(form.absent, dimension) if literal is None or isinstance(literal, Derived) else literal
    return "it has to be said" if meaning is None else amount_in_words(meaning, dimension)


def _rules(vendor: Vendor) -> Iterator[str]:
    """The forms in the order in which they are tried; nothing where one takes every combination."""
    if len(vendor.forms) == 1 and not vendor.forms[0].when:
        return
    for form in vendor.forms:
        when = " and ".join(_condition(vendor, condition) for condition in form.when)
        where = f"with {when}" if when else "else"
        yield f"{form.name!r} {where}" if form.reads else _verdict(vendor, form, where)


def _condition(vendor: Vendor, condition: Condition) -> str:
    keys = " or ".join(vendor.keys[name].spellings[0].text for name in condition.keys)
    values = ["absent"] * condition.absent + ["present"] * condition.present + sorted(condition.texts)
    if condition.numbers is not None:
        values.append(str(condition.numbers))
    return f"{keys} {' or '.join(values)}"


def _verdict(vendor: Vendor, form: Form, where: str = "") -> str:
    """What a form says that makes no request."""
    does = "refused" if form.deny is not None else "left as it stands"
    shown = {"value": "N", "below": "the next number below", "above": "the next number above"}
    shown |= {word.name: word.spellings[0].text for word in vendor.keys.values()}
    sentence = PLACEHOLDER.sub(lambda match: shown.get(match[1], match[0]), form.deny or form.leave or "")
    return f"{does} {where}: {sentence}" if where else f"{does}: {sentence}"


def _traps(vendor: Vendor, word: Key) -> Iterator[str]:
    note = vendor.document.keys[word.name].note
    if note is not None:
        yield " ".join(note.split())
    if word.retired is not None:
        yield f"Retired: {' '.join(word.retired.split())}"
    if word.total:
        does = "what does not divide is rounded down" if word.rounding == "down" else "has to divide by their number"
        yield f"It counts over all devices together, and {does}."
    for dimension in word.dimensions:
        yield from _not_counting(vendor, word, dimension)
    if word.place != "resource" and "devices" in word.dimensions:
        yield f"By itself the {word.place} asks for nothing."
    if word.per_container:
        yield "The key names the container that it is meant for."
    for form in vendor.forms:
        if form.keys[word.name].total != word.total:
            yield f"In the form {form.name!r} it counts {'over all devices together' if not word.total else 'per device'}."


def _not_counting(vendor: Vendor, word: Key, dimension: Dimension) -> Iterator[str]:
    """Where the key has no effect for a dimension; one that counts parts of a device says no number of devices anywhere."""
    if dimension == "devices" and vendor.counts_parts(word):
        return
    first, *_ = vendor.by_dimension[dimension]
    if first != word.name:
        yield f"Beside {vendor.keys[first].spellings[0].text} it has no effect: that one counts."
    used = [form for form in vendor.forms if form.literal(dimension) and not _decides(form, word)]
    if used and len(used) < len(vendor.forms):
        names = " and ".join(repr(form.name) for form in used)
        yield f"In the form {names} it is ignored: {dimension} is what the form says."


def _decides(form: Form, word: Key) -> bool:
    """Whether the key leads to the form, so that it is not ignored there."""
    derives = isinstance(form.devices, Derived) and form.devices.key == word.name
    return derives or any(word.name in condition.keys for condition in form.when)


def _marks(vendor: Vendor, name: str) -> Iterator[Mark]:
    if vendor.owned.hint(name):
        yield "hint"
    if name in vendor.owned.annotations or name in vendor.owned.labels:
        yield "owned"
    if vendor.document.known and _known(vendor, name):
        yield "known"


def _known(vendor: Vendor, name: str) -> bool:
    return any(re.fullmatch(glob_pattern(one), name, re.DOTALL) for one in vendor.document.known)
