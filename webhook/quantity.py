"""Kubernetes quantities, read exactly: ``3k``, ``8Gi``, ``500m``, ``1e3`` become whole numbers or fractions, never floats.

Source of the grammar: ``k8s.io/apimachinery/pkg/api/resource`` (``quantity.go``). The API server rewrites values before a
webhook sees them (``3000`` arrives as ``3k``), so every spelling has to be understood.
"""

import re
from decimal import Context, Decimal
from fractions import Fraction
from typing import Final, TypeAlias

Number: TypeAlias = int | Fraction

MAX_TEXT: Final = 40
"""Longest text that is looked at. The API server lets any length through; no honest amount needs more."""

MAX_EXPONENT: Final = 20
"""Largest power of ten that is computed: ``1e10000000`` is legal for the API server and would take seconds."""

MAX_VALUE: Final = 2**63 - 1
"""Kubernetes keeps extended resources in an int64."""

KIB: Final = 1024
MIB: Final = 1024**2
GIB: Final = 1024**3

_NANO: Final = Fraction(1, 10**9)
_DIGITS: Final = Context(prec=60)
"""More digits than any quantity has, or any multiple of a step."""

_DECIMAL: Final[dict[str, Fraction]] = {
    "n": _NANO,
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
}
_BINARY: Final = {suffix: 1024**power for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), start=1)}
_UNITS: Final[tuple[tuple[str, int], ...]] = (("TiB", 1024**4), ("GiB", GIB), ("MiB", MIB), ("KiB", KIB))
_GRAMMAR: Final = re.compile(
    r"(?P<number>[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))(?:[eE](?P<exponent>[+-]?[0-9]+)|(?P<suffix>[A-Za-z]{0,2}))",
    re.ASCII,
)


class QuantityError(ValueError):
    """A text that is no quantity, or one too large to be honest.

    Attributes:
        text: what stood there, cut to a length that can be shown.
        why: what is wrong with it, as the end of a sentence.
    """

    def __init__(self, text: str, why: str) -> None:
        self.text = text if len(text) <= MAX_TEXT else text[:MAX_TEXT] + "…"
        self.why = why
        super().__init__(f"{self.text!r} {why}")


def simplest(number: Number) -> Number:
    """The same number, as an int where it is whole."""
    return number if isinstance(number, int) or number.denominator != 1 else number.numerator


def parse_quantity(text: str) -> Number:
    """The exact value of a Kubernetes quantity: what lies between two billionths counts as the one further from 0.

    So the API server takes it: ``2.9999999999`` is stored as ``3``, and means the same here without an API server.

    Raises:
        QuantityError: no quantity, longer than `MAX_TEXT`, an exponent beyond `MAX_EXPONENT`, or beyond `MAX_VALUE`.
    """
    if text.isdigit() and text.isascii() and len(text) <= MAX_TEXT:  # nearly all of them
        return _bounded(text, int(text))
    if len(text) > MAX_TEXT:
        raise QuantityError(text, f"is longer than the {MAX_TEXT} characters that any honest quantity needs")
    match = _GRAMMAR.fullmatch(text)
    if match is None:
        raise QuantityError(text, "is not a Kubernetes quantity")
    number, exponent, suffix = match["number"], match["exponent"], match["suffix"]
    if exponent is not None:
        if abs(int(exponent)) > MAX_EXPONENT:
            raise QuantityError(text, f"has an exponent beyond {MAX_EXPONENT}")
        factor: Number = Fraction(10) ** int(exponent)
    elif suffix in _BINARY:
        factor = _BINARY[suffix]
    elif suffix in _DECIMAL:
        factor = _DECIMAL[suffix]
    else:
        raise QuantityError(text, f"ends in {suffix!r}, which is no suffix of a quantity")
    value = simplest(Fraction(number.removesuffix(".")) * factor)
    if not isinstance(value, int):
        value = ceil_to(value, _NANO) if value > 0 else -ceil_to(-value, _NANO)
    return _bounded(text, value)


def canonical(text: str) -> str:
    """One spelling for all that mean the same: plain digits, all of them, or the largest binary suffix where one was written.

    The API server rewrites what a user typed (``3000`` to ``3k``); in this spelling, messages are the same here and offline.
    A text that is no usable quantity stays as it is.
    """
    if text.isdigit() and text.isascii():
        return text
    try:
        number = parse_quantity(text)
    except QuantityError:
        return text
    if text.endswith("i") and isinstance(number, int):
        for suffix, size in reversed(_BINARY.items()):
            if number % size == 0 and number:
                return f"{number // size}{suffix}"
    return exact_text(number)


def exact_text(number: Number) -> str:
    """A number as plain digits that read back as the same number; one without an end (1/3) as `number_text` has it."""
    number = simplest(number)
    if isinstance(number, int):
        return str(number)
    digits = _DIGITS.divide(Decimal(number.numerator), Decimal(number.denominator))
    return f"{digits:f}" if Fraction(digits) == number else number_text(number)


def signed_text(number: Number) -> str:
    """A difference, with its sign."""
    return f"+{exact_text(number)}" if number > 0 else exact_text(number)


def _bounded(text: str, value: Number) -> Number:
    if not -MAX_VALUE <= value <= MAX_VALUE:
        raise QuantityError(text, "is more than any resource can hold (2^63 - 1)")
    return value


def ceil_to(value: Number, step: Number) -> Number:
    """The least multiple of `step` that is not below `value`."""
    return simplest(-(-value // step) * step)


def bytes_text(amount: Number) -> str:
    """Bytes for people, exactly: in the largest binary unit that says them in whole numbers (``16 GiB``), else in bytes.

    A bound that is rounded would name an amount on its other side. Only parts of a byte, which no key specifies, are rounded.
    """
    for unit, size in _UNITS:
        if amount >= size and amount % size == 0:
            return f"{amount // size} {unit}"
    return f"{exact_text(amount)} B"


def number_text(number: Number) -> str:
    """A number for people: whole ones exactly, others with six digits."""
    number = simplest(number)
    return str(number) if isinstance(number, int) else f"{float(number):.6g}"
