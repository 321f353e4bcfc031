r"""Regular expressions that documents write: RE2, whose time is linear in the name, whatever the expression.

One becomes a part of a bigger one, between what stands before and after its variable. So it says nothing of its
surroundings (anchors), names no groups and sets no flags: names are matched whole, and letters as they are. It is also the
syntax of the API server's CEL.
"""

import re
from functools import lru_cache
from typing import Any, Final

import re2  # type: ignore[import-untyped]

MAX_EXPRESSION: Final = 256
"""Longest expression of a document."""

MAX_KEY: Final = 253 + 1 + 63
"""Longest key of a label, annotation or resource: with a longer one no pod is ever stored."""

MAX_STEPS: Final = 500
"""Most instructions of an expression: one step for each of them and each letter of a name is the worst case."""

MAX_WHOLE: Final = 20_000
"""The same of one that is put together: it may hold lists of names, too."""

_BYTES: Final = 8 * 1024 * 1024
"""What one expression may take while it is compiled and used; RE2's own default."""

_PLACES: Final = {"^", "$", *(rf"\{letter}" for letter in "AzbB")}
_UNREAD: Final = {r"\C", r"\Q", r"\E"}
_SIGN: Final = re.compile(r"\\.|\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*+\]|\(\?:?|[$^]", re.DOTALL)


class PatternError(ValueError):
    """A text that is no expression which a document may write; it says why."""


class Expression:
    """A compiled expression, for whole names; it can be used by several threads at once.

    Attributes:
        steps: instructions that it became.
    """

    __slots__ = ("_groups", "_regex", "steps")

    def __init__(self, text: str) -> None:
        """Compiles a text.

        Raises:
            PatternError: RE2 cannot read it, or it becomes too large.
        """
        options = re2.Options()
        options.log_errors = False
        options.dot_nl = True
        options.max_mem = _BYTES
        try:
            # As bytes, so that RE2 does not count positions in text for us.
            self._regex: Any = re2.compile(text.encode(errors="replace"), options)
        except re2.error as error:
            said = error.args[0] if error.args else ""
            raise PatternError(said.decode(errors="replace") if isinstance(said, bytes) else str(said)) from None
        self.steps: int = self._regex.programsize
        if self.steps > MAX_WHOLE:
            raise PatternError(f"becomes {self.steps} steps, more than {MAX_WHOLE}")
        self._groups: tuple[tuple[str, int], ...] = tuple(
            (name.decode(), index) for name, index in self._regex.groupindex.items()
        )

    def matches(self, name: str) -> bool:
        """Whether it is the whole of a name."""
        return self._regex.fullmatch(name.encode(errors="replace")) is not None

    def groups(self, name: str) -> dict[str, str] | None:
        """What its named groups are in a name; None where it does not match the whole of that."""
        found = self._regex.fullmatch(name.encode(errors="replace"))
        return None if found is None else {group: (found[index] or b"").decode() for group, index in self._groups}


@lru_cache(maxsize=4096)
def expression(text: str) -> Expression:
    """A compiled expression; the same text is compiled once.

    Raises:
        PatternError: as `Expression`.
    """
    return Expression(text)


def literal(text: str) -> str:
    """An expression that matches this text only."""
    escaped: str = re2.escape(text)
    return escaped


def check(text: str) -> None:
    """See to it that a text is an expression that a document may write.

    Raises:
        PatternError: it is not.
    """
    if len(text) > MAX_EXPRESSION:
        raise PatternError(f"is longer than {MAX_EXPRESSION} letters")
    steps = expression(text).steps
    if steps > MAX_STEPS:
        raise PatternError(f"becomes {steps} steps, more than {MAX_STEPS}")
    for sign in _SIGN.findall(text):
        if sign == "(?":
            raise PatternError("only `(…)` and `(?:…)` make groups: no flags, names or look-arounds")
        if sign in _PLACES:
            raise PatternError(f"{sign} says where it stands, but names are matched whole anyway")
        if sign in _UNREAD:
            raise PatternError(f"{sign} is not read")
