"""The memory and cores that keys request per device: of the form, of a key, or of the row that a name implies."""

from fractions import Fraction
from typing import Literal

from webhook.finding import Step
from webhook.mapping.model.vendor import Key
from webhook.mapping.requests.advice import sizes_meant
from webhook.mapping.requests.conversion import value_of
from webhook.mapping.requests.key_values import KeyValue, format_value
from webhook.mapping.requests.reader import Reader
from webhook.quantity import Number, bytes_text, ceil_to, signed_text, simplest
from webhook.reasons import Reason
from webhook.request import ALL, Dimension, Memory, Percent, Size


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
            Reason.UNIT_NOT_CONFIGURED, f"{entry}: the unit of this key is not configured: {key.why}", entry
        )
    per_device = _per_device(reader, key, entry, devices) if key.total else entry.number
    number = reader.legal(key, entry, per_device)
    if number > per_device and key.rounding == "up":
        total = simplest(number * devices) if key.total and devices else number
        reader.corrections[key.name] = total
        message = f"{entry} was raised to {format_value(total)}: {reader.vendor.name} accepts {reader.legal_text(key)}"
        step = Step(entry.key, entry.text, format_value(total), signed_text(total - entry.number))
        reader.report(Reason.CORRECTED, message, entry, step)
    if reader.row is not None and number in reader.row.all.get(key.name, ()):
        return ALL
    value = value_of(key, dimension, number)
    _check_size(reader, key, entry, value)
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
            message = f"{entry.key}: {over} is rounded down to {format_value(floor)} each"
            reader.report(Reason.ROUNDED_DOWN, message, entry, Step(entry.key, over, f"{format_value(floor)} each"))
            return floor
    below, above = (ceil_to(entry.number, devices) - devices, ceil_to(entry.number, devices))
    choices = f"{format_value(below)} or {format_value(above)}" if below > 0 else format_value(above)
    raise reader.deny(
        Reason.NOT_DIVISIBLE,
        f"{entry} is a total over {devices} devices{_count_text(reader)} and not divisible by {devices}: write {choices}",
        entry,
    )


def _count_text(reader: Reader) -> str:
    """The key that counts the devices, in parentheses; empty without one."""
    counts = reader.present("devices")
    if not counts:
        return ""
    place = reader.vendor.keys[counts[0].key_name].place
    return f" ({place} {counts[0].key}: {counts[0].text!r})"


def _check_size(reader: Reader, key: Key, entry: KeyValue, value: Memory) -> None:
    if type(value) is Percent and value.value > ALL.value:
        most = format_value(simplest(ALL.value / Fraction(key.unit or 1)))
        raise reader.deny(Reason.TOO_LARGE, f"{entry} is {value} of a device: write 1 to {most}", entry)
    if type(value) is Size and value.bytes > reader.largest_card:
        raise reader.deny(Reason.TOO_LARGE, _too_large(key, entry, value, reader.largest_card), entry)


def _too_large(key: Key, entry: KeyValue, value: Size, largest_card: int) -> str:
    unit = key.unit or 1
    size = f"{entry} is {bytes_text(value.bytes)} per device: the unit of the key is {bytes_text(unit)}"
    advice = [
        f"if {counted} were meant, write {format_value(number)} ({format_value(number)} means {bytes_text(number * unit)})"
        for counted, number in sizes_meant(key, entry, value.bytes, largest_card)
    ]
    return "; ".join([size, *(advice or [f"no device has more than {bytes_text(largest_card)}"])])
