"""Keys → request: read a container's keys by the rules of their vendor, with defaults, to a settled request."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Literal

from msgspec import Struct

from webhook.mapping.model.vendor import Default, Derived, Form, Key, Row, Vendor
from webhook.mapping.notation import Numbers
from webhook.mapping.requests.denials import (
    LeftAlone,
    check_reported,
    check_texts,
    form_denied,
    left_alone,
    sizes_meant,
    without_row,
)
from webhook.mapping.requests.values import (
    Defaults,
    KeyValue,
    KeyValues,
    Reading,
    bound_in,
    completed,
    divides,
    fill_absent,
    filled_in,
    form_of,
    row_of,
    unconfigured_size,
    value_of,
)
from webhook.quantity import Number, bytes_text, counted_in, exact_text, number_text, signed_text, simplest
from webhook.reasons import Denied, Finding, Reason, Step, deny, instead_of
from webhook.request import ALL, DIMENSIONS, MAX_DEVICES, Cores, Dimension, Memory, Percent, Request, Size


class Reader(Struct):
    """The keys of one container, their form, and the results of reading them so far.

    Attributes:
        vendor: the vendor of the keys.
        form: the form in which they are read.
        key_values: the keys that are set.
        largest_card: bytes; no device has more memory.
        container: the name of the container, for messages.
        row: the row that the names imply; None without one.
        corrections: keys whose number the vendor raises, with the raised number.
        findings: ignored keys, corrections and roundings.
    """

    vendor: Vendor
    form: Form
    key_values: KeyValues
    largest_card: int
    container: str
    row: Row | None
    corrections: dict[str, Number] = {}
    findings: list[Finding] = []

    def present(self, dimension: Dimension) -> list[KeyValue]:
        """Return the keys that specify a dimension; the first one counts."""
        return [self.key_values[name] for name in self.vendor.by_dimension[dimension] if name in self.key_values]

    def legal(self, key: Key, entry: KeyValue, number: Number) -> Number:
        """Return the number of a key, or the legal one to which the vendor rounds it.

        Args:
            key: the key.
            entry: its value in the pod, for messages.
            number: its number, or the part of it for each device.

        Raises:
            Denied: the number is not legal, and the vendor does not round.
        """
        values = key.values if self.row is None else self.values(key)
        if key.written != "decimal" and type(number) is not int:
            if key.rounding is None:
                whole = number.__ceil__() * Fraction(entry.number) / number
                message = f"{entry} is not a whole number: {_unit_text(key)}"
                raise self.deny(Reason.NOT_WHOLE, message, entry, simplest(whole))
            number = number.__ceil__() if key.rounding == "up" else number.__floor__()
        if values is None or number in values:
            return number
        rounded = None
        if key.rounding == "up":
            rounded = values.ceil(number)
        elif key.rounding == "down":
            rounded = values.floor(number)
            if rounded is not None:
                self.report_less(entry, number, rounded)
        if rounded is None:
            message = f"{entry} is not allowed: {self.vendor.name} accepts {self.legal_text(key)}"
            above = values.ceil(number) if number else None
            instead = None if above is None else simplest(above * Fraction(entry.number) / number)
            raise self.deny(Reason.NOT_LEGAL, f"{message}{self._of_other_devices(key, number)}", entry, instead)
        return rounded

    def _of_other_devices(self, key: Key, number: Number) -> str:
        """Return the end of a denial: the setting for devices that accept a number; empty if none do."""
        for variable in self.vendor.variables.values():
            rows = variable.rows.items() if variable.everywhere else ()
            devices = [name for name, row in rows if number in (self.form.values(key, row) or ())]
            if devices:
                setting = (
                    f"`variables: {{{variable.name}: {{write: {devices[0]}}}}}` with `extends: {self.vendor.name}`"
                )
                return f"; devices that accept {exact_text(number)} are set by {setting}"
        return ""

    def legal_text(self, key: Key) -> str:
        """Return the legal numbers of a key, for messages."""
        return f"{self.values(key) or 'whole numbers'}{' per device' if key.total else ''}"

    def values(self, key: Key) -> Numbers | None:
        """Return the legal numbers of a key; of a total for each device."""
        return self.form.values(key, self.row)

    def counted(self, dimension: Dimension) -> KeyValue | None:
        """Return the key of a dimension that counts, and report others beside it; None if no key specifies it."""
        counted: KeyValue | None = None
        for name in self.vendor.by_dimension[dimension]:
            if name not in self.key_values:
                continue
            if counted is not None:
                self._report_ignored(self.present(dimension)[1:], counted)
                break
            counted = self.key_values[name]
        return counted

    def ignore(self, dimension: Dimension) -> None:
        """Report the keys of a dimension that the form itself specifies."""
        self._report_ignored(self.present(dimension), None)

    def _report_ignored(self, others: list[KeyValue], counted: KeyValue | None) -> None:
        if not others:
            return
        needed = {key for condition in self.form.when for key in condition.keys}
        if isinstance(self.form.devices, Derived):
            needed.add(self.form.devices.key)
        for entry in others:
            if entry.key_name in needed or not entry.number:
                continue
            if (
                counted is not None
                and "devices" in self.form.keys[entry.key_name].dimensions
                and entry.number == counted.number
            ):
                continue
            why = f"beside {counted}" if counted is not None else f"in the form {self.form.name!r}"
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

    def deny(self, reason: Reason, message: str, entry: KeyValue | None = None, *numbers: Number | None) -> Denied:
        """Return a denial about the container; `numbers` are what to write instead of the key's."""
        return deny(
            reason,
            message,
            container=self.container,
            field=None if entry is None else entry.key,
            value=None if entry is None else entry.text,
            instead=() if entry is None else instead_of(entry.key, *numbers),
        )


def _unit_text(key: Key) -> str:
    if "devices" in key.dimensions:
        return "it counts devices"
    if key.unit is None:
        return "its unit is not configured"
    return f"1 is {bytes_text(key.unit)}" if key.sized else f"1 is {number_text(key.unit)} % of a device"


def count_devices(reader: Reader) -> int | None:
    """Return the number of devices; None if nothing specifies it.

    Raises:
        Denied: the number is not allowed, or larger than any node has.
    """
    devices, entry = _counted(reader)
    if devices is not None and devices > MAX_DEVICES:
        raise _too_many(entry or reader.form.name, devices, reader.form, reader.container)
    return devices


def _counted(reader: Reader) -> tuple[int | None, KeyValue | None]:
    """Return the number of devices, and the key that specifies it."""
    derived = reader.form.devices
    if isinstance(derived, int):
        reader.ignore("devices")
        return derived, None
    if isinstance(derived, Derived):
        entry = reader.key_values.get(derived.key)
        return (None, None) if entry is None else (_derived(reader, derived, entry), entry)
    entry = reader.counted("devices")
    if entry is None:
        return reader.row.devices if reader.row is not None else None, None
    return int(reader.legal(reader.form.keys[entry.key_name], entry, entry.number)), entry


def _derived(reader: Reader, derived: Derived, entry: KeyValue) -> int:
    """Derive the number of devices from another number, for example one device per 100 % of cores."""
    count = Fraction(entry.number, 1) / derived.per
    if count.denominator == 1:
        return int(count)
    if derived.rounding is None:
        message = f"{entry} is not a multiple of {derived.per}: write one"
        raise reader.deny(Reason.NOT_DIVISIBLE, message, entry, count.__ceil__() * derived.per)
    rounded = count.__floor__() if derived.rounding == "down" else count.__ceil__()
    if rounded == 0:
        message = f"{entry} is less than one device: write {derived.per} or more"
        raise reader.deny(Reason.NOT_LEGAL, message, entry, derived.per)
    if derived.rounding == "down":
        reader.report_less(entry, entry.number, rounded * derived.per)
    return rounded


def check_derived_counts(vendor: Vendor, key_values: KeyValues, container: str) -> None:
    """Check that no number counts more devices than any node has, before anything else that may be wrong with it.

    Raises:
        Denied: one does.
    """
    for form in vendor.forms:
        derived = form.devices
        entry = key_values.get(derived.key) if isinstance(derived, Derived) and form.reads else None
        if isinstance(derived, Derived) and entry is not None and entry.number > MAX_DEVICES * derived.per:
            raise _too_many(entry, int(-(-entry.number // derived.per)), form, container)


def _too_many(entry: KeyValue | str, devices: int, form: Form, container: str) -> Denied:
    derived = form.devices if isinstance(form.devices, Derived) else None
    instead = "write the number of devices" if derived is None else f"write {derived.per} for each"
    message = f"{entry} requests {devices} devices, more than any node has: {instead}"
    if isinstance(entry, str):
        return deny(Reason.TOO_LARGE, message, container=container)
    numbers = () if derived is None else instead_of(entry.key, derived.per)
    return deny(Reason.TOO_LARGE, message, container=container, field=entry.key, value=entry.text, instead=numbers)


def amount_of(reader: Reader, dimension: Literal["memory", "cores"], devices: int | None) -> Memory | None:
    """Return the amount of a dimension per device; None if nothing specifies it.

    Args:
        reader: the keys and their form.
        dimension: what is measured.
        devices: the number of devices, for keys that count over all of them.

    Raises:
        Denied: the number is not allowed, cannot be divided by the devices, or is more than any device has.
    """
    literal = reader.form.memory if dimension == "memory" else reader.form.cores
    if literal is not None:
        reader.ignore(dimension)
        return literal
    entry = reader.counted(dimension)
    if entry is not None:
        return _value(reader, dimension, entry, devices)
    if reader.row is None:
        return None
    return reader.row.memory if dimension == "memory" else reader.row.cores


def _value(reader: Reader, dimension: Dimension, entry: KeyValue, devices: int | None) -> Memory:
    """Return the amount per device that a key specifies; a number that the vendor raises is corrected."""
    key = reader.form.keys[entry.key_name]
    if key.unit is None:
        raise reader.deny(
            Reason.UNIT_NOT_CONFIGURED, f"{entry}: the unit of this key is not configured: {key.document.why}", entry
        )
    per_device = _per_device(reader, key, entry, devices) if key.total else entry.number
    number = reader.legal(key, entry, per_device)
    if number > per_device and key.rounding == "up":
        total = simplest(number * devices) if key.total and devices else number
        reader.corrections[key.name] = total
        message = f"{entry} was raised to {exact_text(total)}: {reader.vendor.name} accepts {reader.legal_text(key)}"
        step = Step(entry.key, entry.text, exact_text(total), signed_text(total - entry.number))
        reader.report(Reason.CORRECTED, message, entry, step)
    if reader.row is not None and number in reader.row.all.get(key.name, ()):
        return ALL
    value = value_of(key, dimension, number)
    _check_size(reader, key, entry, value, devices or 1 if key.total else 1)
    return value


def _per_device(reader: Reader, key: Key, entry: KeyValue, devices: int | None) -> Number:
    """Divide the number of a key over the devices, if it is a total."""
    if devices is None or devices == 1:
        return entry.number
    share = Fraction(entry.number) / devices
    if share.denominator == 1 or key.written == "decimal" or key.rounding == "up":
        return simplest(share)
    if key.rounding == "down":
        floor = share.__floor__()
        if floor > 0:
            over = f"{entry.text} over {devices} devices"
            message = f"{entry.key}: {over} is rounded down to {exact_text(floor)} each"
            reader.report(Reason.ROUNDED_DOWN, message, entry, Step(entry.key, over, f"{exact_text(floor)} each"))
            return floor
    low, high = share.__floor__(), share.__ceil__()
    if not key.sized:
        most = int(ALL.value / Fraction(key.unit or 1))
        low, high = min(low, most), min(high, most)
    values = reader.values(key)
    nearest = (low, high) if values is None else (values.floor(low), values.ceil(high))
    totals = list(dict.fromkeys([simplest(number * devices) for number in nearest if number]))
    choices = " or ".join(map(exact_text, totals))
    raise reader.deny(
        Reason.NOT_DIVISIBLE,
        f"{entry} is a total over {devices} devices{_count_text(reader)} and not divisible by {devices}: write {choices}",
        entry,
        *(total for total in totals if total > entry.number),
    )


def _count_text(reader: Reader) -> str:
    """The key that counts the devices, in parentheses; empty without one."""
    counts = reader.present("devices")
    if not counts:
        return ""
    place = reader.vendor.keys[counts[0].key_name].place
    return f" ({place} {counts[0].key}: {counts[0].text!r})"


def _check_size(reader: Reader, key: Key, entry: KeyValue, value: Memory, devices: int) -> None:
    """Check that a device has so much; `devices` are those that the number is a total over."""
    if type(value) is Percent and value.value > ALL.value:
        most = simplest(ALL.value / Fraction(key.unit or 1) * devices)
        message = f"{entry} is {value} of a device: write {devices} to {exact_text(most)}"
        raise reader.deny(Reason.TOO_LARGE, message, entry, most)
    if type(value) is Size and value.bytes > reader.largest_card:
        meant = list(sizes_meant(key, entry, value.bytes, reader.largest_card))
        message = oversized(key, entry, value, f"no device has more than {bytes_text(reader.largest_card)}", meant)
        raise reader.deny(Reason.TOO_LARGE, message, entry, *(number for _, number in meant))


def oversized(key: Key, entry: KeyValue, value: Size, why: str, meant: Sequence[tuple[str, Number]]) -> str:
    """Return a sentence about more memory than a device has: what the key counts, and what to write, or `why` it cannot be."""
    unit = key.unit or 1
    if entry.text.endswith("i"):
        advice = [f"{exact_text(number)} for {bytes_text(number * unit)}" for _, number in meant]
    else:
        advice = [
            f"{exact_text(number)} if {'' if index else f'{entry.text} are '}{counted}"
            for index, (counted, number) in enumerate(meant)
        ]
    counts = f"{entry.key} counts {counted_in(unit)}: write {' or '.join(advice)}"
    message = counts if advice else f"{entry} is {bytes_text(value.bytes)} per device, and {why}"
    differs = key.document.differs
    if differs is not None and not entry.text.endswith("i"):  # `8Gi` means bytes in whatever unit
        message = f"{message}; {' '.join(differs.split())}"
    return message


def read(
    vendor: Vendor, key_values: KeyValues, defaults: Defaults, largest_card: int, container: str, *, home: bool = False
) -> Reading:
    """Read the keys of one container.

    The specified keys alone choose the form. Defaults fill what it leaves open, or complete keys that make no request by
    themselves. A default that would change what is specified is passed over.

    Args:
        vendor: the vendor of the keys.
        key_values: the keys that are set, without those that are 0.
        defaults: the defaults to fill in, already restricted to those that can be written.
        largest_card: bytes; more memory per device is denied as a wrong unit.
        container: the name of the container, for messages.
        home: the request stays in these keys, so they must express what is filled in.

    Raises:
        LeftAlone: the form is left unchanged; or, with `home`, the size of a name is not known.
        Denied: with `home`, no node reports a key; the vendor denies the keys, they make no request, or a value is invalid.
    """

    def read_form(form: Form, key_values: KeyValues, defaults: Defaults) -> Reading:
        row, unknown = row_of(vendor, key_values)
        reader = Reader(vendor, form, key_values, largest_card, container, row)
        return _read_form(reader, unknown, defaults, home=home)

    form = form_of(vendor, key_values)
    if form is not None and form.document.leave is not None:
        raise left_alone(vendor, form, key_values, container)
    check_texts(form.keys if form is not None else vendor.keys, key_values, container)
    if home and vendor.unreported:
        check_reported(vendor, key_values, container)
    if form is not None and form.document.deny is None:
        return filled_in(vendor, key_values, form, defaults, read_form, home=home)
    reading = completed(vendor, key_values, defaults, read_form, home=home)
    if reading is not None:
        return reading
    check_derived_counts(vendor, key_values, container)
    if form is not None:
        raise form_denied(vendor, form, key_values, container)
    keys_text = ", ".join(str(entry) for entry in key_values.values())
    binding = bound_in(key_values)
    listed = ", ".join(key.spelled(binding) for key in vendor.keys.values() if key.kind == "amount")
    raise deny(
        Reason.NO_FORM,
        f"{keys_text}: no valid combination of keys; those of {vendor.name} are {listed}",
        container=container,
    )


def _read_form(reader: Reader, unknown: KeyValue | None, defaults: Defaults, *, home: bool) -> Reading:
    """Read keys in a form; `unknown` is the key whose value has no row, although its variable has rows."""
    vendor, form = reader.vendor, reader.form
    if unknown is not None:
        if vendor.keys[unknown.key_name].document.row_of is not None:
            raise _no_row(reader, unknown, home=home)
        # A default does not know the size of a name.
        defaults = {dimension: default for dimension, default in defaults.items() if dimension == "devices"}
    filled: dict[Dimension, Default] = {}
    passed_over: tuple[Dimension, ...] = ()
    devices = count_devices(reader)
    specified: set[Dimension] = set() if devices is None else {"devices"}
    if devices is None and "devices" in defaults:
        count = defaults["devices"].value
        assert isinstance(count, int)  # noqa: S101  (by compilation)
        if count != form.absent.devices and divides(vendor, form, reader.key_values):
            passed_over = ("devices",)
        else:
            filled["devices"] = defaults["devices"]
            devices = count
    devices = devices if devices is not None else form.absent.devices
    memory = amount_of(reader, "memory", devices)
    cores = _as_cores(amount_of(reader, "cores", devices))
    specified_memory, specified_cores = memory, cores
    if memory is not None:
        specified.add("memory")
    elif "memory" in defaults and specified_cores != ALL:
        filled["memory"] = defaults["memory"]
        memory = _amount(defaults["memory"])
    if cores is not None:
        specified.add("cores")
    elif "cores" in defaults and specified_memory != ALL:
        filled["cores"] = defaults["cores"]
        cores = _as_cores(_amount(defaults["cores"]))
    request = fill_absent(Request(devices, memory, cores), form.absent)
    if not request.settled:
        raise _incomplete(reader, request) if unknown is None else _no_row(reader, unknown, home=home)
    return Reading(
        form,
        request,
        frozenset(specified),
        reader.corrections,
        filled,
        passed_over,
        tuple(reader.findings),
    )


def _incomplete(reader: Reader, request: Request) -> Denied:
    """Deny keys that leave a dimension open."""
    vendor = reader.vendor
    if (why := unconfigured_size(vendor)) is not None:
        entry = next(iter(reader.key_values.values()))
        return reader.deny(Reason.SIZE_UNKNOWN, f"{entry}: the size of its devices is not configured: {why}", entry)
    missing = [dimension for dimension in DIMENSIONS if getattr(request, dimension) is None]
    counted = [reader.form.devices.key] if isinstance(reader.form.devices, Derived) else []
    choices = [(*vendor.by_dimension[dimension], *(counted if dimension == "devices" else ())) for dimension in missing]
    binding = bound_in(reader.key_values)
    keys_text = ", and ".join(
        " or ".join(vendor.keys[key].spelled(binding) for key in keys) for keys in choices if keys
    )
    return reader.deny(
        Reason.DIMENSION_MISSING, f"{' and '.join(missing)} must be specified: add {keys_text or 'them'}"
    )


def _no_row(reader: Reader, entry: KeyValue, *, home: bool) -> Denied:
    """Deny a name without a row, or leave it unchanged.

    A key that picks a row always needs it, a variable in a name only if nothing else specifies the amounts. A known name is
    left unchanged if the request stays in these keys (`home`): its size does not matter then.
    """
    vendor, binding = reader.vendor, dict(entry.binding)
    message = f"{entry}: {without_row(vendor, entry)}"
    of_another_model = any(binding.get(name) in variable.of_other_models for name, variable in vendor.variables.items())
    if home and vendor.keys[entry.key_name].document.row_of is None and not of_another_model:
        return LeftAlone(Finding(Reason.SIZE_UNKNOWN, message, reader.container))
    return reader.deny(Reason.SIZE_UNKNOWN, message, entry)


def _amount(default: Default) -> Memory | None:
    return None if isinstance(default.value, int) else default.value


def _as_cores(amount: Memory | None) -> Cores | None:
    return None if isinstance(amount, Size) else amount
