"""The requests that a vendor's keys can make: for each form the keys that may be set, and the numbers that they may have."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

from webhook.finding import Denied
from webhook.mapping.document.key_template import Binding
from webhook.mapping.model.vendor import Condition, Derived, Form, Key, Row, Vendor
from webhook.mapping.notation import Numbers, Span
from webhook.mapping.requests.reading import read
from webhook.mapping.requests.values import Defaults, KeyValue, format_value
from webhook.quantity import Number, ceil_to, simplest
from webhook.request import Request

_DECIMAL: Final = Fraction(1, 10**6)
"""The finest step of a number that may be a fraction."""

_TRIES: Final = 1000


@dataclass(frozen=True, slots=True)
class Axis:
    """The numbers of one key in one form, per device.

    Attributes:
        key: whose numbers they are.
        values: legal numbers per device.
        condition: numbers in the pod for which the form applies.
        factor: the devices if the number in the pod is a total over them, else 1.
        step: all numbers are multiples of it.
    """

    key: Key
    values: Numbers | None
    condition: Numbers | None
    factor: int
    step: Number

    def ceil(self, number: Number) -> Number | None:
        """The least possible number that is not below `number`."""
        return self._nearest(number, up=True)

    def above(self, number: Number) -> Number | None:
        """The least possible number above `number`."""
        return self.ceil(_floor_to(number, self.step) + self.step)

    def below(self, number: Number) -> Number | None:
        """The largest possible number below `number`."""
        return self._nearest(ceil_to(number, self.step) - self.step, up=False)

    def _nearest(self, number: Number, *, up: bool) -> Number | None:
        """Apply each rule in turn until none changes the number."""
        for _ in range(_TRIES):
            found: Number | None = ceil_to(number, self.step) if up else _floor_to(number, self.step)
            if self.values is None and self.condition is None:
                return found if found is not None and found > 0 else None
            for values, factor in ((self.values, 1), (self.condition, self.factor)):
                if found is not None and values is not None:
                    found = values.ceil(found * factor) if up else values.floor(found * factor)
                    found = found if found is None or factor == 1 else simplest(Fraction(found) / factor)
            if found is None or found <= 0 or found == number:
                return found if found is not None and found > 0 else None
            number = found
        return None


def _floor_to(number: Number, step: Number) -> Number:
    return simplest(number // step * step)


@dataclass(frozen=True, slots=True)
class Shape:
    """Keys that are set together, in one form.

    Attributes:
        row: the size of a device, where the names imply it.
        fixed: texts, and numbers that are compared only.
        counted: the key that counts devices.
        amounts: the keys of memory and cores, as the form reads them.
    """

    vendor: Vendor
    form: Form
    binding: Binding
    row: Row | None
    fixed: Mapping[str, KeyValue]
    counted: Key | None
    amounts: tuple[Key, ...]
    known: dict[tuple[object, ...], Request | None] = field(default_factory=dict, compare=False)

    @property
    def varies(self) -> bool:
        """Whether the pod specifies the count of devices."""
        return self.counted is not None or isinstance(self.form.devices, Derived)

    @property
    def together(self) -> bool:
        """Whether one number specifies both memory and cores."""
        return len(self.amounts) == 1 and {"memory", "cores"} <= set(self.amounts[0].dimensions)

    @property
    def legal_counts(self) -> Numbers | None:
        """The counts of devices that the vendor accepts; None if it accepts any."""
        return None if self.counted is None else self.form.values(self.counted, self.row)

    def devices(self, defaults: Defaults) -> int:
        """The count of devices if the pod does not specify it."""
        default = defaults.get("devices")
        counts = (
            self.form.devices,
            None if self.row is None else self.row.devices,
            None if default is None else default.value,
            self.form.absent.devices,
        )
        return next((count for count in counts if isinstance(count, int)), 1)

    def axes(self, devices: int) -> list[tuple[Axis, ...]]:
        """The numbers of each key of `amounts`: those that the vendor does not round; also all, if a form depends on them."""
        found: list[tuple[Axis, ...]] = []
        derived = self.form.devices
        for key in self.amounts:
            factor = devices if key.total else 1
            step = _DECIMAL if key.written == "decimal" else 1
            if isinstance(derived, Derived) and derived.key == key.name and derived.rounding is None:
                number = derived.per * devices // factor
                found.append((Axis(key, Numbers((Span(number, number, None),)), None, factor, step),))
                continue
            condition = next(
                (when.numbers for when in self.form.when if when.keys == (key.name,) and not when.present), None
            )
            unrounded = Axis(key, self.form.values(key, self.row), condition, factor, step)
            rounded = Axis(key, None, condition, factor, Fraction(step, factor))
            compared = any(when.numbers for form in self.vendor.forms for when in form.when if key.name in when.keys)
            found.append((unrounded, rounded) if key.rounding is not None and compared else (unrounded,))
        return found

    def request(self, devices: int, numbers: Sequence[Number], defaults: Defaults, largest_card: int) -> Request | None:
        """The request that these numbers per device make; None if they are denied, or mean another form or count."""
        key = (devices, *numbers, *defaults)
        if key not in self.known:
            reads = (self._read(devices, count, numbers, defaults, largest_card) for count in self._counts(devices))
            self.known[key] = next((request for request in reads if request is not None), None)
        return self.known[key]

    def _counts(self, devices: int) -> Iterator[int]:
        """The numbers of the counting key: `devices`, and the least that the vendor rounds up to it."""
        yield devices
        if self.counted is not None and self.counted.rounding == "up":
            values = self.form.values(self.counted, self.row)
            below = None if values is None else values.floor(devices - 1)
            yield int(below or 0) + 1

    def _read(
        self, devices: int, counted: int, numbers: Sequence[Number], defaults: Defaults, largest_card: int
    ) -> Request | None:
        key_values = dict(self.fixed)
        if self.counted is not None:
            key_values[self.counted.name] = self._key_value(self.counted, counted)
        derived = self.form.devices if isinstance(self.form.devices, Derived) else None
        if derived is not None:
            key_values[derived.key] = self._key_value(self.form.keys[derived.key], devices * derived.per)
        for key, number in zip(self.amounts, numbers, strict=True):
            key_values[key.name] = self._key_value(key, simplest(number * devices) if key.total else number)
        try:
            reading = read(self.vendor, key_values, defaults, largest_card, "main")
        except Denied:
            return None
        return reading.request if reading.form is self.form and reading.request.devices == devices else None

    def _key_value(self, key: Key, number: Number) -> KeyValue:
        return KeyValue(key.name, key.spellings[0].text, format_value(number), number, self.binding)


def shapes(vendor: Vendor) -> list[Shape]:
    """Every combination of a vendor's keys that makes a request, by form, without those that an earlier form catches."""
    return [
        shape
        for form in vendor.forms
        if form.reads
        for binding, row in _bindings(vendor)
        for shape in _shapes(vendor, form, binding, row)
    ]


def _bindings(vendor: Vendor) -> Iterator[tuple[Binding, Row | None]]:
    """The values of variables in names that make a difference: each row, and of equal rows the first."""
    for variable in vendor.variables.values():
        picked = any(key.picks == variable.name for key in vendor.keys.values())
        if variable.everywhere or picked or not variable.rows:
            continue
        different: list[Row] = []
        for name, row in variable.rows.items():
            if row not in different:
                different.append(row)
                yield ((variable.name, name),), row
        if vendor.document.variables[variable.name].others is None:
            return
    yield (), None


def _shapes(vendor: Vendor, form: Form, binding: Binding, row: Row | None) -> Iterator[Shape]:
    choices = [_choices(vendor, form, key) for key in form.keys.values()]
    for chosen in itertools.product(*choices):
        present = {key.name: value for key, value in zip(form.keys.values(), chosen, strict=True) if value is not None}
        if not present or not all(_possible(condition, present) for condition in form.when):
            continue
        earlier = itertools.takewhile(lambda candidate: candidate is not form, vendor.forms)
        if any(all(_certain(condition, present) for condition in other.when) for other in earlier):
            continue
        amounts = [form.keys[name] for name in present if form.keys[name].kind == "amount"]
        valued = _valued(form, amounts)
        if valued is None:
            continue
        fixed = {
            name: KeyValue(name, form.keys[name].spellings[0].text, str(value), value if isinstance(value, int) else 0)
            for name, value in present.items()
            if form.keys[name].kind in {"text", "other"}
        }
        picked = _picked(vendor, fixed)
        counted = next((key for key in amounts if "devices" in key.dimensions), None)
        yield Shape(vendor, form, binding, picked or row, fixed, counted, valued)


def _choices(vendor: Vendor, form: Form, key: Key) -> list[str | int | None]:
    """The values of a key that make a difference: none, any number (1), or one of certain texts."""
    conditions = [condition for condition in form.when if key.name in condition.keys]
    if key.kind == "amount":
        return [None, 1]
    if key.kind == "text":
        rows = vendor.variables[key.picks].rows if key.picks is not None else {}
        return [None, *sorted({text for condition in conditions for text in condition.texts} | rows.keys())]
    numbers = [condition.numbers for condition in conditions if condition.numbers is not None]
    present = any(condition.present for condition in conditions)
    first = [int(legal.spans[0].low) for legal in numbers] or ([1] if present else [])
    return [None, *first] if key.kind == "other" else [None]


def _possible(condition: Condition, present: Mapping[str, str | int]) -> bool:
    """Whether some numbers of the present keys meet a condition."""
    keys = [key for key in condition.keys if key in present]
    if not keys:
        return condition.absent
    return condition.present or condition.numbers is not None or any(present[key] in condition.texts for key in keys)


def _certain(condition: Condition, present: Mapping[str, str | int]) -> bool:
    """Whether all numbers of the present keys meet a condition."""
    keys = [key for key in condition.keys if key in present]
    return condition.present or any(present[key] in condition.texts for key in keys) if keys else condition.absent


def _valued(form: Form, amounts: Sequence[Key]) -> tuple[Key, ...] | None:
    """The keys whose numbers matter; None if the form neither reads one of the keys nor has a condition on it."""
    compared = {key for condition in form.when if not condition.absent or condition.numbers for key in condition.keys}
    derived = form.devices.key if isinstance(form.devices, Derived) else None
    taken: set[str] = set()
    found: list[Key] = []
    for key in amounts:
        unset = {dimension for dimension in key.dimensions if not form.literal(dimension)} - taken
        if not unset and key.name not in compared and key.name != derived:
            return None
        taken |= unset
        if "devices" not in key.dimensions and (key.name != derived or unset):
            found.append(key)
    return tuple(found) if derived is None or any(key.name == derived for key in amounts) else None


def _picked(vendor: Vendor, fixed: Mapping[str, KeyValue]) -> Row | None:
    """The row that the value of a text key names."""
    for name, entry in fixed.items():
        picks = vendor.keys[name].picks
        if picks is not None:
            return vendor.variables[picks].rows.get(entry.text)
    return None
