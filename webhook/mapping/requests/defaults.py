"""Defaults → keys: which defaults fill or complete a container's request, and with which keys of its vendor."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from webhook.finding import Denied
from webhook.mapping.model.vendor import Default, Derived, Form, Key, Vendor
from webhook.mapping.requests.conversion import number_for
from webhook.mapping.requests.key_values import KeyValue, SaidWords, form_of, format_value
from webhook.request import ALL, Dimension, Percent, Request

if TYPE_CHECKING:
    from webhook.mapping.requests.reading import Reading

Defaults: TypeAlias = Mapping[Dimension, Default]
ReadForm: TypeAlias = "Callable[[Form, SaidWords, Defaults], Reading]"
"""How keys are read in a form, with what is filled in by value; raises `Denied`."""

_T = TypeVar("_T")


def fewer(defaults: Mapping[Dimension, _T]) -> Iterator[dict[Dimension, _T]]:
    """All of the defaults, then ever fewer of them: a count of devices changes most and goes first; at last none."""
    order: tuple[Dimension, ...] = ("memory", "cores", "devices")
    there = [dimension for dimension in order if dimension in defaults]
    for size in range(len(there), -1, -1):
        for kept in combinations(there, size):
            yield {dimension: default for dimension, default in defaults.items() if dimension in kept}


def divides(vendor: Vendor, form: Form, said: SaidWords) -> bool:
    """Whether a default count of devices would change what keys specify: a total per device, or a count of their own."""
    counting = {other.devices.key for other in vendor.forms if isinstance(other.devices, Derived)}
    return any(form.keys[name].total or name in counting for name in said)


def filled_in(
    vendor: Vendor, said: SaidWords, form: Form, defaults: Defaults, read_form: ReadForm, *, home: bool
) -> "Reading":
    """What keys that make a request by themselves ask for with defaults.

    Where the request stays in these keys (`home`), a default fills only what a key can specify; elsewhere it fills by value.

    Raises:
        Refused: the keys alone are refused.
    """
    if not home:
        return read_form(form, said, defaults)
    for kept in fewer(defaults):
        if not kept:
            break
        try:
            reading = _spelled_out(vendor, said, read_form(form, said, kept), read_form)
        except Denied:
            continue
        if reading is not None:
            return _passing_over(reading, defaults, kept)
    return _passing_over(read_form(form, said, {}), defaults, {})


def completed(
    vendor: Vendor, said: SaidWords, defaults: Defaults, read_form: ReadForm, *, home: bool
) -> "Reading | None":
    """What keys that make no request by themselves ask for with keys for defaults beside them; None: still nothing.

    Each specified key has to count with the value that it specifies.
    """
    missing = {
        dimension: default
        for dimension, default in defaults.items()
        if not any(name in said for name in vendor.by_dimension[dimension])
    }
    for kept in fewer(missing):
        for devices in _counts(vendor, said, kept) if kept else ():
            try:
                reading = _completion(vendor, said, kept, devices, read_form, home=home)
            except Denied:
                continue
            if reading is not None:
                return _passing_over(reading, missing, kept)
    return None


def _passing_over(reading: "Reading", defaults: Defaults, kept: Defaults) -> "Reading":
    passed_over = [name for name in defaults if name not in kept and name not in reading.specified]
    return replace(reading, passed_over=tuple(dict.fromkeys((*reading.passed_over, *passed_over))))


def _completion(
    vendor: Vendor, said: SaidWords, defaults: Defaults, devices: int, read_form: ReadForm, *, home: bool
) -> "Reading | None":
    added: dict[str, KeyValue] = {}
    given: dict[Dimension, Default] = {}
    for dimension, default in defaults.items():
        one = next(_keys_for(vendor, vendor.keys, dimension, default, devices), None)
        if one is not None:
            added[one.word] = one
            given[dimension] = default
    helped = {**said, **added}
    form = form_of(vendor, helped)
    if not added or form is None or not form.reads:
        return None
    rest = {dimension: default for dimension, default in defaults.items() if dimension not in given}
    reading = read_form(form, helped, rest)
    if any(form.keys[name].total for name in added) and reading.request.devices != devices:
        return None
    if not _all_count(vendor, form, said, added, reading) or ("devices" in defaults and divides(vendor, form, said)):
        return None
    specified = reading.specified - given.keys()
    if _reduces(reading.request, specified, given):
        return None
    if home:
        spelled = _spelled_out(vendor, helped, reading, read_form)
        if spelled is None:
            return None
        reading = replace(spelled, filled={**given, **spelled.filled}, added={**added, **spelled.added})
        return replace(reading, specified=specified, request=_by_value(reading.request, given))
    request = _by_value(reading.request, given)
    return replace(reading, specified=specified, request=request, filled={**given, **reading.filled})


def _reduces(request: Request, specified: Collection[Dimension], given: Defaults) -> bool:
    """Whether a default makes less than a whole device of what all of its memory, or all of its cores, specify."""
    pairs: tuple[tuple[Dimension, Dimension], ...] = (("memory", "cores"), ("cores", "memory"))
    return any(
        one in specified and getattr(request, one) == ALL and other in given and given[other].value != ALL
        for one, other in pairs
    )


def _by_value(request: Request, given: Defaults) -> Request:
    """The request with defaults as they are: another vendor may be able to specify exactly what these keys round."""
    for dimension, default in given.items():
        if dimension == "memory" and not isinstance(default.value, int):
            request = replace(request, memory=default.value)
        elif dimension == "cores" and isinstance(default.value, Percent):
            request = replace(request, cores=default.value)
    return request


def _all_count(vendor: Vendor, form: Form, said: SaidWords, added: SaidWords, reading: "Reading") -> bool:
    """Whether no key, specified or added, is ignored or corrected because of the others, or says two things."""
    keys = {one.key for one in added.values()}
    if any(finding.field in keys for finding in reading.findings) or reading.corrections.keys() & added.keys():
        return False
    if any(form.keys[name].rounding != vendor.keys[name].rounding for name in reading.corrections.keys() & said.keys()):
        return False  # the form, which the added keys chose, makes another number of it
    there = {dimension for name in said for dimension in vendor.keys[name].dimensions}
    if any(dimension in there for name in added for dimension in vendor.keys[name].dimensions):
        return False
    return all(_counts_in(vendor, form, vendor.keys[name]) for name in said)


def _counts_in(vendor: Vendor, form: Form, key: Key) -> bool:
    """Whether the form takes the number of a word for what it is, or is the one for that very number."""
    if key.kind == "other":
        return _asks_for(form, key) or not any(_asks_for(one, key) for one in vendor.forms)
    if not any(form.literal(dimension) for dimension in key.dimensions):
        return True
    if isinstance(form.devices, Derived) and form.devices.key == key.name:
        return True
    return _asks_for(form, key)


def _asks_for(form: Form, key: Key) -> bool:
    return any(key.name in condition.keys and condition.numbers is not None for condition in form.when)


def _counts(vendor: Vendor, said: SaidWords, defaults: Defaults) -> list[int]:
    """Counts of devices that totals may be over: those that keys specify or imply, the default, one."""
    found = [
        int(-(-said[form.devices.key].number // form.devices.per))
        for form in vendor.forms
        if form.reads and isinstance(form.devices, Derived) and form.devices.key in said
    ]
    found += [said[name].number.__ceil__() for name in vendor.by_dimension["devices"] if name in said]
    if "devices" in defaults and isinstance(defaults["devices"].value, int):
        found.append(defaults["devices"].value)
    return list(dict.fromkeys((*found, 1)))


def _spelled_out(vendor: Vendor, said: SaidWords, reading: "Reading", read_form: ReadForm) -> "Reading | None":
    """The reading with keys for what was filled by value; None where no key specifies it, or one would change the rest."""
    form = reading.form
    helped = dict(said)
    filled: dict[Dimension, Default] = {}
    for dimension, default in reading.filled.items():
        for one in _keys_for(vendor, form.keys, dimension, default, reading.request.devices or 1):
            if form_of(vendor, {**helped, one.word: one}) is form:
                helped[one.word] = one
                filled[dimension] = default
                break
        else:
            if getattr(form.absent, dimension) != default.value:
                return None
    again = read_form(form, helped, {})
    if again.corrections != reading.corrections or len(again.findings) != len(reading.findings):
        return None
    for dimension in ("devices", "memory", "cores"):
        if dimension not in filled and getattr(again.request, dimension) != getattr(reading.request, dimension):
            return None
    added = {name: one for name, one in helped.items() if name not in said}
    return replace(reading, spelled=again.request, filled=filled, added=added)


def _keys_for(
    vendor: Vendor, words: Mapping[str, Key], dimension: Dimension, default: Default, devices: int
) -> Iterator[KeyValue]:
    """The keys that can specify a default, with the least number that is not less."""
    for name in vendor.by_dimension[dimension]:
        key = words[name]
        number = number_for(key, default.value, 1 if dimension == "devices" else devices)
        if number is not None:
            yield KeyValue(name, key.spellings[0].text, format_value(number), number)
