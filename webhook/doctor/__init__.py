"""The doctor: examines an installation from outside, and reports what works, what may not, and what does not.

A check asks a `reading.ClusterReader` for what it needs. What cannot be read ends that check, which says so; others continue.
"""

import enum
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

A = TypeVar("A")


class Level(enum.Enum):
    """How a check ended."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


class FileLine(NamedTuple):
    """Where in a file a detail is found; the name is empty if no file shows it, and the line, from 1, None if not known."""

    file: str = ""
    line: int | None = None


class Result(NamedTuple):
    """The result of one check: a sentence without a full stop, single cases, and what to do next; of files, where each is."""

    level: Level
    message: str
    details: tuple[str, ...]
    hint: str = ""
    at: tuple[FileLine, ...] = ()


class UnansweredError(Exception):
    """A check that cannot be made, and the result that is reported instead."""

    def __init__(self, result: Result) -> None:
        self.result = result
        super().__init__(result.message)

    @property
    def why(self) -> str:
        """What kept it from being made."""
        return "; ".join(self.result.details) or self.result.message


class Check(NamedTuple, Generic[A]):
    """One check: a name for programs, which never changes, its heading in the output, and what returns or awaits a result.

    The first line of the docstring of that is its question.
    """

    name: str
    section: str
    answer: Callable[..., A]


def unanswered(problem: BaseException) -> Result:
    """The result of a check that raised: other checks go on, whatever the cluster stores."""
    if isinstance(problem, UnansweredError):
        return problem.result
    at = traceback.extract_tb(problem.__traceback__)[-1]  # a mistake of ours in one check
    where = f"{Path(at.filename).name}:{at.lineno}: {type(problem).__name__}: {problem}"
    return error("this check failed, which is a defect of this program", where, hint="report it, with this line")


def ok(message: str, *details: str) -> Result:
    """Everything is as it should be."""
    return Result(Level.OK, message, details)


def warning(message: str, *details: str, hint: str) -> Result:
    """It may be intended, or could not be checked; an operator should look at it."""
    return Result(Level.WARNING, message, details, hint)


def error(message: str, *details: str, hint: str) -> Result:
    """It does not work, or will not."""
    return Result(Level.ERROR, message, details, hint)


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
