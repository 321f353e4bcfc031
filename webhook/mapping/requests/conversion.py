"""Numbers of keys ↔ amounts of a device: units, steps, legal numbers, and the meaning of a missing dimension."""

from fractions import Fraction

from webhook.finding import Step
from webhook.mapping.model.vendor import Key
from webhook.quantity import Number, ceil_to, signed_text, simplest
from webhook.request import ALL, UNLIMITED, Dimension, Memory, Percent, Request, Size, amount_text


def number_for(key: Key, value: int | Memory, devices: int) -> Number | None:
    """Return the least number of a key for at least `value`; None if the key cannot express that kind of value.

    A total is multiplied after rounding per device, so that it is divisible by the devices.
    """
    if isinstance(value, int):
        amount: Number = value
    elif isinstance(value, Size):
        if not key.sized or key.unit is None:
            return None
        amount = _divided(value.bytes, key.unit)
    elif isinstance(value, Percent):
        if key.sized or key.unit is None:
            return None
        amount = _divided(value.value, key.unit)
    else:
        return None
    number: Number | None = ceil_to(amount, key.step)
    if key.values is not None:
        number = key.values.ceil(number) if number is not None else None
        if number is not None:
            number = ceil_to(number, key.step)
            if number not in key.values:
                return None
    if number is None:
        return None
    return simplest(number * devices) if key.total else number


def _divided(number: Number, by: Number) -> Number:
    """A quotient; of whole numbers without a fraction where there is none, which is much faster."""
    if type(number) is int and type(by) is int and number % by == 0:
        return number // by
    return Fraction(number) / by


def value_of(key: Key, dimension: Dimension, number: Number) -> Memory:
    """Return the memory or cores that `number` per device of a key means."""
    assert key.unit is not None  # noqa: S101  (a key without a unit is denied before)
    amount = number * key.unit
    if type(amount) is not int:
        amount = simplest(amount)
    return Size(amount) if key.sized and dimension == "memory" else Percent(amount)


def settle(request: Request, absent: Request) -> Request:
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
    return settle(Request(request.devices, percent, request.cores), Request())


def step_between(dimension: Dimension, before: Memory | None, after: Memory | None) -> Step:
    """Return the step from one amount of a device to another, for explanations."""
    difference = ""
    if isinstance(before, Size) and isinstance(after, Size):
        difference = f"+{amount_text(Size(after.bytes - before.bytes))}"
    elif isinstance(before, Percent) and isinstance(after, Percent):
        difference = f"{signed_text(after.value - before.value)}%"
    return Step(f"{dimension} per device", amount_text(before), amount_text(after), difference)
