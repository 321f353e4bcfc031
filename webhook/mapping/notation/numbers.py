"""Sets of legal numbers in mapping documents: ``5..100 by 5``, ``1..``, ``2``, ``[2, 4, 8]``."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from webhook.quantity import MAX_VALUE, Number, number_text, simplest

_SPAN: Final = re.compile(
    r"(?P<low>[0-9]+(?:\.[0-9]+)?)(?P<dots>\.\.(?P<high>[0-9]+(?:\.[0-9]+)?)?)?(?: by (?P<step>[0-9]+(?:\.[0-9]+)?))?"
)


@dataclass(frozen=True, slots=True)
class Span:
    """Numbers from `low` to `high` (None: unbounded), all or in steps of `step` from `low`."""

    low: Number
    high: Number | None
    step: Number | None

    def __contains__(self, number: Number) -> bool:
        if number < self.low or (self.high is not None and number > self.high):
            return False
        return self.step is None or (number - self.low) % self.step == 0

    def ceil(self, number: Number) -> Number | None:
        """Return the least member that is not below `number`, or None."""
        least = max(number, self.low)
        if self.step is not None:
            least = simplest(self.low - (self.low - least) // self.step * self.step)
        return least if least in self else None

    def floor(self, number: Number) -> Number | None:
        """Return the greatest member that is not above `number`, or None."""
        most = number if self.high is None else min(number, self.high)
        if self.step is not None and most >= self.low:
            most = simplest(self.low + (most - self.low) // self.step * self.step)
        return most if most in self else None

    def __str__(self) -> str:
        if self.high == self.low:
            return number_text(self.low)
        span = (
            f"{number_text(self.low)} and up"
            if self.high is None
            else f"{number_text(self.low)} to {number_text(self.high)}"
        )
        return span if self.step in {None, 1} else f"{span} by {number_text(self.step or 1)}"


@dataclass(frozen=True, slots=True)
class Numbers:
    """A set of numbers: the union of spans."""

    spans: tuple[Span, ...]

    def __contains__(self, number: Number) -> bool:
        return any(number in span for span in self.spans)

    def ceil(self, number: Number) -> Number | None:
        """Return the least member that is not below `number`, or None."""
        return min((found for span in self.spans if (found := span.ceil(number)) is not None), default=None)

    def floor(self, number: Number) -> Number | None:
        """Return the greatest member that is not above `number`, or None."""
        return max((found for span in self.spans if (found := span.floor(number)) is not None), default=None)

    def corners(self) -> Iterator[Number]:
        """Yield members and their neighbors where the set begins, ends and steps, for probes."""
        for span in self.spans:
            step = span.step or 1
            ends = (
                [span.low, span.low + step]
                if span.high is None
                else [span.low, span.low + step, span.high - step, span.high]
            )
            for end in ends:
                yield from (simplest(n) for n in (end - step, end, end + step, end + 1) if n >= 0)

    def __str__(self) -> str:
        return ", ".join(map(str, self.spans))


def parse_numbers(written: str | int | list[str | int]) -> Numbers:
    """Parse a set of numbers.

    Raises:
        ValueError: not a set of numbers, or an empty one.
    """
    items = written if isinstance(written, list) else [written]
    return Numbers(tuple(_parse_span(str(item)) for item in items))


def _parse_span(text: str) -> Span:
    match = _SPAN.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a set of numbers such as `5..100 by 5`, `1..` or `[2, 4, 8]`")
    if any(Fraction(match[part] or 0) > MAX_VALUE for part in ("low", "high", "step")):
        raise ValueError(f"{text!r} is more than any resource can hold (2^63 - 1)")
    low = simplest(Fraction(match["low"]))
    if match["dots"] is None:
        high: Number | None = low
    else:
        high = None if match["high"] is None else simplest(Fraction(match["high"]))
    step = None if match["step"] is None else simplest(Fraction(match["step"]))
    if step == 0 or (high is not None and high < low):
        raise ValueError(f"{text!r} contains no number")
    return Span(low, high, step)
