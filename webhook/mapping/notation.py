"""Notations in documents: amounts of memory and cores, sets of numbers, names with `*`, and expressions.

A name in a review can be megabytes long: names with ``*`` become expressions that match in time linear in its length, where
the obvious ``.*`` for each star would take quadratic time. Expressions in documents are of RE2, for the same reason.

An expression becomes a part of a bigger one, between the parts before and after its variable. So it has no anchors, named
groups or flags: whole names are matched, and case matters. The CEL of the API server uses RE2, too.
"""

import re
from collections.abc import Iterable, Iterator
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, Final, Self

import re2  # type: ignore[import-untyped]
from msgspec import Struct

from webhook.request import (
    ALL,
    MAX_VALUE,
    MIB,
    UNLIMITED,
    Cores,
    Memory,
    Number,
    Percent,
    QuantityError,
    Size,
    number_text,
    parse_quantity,
    simplest,
)

MAX_PARSED: Final = 1024
"""Texts whose meaning is remembered: a document is read when it is validated, and when it is compiled."""


def _quantity(written: str | int, instead: str) -> Number:
    try:
        return parse_quantity(str(written))
    except QuantityError as error:
        raise ValueError(f"{error}: write {instead}") from None


@lru_cache(maxsize=MAX_PARSED)
def parse_memory(written: str | int | None) -> Memory | None:
    """Parse memory of one device: ``all``, ``unlimited``, or a quantity of bytes; None for 0, and for nothing."""
    if written is None:
        return None
    if written == "all":
        return ALL
    if written == "unlimited":
        return UNLIMITED
    size = _quantity(written, "`all`, `unlimited` or a size such as `4Gi`")
    if size < 0:
        raise ValueError(f"{written} is below zero")
    return Size(size) if size else None


def parse_default_memory(written: str | int | None) -> Memory | None:
    """Parse memory of one device as a default: ``all``, or a size of at least 1 MiB with a suffix; None for 0 and None.

    Raises:
        ValueError: none of these; a bare number is ambiguous, because keys have units of their own.
    """
    if written in {None, "all", 0, "0"}:
        return parse_memory(written)
    text = str(written)
    if not text[-1:].isalpha():
        raise ValueError("a bare number is ambiguous: write a size such as 4Gi, or all")
    size = _quantity(text, "`all` or a size such as `4Gi`")
    if size < MIB:
        raise ValueError(f"{text} is less than 1Mi: write a size such as 4Gi, or all")
    return Size(size)


@lru_cache(maxsize=MAX_PARSED)
def parse_cores(written: str | int | None) -> Cores | None:
    """Parse cores of one device: ``unlimited``, or a percentage from 0 to 100 with or without ``%``; None for 0 and None."""
    if written is None:
        return None
    if written == "unlimited":
        return UNLIMITED
    percent = _quantity(str(written).removesuffix("%"), "`unlimited` or a percentage from 0 to 100")
    if not 0 <= percent <= ALL.value:
        raise ValueError(f"{written} is not a percentage from 0 to 100")
    return Percent(percent) if percent else None


def parse_positive(written: str | int) -> Number:
    """Parse a quantity above 0."""
    number = _quantity(written, "a number above 0, or an amount such as `64Mi`")
    if number <= 0:
        raise ValueError(f"{written} is not above 0")
    return number


def parse_unit(written: str | int) -> tuple[Number, bool]:
    """Parse the unit of a key: bytes and True, or percent of a device and False."""
    text = str(written)
    sized = not text.endswith("%")
    instead = "a size such as `256Mi`, or a percentage of a device such as `1%`"
    unit = simplest(Fraction(_quantity(text.removesuffix("%"), instead)))
    if unit <= 0:
        raise ValueError(f"{written} is not above 0")
    return unit, sized


def parse_unit_of(written: str, *, sized: bool) -> Number:
    """Parse a unit of memory in bytes, or one of cores in percent of a device."""
    number, of_memory = parse_unit(written)
    if of_memory is not sized:
        what, instead = (
            ("memory", "a size such as `1Mi`") if sized else ("cores", "a percentage of a device such as `1%`")
        )
        raise ValueError(f"{written} is not a unit of {what}: write {instead}")
    return number


def parse_bytes(written: str | int) -> int:
    """Parse a whole number of bytes above 0."""
    size = _quantity(written, "a size such as `40Gi`")
    if size <= 0 or not isinstance(size, int):
        raise ValueError(f"{written} is not a whole number of bytes above 0")
    return size


def parse_device(written: str | int) -> int:
    """Parse the memory of one device in bytes."""
    size = parse_bytes(written)
    if size < MIB:
        raise ValueError(f"{written} bytes are less than any device has: write a size such as `40Gi`")
    return size


def parse_card(written: str | int) -> int:
    """Parse the memory of one device as a list of them has it, which does not say what a bare number counts."""
    if not str(written)[-1:].isalpha():
        raise ValueError(f"{str(written)!r} is ambiguous without a suffix: write a size such as `40Gi`")
    return parse_device(written)


def glob_pattern(text: str) -> str:
    """Return a regular expression for ``fullmatch``, to compile with `re.DOTALL`; ``*`` matches any text."""
    first, *others = (re.escape(piece) for piece in re.split(r"\*+", text))
    if not others:
        return first
    *middle, last = others
    # An atomic group takes the first match of a middle piece only; that loses nothing, as a star follows it.
    return f"{first}{''.join(f'(?>.*?{piece})' for piece in middle)}.*{last}"


def compile_glob(text: str) -> re.Pattern[str]:
    """Compile it."""
    return re.compile(glob_pattern(text), re.DOTALL)


_SPAN: Final = re.compile(
    r"(?P<low>[0-9]+(?:\.[0-9]+)?)(?P<dots>\.\.(?P<high>[0-9]+(?:\.[0-9]+)?)?)?(?: by (?P<step>[0-9]+(?:\.[0-9]+)?))?"
)


class Span(Struct, frozen=True):
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


class Numbers(Struct, frozen=True):
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
    """Parse a set of numbers."""
    items = written if isinstance(written, list) else [written]
    return Numbers(tuple(_parse_span(str(item)) for item in items))


@lru_cache(maxsize=MAX_PARSED)
def _parse_span(text: str) -> Span:
    match = _SPAN.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a set of numbers such as `5..100 by 5`, `1..` or `[2, 4, 8]`")
    numbers = {
        part: simplest(Fraction(number)) for part, number in match.groupdict().items() if number and part != "dots"
    }
    if max(numbers.values()) > MAX_VALUE:
        raise ValueError(f"{text!r} is more than any resource can hold (2^63 - 1)")
    low, step = numbers["low"], numbers.get("step")
    high = low if match["dots"] is None else numbers.get("high")
    if step == 0 or (high is not None and high < low):
        raise ValueError(f"{text!r} contains no number")
    return Span(low, high, step)


MAX_EXPRESSION: Final = 256  # the longest expression of a document
MAX_KEY: Final = 253 + 1 + 63
"""The longest name of a label, annotation or resource: the API server stores no pod with a longer one."""

MAX_STEPS: Final = 500
"""The most instructions of an expression: in the worst case it takes one step for each instruction and character."""

MAX_WHOLE: Final = 20_000  # the same for a composed expression, which may contain lists of names
_BYTES: Final = 8 * 1024 * 1024  # the memory in bytes for compiling and using one expression: the default of RE2
_PLACES: Final = {"^", "$", *(rf"\{letter}" for letter in "AzbB")}
_UNREAD: Final = {r"\C", r"\Q", r"\E"}
_SIGN: Final = re.compile(r"\\.|\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*+\]|\(\?:?|[$^]", re.DOTALL)


class PatternError(ValueError):
    """A text is not an expression that documents may contain; the message says why, as the end of a sentence."""


class Expression:
    """A compiled expression for whole names; safe for use by several threads."""

    __slots__ = ("_groups", "_regex", "steps")

    def __init__(self, text: str) -> None:
        """Compile a text.

        Raises:
            PatternError: RE2 rejects it, or it is too large.
        """
        options = re2.Options()
        options.log_errors = False
        options.dot_nl = True
        options.max_mem = _BYTES
        try:
            # Bytes save RE2 the conversion of positions.
            self._regex: Any = re2.compile(text.encode(errors="replace"), options)
        except re2.error as error:
            reason = error.args[0] if error.args else ""
            raise PatternError(reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)) from None
        self.steps: int = self._regex.programsize
        if self.steps > MAX_WHOLE:
            raise PatternError(f"compiles to {self.steps} steps, more than {MAX_WHOLE}")
        self._groups: tuple[tuple[str, int], ...] = tuple(
            (name.decode(), index) for name, index in self._regex.groupindex.items()
        )

    def matches(self, name: str) -> bool:
        """Return whether it matches the whole name."""
        return self._regex.fullmatch(name.encode(errors="replace")) is not None

    def groups(self, name: str) -> dict[str, str] | None:
        """Return the values of its named groups; None if it does not match the whole name."""
        match = self._regex.fullmatch(name.encode(errors="replace"))
        return None if match is None else {group: (match[index] or b"").decode() for group, index in self._groups}


@lru_cache(maxsize=256)
def expression(text: str) -> Expression:
    """Compile an expression; the same text is compiled once."""
    return Expression(text)


def literal(text: str) -> str:
    """Return an expression that matches only this text."""
    escaped: str = re2.escape(text)
    return escaped


class NameSet(Struct, frozen=True, dict=True):
    """A set of names, some of them with ``*`` or as expressions; test membership with ``name in names``."""

    exact: frozenset[str] = frozenset()
    globs: frozenset[str] = frozenset()
    expressions: tuple[Expression, ...] = ()

    @classmethod
    def of(cls, names: Iterable[str], expressions: Iterable[Expression] = ()) -> Self:
        """The set of these names; one with ``*`` matches any text there."""
        names = frozenset(names)
        globs = frozenset(name for name in names if "*" in name)
        return cls(names - globs, globs, tuple(dict.fromkeys(expressions)))

    def __or__(self, other: "NameSet") -> "NameSet":
        return NameSet.of(self.exact | other.exact | self.globs | other.globs, (*self.expressions, *other.expressions))

    def __contains__(self, name: str) -> bool:
        return name in self.exact or (not self._whole and self._matches(name))

    def among(self, names: Iterable[str]) -> list[str]:
        """The names that are in the set, in their order."""
        exact, matches = self.exact, self._matches
        if self._whole:
            return [name for name in names if name in exact]
        return [name for name in names if name in exact or matches(name)]

    @cached_property
    def _whole(self) -> bool:
        return not self.globs and not self.expressions

    @cached_property
    def _glob(self) -> re.Pattern[str]:
        return re.compile("|".join(map(glob_pattern, sorted(self.globs))) or "(?!)", re.DOTALL)

    def _matches(self, name: str) -> bool:
        if self._glob.fullmatch(name) is not None:
            return True
        for each in self.expressions:  # noqa: SIM110  (a generator takes three times as long)
            if each.matches(name):
                return True
        return False


def check_pattern(text: str) -> None:
    """Check that documents may contain an expression."""
    if len(text) > MAX_EXPRESSION:
        raise PatternError(f"is longer than {MAX_EXPRESSION} characters")
    steps = expression(text).steps
    if steps > MAX_STEPS:
        raise PatternError(f"compiles to {steps} steps, more than {MAX_STEPS}")
    for sign in _SIGN.findall(text):
        if sign == "(?":
            raise PatternError("only `(…)` and `(?:…)` make groups: no flags, names or look-arounds")
        if sign in _PLACES:
            raise PatternError(f"{sign} is an anchor, but whole names are matched anyway")
        if sign in _UNREAD:
            raise PatternError(f"{sign} is not supported")
