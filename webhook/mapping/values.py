"""Numbers of keys ↔ amounts of a device: units, steps, legal numbers, and the meaning of a missing dimension.

Also what a number that a key cannot have was probably meant to be, and the messages about it: a fraction below 1 is a share of
a GPU (``0.3`` for 30 %); a size far beyond any GPU is in a smaller unit.
"""

import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from fractions import Fraction
from itertools import combinations
from typing import Final, TypeAlias, TypeVar

import msgspec
from msgspec.structs import replace

from webhook.mapping.model.keys import PLACEHOLDER, Binding, Derived, Form, Key, Row, Variable
from webhook.mapping.model.names import nearest_first
from webhook.mapping.model.vendor import Default, Vendor
from webhook.mapping.notation import Numbers
from webhook.reasons import Denied, Finding, Reason, Step, deny, instead_of
from webhook.request import (
    ALL,
    GIB,
    KIB,
    MIB,
    UNLIMITED,
    Dimension,
    Memory,
    Number,
    Percent,
    Request,
    Size,
    amount_text,
    ceil_to,
    exact_text,
    number_text,
    signed_text,
    simplest,
)

_T = TypeVar("_T")


class KeyValue(msgspec.Struct, frozen=True, gc=False):
    """One key and its value in a pod, whose text the API server may have rewritten; the number of a text is 0."""

    key_name: str
    key: str
    text: str
    number: Number = 0
    binding: Binding = ()

    def __str__(self) -> str:
        return f"{self.key}: {self.text}"


KeyValues: TypeAlias = Mapping[str, KeyValue]
"""Keys with their values, by name; without those that are 0, which counts as unset."""

Defaults: TypeAlias = Mapping[Dimension, Default]  # the default of each dimension that has one


class Reading(msgspec.Struct, frozen=True, gc=False):
    """The meaning of a container's keys."""

    form: Form  # the form of the keys
    request: Request  # the settled request
    specified: frozenset[Dimension]  # the dimensions that the keys, or their form, specify
    corrections: Mapping[str, Number]  # keys whose number the vendor raises, with the raised number
    filled: Defaults  # the dimensions from defaults
    passed_over: tuple[Dimension, ...]  # those whose default no key can express, or would change what is specified
    findings: tuple[Finding, ...]  # ignored keys, corrections and roundings
    added: KeyValues = {}  # keys for the defaults, if the request stays in this vendor's keys
    spelled: Request | None = None  # that of the keys with `added`, which may round a default up; None: `request`


def form_of(vendor: Vendor, key_values: KeyValues) -> Form | None:
    """Return the first form whose conditions all hold, even one that denies; None if there is none."""
    for form in vendor.forms:
        for condition in form.when:
            absent = True
            for key_name in condition.keys:
                if key_name in key_values:
                    absent, entry, numbers = False, key_values[key_name], condition.numbers
                    if condition.present or entry.text in condition.texts or (numbers and entry.number in numbers):
                        break
            else:
                if not (absent and condition.absent):
                    break
        else:
            return form
    return None


def bound_in(key_values: KeyValues) -> dict[str, str]:
    """Return the values of the variables in the names of keys."""
    return {name: value for entry in key_values.values() for name, value in entry.binding}


def row_of(vendor: Vendor, key_values: KeyValues) -> tuple[Row | None, KeyValue | None]:
    """Return the row that the names imply, and the key whose value has no row although its variable has rows."""
    for variable in vendor.variables.values():
        if variable.everywhere and variable.write:
            return variable.rows.get(variable.write[0]), None
        if variable.everywhere:
            continue
        for entry in key_values.values():
            chosen = name_in(vendor, entry, variable)
            if chosen is not None and (variable.rows or vendor.keys[entry.key_name].row_of == variable.name):
                row = variable.rows.get(chosen)
                return row, (entry if row is None else None)
    return None, None


def name_in(vendor: Vendor, entry: KeyValue, variable: Variable) -> str | None:
    """Return the value of a variable in a key, from its text or its name; None if the key does not contain it."""
    picked = vendor.keys[entry.key_name].row_of == variable.name
    return entry.text if picked else dict(entry.binding).get(variable.name)


def unconfigured_size(vendor: Vendor) -> str | None:
    """Return what has to be configured about the size of all devices of a vendor; None if nothing is missing."""
    for variable in vendor.variables.values():
        if variable.everywhere and not variable.write:
            return variable.why or f"set `variables: {{{variable.name}: {{write: …}}}}` with `extends: {vendor.name}`"
    return None


def number_for(key: Key, value: int | Memory, devices: int) -> Number | None:
    """Return the least number of a key for at least `value`; None if the key cannot express that kind of value.

    A total is multiplied after rounding per device, so that it is divisible by the devices.
    """
    if isinstance(value, int):
        amount: Number = value
    elif value is UNLIMITED or key.unit is None or key.sized is not isinstance(value, Size):
        return None
    else:  # of whole numbers without a fraction where there is none, which is much faster
        amount = value.bytes if isinstance(value, Size) else value.value
        exact = type(amount) is int and type(key.unit) is int and amount % key.unit == 0
        amount = amount // key.unit if exact else Fraction(amount) / key.unit
    number = ceil_to(amount, key.step)
    if key.values is not None:
        legal = key.values.ceil(number)
        number = -1 if legal is None else ceil_to(legal, key.step)
        if number not in key.values:
            return None
    return simplest(number * devices) if key.total else number


def value_of(key: Key, dimension: Dimension, number: Number) -> Memory:
    """Return the memory or cores that `number` per device of a key means."""
    assert key.unit is not None  # noqa: S101  (a key without a unit is denied before)
    amount = number * key.unit
    if type(amount) is not int:
        amount = simplest(amount)
    return Size(amount) if key.sized and dimension == "memory" else Percent(amount)


def keys_for(
    vendor: Vendor, keys: Mapping[str, Key], dimension: Dimension, default: Default, devices: int
) -> Iterator[KeyValue]:
    """Yield the keys that can specify a default, with the least number that is not less; a number lists no devices."""
    for name in vendor.by_dimension[dimension]:
        key = keys[name]
        if key.written == "items":
            continue
        number = number_for(key, default.value, 1 if dimension == "devices" else devices)
        if number is not None:
            yield KeyValue(name, key.spellings[0].text, exact_text(number), number)


def fewer(defaults: Mapping[Dimension, _T]) -> Iterator[dict[Dimension, _T]]:
    """Yield all defaults, then fewer and fewer: the count of devices, which changes most, goes first; finally none."""
    yield {**defaults}  # nearly always they all apply
    order: tuple[Dimension, ...] = ("memory", "cores", "devices")
    present = [dimension for dimension in order if dimension in defaults]
    for size in range(len(present) - 1, -1, -1):
        for chosen in combinations(present, size):
            yield {dimension: default for dimension, default in defaults.items() if dimension in chosen}


def divides(vendor: Vendor, form: Form, key_values: KeyValues) -> bool:
    """Return whether a default count of devices would change what keys specify: a total per device, or a count."""
    counting = {other.devices.key for other in vendor.forms if isinstance(other.devices, Derived)}
    return any(form.keys[name].total or name in counting for name in key_values)


def fill_absent(request: Request, absent: Request) -> Request:
    """Fill missing dimensions with their meaning; a dimension without one stays None."""
    memory = absent.memory if request.memory is None else request.memory
    cores = absent.cores if request.cores is None else request.cores
    if memory == ALL and cores is UNLIMITED:
        cores = ALL
    return Request(request.devices if request.devices is not None else absent.devices, memory, cores)


def for_device_size(request: Request, device_size: int) -> Request | None:
    """Convert memory between bytes and percent for devices of `device_size` bytes; never to less than requested.

    None for whole devices, which are no share of a size, for memory without a limit, and for more than the device has.
    """
    memory = request.memory
    if request.whole or not isinstance(memory, Size | Percent):
        return None
    if isinstance(memory, Percent):
        return Request(request.devices, Size(ceil_to(Fraction(memory.value) * device_size / 100, 1)), request.cores)
    if memory.bytes > device_size:
        return None
    percent = Percent(simplest(Fraction(memory.bytes) * 100 / device_size))
    return fill_absent(Request(request.devices, percent, request.cores), Request())


def step_between(dimension: Dimension, before: Memory | None, after: Memory | None) -> Step:
    """Return the step from one amount of a device to another, for explanations."""
    difference = ""
    if isinstance(before, Size) and isinstance(after, Size):
        difference = f"+{amount_text(Size(after.bytes - before.bytes))}"
    elif isinstance(before, Percent) and isinstance(after, Percent):
        difference = f"{signed_text(after.value - before.value)}%"
    return Step(f"{dimension} per device", amount_text(before), amount_text(after), difference)


_WRITTEN: Final = re.compile(r"write (\S+): ([0-9]{1,9})(?= |$)|leave (\S+) out")
MAX_LISTED: Final = 20  # the most names with a size that a denial lists


Numbered: TypeAlias = tuple[tuple[str, Number | None], ...]
"""Numbers to write to keys of a container instead, or (None) keys to leave out."""
Permitted: TypeAlias = Callable[[Numbered], bool]  # whether the pod with these is allowed


class NoWholeNumber(Denied):
    """A fraction; the keys of a share that messages name depend on the target, which is not known where it is found."""

    def __init__(self, finding: Finding, vendor: Vendor, entry: KeyValue) -> None:
        super().__init__(finding)
        self.vendor = vendor
        self.entry = entry


class LeftAlone(Denied):
    """A container that is left unchanged, neither read nor denied; the message says why.

    Only for containers that keep their own keys; if such keys are to be written, it is a denial like others.
    """


def left_alone(vendor: Vendor, form: Form, key_values: KeyValues, container: str) -> LeftAlone:
    """Return the message of a form with ``leave``, with the spellings of the pod."""
    sentence = PLACEHOLDER.sub(lambda match: _spelled(vendor, match[1], key_values), form.leave or "")
    return LeftAlone(Finding(Reason.UNSUPPORTED_BY_VENDOR, sentence, container))


def check_texts(keys: Mapping[str, Key], key_values: KeyValues, container: str) -> None:
    """Check that texts are those that the system knows."""
    for name, entry in key_values.items():
        key = keys[name]
        if key.texts and entry.text not in key.texts:
            message = f"{key.place} {entry} is not allowed: write {' or '.join(key.texts)}"
            raise deny(Reason.NOT_LEGAL, message, container=container, field=entry.key, value=entry.text)


def check_reported(vendor: Vendor, key_values: KeyValues, container: str) -> None:
    """Check that nodes report the resources of a request that stays in its keys."""
    for name in vendor.unreported & key_values.keys():
        entry, why = key_values[name], vendor.keys[name].unreported
        instead = " ".join((why or "").split())
        message = f"no node of {vendor.system} reports {entry.key}, so the pod would stay Pending: {instead}"
        raise deny(Reason.UNREPORTED, message, container=container, field=entry.key, value=entry.text)


def form_denied(vendor: Vendor, form: Form, key_values: KeyValues, container: str) -> Denied:
    """Return the denial of a form with ``deny``, with the spellings of the pod and the nearest valid numbers."""
    entry = next((key_values[key] for condition in form.when for key in condition.keys if key in key_values), None)
    text = form.deny or ""
    message = PLACEHOLDER.sub(lambda match: _filled_in(vendor, match[1], entry, key_values), text)
    without = (name for condition in form.when if condition.present for name in condition.keys if name in key_values)
    instead = [*_counts_missing(vendor, form, key_values), *(((key_values[name].key, None),) for name in without)]
    if entry is None:
        named = tuple(_named(message, None, (), {each.key for each in key_values.values()}))
        return deny(Reason.UNSUPPORTED_BY_VENDOR, message, container=container, instead=tuple(instead), named=named)
    above = _above(vendor, entry) if "{above}" in text else []  # else no number is too small
    legal = _accepted(vendor, entry.key_name)
    return deny(
        Reason.UNSUPPORTED_BY_VENDOR,
        message,
        container=container,
        field=entry.key,
        value=entry.text,
        instead=(*instead_of(entry.key, *above), *instead),
        named=tuple(_named(message, entry if above else None, legal, {each.key for each in key_values.values()})),
    )


def _filled_in(vendor: Vendor, name: str, entry: KeyValue | None, key_values: KeyValues) -> str:
    """What stands for a placeholder: the name of a key, the number in the pod, or the nearest that is accepted."""
    if name in vendor.keys:
        return _spelled(vendor, name, key_values)
    if entry is None:
        return f"{{{name}}}"
    if name == "value":
        return entry.text
    legal, below = _accepted(vendor, entry.key_name), name == "below"
    near = [numbers.floor(entry.number) if below else numbers.ceil(entry.number) for numbers in legal]
    present = [number for number in near if number is not None]
    return exact_text(max(present) if below else min(present)) if present else "another number"


def _named(message: str, entry: KeyValue | None, legal: Iterable[Numbers], names: Container[str]) -> Iterator[Numbered]:
    """Yield what a sentence of a mapping says to write or to leave out, word for word, and the numbers below an entry's."""
    for match in _WRITTEN.finditer(message):
        if (match[1] or match[3]) in names:
            yield ((match[3], None) if match[3] else (match[1], int(match[2])),)
    words = message.rpartition(": write ")[2].split()
    for numbers in legal if entry is not None else ():
        if entry is not None and (below := numbers.floor(entry.number)) and exact_text(below) in words:
            yield ((entry.key, below),)


def _counts_missing(vendor: Vendor, form: Form, key_values: KeyValues) -> Iterator[Numbered]:
    """Yield one device in each resource of counts that the form denies to be absent, if its name is known."""
    absent = {name for each in form.when if each.absent and not each.present for name in each.keys}
    for name in vendor.by_dimension["devices"]:
        names = _spellings(vendor, name, key_values)
        if len(names) == 1 and name in absent and vendor.keys[name].place == "resource":
            yield from instead_of(names[0], 1)


def _accepted(vendor: Vendor, key_name: str) -> list[Numbers]:
    """The numbers of a key that forms accept, for each that says so."""
    conditions = [each for form in vendor.forms if form.reads for each in form.when if each.keys == (key_name,)]
    return [each.numbers for each in conditions if each.numbers is not None]


def _above(vendor: Vendor, entry: KeyValue) -> list[Number]:
    """The next numbers that forms accept, the least first."""
    accepted = _accepted(vendor, entry.key_name)
    return sorted({above for numbers in accepted if (above := numbers.ceil(entry.number)) is not None})


def without_row(vendor: Vendor, entry: KeyValue) -> str:
    """Return why the size of a name is not known: no device of the cluster has it, or it has no row."""
    written = " ".join(value for _, value in entry.binding) or entry.text
    rows = nearest_first(written, [name for variable in vendor.variables.values() for name in variable.rows])
    listed = f"{', '.join(rows[:MAX_LISTED])}{f' … ({len(rows)} in all)' if rows[MAX_LISTED:] else ''}"
    for variable in vendor.variables.values():
        name = name_in(vendor, entry, variable)
        if others := variable.of_other_models.get(name or ""):
            where = f"{name} is not available on {', '.join(variable.models)}, but on {', '.join(others)}"
            return f"{where}: if the cluster has such a device, add it to `model`; otherwise write one of {listed}"
    remedy = f"write one of {listed}" if rows else f"add `rows` with `extends: {vendor.name}`"
    return f"its size is not known: {remedy}"


def _spelled(vendor: Vendor, name: str, key_values: KeyValues) -> str:
    """Return the name of a key for a message."""
    return " or ".join(_spellings(vendor, name, key_values)[:MAX_LISTED])


def _spellings(vendor: Vendor, name: str, key_values: KeyValues) -> list[str]:
    """Return the name of a key, spelled like the other keys in the pod; all its names if these do not tell which."""
    if name in key_values:
        return [key_values[name].key]
    key = vendor.keys[name]
    spelled = key.spelled(bound_in(key_values))
    names = [each for each, _ in key.spellings[0].names(vendor.variables)] if "{" in spelled else []
    return names or [spelled]


_UNITS: Final = (("bytes", 1), ("KiB", KIB), ("MiB", MIB))
PLAUSIBLE: Final = 256 * MIB  # the least plausible size of a share in bytes; below it, another unit is more probable
LEAST: Final = Fraction(1, 100)  # the least fraction that is read as a share of a GPU
FINE: Final = 10
"""The least number of parts of a GPU for a key to count percentages: half of one of two cores is not half a GPU."""

PROBED: Final = 8 * GIB  # a size that is tried where a message names a key and no amount
MAX_GIBIBYTES: Final = 1024  # no device has more GiB


def no_whole_number(denial: NoWholeNumber, permitted: Permitted) -> Finding:
    """Return the denial of a fraction with what to write instead, which has been tried, and what it names of that, or less."""
    vendor, entry, finding = denial.vendor, denial.entry, denial.finding
    key = vendor.keys[entry.key_name]
    share = share_meant(key, entry.number)
    if share is not None:
        return _percent_of_one(denial, share, permitted)

    def first(numbers: Iterable[Number]) -> Number | None:
        return next((number for number in numbers if permitted(((entry.key, number),))), None)

    least, most = _nearest(vendor, entry, first)
    legal = [number for number in _above(vendor, entry) if type(number) is int]
    alone = instead_of(entry.key, *dict.fromkeys([least, *legal]))
    write = exact_text(least) if least is not None else f"at most {exact_text(most or 0)}"
    named = instead_of(entry.key, least if len(alone) > 1 else most)
    found = replace(finding, message=f"{finding.message}: write {write}", instead=alone, named=named)
    if key.dimensions == ("devices",) and least is not None:
        return _part_of_one(vendor, entry, least, found, permitted)
    meant = gibibytes_meant(key, entry.number)
    if meant is None or meant == least or first((meant, least or meant)) == least:
        return found
    message = f"{found.message}, or {exact_text(meant)} for {number_text(entry.number)} GiB"
    return replace(found, message=message, instead=(*instead_of(entry.key, meant), *alone))


def _nearest(
    vendor: Vendor, entry: KeyValue, first: Callable[[Iterable[Number]], Number | None]
) -> tuple[Number | None, Number | None]:
    """The least whole number above that of an entry that is permitted, or else the greatest below."""
    key, whole = vendor.keys[entry.key_name], -(-entry.number // 1)
    row, _ = row_of(vendor, {key.name: entry})
    values = [form.values(form.keys[key.name], row) for form in vendor.forms if form.reads]
    sets = [*_accepted(vendor, key.name), *filter(None, values)]
    above = sorted({number for numbers in sets if (number := numbers.ceil(whole)) is not None} | {whole})
    least = first(above)
    if least is not None:
        return least, None
    below = [numbers.floor(entry.number) for numbers in sets]
    below += [simplest(ALL.value // key.unit)] if key.unit is not None and not key.sized else []
    most = first(sorted(filter(None, below), reverse=True))
    if most is None:  # something else is denied, whatever is written here
        least = next((number for number in above if any(number in numbers for numbers in sets)), whole)
    return least, most


def _percent_of_one(denial: NoWholeNumber, share: Number, permitted: Permitted) -> Finding:
    """The denial of a fraction of a GPU in a key that counts percent."""
    vendor, entry, finding = denial.vendor, denial.entry, denial.finding
    size = None if permitted(((entry.key, share),)) else _size_key(vendor, entry, None, permitted)
    if size is not None:
        return replace(finding, message=f"{finding.message}: write {size} instead")
    percent = number_text(share * (vendor.keys[entry.key_name].unit or 1))
    message = f"{finding.message}: write {exact_text(share)} for {percent} %"
    return replace(finding, message=message, instead=instead_of(entry.key, share))


def _part_of_one(vendor: Vendor, entry: KeyValue, least: Number, alone: Finding, permitted: Permitted) -> Finding:
    """The denial of a fraction of a device with that part of one, or whole ones `alone` if there are no such keys."""
    keys, wrong = share_keys(vendor, entry), f"{entry} is not a whole number of devices"
    if not keys:
        return alone
    if permitted(((entry.key, 1), *keys)):
        pairs = " and ".join(f"{name}: {exact_text(number)}" for name, number in keys)
        message = f"{wrong}: write 1, with {pairs} for {number_text(entry.number * 100)} % of one"
        return replace(alone, message=message, instead=(((entry.key, 1), *keys), *alone.instead), named=())
    size = _size_key(vendor, entry, 1, permitted)
    if size is None:
        return replace(alone, message=f"{wrong}: write {exact_text(least)}")
    return replace(
        alone, message=f"{wrong}: write 1, with {size} for a part of the memory of one", instead=(), named=()
    )


def _size_key(vendor: Vendor, entry: KeyValue, instead: Number | None, permitted: Permitted) -> str | None:
    """The resource that requests a size of memory, beside another number of a key or without it; None if there is none."""
    for key in (vendor.keys[name] for name in vendor.by_dimension["memory"]):
        spelled = key.spelled(dict(entry.binding))
        size = ceil_to(Fraction(PROBED) / key.unit, key.step) if key.unit and key.sized else 0
        if size and _usual(key, "memory") and permitted(((entry.key, instead), (spelled, size))):
            return spelled
    return None


def share_meant(key: Key, number: Number) -> Number | None:
    """Return the number for a fraction of a GPU, if the key counts percent: 30 for 0.3; else None."""
    if not LEAST <= number < 1 or key.sized or key.unit is None or key.unit * FINE > ALL.value:
        return None
    if not {"memory", "cores"} & set(key.dimensions):
        return None
    meant = ceil_to(Fraction(number) * ALL.value / key.unit, key.step)
    return meant if key.values is None else key.values.ceil(meant)


def gibibytes_meant(key: Key, number: Number) -> Number | None:
    """Return the number for a fraction of GiB, if the unit of the key is smaller: 8704 MiB for 8.5; else None."""
    smaller = key.sized and key.unit is not None and key.unit < GIB
    if not smaller or isinstance(number, int) or not 0 < number <= MAX_GIBIBYTES:
        return None
    return ceil_to(Fraction(number) * GIB / (key.unit or 1), key.step)


def share_keys(vendor: Vendor, entry: KeyValue) -> list[tuple[str, Number]]:
    """Return the resources and numbers that, beside one device, request a fraction of it; that of memory first."""
    shares: list[tuple[str, Number]] = []
    key_values = {entry.key_name: replace(entry, text="1", number=1)}
    for dimension in ("memory", "cores"):
        for key in vendor.keys.values():
            share = share_meant(key, entry.number) if _usual(key, dimension) else None
            if share is None:
                continue
            name = key.spelled(dict(entry.binding))
            extended = {**key_values, key.name: KeyValue(key.name, name, exact_text(share), share, entry.binding)}
            form = form_of(vendor, extended)
            if form is not None and form.reads and dimension not in form.literals:  # else it ignores the key
                key_values = extended
                shares.append((name, share))
                break
    return shares


def _usual(key: Key, dimension: Dimension) -> bool:
    """Whether it is a resource for this dimension alone, with which a pod is neither denied nor stays Pending."""
    fine = key.retired is None and key.unreported is None
    return fine and key.dimensions == (dimension,) and key.place == "resource"


def sizes_meant(key: Key, entry: KeyValue, value: Number, most_memory: int) -> Iterator[tuple[str, Number]]:
    """Yield units in which a size of `value` bytes may have been counted, with the number to write, the likeliest first."""
    if key.unit is None or not key.sized:
        return
    # `40Mi` means bytes: the API server never writes a plain number like that.
    units = _UNITS[:1] if entry.text.endswith("i") else _UNITS
    meant = [(name, entry.number * size) for name, size in units]
    meant = [(name, size) for name, size in meant if key.unit <= size <= most_memory and size != value]
    for name, size in sorted(meant, key=lambda pair: pair[1] < PLAUSIBLE):
        yield name, ceil_to(Fraction(size) / key.unit, 1)
