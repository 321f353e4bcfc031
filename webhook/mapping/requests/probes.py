"""Probes a document: reads requests at the corners of every key and form, and writes them back, to find contradictions.

A new document is probed once. A form that an earlier one hides, a request that can be read but not written, and a default
that no key can express are mistakes of the document, found before a pod meets them.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Final

from webhook.mapping.document.problem import Problem
from webhook.mapping.model.keys import Binding, Condition, Derived, Form, Key
from webhook.mapping.model.vendor import Vendor
from webhook.mapping.requests.reading import read
from webhook.mapping.requests.values import KeyValue, Reading, form_of, number_for
from webhook.mapping.requests.writing import NoEquivalent, write
from webhook.quantity import Number, exact_text
from webhook.reasons import Denied, Reason
from webhook.request import Size

MAX_PROBES: Final = 4000  # the most probes of one document; a few hundred reach every corner of the built-in ones
MAX_WORK: Final = 400_000
"""The approximate number of comparisons of keys with forms: a document with many of both gets fewer probes, but at least 16
for each form."""

MAX_NUMBERS: Final = 12  # the most numbers of one key that are combined with those of other keys
MAX_CORNERS: Final = 256  # the most numbers of one key from which those to combine are chosen
MAX_PROBLEMS: Final = 5
Candidate = Number | str | None  # a value to try for a key: a number, a text, or None for its absence


def probe(vendor: Vendor, largest_card: int) -> list[Problem]:
    """Report contradictions in a vendor's keys and forms."""
    reached: set[str] = set()
    problems: list[Problem] = []
    for key_values in combinations(vendor):
        form = form_of(vendor, key_values)
        if form is None:
            continue
        reached.add(form.name)
        if not form.reads or len(problems) >= MAX_PROBLEMS or not vendor.unreported.isdisjoint(key_values):
            continue
        try:
            reading = read(vendor, key_values, {}, largest_card, "probe")
        except Denied:
            continue
        why = _not_written_back(vendor, reading, largest_card)
        if why is not None:
            keys = ", ".join(map(str, key_values.values()))
            index = vendor.forms.index(form)
            problems.append(
                Problem(f"{keys} is read as {reading.request}, but cannot be written: {why}", ("forms", index))
            )
    problems.extend(
        Problem(f"no keys reach the form {form.name!r}: an earlier one hides it", ("forms", index))
        for index, form in enumerate(vendor.forms)
        if form.name not in reached
    )
    return [*problems, *_unwritable_defaults(vendor, largest_card)]


def _not_written_back(vendor: Vendor, reading: Reading, largest_card: int) -> str | None:
    """Return why a reading cannot be written back, or None; rounded requests are exempt."""
    rounded = any(finding.reason is Reason.ROUNDED_DOWN for finding in reading.findings)
    if rounded or not reading.form.write or not _is_written(vendor):
        return None
    try:
        written = write(vendor, reading.request, {}, largest_card, "probe")
    except NoEquivalent as error:
        return "; ".join(error.reasons[:2])
    read_back, stepped = written.reading.request, any(key.step != 1 for key in vendor.keys.values())
    return None if stepped or read_back == reading.request else f"it would be read back as {read_back}"


def _is_written(vendor: Vendor) -> bool:
    """Return whether all requests can be written: no name has a size, and none needs a value that is to be configured."""
    if vendor.inactive or not vendor.target:
        return False
    # A variable in all spellings of some key: nothing can be written without it.
    spellings = [[set(template.variables) for template in key.spellings] for key in vendor.keys.values()]
    needed = set().union(*(set.intersection(*each) for each in spellings))
    return not any(each.rows or (not each.write and each.name in needed) for each in vendor.variables.values())


def _unwritable_defaults(vendor: Vendor, largest_card: int) -> Iterator[Problem]:
    for dimension, default in vendor.defaults.items():
        if isinstance(default.value, Size) and default.value.bytes > largest_card:
            yield Problem(f"no device has {default.value}", ("defaults", dimension))
            continue
        keys = map(vendor.keys.__getitem__, vendor.by_dimension[dimension])
        implied = any(getattr(form.absent, dimension) == default.value for form in vendor.forms)
        # Counts without sizes get theirs when they are translated: nothing is filled in at home.
        counts_only = dimension != "devices" and not vendor.sizes
        if not counts_only and not implied and all(number_for(key, default.value, 1) is None for key in keys):
            yield Problem(f"no key of {vendor.name} can express {default.value}", ("defaults", dimension))


def combinations(vendor: Vendor) -> Iterator[dict[str, KeyValue]]:
    """Yield combinations of keys that request something; their number is bounded for every document."""
    forms, keys = len(vendor.forms), len(vendor.keys)
    most = min(MAX_PROBES, max(16 * forms, MAX_WORK // (forms * keys)))
    for key_values in itertools.islice(_all_combinations(vendor, most), most):
        if any(vendor.keys[name].kind in {"amount", "text"} for name in key_values):
            yield key_values


def _all_combinations(vendor: Vendor, most: int) -> Iterator[dict[str, KeyValue]]:
    """Yield combinations that meet the conditions of each form, then corners of all keys with all others."""

    @cache
    def key_value(name: str, value: Number | str, binding: Binding) -> KeyValue:
        spelled = vendor.keys[name].spelled({**dict(binding), "container": "probe"})
        if isinstance(value, str):
            return KeyValue(name, spelled, value, 0, binding)
        return KeyValue(name, spelled, exact_text(value), value, binding)

    keys = vendor.keys.values()
    # For keys in conditions of a form the values that it accepts, for others a few, or none.
    directed = [{key.name: _tried(key, form, _corners(vendor, key, form)) for key in keys} for form in vendor.forms]
    of_each = max(1, most // (4 * len(directed)))
    for binding in _bindings(vendor):
        for candidates in directed:
            yield from _combined(vendor, key_value, candidates, binding, of_each)
    corners = {key.name: _corners(vendor, key, None)[:MAX_NUMBERS] for key in keys}
    yield from _combined(vendor, key_value, corners, (), most)


def _combined(
    vendor: Vendor,
    key_value: Callable[[str, Number | str, Binding], KeyValue],
    candidates: dict[str, list[Candidate]],
    binding: Binding,
    most: int,
) -> Iterator[dict[str, KeyValue]]:
    """Yield combinations, spread evenly over all of them."""
    total = math.prod(map(len, candidates.values()))
    # A stride that shares no factor with the counts visits every value of every key.
    stride = max(1, total // most) | 1
    for nth in range(0, total, stride):
        key_values: dict[str, KeyValue] = {}
        remaining = nth
        for name, values in candidates.items():
            remaining, index = divmod(remaining, len(values))
            value = values[index]
            if value is not None and (value != 0 or vendor.keys[name].zero == "number"):
                key_values[name] = key_value(name, value, binding)
        yield key_values


def _bindings(vendor: Vendor) -> Iterator[Binding]:
    """Yield bindings of variables: every row, or the first value; none for a pattern."""
    yield ()
    for variable in vendor.variables.values():
        listed: Sequence[str] = tuple(variable.rows) or variable.write[:1]
        for value in listed:
            yield ((variable.name, value),)


def _tried(key: Key, form: Form, values: list[Candidate]) -> list[Candidate]:
    conditions = [condition for condition in form.when if key.name in condition.keys]
    if not conditions:
        plain = [value for value in values if value is not None]
        return [None, *plain[:2], *plain[-1:]]
    for condition in conditions:
        if len(condition.keys) == 1:
            values = [value for value in values if _accepts(condition, value)]
    absent = [None] * any(condition.absent for condition in conditions)
    return [*absent, *values][:MAX_NUMBERS] or [None]


def _accepts(condition: Condition, value: Candidate) -> bool:
    """Return whether the condition, on one key, accepts the value."""
    if value is None or condition.present:
        return condition.absent if value is None else True
    return value in condition.texts if isinstance(value, str) else value in (condition.numbers or ())


def _corners(vendor: Vendor, key: Key, form: Form | None) -> list[Candidate]:
    """Return the corners of a key: absence, small numbers, and the ends of legal sets, conditions and counts."""
    if key.kind == "text":
        return [None, *sorted(_texts(vendor, key)), "other"]
    if key.kind != "amount":
        return [None, 1] if key.kind == "other" else [None]
    numbers = dict.fromkeys(itertools.islice(_ends(key, vendor.forms if form is None else (form,)), MAX_CORNERS))
    zero = [0] if key.zero == "number" else []
    return [None, *numbers, *zero, 1, 2, 100 if "cores" in key.dimensions else 16]


def _texts(vendor: Vendor, key: Key) -> set[str]:
    picked = vendor.variables[key.row_of].rows if key.row_of in vendor.variables else {}
    conditions = [each for form in vendor.forms for each in form.when if key.name in each.keys]
    return {*picked, *itertools.chain.from_iterable(condition.texts for condition in conditions)}


def _ends(key: Key, forms: Iterable[Form]) -> Iterator[Number]:
    seen: set[int] = set()
    for form in forms:
        for condition in form.when:
            if condition.keys == (key.name,) and condition.numbers is not None:
                yield from condition.numbers.corners()
        values = form.keys[key.name].values
        if values is not None and id(values) not in seen:
            seen.add(id(values))  # most forms share those of the key
            yield from values.corners()
        if isinstance(form.devices, Derived) and form.devices.key == key.name:
            yield from (form.devices.per, 2 * form.devices.per)
