"""Keys → request: read a container's keys by the rules of their vendor, with defaults, to a settled request."""

from fractions import Fraction
from typing import Literal

from webhook.finding import Denied, Finding, Step, deny
from webhook.mapping.model.vendor import Default, Derived, Form, Key, Vendor
from webhook.mapping.notation.numbers import Numbers
from webhook.mapping.requests.advice import sizes_meant
from webhook.mapping.requests.conversion import settle, value_of
from webhook.mapping.requests.defaults import completed, divides, filled_in
from webhook.mapping.requests.denials import LeftAlone, denied, left_alone, spelling, without_row
from webhook.mapping.requests.key_values import KeyValue, KeyValues, form_of, format_value, row_of, unset
from webhook.mapping.requests.result import Defaults, Reading
from webhook.quantity import Number, bytes_text, ceil_to, number_text, signed_text, simplest
from webhook.reasons import Reason
from webhook.request import ALL, DIMENSIONS, MAX_DEVICES, Cores, Dimension, Memory, Percent, Request, Size


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
        Denied: the vendor denies the keys, they make no request, or a value is invalid.
    """

    def read_form(form: Form, key_values: KeyValues, defaults: Defaults) -> Reading:
        return _Reader(vendor, form, key_values, largest_card, container, home=home).read(defaults)

    form = form_of(vendor, key_values)
    if form is not None and form.leave is not None:
        raise left_alone(vendor, form, key_values, container)
    if form is not None and form.deny is None:
        return filled_in(vendor, key_values, form, defaults, read_form, home=home)
    reading = completed(vendor, key_values, defaults, read_form, home=home)
    if reading is not None:
        return reading
    _deny_too_many(vendor, key_values, container)
    if form is not None:
        raise denied(vendor, form, key_values, container)
    keys_text = ", ".join(str(entry) for entry in key_values.values()) or "amounts of 0"
    binding = {name: value for entry in key_values.values() for name, value in entry.binding}
    listed = ", ".join(spelling(key, binding) for key in vendor.keys.values() if key.kind == "amount")
    raise deny(
        Reason.NO_FORM,
        f"{keys_text}: no valid combination of keys; those of {vendor.name} are {listed}",
        container=container,
    )


def _deny_too_many(vendor: Vendor, key_values: KeyValues, container: str) -> None:
    """Deny a number that counts more devices than any node has, before anything else that may be wrong with it."""
    for form in vendor.forms:
        derived = form.devices
        entry = key_values.get(derived.key) if isinstance(derived, Derived) and form.reads else None
        if isinstance(derived, Derived) and entry is not None and entry.number > MAX_DEVICES * derived.per:
            raise _too_many(entry, int(-(-entry.number // derived.per)), f"write {derived.per} for each", container)


def _too_many(entry: KeyValue | str, devices: int, instead: str, container: str) -> Denied:
    message = f"{entry} requests {devices} devices, more than any node has: {instead}"
    field, value = (entry.key, entry.text) if isinstance(entry, KeyValue) else (None, None)
    return deny(Reason.TOO_LARGE, message, container=container, field=field, value=value)


class _Reader:
    """Reads one container, and collects findings."""

    __slots__ = (
        "_container",
        "_corrections",
        "_findings",
        "_form",
        "_home",
        "_key_values",
        "_largest",
        "_row",
        "_unknown",
        "_vendor",
    )

    def __init__(
        self, vendor: Vendor, form: Form, key_values: KeyValues, largest_card: int, container: str, *, home: bool
    ) -> None:
        self._home = home
        self._vendor = vendor
        self._form = form
        self._key_values = key_values
        self._largest = largest_card
        self._container = container
        self._corrections: dict[str, Number] = {}
        self._findings: list[Finding] = []
        self._row, self._unknown = row_of(vendor, key_values)

    def read(self, defaults: Defaults) -> Reading:
        if self._unknown is not None and self._vendor.keys[self._unknown.key_name].picks is not None:
            raise self._no_row(self._unknown)
        if self._unknown is not None:  # a default does not know the size of a name
            defaults = {dimension: default for dimension, default in defaults.items() if dimension == "devices"}
        filled: dict[Dimension, Default] = {}
        passed_over: tuple[Dimension, ...] = ()
        devices = self._devices()
        specified: set[Dimension] = set() if devices is None else {"devices"}
        if devices is None and "devices" in defaults:
            count = defaults["devices"].value
            assert isinstance(count, int)  # noqa: S101  (by compilation)
            if count != self._form.absent.devices and divides(self._vendor, self._form, self._key_values):
                passed_over = ("devices",)
            else:
                filled["devices"] = defaults["devices"]
                devices = count
        devices = devices if devices is not None else self._form.absent.devices
        memory = self._amount("memory", devices)
        cores = _as_cores(self._amount("cores", devices))
        specified_request = Request(devices, memory, cores)
        specified.update(dimension for dimension in DIMENSIONS[1:] if getattr(specified_request, dimension) is not None)
        if memory is None and "memory" in defaults and specified_request.cores != ALL:
            filled["memory"] = defaults["memory"]
            memory = _amount(defaults["memory"])
        if cores is None and "cores" in defaults and specified_request.memory != ALL:
            filled["cores"] = defaults["cores"]
            cores = _as_cores(_amount(defaults["cores"]))
        request = settle(Request(devices, memory, cores), self._form.absent)
        if not request.settled:
            raise self._missing(request)
        return Reading(
            self._form,
            request,
            frozenset(specified),
            self._corrections,
            filled,
            passed_over=passed_over,
            findings=tuple(self._findings),
        )

    def _missing(self, request: Request) -> Denied:
        if self._unknown is not None:
            return self._no_row(self._unknown)
        if (why := unset(self._vendor)) is not None:
            entry = next(iter(self._key_values.values()))
            return self._denied(
                Reason.SIZE_UNKNOWN, f"{entry}: the size of its devices is not configured: {why}", entry
            )
        names = [dimension for dimension in DIMENSIONS if getattr(request, dimension) is None]
        keys = [key for name in names for key in self._vendor.by_dimension[name]]
        if request.devices is None and isinstance(self._form.devices, Derived):
            keys.append(self._form.devices.key)
        binding = {name: value for entry in self._key_values.values() for name, value in entry.binding}
        keys_text = ", ".join(spelling(self._vendor.keys[key], binding) for key in keys)
        return self._denied(
            Reason.DIMENSION_MISSING, f"{' and '.join(names)} must be specified: add {keys_text or 'them'}"
        )

    def _no_row(self, entry: KeyValue) -> Denied:
        """Deny a name without a row, or leave it unchanged.

        A key that picks a row always needs it, a variable in a name only if nothing else specifies the amounts. A known name
        is left unchanged if the request stays in these keys: its size does not matter there.
        """
        elsewhere = any(dict(entry.binding).get(name) in it.elsewhere for name, it in self._vendor.variables.items())
        if self._home and self._vendor.keys[entry.key_name].picks is None and not elsewhere:
            return LeftAlone(
                Finding(Reason.SIZE_UNKNOWN, f"{entry}: {without_row(self._vendor, entry)}", self._container)
            )
        return self._denied(Reason.SIZE_UNKNOWN, f"{entry}: {without_row(self._vendor, entry)}", entry)

    def _devices(self) -> int | None:
        devices, entry = self._counted()
        if devices is not None and devices > MAX_DEVICES:
            derived = self._form.devices
            instead = f"write {derived.per} for each" if isinstance(derived, Derived) else "write the number of devices"
            raise _too_many(entry or self._form.name, devices, instead, self._container)
        return devices

    def _counted(self) -> tuple[int | None, KeyValue | None]:
        """Return the count of devices, and the key that specifies it."""
        form = self._form
        if isinstance(form.devices, int):
            self._report_ignored("devices", None)
            return form.devices, None
        if isinstance(form.devices, Derived):
            entry = self._key_values.get(form.devices.key)
            return (None, None) if entry is None else (self._derived(form.devices, entry), entry)
        present = self._present("devices")
        if not present:
            return self._row.devices if self._row is not None else None, None
        entry = present[0]
        self._report_ignored("devices", entry)
        return int(self._legal(self._key(entry), entry, entry.number)), entry

    def _derived(self, derived: Derived, entry: KeyValue) -> int:
        count = Fraction(entry.number, 1) / derived.per
        if count.denominator == 1:
            return int(count)
        if derived.rounding is None:
            raise self._denied(Reason.NOT_DIVISIBLE, f"{entry} is not a multiple of {derived.per}: write one", entry)
        rounded = count.__floor__() if derived.rounding == "down" else count.__ceil__()
        if rounded == 0:
            raise self._denied(Reason.NOT_LEGAL, f"{entry} is less than one device: write {derived.per} or more", entry)
        if derived.rounding == "down":
            self._report_less(entry, entry.number, rounded * derived.per)
        return rounded

    def _amount(self, dimension: Literal["memory", "cores"], devices: int | None) -> Memory | None:
        literal = self._form.memory if dimension == "memory" else self._form.cores
        if literal is not None:
            self._report_ignored(dimension, None)
            return literal
        present = self._present(dimension)
        if present:
            self._report_ignored(dimension, present[0])
            return self._value(dimension, present[0], devices)
        if self._row is None:
            return None
        return self._row.memory if dimension == "memory" else self._row.cores

    def _value(self, dimension: Dimension, entry: KeyValue, devices: int | None) -> Memory:
        key = self._key(entry)
        if key.unit is None:
            raise self._denied(
                Reason.UNIT_NOT_CONFIGURED, f"{entry}: the unit of this key is not configured: {key.why}", entry
            )
        per_device = self._per_device(key, entry, devices)
        number = self._legal(key, entry, per_device)
        if number > per_device and key.rounding == "up":
            total = simplest(number * devices) if key.total and devices else number
            self._corrections[key.name] = total
            message = (
                f"{entry} was raised to {format_value(total)}: {self._vendor.name} accepts {self._legal_text(key)}"
            )
            step = Step(entry.key, entry.text, format_value(total), signed_text(total - entry.number))
            self._report(Reason.CORRECTED, message, entry, step)
        if self._row is not None and number in self._row.all.get(key.name, ()):
            return ALL
        value = value_of(key, dimension, number)
        self._check_size(key, entry, value)
        return value

    def _per_device(self, key: Key, entry: KeyValue, devices: int | None) -> Number:
        if not key.total or devices in {None, 1}:
            return entry.number
        assert devices is not None  # noqa: S101  (None is handled above)
        share = Fraction(entry.number) / devices
        if share.denominator == 1 or key.written == "decimal" or key.rounding == "up":
            return simplest(share)
        if key.rounding == "down":
            floor = share.__floor__()
            if floor > 0:
                over = f"{entry.text} over {devices} devices"
                message = f"{entry.key}: {over} is rounded down to {format_value(floor)} each"
                self._report(Reason.ROUNDED_DOWN, message, entry, Step(entry.key, over, f"{format_value(floor)} each"))
                return floor
        below, above = (ceil_to(entry.number, devices) - devices, ceil_to(entry.number, devices))
        choices = f"{format_value(below)} or {format_value(above)}" if below > 0 else format_value(above)
        count = self._count_text()
        raise self._denied(
            Reason.NOT_DIVISIBLE,
            f"{entry} is a total over {devices} devices{count} and not divisible by {devices}: write {choices}",
            entry,
        )

    def _count_text(self) -> str:
        counts = self._present("devices")
        if not counts:
            return ""
        place = self._vendor.keys[counts[0].key_name].place
        return f" ({place} {counts[0].key}: {counts[0].text!r})"

    def _legal(self, key: Key, entry: KeyValue, number: Number) -> Number:
        values = self._values(key)
        if key.written != "decimal" and not isinstance(number, int):
            if key.rounding is None:
                raise self._denied(Reason.NOT_WHOLE, f"{entry} is not a whole number: {self._unit_text(key)}", entry)
            number = number.__ceil__() if key.rounding == "up" else number.__floor__()
        if values is None or number in values:
            return number
        rounded = None
        if key.rounding == "up":
            rounded = values.ceil(number)
        elif key.rounding == "down":
            rounded = values.floor(number)
            if rounded is not None:
                self._report_less(entry, number, rounded)
        if rounded is None:
            per = " per device" if key.total else ""
            raise self._denied(
                Reason.NOT_LEGAL,
                f"{entry} is not allowed: {self._vendor.name} accepts {self._legal_text(key)}{per}",
                entry,
            )
        return rounded

    def _check_size(self, key: Key, entry: KeyValue, value: Memory) -> None:
        if isinstance(value, Percent) and value.value > ALL.value:
            raise self._denied(
                Reason.TOO_LARGE, f"{entry} is {value} of a device: write 1 to {format_value(_hundred(key))}", entry
            )
        if isinstance(value, Size) and value.bytes > self._largest:
            raise self._denied(Reason.TOO_LARGE, self._too_large(key, entry, value), entry)

    def _too_large(self, key: Key, entry: KeyValue, value: Size) -> str:
        unit = key.unit or 1
        first_part = f"{entry} is {bytes_text(value.bytes)} per device: the unit of the key is {bytes_text(unit)}"
        instead = [
            f"if {counted} were meant, write {format_value(number)} ({format_value(number)} means {bytes_text(number * unit)})"
            for counted, number in sizes_meant(key, entry, value.bytes, self._largest)
        ]
        if instead:
            return "; ".join([first_part, *instead])
        return f"{first_part}; no device has more than {bytes_text(self._largest)}"

    def _values(self, key: Key) -> Numbers | None:
        return self._form.values(key, self._row)

    def _legal_text(self, key: Key) -> str:
        return str(self._values(key) or "whole numbers")

    def _unit_text(self, key: Key) -> str:
        if "devices" in key.dimensions:
            return "it counts devices"
        if key.unit is None:
            return "its unit is not configured"
        return f"1 is {bytes_text(key.unit)}" if key.sized else f"1 is {number_text(key.unit)} % of a device"

    def _key(self, entry: KeyValue) -> Key:
        return self._form.keys[entry.key_name]

    def _present(self, dimension: Dimension) -> list[KeyValue]:
        return [self._key_values[name] for name in self._vendor.by_dimension[dimension] if name in self._key_values]

    def _report_ignored(self, dimension: Dimension, counted: KeyValue | None) -> None:
        needed = {key for condition in self._form.when for key in condition.keys}
        if isinstance(self._form.devices, Derived):
            needed.add(self._form.devices.key)
        for entry in self._present(dimension):
            if entry is counted or entry.key_name in needed:
                continue
            why = f"beside {counted}" if counted is not None else f"in the form {self._form.name!r}"
            self._report(Reason.WORD_IGNORED, f"{entry} has no effect {why}: remove it", entry)

    def _report_less(self, entry: KeyValue, number: Number, taken: Number) -> None:
        """Report that the vendor rounds down; `number` is that of the key, or its part for each device."""
        before, each = (entry.text, "") if number == entry.number else (f"{format_value(number)} each", " each")
        message = f"{entry} is rounded down to {format_value(taken)}{each} by {self._vendor.name}"
        step = Step(entry.key, before, f"{format_value(taken)}{each}", signed_text(simplest(taken - number)))
        self._report(Reason.ROUNDED_DOWN, message, entry, step)

    def _report(self, reason: Reason, message: str, entry: KeyValue, step: Step | None = None) -> None:
        self._findings.append(Finding(reason, message, self._container, entry.key, entry.text, step))

    def _denied(self, reason: Reason, message: str, entry: KeyValue | None = None) -> Denied:
        return deny(
            reason,
            message,
            container=self._container,
            field=None if entry is None else entry.key,
            value=None if entry is None else entry.text,
        )


def _amount(default: Default) -> Memory | None:
    return None if isinstance(default.value, int) else default.value


def _as_cores(amount: Memory | None) -> Cores | None:
    return None if isinstance(amount, Size) else amount


def _hundred(key: Key) -> Number:
    return simplest(Fraction(100) / (key.unit or 1))
