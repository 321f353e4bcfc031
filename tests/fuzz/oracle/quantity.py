"""Kubernetes quantities, read a second time: nothing is shared with the engine, so that one mistake is not made twice.

Source: the `Quantity` grammar of k8s.io/apimachinery (``resource/quantity.go``). The bounds are the product's promise
(``docs/behavior.md``, Reading): 40 characters, exponents to 20, 2^63 - 1.
"""

from fractions import Fraction

SCALES = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    **{letter: Fraction(1000**power) for power, letter in enumerate("kMGTPE", start=1)},
    **{f"{letter}i": Fraction(1024**power) for power, letter in enumerate("KMGTPE", start=1)},
}
DIGITS = frozenset("0123456789")


class UnreadableError(ValueError):
    """A text that is no quantity, or one beyond the bounds; its message begins as that of `Denied` does."""


def quantity(value: str | float) -> int | Fraction:
    """The exact value of a quantity as it stands in JSON.

    Raises:
        UnreadableError: it is none, or it is beyond the bounds.
    """
    text = value if isinstance(value, str) else str(value)
    if len(text) > 40:
        raise UnreadableError("more than 40 characters")
    if text.isdecimal() and text.isascii():
        return _bounded(Fraction(int(text)))
    body = text[1:] if text[:1] in {"+", "-"} else text
    end = next((at for at, letter in enumerate(body) if letter not in DIGITS and letter != "."), len(body))
    number, suffix = body[:end], body[end:]
    whole, _, decimals = number.partition(".")
    if "." in decimals or not (whole or decimals):
        raise UnreadableError(f"no quantity: {text}")
    exact = Fraction(int(whole or "0")) + (Fraction(int(decimals), 10 ** len(decimals)) if decimals else 0)
    exact *= SCALES[suffix] if suffix in SCALES else _power(suffix)
    return _bounded(-exact if text[0] == "-" else exact)


def number_in(value: str | float) -> int | Fraction | None:
    """The same; None if it is none."""
    try:
        return quantity(value)
    except UnreadableError:
        return None


def _power(suffix: str) -> Fraction:
    digits = suffix[2:] if suffix[1:2] in {"+", "-"} else suffix[1:]
    if suffix[:1] not in {"e", "E"} or not digits or not set(digits) <= DIGITS:
        raise UnreadableError(f"no quantity: {suffix}")
    if int(digits) > 20:
        raise UnreadableError("an exponent beyond 20")
    return Fraction(10) ** (-int(digits) if suffix[1] == "-" else int(digits))


def _bounded(exact: Fraction) -> int | Fraction:
    if abs(exact) >= 2**63:
        raise UnreadableError("beyond 2^63 - 1")
    return exact.numerator if exact.denominator == 1 else exact
