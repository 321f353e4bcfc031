r"""Regular expressions in documents: RE2, which takes time linear in the length of the name for every expression.

An expression becomes a part of a bigger one, between the parts before and after its variable. So it has no anchors, named
groups or flags: whole names are matched, and case matters. The CEL of the API server uses RE2, too.
"""

import re
from functools import lru_cache
from typing import Any, Final

import re2  # type: ignore[import-untyped]

MAX_EXPRESSION: Final = 256
"""The longest expression of a document."""

MAX_KEY: Final = 253 + 1 + 63
"""The longest name of a label, annotation or resource: the API server stores no pod with a longer one."""

MAX_STEPS: Final = 500
"""The most instructions of an expression: in the worst case it takes one step for each instruction and character."""

MAX_WHOLE: Final = 20_000
"""The same for a composed expression, which may contain lists of names."""

_BYTES: Final = 8 * 1024 * 1024
"""The memory in bytes for compiling and using one expression: the default of RE2."""

_PLACES: Final = {"^", "$", *(rf"\{letter}" for letter in "AzbB")}
_UNREAD: Final = {r"\C", r"\Q", r"\E"}
_SIGN: Final = re.compile(r"\\.|\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*+\]|\(\?:?|[$^]", re.DOTALL)


class PatternError(ValueError):
    """A text is not an expression that documents may contain; the message says why, as the end of a sentence."""


class Expression:
    """A compiled expression for whole names; safe for use by several threads.

    Attributes:
        steps: the number of its instructions.
    """

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


@lru_cache(maxsize=4096)
def expression(text: str) -> Expression:
    """Compile an expression; the same text is compiled once.

    Raises:
        PatternError: as `Expression`.
    """
    return Expression(text)


def literal(text: str) -> str:
    """Return an expression that matches only this text."""
    escaped: str = re2.escape(text)
    return escaped


def check(text: str) -> None:
    """Check that documents may contain an expression.

    Raises:
        PatternError: they may not.
    """
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
