"""Words → request: what a container asks for in a vendor's keys, by the vendor's own rules, with defaults, settled."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

from webhook.finding import Denied, Finding, Step, deny
from webhook.mapping.model.vendor import Default, Derived, Form, Key, Vendor
from webhook.mapping.notation.numbers import Numbers
from webhook.mapping.requests.advice import sizes_meant
from webhook.mapping.requests.conversion import settle, value_of
from webhook.mapping.requests.defaults import Defaults, completed, divides, filled_in
from webhook.mapping.requests.denials import LeftAlone, denied, left_alone, spelling, without_row
from webhook.mapping.requests.key_values import KeyValue, SaidWords, form_of, format_value, row_of, unset
from webhook.quantity import Number, bytes_text, ceil_to, number_text, signed_text, simplest
from webhook.reasons import Reason
from webhook.request import ALL, DIMENSIONS, MAX_DEVICES, Cores, Dimension, Memory, Percent, Request, Size


@dataclass(frozen=True, slots=True)
class Reading:
    """What a container's keys mean.

    Attributes:
        form: the form they take.
        request: what is asked, settled.
        specified: the dimensions that the keys, or the form that they make, specify.
        corrections: keys whose number the vendor would raise, with the number it would take.
        filled: the dimensions that a default gave.
        added: the keys for what was filled, where the request stays in this vendor's keys.
        passed_over: the dimensions whose default no key can specify here, or would have changed what is specified.
        findings: what is to be told: ignored keys, corrections, roundings.
        spelled: what the keys say with those of `added`, which may have to round a default up; None: the same.
    """

    form: Form
    request: Request
    specified: frozenset[Dimension] = frozenset()
    corrections: Mapping[str, Number] = field(default_factory=dict)
    filled: Defaults = field(default_factory=dict)
    added: SaidWords = field(default_factory=dict)
    passed_over: tuple[Dimension, ...] = ()
    findings: tuple[Finding, ...] = ()
    spelled: Request | None = None


def read(
    vendor: Vendor, said: SaidWords, defaults: Defaults, largest_card: int, container: str, *, home: bool = False
) -> Reading:
    """What `said` asks for.

    The specified keys alone choose the form. Defaults fill what it leaves open, or complete keys that make no request by
    themselves; one that would change what is specified is passed over.

    Args:
        vendor: whose keys they are.
        said: the keys that are set; those of 0 left out.
        defaults: what may be filled in, already restricted to what can be written.
        largest_card: bytes; more memory per device is refused as a wrong unit.
        container: its name, for messages.
        home: the request stays in these keys: what is filled has to be specified by one of them.

    Raises:
        LeftAlone: they take a form that is left alone; or, at home, a name of which nobody knows what it holds.
        Refused: the vendor refuses them, they make no request, or a value is impossible.
    """

    def read_form(form: Form, said: SaidWords, defaults: Defaults) -> Reading:
        return _Reader(vendor, form, said, largest_card, container, home=home).read(defaults)

    form = form_of(vendor, said)
    if form is not None and form.leave is not None:
        raise left_alone(vendor, form, said, container)
    if form is not None and form.deny is None:
        return filled_in(vendor, said, form, defaults, read_form, home=home)
    reading = completed(vendor, said, defaults, read_form, home=home)
    if reading is not None:
        return reading
    _refuse_too_many(vendor, said, container)
    if form is not None:
        raise denied(vendor, form, said, container)
    words = ", ".join(str(one) for one in said.values()) or "amounts of 0"
    binding = {name: value for one in said.values() for name, value in one.binding}
    listed = ", ".join(spelling(key, binding) for key in vendor.keys.values() if key.kind == "amount")
    raise deny(
        Reason.NO_FORM,
        f"{words}: no valid combination of keys; those of {vendor.name} are {listed}",
        container=container,
    )


def _refuse_too_many(vendor: Vendor, said: SaidWords, container: str) -> None:
    """Refuses a number that counts more devices than any node has, which is what is wrong with it, whatever else is."""
    for form in vendor.forms:
        derived = form.devices
        one = said.get(derived.key) if isinstance(derived, Derived) and form.reads else None
        if isinstance(derived, Derived) and one is not None and one.number > MAX_DEVICES * derived.per:
            raise _too_many(one, int(-(-one.number // derived.per)), f"write {derived.per} for each", container)


def _too_many(one: KeyValue | str, devices: int, instead: str, container: str) -> Denied:
    message = f"{one} requests {devices} devices, more than any node has: {instead}"
    field, value = (one.key, one.text) if isinstance(one, KeyValue) else (None, None)
    return deny(Reason.TOO_LARGE, message, container=container, field=field, value=value)


class _Reader:
    """The reading of one container; collects what there is to tell on the way."""

    __slots__ = (
        "_container",
        "_corrections",
        "_findings",
        "_form",
        "_home",
        "_largest",
        "_row",
        "_said",
        "_unknown",
        "_vendor",
    )

    def __init__(
        self, vendor: Vendor, form: Form, said: SaidWords, largest_card: int, container: str, *, home: bool
    ) -> None:
        self._home = home
        self._vendor = vendor
        self._form = form
        self._said = said
        self._largest = largest_card
        self._container = container
        self._corrections: dict[str, Number] = {}
        self._findings: list[Finding] = []
        self._row, self._unknown = row_of(vendor, said)

    def read(self, defaults: Defaults) -> Reading:
        if self._unknown is not None and self._vendor.keys[self._unknown.word].picks is not None:
            raise self._no_row(self._unknown)
        if self._unknown is not None:  # a default says nothing of what a name holds
            defaults = {dimension: default for dimension, default in defaults.items() if dimension == "devices"}
        filled: dict[Dimension, Default] = {}
        passed_over: tuple[Dimension, ...] = ()
        devices = self._devices()
        specified: set[Dimension] = set() if devices is None else {"devices"}
        if devices is None and "devices" in defaults:
            count = defaults["devices"].value
            assert isinstance(count, int)  # noqa: S101  (so it was compiled)
            if count != self._form.absent.devices and divides(self._vendor, self._form, self._said):
                passed_over = ("devices",)
            else:
                filled["devices"] = defaults["devices"]
                devices = count
        devices = devices if devices is not None else self._form.absent.devices
        memory = self._amount("memory", devices)
        cores = _as_cores(self._amount("cores", devices))
        given = Request(devices, memory, cores)
        specified.update(dimension for dimension in DIMENSIONS[1:] if getattr(given, dimension) is not None)
        if memory is None and "memory" in defaults and given.cores != ALL:
            filled["memory"] = defaults["memory"]
            memory = _amount(defaults["memory"])
        if cores is None and "cores" in defaults and given.memory != ALL:
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
            one = next(iter(self._said.values()))
            return self._refuse(Reason.SIZE_UNKNOWN, f"{one}: the size of its devices is not configured: {why}", one)
        names = [dimension for dimension in DIMENSIONS if getattr(request, dimension) is None]
        keys = [key for name in names for key in self._vendor.by_dimension[name]]
        if request.devices is None and isinstance(self._form.devices, Derived):
            keys.append(self._form.devices.key)
        binding = {name: value for one in self._said.values() for name, value in one.binding}
        words = ", ".join(spelling(self._vendor.keys[key], binding) for key in keys)
        return self._refuse(Reason.DIMENSION_MISSING, f"{' and '.join(names)} must be specified: add {words or 'them'}")

    def _no_row(self, one: KeyValue) -> Denied:
        """A name without a row: a key that picks one always means it, a key only where nothing else says the amounts.

        A key of which it is known that it is a name is left alone at home: what it holds matters to nobody there.
        """
        elsewhere = any(dict(one.binding).get(name) in it.elsewhere for name, it in self._vendor.variables.items())
        if self._home and self._vendor.keys[one.word].picks is None and not elsewhere:
            return LeftAlone(Finding(Reason.SIZE_UNKNOWN, f"{one}: {without_row(self._vendor, one)}", self._container))
        return self._refuse(Reason.SIZE_UNKNOWN, f"{one}: {without_row(self._vendor, one)}", one)

    def _devices(self) -> int | None:
        devices, one = self._counted()
        if devices is not None and devices > MAX_DEVICES:
            derived = self._form.devices
            instead = f"write {derived.per} for each" if isinstance(derived, Derived) else "write the number of devices"
            raise _too_many(one or self._form.name, devices, instead, self._container)
        return devices

    def _counted(self) -> tuple[int | None, KeyValue | None]:
        """The count of devices, and the key that specifies it."""
        form = self._form
        if isinstance(form.devices, int):
            self._tell_ignored("devices", None)
            return form.devices, None
        if isinstance(form.devices, Derived):
            one = self._said.get(form.devices.key)
            return (None, None) if one is None else (self._derived(form.devices, one), one)
        present = self._present("devices")
        if not present:
            return self._row.devices if self._row is not None else None, None
        one = present[0]
        self._tell_ignored("devices", one)
        return int(self._legal(self._word(one), one, one.number)), one

    def _derived(self, derived: Derived, one: KeyValue) -> int:
        count = Fraction(one.number, 1) / derived.per
        if count.denominator == 1:
            return int(count)
        if derived.rounding is None:
            raise self._refuse(Reason.NOT_DIVISIBLE, f"{one} is not a multiple of {derived.per}: write one", one)
        rounded = count.__floor__() if derived.rounding == "down" else count.__ceil__()
        if rounded == 0:
            raise self._refuse(Reason.NOT_LEGAL, f"{one} is less than one device: write {derived.per} or more", one)
        if derived.rounding == "down":
            self._tell_less(one, one.number, rounded * derived.per)
        return rounded

    def _amount(self, dimension: Literal["memory", "cores"], devices: int | None) -> Memory | None:
        literal = self._form.memory if dimension == "memory" else self._form.cores
        if literal is not None:
            self._tell_ignored(dimension, None)
            return literal
        present = self._present(dimension)
        if present:
            self._tell_ignored(dimension, present[0])
            return self._value(dimension, present[0], devices)
        if self._row is None:
            return None
        return self._row.memory if dimension == "memory" else self._row.cores

    def _value(self, dimension: Dimension, one: KeyValue, devices: int | None) -> Memory:
        key = self._word(one)
        if key.unit is None:
            raise self._refuse(
                Reason.UNIT_NOT_CONFIGURED, f"{one}: the unit of this key is not configured: {key.why}", one
            )
        per_device = self._per_device(key, one, devices)
        number = self._legal(key, one, per_device)
        if number > per_device and key.rounding == "up":
            total = simplest(number * devices) if key.total and devices else number
            self._corrections[key.name] = total
            message = f"{one} was raised to {format_value(total)}: {self._vendor.name} accepts {self._legal_text(key)}"
            step = Step(one.key, one.text, format_value(total), signed_text(total - one.number))
            self._tell(Reason.CORRECTED, message, one, step)
        if self._row is not None and number in self._row.all.get(key.name, ()):
            return ALL
        value = value_of(key, dimension, number)
        self._check_size(key, one, value)
        return value

    def _per_device(self, key: Key, one: KeyValue, devices: int | None) -> Number:
        if not key.total or devices in {None, 1}:
            return one.number
        assert devices is not None  # noqa: S101  (None was answered above)
        share = Fraction(one.number) / devices
        if share.denominator == 1 or key.written == "decimal" or key.rounding == "up":
            return simplest(share)
        if key.rounding == "down":
            floor = share.__floor__()
            if floor > 0:
                over = f"{one.text} over {devices} devices"
                message = f"{one.key}: {over} is rounded down to {format_value(floor)} each"
                self._tell(Reason.ROUNDED_DOWN, message, one, Step(one.key, over, f"{format_value(floor)} each"))
                return floor
        below, above = (ceil_to(one.number, devices) - devices, ceil_to(one.number, devices))
        choices = f"{format_value(below)} or {format_value(above)}" if below > 0 else format_value(above)
        count = self._count_text()
        raise self._refuse(
            Reason.NOT_DIVISIBLE,
            f"{one} is a total over {devices} devices{count} and not divisible by {devices}: write {choices}",
            one,
        )

    def _count_text(self) -> str:
        counts = self._present("devices")
        if not counts:
            return ""
        place = self._vendor.keys[counts[0].word].place
        return f" ({place} {counts[0].key}: {counts[0].text!r})"

    def _legal(self, key: Key, one: KeyValue, number: Number) -> Number:
        values = self._values(key)
        if key.written != "decimal" and not isinstance(number, int):
            if key.rounding is None:
                raise self._refuse(Reason.NOT_WHOLE, f"{one} is not a whole number: {self._unit_text(key)}", one)
            number = number.__ceil__() if key.rounding == "up" else number.__floor__()
        if values is None or number in values:
            return number
        found = None
        if key.rounding == "up":
            found = values.ceil(number)
        elif key.rounding == "down":
            found = values.floor(number)
            if found is not None:
                self._tell_less(one, number, found)
        if found is None:
            per = " per device" if key.total else ""
            raise self._refuse(
                Reason.NOT_LEGAL, f"{one} is not allowed: {self._vendor.name} accepts {self._legal_text(key)}{per}", one
            )
        return found

    def _check_size(self, key: Key, one: KeyValue, value: Memory) -> None:
        if isinstance(value, Percent) and value.value > ALL.value:
            raise self._refuse(
                Reason.TOO_LARGE, f"{one} is {value} of a device: write 1 to {format_value(_hundred(key))}", one
            )
        if isinstance(value, Size) and value.bytes > self._largest:
            raise self._refuse(Reason.TOO_LARGE, self._too_large(key, one, value), one)

    def _too_large(self, key: Key, one: KeyValue, value: Size) -> str:
        unit = key.unit or 1
        said = f"{one} is {bytes_text(value.bytes)} per device: the unit of the key is {bytes_text(unit)}"
        instead = [
            f"if {counted} were meant, write {format_value(number)} ({format_value(number)} means {bytes_text(number * unit)})"
            for counted, number in sizes_meant(key, one, value.bytes, self._largest)
        ]
        if instead:
            return "; ".join([said, *instead])
        return f"{said}; no device has more than {bytes_text(self._largest)}"

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

    def _word(self, one: KeyValue) -> Key:
        return self._form.keys[one.word]

    def _present(self, dimension: Dimension) -> list[KeyValue]:
        return [self._said[name] for name in self._vendor.by_dimension[dimension] if name in self._said]

    def _tell_ignored(self, dimension: Dimension, counted: KeyValue | None) -> None:
        used = {key for condition in self._form.when for key in condition.keys}
        if isinstance(self._form.devices, Derived):
            used.add(self._form.devices.key)
        for one in self._present(dimension):
            if one is counted or one.word in used:
                continue
            why = f"beside {counted}" if counted is not None else f"in the form {self._form.name!r}"
            self._tell(Reason.WORD_IGNORED, f"{one} has no effect {why}: remove it", one)

    def _tell_less(self, one: KeyValue, number: Number, taken: Number) -> None:
        """The vendor takes less for it; `number` is that of the key, or what it is for each device."""
        before, each = (one.text, "") if number == one.number else (f"{format_value(number)} each", " each")
        message = f"{one} is rounded down to {format_value(taken)}{each} by {self._vendor.name}"
        step = Step(one.key, before, f"{format_value(taken)}{each}", signed_text(simplest(taken - number)))
        self._tell(Reason.ROUNDED_DOWN, message, one, step)

    def _tell(self, reason: Reason, message: str, one: KeyValue, step: Step | None = None) -> None:
        self._findings.append(Finding(reason, message, self._container, one.key, one.text, step))

    def _refuse(self, reason: Reason, message: str, one: KeyValue | None = None) -> Denied:
        return deny(
            reason,
            message,
            container=self._container,
            field=None if one is None else one.key,
            value=None if one is None else one.text,
        )


def _amount(default: Default) -> Memory | None:
    return None if isinstance(default.value, int) else default.value


def _as_cores(amount: Memory | None) -> Cores | None:
    return None if isinstance(amount, Size) else amount


def _hundred(key: Key) -> Number:
    return simplest(Fraction(100) / (key.unit or 1))
