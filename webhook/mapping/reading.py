"""Keys → request: read a container's keys by the rules of their vendor, with defaults, to a settled request."""

import itertools
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any, Final, Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from webhook.mapping.model.keys import Derived, Form, Key, Row
from webhook.mapping.model.vendor import Default, Vendor
from webhook.mapping.notation import Numbers
from webhook.mapping.values import (
    Defaults,
    KeyValue,
    KeyValues,
    LeftAlone,
    Reading,
    bound_in,
    check_reported,
    check_texts,
    divides,
    fewer,
    fill_absent,
    form_denied,
    form_of,
    keys_for,
    left_alone,
    row_of,
    sizes_meant,
    unconfigured_size,
    value_of,
    without_row,
)
from webhook.reasons import Denied, Finding, Reason, Step, deny, instead_of
from webhook.request import (
    ALL,
    DIMENSIONS,
    MAX_DEVICES,
    Dimension,
    Memory,
    Number,
    Percent,
    Request,
    Size,
    bytes_text,
    ceil_to,
    counted_in,
    exact_text,
    number_text,
    signed_text,
    simplest,
)

_AMOUNTS: Final[tuple[Dimension, ...]] = ("memory", "cores")


class Reader(Struct):
    """The keys of one container, their form, and the results of reading them so far."""

    vendor: Vendor
    form: Form
    key_values: KeyValues
    most_memory: int
    container: str
    row: Row | None  # the row that the names imply; None without one
    corrections: dict[str, Number] = {}  # keys whose number the vendor raises, with the raised number
    findings: list[Finding] = []  # ignored keys, corrections and roundings

    def counted(self, dimension: Dimension, literal: object = None) -> KeyValue | None:
        """Return the first key of a dimension, unless the form itself has it, and report those that have no effect."""
        names, key_values = self.vendor.by_dimension[dimension], self.key_values
        present = [key_values[name] for name in names if name in key_values]
        counted = present[0] if present and literal is None else None
        ignored = present if counted is None else present[1:]
        if ignored:
            self._report_ignored(ignored, counted)
        return counted

    def legal(self, key: Key, entry: KeyValue, number: Number) -> Number:
        """Return the number of a key, or its part for each device, or the legal one to which the vendor rounds it."""
        values = key.values if self.row is None else self.values(key)
        if key.written != "decimal" and type(number) is not int:
            number = self._whole(key, entry, number)
        if values is None or number in values:
            return number
        rounded = None if key.round is None else values.ceil(number) if key.round == "up" else values.floor(number)
        if rounded is None:
            raise self._not_legal(key, entry, number, values)
        if key.round == "down":
            self.report_less(entry, number, rounded)
        return rounded

    def _whole(self, key: Key, entry: KeyValue, number: Number) -> int:
        if key.round is None:
            whole = number.__ceil__() * Fraction(entry.number) / number
            message = f"{entry} is not a whole number: {_unit_text(key)}"
            raise self.deny(Reason.NOT_WHOLE, message, entry, simplest(whole))
        return number.__ceil__() if key.round == "up" else number.__floor__()

    def _not_legal(self, key: Key, entry: KeyValue, number: Number, values: Numbers) -> Denied:
        message = f"{entry} is not allowed: {self.vendor.name} accepts {self.legal_text(key)}"
        message = f"{message}{self._of_other_devices(key, number)}"
        if not number:
            return self.deny(Reason.NOT_LEGAL, message, entry, named=None if key.total else values.ceil(number))
        above, below = (
            None if each is None else simplest(each * Fraction(entry.number) / number)
            for each in (values.ceil(number), values.floor(number))
        )
        return self.deny(Reason.NOT_LEGAL, message, entry, above, named=below if above is None else None)

    def _of_other_devices(self, key: Key, number: Number) -> str:
        """Return the end of a denial: the setting for devices that accept a number; empty if none do."""
        for variable in self.vendor.variables.values():
            rows = variable.rows.items() if variable.everywhere else ()
            devices = [name for name, row in rows if number in (self.form.values(key, row) or ())]
            if devices:
                setting = f"`variables: {{{variable.name}: {{write: {devices[0]}}}}}`"
                accept = f"; devices that accept {exact_text(number)} are set by"
                return f"{accept} {setting} with `extends: {self.vendor.name}`"
        return ""

    def legal_text(self, key: Key) -> str:
        """Return the legal numbers of a key, for messages."""
        return f"{self.values(key) or 'whole numbers'}{' per device' if key.total else ''}"

    def values(self, key: Key) -> Numbers | None:
        """Return the legal numbers of a key; of a total for each device."""
        return self.form.values(key, self.row)

    def _report_ignored(self, others: list[KeyValue], counted: KeyValue | None) -> None:
        needed = {*self.form.compared, getattr(self.form.devices, "key", None)}
        why = f"on {self.form.name!r}" if counted is None else f"beside {counted}"
        for entry in others:
            # A count may be there twice, if both are alike.
            counts = counted is not None and "devices" in self.form.keys[entry.key_name].dimensions
            known = {0, counted.number} if counts and counted is not None else {0}
            if entry.key_name not in needed and entry.number not in known:
                self.report(Reason.KEY_IGNORED, f"{entry} has no effect {why}: remove it", entry)

    def report_less(self, entry: KeyValue, number: Number, rounded: Number) -> None:
        """Report that the vendor rounds down; `number` is that of the key, or its part for each device."""
        before, each = (entry.text, "") if number == entry.number else (f"{exact_text(number)} each", " each")
        message = f"{entry} is rounded down to {exact_text(rounded)}{each} by {self.vendor.name}"
        step = Step(entry.key, before, f"{exact_text(rounded)}{each}", signed_text(simplest(rounded - number)))
        self.report(Reason.ROUNDED_DOWN, message, entry, step)

    def report(self, reason: Reason, message: str, entry: KeyValue, step: Step | None = None) -> None:
        """Add a finding about a key."""
        self.findings.append(Finding(reason, message, self.container, entry.key, entry.text, step))

    def deny(
        self,
        reason: Reason,
        message: str,
        entry: KeyValue | None = None,
        *numbers: Number | None,
        named: Number | None = None,
    ) -> Denied:
        """Return a denial about the container; `numbers` are what to write instead of the key's, `named` one that is less."""
        if entry is None:
            return deny(reason, message, container=self.container)
        return deny(
            reason,
            message,
            container=self.container,
            field=entry.key,
            value=entry.text,
            instead=instead_of(entry.key, *numbers),
            named=instead_of(entry.key, named),
        )


class _Asked(NamedTuple):
    """Whose keys are read, in which container, and that more than `most_memory` bytes per device are a wrong unit.

    With `home` the request stays in these keys, so they must express what is filled in.
    """

    vendor: Vendor
    most_memory: int
    container: str
    home: bool


def read(
    vendor: Vendor, key_values: KeyValues, defaults: Defaults, most_memory: int, container: str, *, home: bool = False
) -> Reading:
    """Read the keys of one container.

    The specified keys alone choose the form. Defaults (those that can be written) fill what it leaves open, or complete keys
    that make no request by themselves. A default that would change what is specified is passed over.

    Raises:
        LeftAlone: the form is left unchanged; or, with `home`, the size of a name is not known.
        Denied: with `home`, no node reports a key; the vendor denies the keys, they make no request, or a value is invalid.
    """
    form = form_of(vendor, key_values)
    if form is not None and form.leave is not None:
        raise left_alone(vendor, form, key_values, container)
    check_texts(form.keys if form is not None else vendor.keys, key_values, container)
    if home and vendor.unreported:
        check_reported(vendor, key_values, container)
    asked = _Asked(vendor, most_memory, container, home)
    if form is not None and form.reads:
        return _filled_in(asked, form, key_values, defaults)
    reading = _completed(asked, key_values, defaults)
    if reading is not None:
        return reading
    _check_derived_counts(asked, key_values)
    if form is not None:
        raise form_denied(vendor, form, key_values, container)
    raise _no_form(vendor, key_values, container)


def _no_form(vendor: Vendor, key_values: KeyValues, container: str) -> Denied:
    binding = bound_in(key_values)
    listed = ", ".join(key.spelled(binding) for key in vendor.keys.values() if key.kind == "amount")
    wrong = f"{', '.join(map(str, key_values.values()))}: no valid combination of keys"
    return deny(Reason.NO_FORM, f"{wrong}; those of {vendor.name} are {listed}", container=container)


def _filled_in(asked: _Asked, form: Form, key_values: KeyValues, defaults: Defaults) -> Reading:
    """Read keys that make a request by themselves; at home a default fills only what a key can specify, else by value."""
    if not asked.home:
        return _read_form(asked, form, key_values, defaults)
    for chosen in fewer(defaults) if defaults else ():
        if not chosen:
            break
        try:
            reading = _spelled_out(asked, key_values, _read_form(asked, form, key_values, chosen))
        except Denied:
            continue
        if reading is not None:
            return _passing_over(reading, defaults, chosen)
    return _passing_over(_read_form(asked, form, key_values, {}), defaults, {})


def _completed(asked: _Asked, key_values: KeyValues, defaults: Defaults) -> Reading | None:
    """Read keys that make no request by themselves, with keys for defaults added; None if there is still no request.

    Each specified key must count with its own value.
    """
    by_dimension = asked.vendor.by_dimension
    missing = {
        dimension: default
        for dimension, default in defaults.items()
        if not any(name in key_values for name in by_dimension[dimension])
    }
    for chosen in fewer(missing):
        for devices in _counts(asked.vendor, key_values, chosen) if chosen else ():
            try:
                reading = _completion(asked, key_values, chosen, devices)
            except Denied:
                continue
            if reading is not None:
                return _passing_over(reading, missing, chosen)
    return None


def _passing_over(reading: Reading, defaults: Defaults, chosen: Defaults) -> Reading:
    passed_over = [name for name in defaults if name not in chosen and name not in reading.specified]
    if not passed_over:
        return reading
    return replace(reading, passed_over=tuple(dict.fromkeys((*reading.passed_over, *passed_over))))


def _counts(vendor: Vendor, key_values: KeyValues, defaults: Defaults) -> list[int]:
    """Return the counts of devices that totals may refer to: those that keys specify or imply, the default, 1."""
    derived = [form.devices for form in vendor.forms if form.reads and isinstance(form.devices, Derived)]
    counts = [int(-(-key_values[each.key].number // each.per)) for each in derived if each.key in key_values]
    counts += [key_values[name].number.__ceil__() for name in vendor.by_dimension["devices"] if name in key_values]
    if "devices" in defaults:
        counts.append(defaults["devices"].value)
    return list(dict.fromkeys((*counts, 1)))


def _completion(asked: _Asked, key_values: KeyValues, defaults: Defaults, devices: int) -> Reading | None:
    """Read keys with those for defaults, over so many devices; None if that is no request, or another than they specify."""
    vendor = asked.vendor
    added: dict[str, KeyValue] = {}
    applied: dict[Dimension, Default] = {}
    for dimension, default in defaults.items():
        for entry in itertools.islice(keys_for(vendor, vendor.keys, dimension, default, devices), 1):
            added[entry.key_name], applied[dimension] = entry, default
    extended = {**key_values, **added}
    form = form_of(vendor, extended)
    if not added or form is None or not form.reads:
        return None
    rest = {dimension: default for dimension, default in defaults.items() if dimension not in applied}
    reading = _read_form(asked, form, extended, rest)
    total = reading.request.devices != devices and any(form.keys[name].total for name in added)
    if total or ("devices" in defaults and divides(vendor, form, key_values)):
        return None
    reading = replace(reading, specified=reading.specified - applied.keys())
    if _reduces(reading, applied) or not _all_count(vendor, form, key_values, added, reading):
        return None
    return _with_added(asked, extended, reading, added, applied)


def _with_added(
    asked: _Asked, key_values: KeyValues, reading: Reading, added: KeyValues, applied: Defaults
) -> Reading | None:
    """Return what keys mean with those added; at home with keys for all that is filled in, None without these."""
    # By its exact value: another vendor may be able to express what these keys round.
    values = {name: default.value for name, default in applied.items() if name != "devices"}
    request, filled = replace(reading.request, **values), {**applied, **reading.filled}
    if not asked.home:
        return replace(reading, request=request, filled=filled)
    spelled = _spelled_out(asked, key_values, reading)
    if spelled is None:
        return None
    return replace(
        spelled,
        request=request,
        filled={**applied, **spelled.filled},
        added={**added, **spelled.added},
        spelled=spelled.spelled or spelled.request,
    )


def _reduces(reading: Reading, applied: Defaults) -> bool:
    """Return whether a default would be less than all of a dimension, beside all of the other that keys specify."""
    whole = [name for name in _AMOUNTS if name in reading.specified and getattr(reading.request, name) == ALL]
    return any(name not in whole and applied[name].value != ALL for name in _AMOUNTS if whole and name in applied)


def _all_count(vendor: Vendor, form: Form, key_values: KeyValues, added: KeyValues, reading: Reading) -> bool:
    """Return whether no key, specified or added, is ignored, corrected because of others, or specified twice."""
    keys, corrected = {entry.key for entry in added.values()}, reading.corrections.keys()
    if any(finding.field in keys for finding in reading.findings) or not corrected.isdisjoint(added):
        return False
    # The form that the added keys select may round a key differently.
    if any(form.keys[name].round != vendor.keys[name].round for name in corrected & key_values.keys()):
        return False
    dimensions = {dimension for name in key_values for dimension in vendor.keys[name].dimensions}
    if not dimensions.isdisjoint(dimension for name in added for dimension in vendor.keys[name].dimensions):
        return False
    return all(_counts_in(vendor, form, vendor.keys[name]) for name in key_values)


def _counts_in(vendor: Vendor, form: Form, key: Key) -> bool:
    """Return whether the form uses the number of a key, or has a condition on it."""
    if key.kind == "other":
        return _has_condition(form, key) or not any(_has_condition(other, key) for other in vendor.forms)
    derives = isinstance(form.devices, Derived) and form.devices.key == key.name
    return derives or form.literals.isdisjoint(key.dimensions) or _has_condition(form, key)


def _has_condition(form: Form, key: Key) -> bool:
    return any(key.name in condition.keys and condition.numbers is not None for condition in form.when)


def _spelled_out(asked: _Asked, key_values: KeyValues, reading: Reading) -> Reading | None:
    """Add keys for what was filled by value; None if no key can express it, or one would change the rest."""
    if not reading.filled:
        return reading
    form, extended = reading.form, dict(key_values)
    filled: dict[Dimension, Default] = {}
    for dimension, default in reading.filled.items():
        for entry in keys_for(asked.vendor, form.keys, dimension, default, reading.request.devices or 1):
            if form_of(asked.vendor, {**extended, entry.key_name: entry}) is form:
                extended[entry.key_name], filled[dimension] = entry, default
                break
        else:
            if getattr(form.absent, dimension) != default.value:
                return None
    again = _read_form(asked, form, extended, {})
    kept = {name: getattr(reading.request, name) for name in DIMENSIONS if name not in filled}
    changed = any(getattr(again.request, dimension) != value for dimension, value in kept.items())
    if changed or again.corrections != reading.corrections or len(again.findings) != len(reading.findings):
        return None
    added = {name: entry for name, entry in extended.items() if name not in key_values}
    return replace(reading, spelled=again.request, filled=filled, added=added)


def _read_form(asked: _Asked, form: Form, key_values: KeyValues, defaults: Defaults) -> Reading:
    """Read keys in a form, and fill defaults in by value."""
    vendor = asked.vendor
    row, unknown = row_of(vendor, key_values)
    reader = Reader(vendor, form, key_values, asked.most_memory, asked.container, row)
    if unknown is not None:
        if vendor.keys[unknown.key_name].row_of is not None:
            raise _no_row(reader, unknown, home=asked.home)
        # A default does not know the size of a name.
        defaults = {"devices": defaults["devices"]} if "devices" in defaults else {}
    count = count_devices(reader)
    filled, passed_over = _filled_count(reader, defaults) if count is None else ({}, ())
    devices = filled["devices"].value if filled else form.absent.devices if count is None else count
    found: dict[Dimension, Any] = {"devices": count}
    found["memory"], found["cores"] = amount_of(reader, "memory", devices), amount_of(reader, "cores", devices)
    specified = frozenset([dimension for dimension, value in found.items() if value is not None])
    # Beside all of one, a default would reduce the other.
    if defaults and ALL not in (found["memory"], found["cores"]):
        for dimension in _AMOUNTS:
            if found[dimension] is None and dimension in defaults:
                filled[dimension] = defaults[dimension]
                found[dimension] = defaults[dimension].value
    request = fill_absent(Request(devices, found["memory"], found["cores"]), form.absent)
    if not request.settled:
        raise _incomplete(reader, request) if unknown is None else _no_row(reader, unknown, home=asked.home)
    return Reading(form, request, specified, reader.corrections, filled, passed_over, tuple(reader.findings))


def _filled_count(reader: Reader, defaults: Defaults) -> tuple[dict[Dimension, Default], tuple[Dimension, ...]]:
    """The default number of devices, or that it is passed over: it would change what keys specify."""
    if "devices" not in defaults:
        return {}, ()
    default, form = defaults["devices"], reader.form
    if default.value != form.absent.devices and divides(reader.vendor, form, reader.key_values):
        return {}, ("devices",)
    return {"devices": default}, ()


def _incomplete(reader: Reader, request: Request) -> Denied:
    """Deny keys that leave a dimension open."""
    vendor, derived = reader.vendor, reader.form.devices
    if (why := unconfigured_size(vendor)) is not None:
        entry = next(iter(reader.key_values.values()))
        return reader.deny(Reason.SIZE_UNKNOWN, f"{entry}: the size of its devices is not configured: {why}", entry)
    missing = [dimension for dimension in DIMENSIONS if getattr(request, dimension) is None]
    counts = (*vendor.by_dimension["devices"], *((derived.key,) if isinstance(derived, Derived) else ()))
    choices, binding = {**vendor.by_dimension, "devices": counts}, bound_in(reader.key_values)
    spelled = (" or ".join(vendor.keys[key].spelled(binding) for key in choices[dimension]) for dimension in missing)
    message = f"{' and '.join(missing)} must be specified: add {', and '.join(filter(None, spelled)) or 'them'}"
    return reader.deny(Reason.DIMENSION_MISSING, message)


def _no_row(reader: Reader, entry: KeyValue, *, home: bool) -> Denied:
    """Deny a name without a row, or leave it unchanged.

    A key that picks a row always needs it, a variable in a name only if nothing else specifies the amounts. A known name is
    left unchanged if the request stays in these keys (`home`): its size does not matter then.
    """
    vendor, binding = reader.vendor, dict(entry.binding)
    message = f"{entry}: {without_row(vendor, entry)}"
    of_another_model = any(binding.get(name) in variable.of_other_models for name, variable in vendor.variables.items())
    if home and vendor.keys[entry.key_name].row_of is None and not of_another_model:
        return LeftAlone(Finding(Reason.SIZE_UNKNOWN, message, reader.container))
    return reader.deny(Reason.SIZE_UNKNOWN, message, entry)


def _unit_text(key: Key) -> str:
    if "devices" in key.dimensions:
        return "it counts devices"
    if key.unit is None:
        return "its unit is not configured"
    return f"1 is {bytes_text(key.unit)}" if key.sized else f"1 is {number_text(key.unit)} % of a device"


def count_devices(reader: Reader) -> int | None:
    """Return the number of devices; None if nothing specifies it."""
    written = reader.form.devices
    entry: KeyValue | None = None
    if isinstance(written, Derived):
        entry = reader.key_values.get(written.key)
        devices = None if entry is None else _derived(reader, written, entry)
    elif (entry := reader.counted("devices", written)) is not None:
        devices = int(reader.legal(reader.form.keys[entry.key_name], entry, entry.number))
    else:
        devices = reader.row.devices if written is None and reader.row is not None else written
    if devices is not None and devices > MAX_DEVICES:
        raise _too_many(reader, entry, devices)
    return devices


def _derived(reader: Reader, derived: Derived, entry: KeyValue) -> int:
    """Derive the number of devices from another number, for example one device per 100 % of cores."""
    count = Fraction(entry.number, 1) / derived.per
    if count.denominator == 1:
        return int(count)
    if derived.round is None:
        message = f"{entry} is not a multiple of {derived.per}: write one"
        raise reader.deny(Reason.NOT_DIVISIBLE, message, entry, count.__ceil__() * derived.per)
    rounded = count.__floor__() if derived.round == "down" else count.__ceil__()
    if rounded == 0:
        message = f"{entry} is less than one device: write {derived.per} or more"
        raise reader.deny(Reason.NOT_LEGAL, message, entry, derived.per)
    if derived.round == "down":
        reader.report_less(entry, entry.number, rounded * derived.per)
    return rounded


def _check_derived_counts(asked: _Asked, key_values: KeyValues) -> None:
    """Check that no number counts more devices than any node has, before anything else that may be wrong with it."""
    for form in asked.vendor.forms:
        derived = form.devices
        entry = key_values.get(derived.key) if isinstance(derived, Derived) and form.reads else None
        if isinstance(derived, Derived) and entry is not None and entry.number > MAX_DEVICES * derived.per:
            reader = Reader(asked.vendor, form, key_values, asked.most_memory, asked.container, None)
            raise _too_many(reader, entry, int(-(-entry.number // derived.per)))


def _too_many(reader: Reader, entry: KeyValue | None, devices: int) -> Denied:
    each = reader.form.devices.per if isinstance(reader.form.devices, Derived) else None
    instead = "write the number of devices" if each is None else f"write {each} for each"
    message = f"{entry or reader.form.name} requests {devices} devices, more than any node has: {instead}"
    return reader.deny(Reason.TOO_LARGE, message, entry, each)


def amount_of(reader: Reader, dimension: Literal["memory", "cores"], devices: int | None) -> Memory | None:
    """Return the amount of a dimension per device, of so many for keys that count over all; None if nothing specifies it."""
    literal = reader.form.memory if dimension == "memory" else reader.form.cores
    entry = reader.counted(dimension, literal)
    if entry is not None:
        return _value(reader, dimension, entry, devices)
    if literal is not None or reader.row is None:
        return literal
    return reader.row.memory if dimension == "memory" else reader.row.cores


def _value(reader: Reader, dimension: Dimension, entry: KeyValue, devices: int | None) -> Memory:
    """Return the amount per device that a key specifies; a number that the vendor raises is corrected."""
    key = reader.form.keys[entry.key_name]
    if key.unit is None:
        message = f"{entry}: the unit of this key is not configured: {key.why}"
        raise reader.deny(Reason.UNIT_NOT_CONFIGURED, message, entry)
    over = devices or 1 if key.total else 1
    per_device = _per_device(reader, key, entry, over)
    try:
        number = reader.legal(key, entry, per_device)
    except Denied:
        if key.sized:  # another unit is the likelier mistake
            _check_size(reader, key, entry, value_of(key, dimension, per_device))
        raise
    if number > per_device and key.round == "up":
        total = simplest(number * over)
        reader.corrections[key.name] = total
        message = f"{entry} was raised to {exact_text(total)}: {reader.vendor.name} accepts {reader.legal_text(key)}"
        step = Step(entry.key, entry.text, exact_text(total), signed_text(total - entry.number))
        reader.report(Reason.CORRECTED, message, entry, step)
    if reader.row is not None and number in reader.row.all.get(key.name, ()):
        return ALL
    value = value_of(key, dimension, number)
    if type(value) is Percent and value.value > ALL.value:
        most = simplest(ALL.value / Fraction(key.unit or 1) * over)
        message = f"{entry} is {value} of a device: write {over} to {exact_text(most)}"
        middle = over * ceil_to(Fraction(most) / over / 2, 1)
        raise reader.deny(Reason.TOO_LARGE, message, entry, most, named=middle)
    _check_size(reader, key, entry, value)
    return value


def _check_size(reader: Reader, key: Key, entry: KeyValue, value: Memory) -> None:
    """Check that any device has so much memory."""
    if type(value) is Size and value.bytes > reader.most_memory:
        meant = list(sizes_meant(key, entry, value.bytes, reader.most_memory))
        message = oversized(key, entry, value, f"no device has more than {bytes_text(reader.most_memory)}", meant)
        raise reader.deny(Reason.TOO_LARGE, message, entry, *(number for _, number in meant))


def _per_device(reader: Reader, key: Key, entry: KeyValue, devices: int) -> Number:
    """Divide the number of a key over the devices."""
    if devices == 1:
        return entry.number
    share = Fraction(entry.number) / devices
    if share.denominator == 1 or key.written == "decimal" or key.round == "up":
        return simplest(share)
    if key.round == "down" and (floor := share.__floor__()) > 0:
        over = f"{entry.text} over {devices} devices"
        message = f"{entry.key}: {over} is rounded down to {exact_text(floor)} each"
        reader.report(Reason.ROUNDED_DOWN, message, entry, Step(entry.key, over, f"{exact_text(floor)} each"))
        return floor
    _check_size(reader, key, entry, value_of(key, "memory", share))  # another unit is the likelier mistake
    totals = list(_divisible(reader, key, share, devices))
    choices = " or ".join(map(exact_text, totals))
    count = next(filter(None, map(reader.key_values.get, reader.vendor.by_dimension["devices"])), None)
    counted = "" if count is None else f" ({reader.vendor.keys[count.key_name].place} {count.key}: {count.text!r})"
    message = f"{entry} is a total over {devices} devices{counted} and not divisible by {devices}: write {choices}"
    raise reader.deny(Reason.NOT_DIVISIBLE, message, entry, *(total for total in totals if total > entry.number))


def _divisible(reader: Reader, key: Key, share: Fraction, devices: int) -> Iterator[Number]:
    """Yield the totals next to a share for each device that can be divided by them."""
    low, high = share.__floor__(), share.__ceil__()
    if not key.sized:
        most = int(ALL.value / Fraction(key.unit or 1))
        low, high = min(low, most), min(high, most)
    values = reader.values(key)
    nearest = (low, high) if values is None else (values.floor(low), values.ceil(high))
    yield from dict.fromkeys([simplest(number * devices) for number in nearest if number])


def oversized(key: Key, entry: KeyValue, value: Size, why: str, meant: Sequence[tuple[str, Number]]) -> str:
    """Return a sentence about more memory than a device has: what the key counts, and what to write, or `why` it cannot be."""
    unit, in_bytes = key.unit or 1, entry.text.endswith("i")  # `8Gi` means bytes in whatever unit
    if in_bytes:
        advice = [f"{exact_text(number)} for {bytes_text(number * unit)}" for _, number in meant]
    else:
        texts = [f"{entry.text} are ", *[""] * len(meant)]
        advice = [f"{exact_text(number)} if {text}{each}" for text, (each, number) in zip(texts, meant, strict=False)]
    counts = f"{entry.key} counts {counted_in(unit)}: write {' or '.join(advice)}"
    message = counts if advice else f"{entry} is {bytes_text(value.bytes)} per device, and {why}"
    differs = key.differs
    return message if differs is None or in_bytes else f"{message}; {' '.join(differs.split())}"
