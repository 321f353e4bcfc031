"""Request → words: the first form of a target that reads back as what was asked, or the reason why none does."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from webhook.finding import Denied
from webhook.mapping.document.key_template import Binding
from webhook.mapping.model.vendor import Condition, Derived, Form, Key, Row, Vendor
from webhook.mapping.requests.conversion import number_for, settle, value_of
from webhook.mapping.requests.defaults import Defaults
from webhook.mapping.requests.denials import spelling
from webhook.mapping.requests.key_values import KeyValue, format_value, unset
from webhook.mapping.requests.reading import Reading, read
from webhook.quantity import MAX_VALUE, Number
from webhook.request import ALL, DIMENSIONS, FREE, Dimension, Memory, Percent, Request, Size


@dataclass(frozen=True, slots=True)
class Written:
    """A request in a target's keys.

    Attributes:
        form: the form they take.
        words: each key with its key and number.
        reading: what they mean when read back, under the defaults that would apply.
    """

    form: Form
    keys: Mapping[str, KeyValue]
    reading: Reading


class NoEquivalent(Exception):  # noqa: N818  (an answer, not an error of ours)
    """No form of the target says the request; `reasons` says why, what came nearest first."""

    def __init__(self, reasons: tuple[str, ...]) -> None:
        self.reasons = reasons
        super().__init__("; ".join(reasons))


def write(target: Vendor, request: Request, defaults: Defaults, largest_card: int, container: str) -> Written:
    """`request` in the keys of `target`: memory and cores rounded up per device to what it can express.

    Args:
        target: the vendor to write for.
        request: settled.
        defaults: those that would apply when the keys are read again; a dimension one would fill is written out.
        largest_card: bytes, as for `read`.
        container: its name, for keys that hold it and for messages.

    Raises:
        NoEquivalent: no form says it.
    """
    reasons: list[str] = []
    unlike: list[str] = []
    for form in target.forms:
        if not form.reads or not form.write:
            continue
        said = _says_otherwise(form, request)
        if said is not None:
            unlike.append(said)
            continue
        try:
            return _write_form(target, form, request, defaults, largest_card=largest_card, container=container)
        except NoEquivalent as why:
            reasons.extend(why.reasons)
    raise NoEquivalent(tuple(dict.fromkeys([*reasons, *unlike])))


def _says_otherwise(form: Form, request: Request) -> str | None:
    """What a form says by itself that is not what was asked."""
    for dimension in DIMENSIONS:
        literal = getattr(form, dimension)
        if literal is not None and not isinstance(literal, Derived) and literal != getattr(request, dimension):
            return f"the form {form.name!r} has {dimension} {literal}"
    return None


def _write_form(
    target: Vendor, form: Form, request: Request, defaults: Defaults, *, largest_card: int, container: str
) -> Written:
    binding, row = _binding(target, request)
    numbers = _numbers(target, form, request, row, defaults)
    names = dict(binding) | {"container": container}
    words = {}
    for name, number in numbers.items():
        key = spelling(form.keys[name], names)
        if "{" in key:
            raise NoEquivalent((f"the name to write for {key} is not configured (`variables`: `write`)",))
        if number > MAX_VALUE:
            raise NoEquivalent((f"{key} would be {format_value(number)}, more than any resource can hold (2^63 - 1)",))
        words[name] = KeyValue(name, key, format_value(number), number, binding)
    try:
        reading = read(target, words, defaults, largest_card, container, home=True)
    except Denied as refusal:
        raise NoEquivalent((refusal.finding.message,)) from None
    if reading.form is not form:
        raise NoEquivalent((f"it would be read back as {reading.form.name!r}",))
    for dimension, default in reading.filled.items():
        value = getattr(request, dimension)
        raise NoEquivalent((f"no key specifies {dimension} {value}, and {default.named(dimension)} would apply",))
    _compare(form, request, reading, numbers, row)
    return Written(form, words, reading)


def _numbers(target: Vendor, form: Form, request: Request, row: Row | None, defaults: Defaults) -> dict[str, Number]:
    numbers: dict[str, Number] = {}
    devices = request.devices or 1
    for dimension in ("memory", "cores", "devices"):
        value: int | Memory | None = getattr(request, dimension)
        assert value is not None  # noqa: S101  (the request is settled)
        if dimension == "devices" and isinstance(form.devices, Derived):
            numbers.setdefault(form.devices.key, devices * form.devices.per)
            continue
        if row is not None and dimension != "devices" and getattr(row, dimension) is not None:
            continue
        word = _word(form, dimension, value, needed_only=form.literal(dimension))
        if word is not None and form.literal(dimension) and _counts(form, word):
            continue
        if word is None:
            if not form.literal(dimension):
                _may_stay_out(target, form, dimension, request)
            continue
        if dimension == "devices" and word.place != "resource" and _says_so(form, word, devices, defaults):
            continue
        values = form.values(word, row)
        word = word if values is word.values else replace(word, values=values)
        number = number_for(word, value, devices if dimension != "devices" else 1)
        if number is None:
            raise NoEquivalent((f"{_called(target, word, request)} cannot express {value}",))
        numbers[word.name] = max(number, numbers.get(word.name, number))
    return numbers


def _word(form: Form, dimension: Dimension, value: int | Memory, *, needed_only: bool) -> Key | None:
    """The first key that can say the value, one that the form's conditions name before others."""
    needed = {
        word for condition in form.when if not condition.absent for word in condition.keys if len(condition.keys) == 1
    }
    forbidden = {word for condition in form.when if _only_absent(condition) for word in condition.keys}
    able = [
        word
        for word in form.keys.values()
        if dimension in word.dimensions and word.name not in forbidden and _able(word, dimension, value)
    ]
    named = [word for word in able if word.name in needed]
    if named or needed_only:
        return named[0] if named else None
    return able[0] if able else None


def _counts(form: Form, word: Key) -> bool:
    return isinstance(form.devices, Derived) and form.devices.key == word.name


def _only_absent(condition: Condition) -> bool:
    return condition.absent and not condition.present and condition.numbers is None and not condition.texts


def _able(word: Key, dimension: Dimension, value: int | Memory) -> bool:
    if dimension == "devices":
        return True
    if word.unit is None:
        return False
    if dimension == "memory":
        return (isinstance(value, Size) and word.sized) or (isinstance(value, Percent) and not word.sized)
    return isinstance(value, Percent)


def _says_so(form: Form, word: Key, devices: int, defaults: Defaults) -> bool:
    """Whether a count in a label or annotation can be left out, for the form says the same without it."""
    required = any(word.name in condition.keys and not condition.absent for condition in form.when)
    if required or form.devices is not None:
        return not required and form.devices == devices
    return "devices" not in defaults and form.absent.devices == devices


def _may_stay_out(target: Vendor, form: Form, dimension: Dimension, request: Request) -> None:
    """A dimension that no key can say may be left out where that means the same."""
    value = getattr(request, dimension)
    meant = settle(
        Request(
            request.devices,
            request.memory if dimension != "memory" else None,
            request.cores if dimension != "cores" else None,
        ),
        form.absent,
    )
    if getattr(meant, dimension) != value:
        for word in form.keys.values():
            if dimension in word.dimensions and word.unit is None:
                raise NoEquivalent((f"the unit of {_called(target, word, request)} is not configured: {word.why}",))
        raise NoEquivalent((f"no key of {target.name} can express {dimension} {value}",))


def _binding(target: Vendor, request: Request) -> tuple[Binding, Row | None]:
    """What the variables of written names stand for: the least row that holds the request, or the one that is configured."""
    for variable in target.variables.values():
        if not variable.write:
            continue
        if not variable.rows:
            return ((variable.name, variable.write[0]),), None
        holding = [
            (name, row)
            for name in variable.write
            if (row := variable.rows.get(name)) is not None and _holds(row, request)
        ]
        if not holding:
            raise NoEquivalent((f"none of {', '.join(variable.write)} holds {request}",))
        name, row = min(holding, key=lambda one: _room(one[1]))
        return ((variable.name, name),), row
    if (why := unset(target)) is not None:
        raise NoEquivalent((f"the size of its devices is not configured: {why}",))
    if any(variable.rows for variable in target.variables.values()):
        raise NoEquivalent(
            (f"which of its names may be written is not configured (`variables` of {target.name}: `write`)",)
        )
    return (), None


def _called(target: Vendor, word: Key, request: Request) -> str:
    """The key of a key as it would be written, for messages."""
    return spelling(word, dict(_binding(target, request)[0]))


def _holds(row: Row, request: Request) -> bool:
    memory = row.least is None or (
        isinstance(row.least, Size) and isinstance(request.memory, Size) and row.least.bytes >= request.memory.bytes
    )
    wanted = request.cores.value if isinstance(request.cores, Percent) else 0
    return memory and (not isinstance(row.least_cores, Percent) or row.least_cores.value >= wanted)


def _room(row: Row) -> tuple[Number, Number]:
    return (
        row.least.bytes if isinstance(row.least, Size) else 0,
        row.least_cores.value if isinstance(row.least_cores, Percent) else 0,
    )


def _compare(form: Form, request: Request, reading: Reading, numbers: Mapping[str, Number], row: Row | None) -> None:
    """What is read back must be what was written: never less than asked, never more than the rounding explains."""
    got = reading.request
    if got.devices != request.devices:
        raise NoEquivalent((f"{got.devices} devices would be read instead of {request.devices}",))
    for dimension in ("memory", "cores"):
        asked, found = getattr(request, dimension), getattr(got, dimension)
        expected = {asked, *_intended(form, dimension, numbers, got.devices or 1)}
        if found in expected and _at_least(found, asked):
            continue
        if got.whole and asked is FREE:  # memory was rounded up to all of a card: nobody else fits
            continue
        if row is not None and _at_least(found, asked):
            continue
        raise NoEquivalent((f"{dimension} {found} would be read instead of {asked}",))


def _intended(form: Form, dimension: Dimension, numbers: Mapping[str, Number], devices: int) -> list[Memory]:
    return [
        value_of(word, dimension, Fraction(number) / devices if word.total else number)
        for name, number in numbers.items()
        if dimension in (word := form.keys[name]).dimensions and word.unit is not None
    ]


def _at_least(found: Memory, asked: Memory) -> bool:
    if isinstance(found, Size) and isinstance(asked, Size):
        return found.bytes >= asked.bytes
    if isinstance(found, Percent) and isinstance(asked, Percent):
        return found.value >= asked.value
    return found in {asked, ALL} or asked is FREE
