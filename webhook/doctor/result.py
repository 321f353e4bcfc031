"""A check of facts and its result, whatever the facts are: of a cluster, or of files."""

import enum
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Generic, TypeVar

T = TypeVar("T")


class Level(enum.Enum):
    """How a check ended."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class FileLine:
    """Where in a file a detail is found.

    Attributes:
        file: its name in messages; empty if no file shows it.
        line: from 1, or None if not known.
    """

    file: str = ""
    line: int | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one check.

    Attributes:
        level: its severity.
        message: one sentence without a full stop.
        details: single cases, a line each.
        hint: what to do next: a command, or a sentence; empty if there is nothing to do.
        at: of files, where each detail is found; empty for a cluster.
    """

    level: Level
    message: str
    details: tuple[str, ...]
    hint: str = ""
    at: tuple[FileLine, ...] = ()


class UnansweredError(Exception):
    """A check that cannot be made.

    Attributes:
        result: what is reported instead.
    """

    def __init__(self, result: Result) -> None:
        self.result = result
        super().__init__(result.message)


@dataclass(frozen=True, slots=True)
class Check(Generic[T]):
    """One check of facts.

    Attributes:
        name: for programs; never changes.
        section: its heading in the output.
        answer: a pure function of the facts; the first line of its docstring is the question that it answers.
    """

    name: str
    section: str
    answer: Callable[[T], Result]

    @property
    def question(self) -> str:
        """As in the documentation: without a capital letter and its question mark."""
        line = (self.answer.__doc__ or "").partition("\n")[0]
        return line[:1].lower() + line[1:].rstrip("?")

    def judge(self, facts: T) -> Result:
        """Answer the question, or say why it cannot be answered: other checks go on, whatever the cluster stores."""
        try:
            return self.answer(facts)
        except UnansweredError as unanswered:
            return unanswered.result
        except Exception as unforeseen:  # noqa: BLE001  # a mistake of ours in one check
            at = traceback.extract_tb(unforeseen.__traceback__)[-1]
            where = f"{Path(at.filename).name}:{at.lineno}: {type(unforeseen).__name__}: {unforeseen}"
            return error(
                "this check failed, which is a defect of this program", where, hint="report it, with this line"
            )


def ok(message: str, *details: str) -> Result:
    """Everything is as it should be."""
    return Result(Level.OK, message, details)


def warning(message: str, *details: str, hint: str) -> Result:
    """It may be intended, or could not be checked; an operator should look at it."""
    return Result(Level.WARNING, message, details, hint)


def error(message: str, *details: str, hint: str) -> Result:
    """It does not work, or will not."""
    return Result(Level.ERROR, message, details, hint)


@dataclass(frozen=True, slots=True)
class Missing:
    """A fact that could not be read.

    Attributes:
        why: the message of the error.
    """

    why: str


NOT_TRIED: Final = Missing("not tried")


def unread(what: str, missing: Missing, needs: str) -> Result:
    """The result of a check that could not be made.

    Args:
        what: what could not be read, as the beginning of a sentence.
        missing: why.
        needs: the permission that it requires.
    """
    return warning(f"{what} could not be read", missing.why, hint=f"needed for this check: {needs}")


def known(fact: T | Missing, what: str, needs: str) -> T:
    """A fact that a check cannot do without; for `what` and `needs`, see `unread`.

    Raises:
        UnansweredError: it could not be read.
    """
    if isinstance(fact, Missing):
        raise UnansweredError(unread(what, fact, needs))
    return fact


def listed(names: Sequence[str], most: int = 5) -> str:
    """Names in a sentence: the first few, and how many more there are."""
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


def first_of(lines: Sequence[str], most: int = 10) -> list[str]:
    """Lines of details: the first few, and one with how many more there are."""
    return [*lines[:most], *([f"and {len(lines) - most} more"] if len(lines) > most else [])]


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """A number with its noun; the plural where it is not made by an s."""
    return f"{number} {noun if number == 1 else plural or f'{noun}s'}"
