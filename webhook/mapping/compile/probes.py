"""Probes: requests at the corners of every word and form, read and written back, to find what a document cannot mean.

Run once for a document that was not seen before: a form that an earlier one hides, a request that is read but cannot be
written, or a default that no word can say, is a mistake of the document and found before a pod meets it.
"""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from webhook.finding import Denied
from webhook.mapping.document.key_template import Binding
from webhook.mapping.document.problem import Problem
from webhook.mapping.model.vendor import Derived, Form, Key, Vendor
from webhook.mapping.requests.conversion import number_for
from webhook.mapping.requests.denials import spelling
from webhook.mapping.requests.key_values import KeyValue, form_of, format_value
from webhook.mapping.requests.reading import Reading, read
from webhook.mapping.requests.writing import NoEquivalent, write
from webhook.quantity import Number
from webhook.reasons import Reason
from webhook.request import Size

MAX_PROBES: Final = 4000
"""Probes of one document: a few hundred reach every corner of the built-in ones."""

MAX_WORK: Final = 400_000
"""Words of forms that are looked at, about: a document with many of both is probed less, but each form 16 times and more."""

MAX_NUMBERS: Final = 12
"""Numbers that are tried of one word in combination with those of the others."""

MAX_CORNERS: Final = 256
"""Numbers of one word that are looked at before those that are tried are chosen."""

MAX_PROBLEMS: Final = 5

Candidate = Number | str | None
"""What is tried of a word: a number, a text, or (None) its absence."""


def probe(vendor: Vendor, largest_card: int) -> list[Problem]:
    """What is wrong with a vendor's words and forms.

    Args:
        vendor: compiled from a document that is otherwise in order.
        largest_card: bytes, as for `read`.
    """
    reached: set[str] = set()
    problems: list[Problem] = []
    for said in combinations(vendor):
        form = form_of(vendor, said)
        if form is None:
            continue
        reached.add(form.name)
        if not form.reads or len(problems) >= MAX_PROBLEMS:
            continue
        try:
            reading = read(vendor, said, {}, largest_card, "probe")
        except Denied:
            continue
        why = _not_written_back(vendor, reading, largest_card)
        if why is not None:
            keys = ", ".join(str(one) for one in said.values())
            index = vendor.forms.index(form)
            problems.append(
                Problem(f"{keys} is read as {reading.request}, but cannot be written: {why}", ("forms", index))
            )
    problems.extend(
        Problem(f"no words reach the form {form.name!r}: an earlier one hides it", ("forms", index))
        for index, form in enumerate(vendor.forms)
        if form.name not in reached
    )
    return [*problems, *_unwritable_defaults(vendor, largest_card)]


def _not_written_back(vendor: Vendor, reading: Reading, largest_card: int) -> str | None:
    """Why what was read cannot be written, or None; rounded requests and names with sizes of their own need not come back."""
    rounded = any(finding.reason is Reason.ROUNDED_DOWN for finding in reading.findings)
    sized_names = any(variable.rows for variable in vendor.variables.values())
    if vendor.inactive or not vendor.target or not reading.form.write or rounded or sized_names:
        return None
    if any(not variable.write and _needed(vendor, variable.name) for variable in vendor.variables.values()):
        return None
    try:
        written = write(vendor, reading.request, {}, largest_card, "probe")
    except NoEquivalent as why:
        return "; ".join(why.reasons[:2])
    got, stepped = written.reading.request, any(word.step != 1 for word in vendor.keys.values())
    if got != reading.request and not stepped:
        return f"it would be read back as {got}"
    return None


def _needed(vendor: Vendor, variable: str) -> bool:
    """Whether every spelling of some word has the variable, so that nothing is written without it."""
    return any(
        all(variable in template.variables for template in word.spellings)
        for word in vendor.keys.values()
        if word.spellings
    )


def _unwritable_defaults(vendor: Vendor, largest_card: int) -> Iterator[Problem]:
    for dimension, default in vendor.defaults.items():
        if isinstance(default.value, Size) and default.value.bytes > largest_card:
            yield Problem(f"no card has {default.value}", ("defaults", dimension))
            continue
        keys = [vendor.keys[name] for name in vendor.by_dimension[dimension]]
        implied = any(getattr(form.absent, dimension) == default.value for form in vendor.forms)
        if not implied and all(number_for(word, default.value, 1) is None for word in keys):
            yield Problem(f"no word of {vendor.name} can say {default.value}", ("defaults", dimension))


def combinations(vendor: Vendor) -> Iterator[dict[str, KeyValue]]:
    """Words in combination, not without a word that asks; how many are looked at is bounded, whatever the document says."""
    forms, keys = len(vendor.forms), len(vendor.keys)
    most = min(MAX_PROBES, max(16 * forms, MAX_WORK // (forms * keys)))
    for said in itertools.islice(_all_combinations(vendor, most), most):
        if any(vendor.keys[name].kind in {"amount", "text"} for name in said):
            yield said


def _all_combinations(vendor: Vendor, most: int) -> Iterator[dict[str, KeyValue]]:
    """First those that each form's own conditions ask for, then corners of all with all."""
    directed = [_directed(vendor, form) for form in vendor.forms]
    of_each = max(1, most // (4 * len(directed)))
    for binding in _bindings(vendor):
        for candidates in directed:
            yield from _combined(vendor, candidates, binding, of_each)
    corners = {word.name: _corners(vendor, word, None)[:MAX_NUMBERS] for word in vendor.keys.values()}
    yield from _combined(vendor, corners, (), most)


def _combined(
    vendor: Vendor, candidates: dict[str, list[Candidate]], binding: Binding, most: int
) -> Iterator[dict[str, KeyValue]]:
    """Some of all combinations, spread evenly over them."""
    names = list(candidates)
    total = 1
    for values in candidates.values():
        total *= len(values)
    # A stride that shares no factor with the counts visits every value of every word.
    stride = max(1, total // most) | 1
    for nth in range(0, total, stride):
        said: dict[str, KeyValue] = {}
        left = nth
        for name in names:
            left, index = divmod(left, len(candidates[name]))
            value = candidates[name][index]
            if value is not None and value != 0:
                said[name] = _said(vendor.keys[name], value, binding)
        yield said


def _said(word: Key, value: Number | str, binding: Binding) -> KeyValue:
    key = spelling(word, {**dict(binding), "container": "probe"})
    if isinstance(value, str):
        return KeyValue(word.name, key, value, 0, binding)
    return KeyValue(word.name, key, format_value(value), value, binding)


def _bindings(vendor: Vendor) -> Iterator[Binding]:
    """What the variables may stand for: every row, or the first value; nothing for a pattern that cannot be guessed."""
    yield ()
    for variable in vendor.variables.values():
        listed: Sequence[str] = tuple(variable.rows) or variable.write[:1]
        for value in listed:
            yield ((variable.name, value),)


def _directed(vendor: Vendor, form: Form) -> dict[str, list[Candidate]]:
    """For each word, what the form's conditions accept; for the others a few plain numbers or nothing."""
    candidates: dict[str, list[Candidate]] = {}
    for word in vendor.keys.values():
        conditions = [condition for condition in form.when if word.name in condition.keys]
        values = _corners(vendor, word, form)
        if conditions:
            kept = [value for value in values if _accepts(form, word.name, value)]
            if any(condition.absent for condition in conditions):
                kept.insert(0, None)
        else:
            plain = [value for value in values if value is not None]
            kept = [None, *plain[:2], *plain[-1:]]
        candidates[word.name] = kept[:MAX_NUMBERS] or [None]
    return candidates


def _accepts(form: Form, name: str, value: Candidate) -> bool:
    """Whether the form's conditions on this word alone leave the value possible."""
    for condition in form.when:
        if name not in condition.keys or len(condition.keys) > 1:
            continue
        if value is None:
            if not condition.absent:
                return False
        elif condition.present:
            continue
        elif isinstance(value, str):
            if value not in condition.texts:
                return False
        elif condition.numbers is None or value not in condition.numbers:
            return False
    return True


def _corners(vendor: Vendor, word: Key, form: Form | None) -> list[Candidate]:
    """What is worth trying of a word: nothing, small numbers, and where legal sets, conditions and counts begin and end."""
    if word.kind == "text":
        texts = {
            text
            for one in vendor.forms
            for condition in one.when
            if word.name in condition.keys
            for text in condition.texts
        }
        chosen = vendor.variables[word.picks].rows if word.picks is not None and word.picks in vendor.variables else {}
        return [None, *sorted(texts | chosen.keys()), "other"]
    if word.kind == "other":
        return [None, 1]
    if word.kind != "amount":
        return [None]
    found = dict.fromkeys(itertools.islice(_ends(word, vendor.forms if form is None else (form,)), MAX_CORNERS))
    return [None, *found, 1, 2, 100 if "cores" in word.dimensions else 16]


def _ends(word: Key, forms: Iterable[Form]) -> Iterator[Number]:
    seen: set[int] = set()
    for one in forms:
        for condition in one.when:
            if condition.keys == (word.name,) and condition.numbers is not None:
                yield from condition.numbers.corners()
        values = one.keys[word.name].values
        if values is not None and id(values) not in seen:
            seen.add(id(values))  # most forms share the word's own
            yield from values.corners()
        if isinstance(one.devices, Derived) and one.devices.key == word.name:
            yield from (one.devices.per, 2 * one.devices.per)
