"""The result of a check: one line for a person, details, and the next command."""

import enum
from dataclasses import dataclass


class Level(enum.Enum):
    """How a check ended."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one check.

    Attributes:
        level: its severity.
        message: one sentence without a full stop.
        details: single cases, a line each.
        hint: what to do next: a command, or a sentence; empty if there is nothing to do.
    """

    level: Level
    message: str
    details: tuple[str, ...] = ()
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Missing:
    """A fact that could not be read.

    Attributes:
        why: the message of the error.
    """

    why: str


def ok(message: str, *details: str) -> Result:
    """Everything is as it should be."""
    return Result(Level.OK, message, details)


def warning(message: str, *details: str, hint: str) -> Result:
    """It may be intended, or could not be checked; an operator should look at it."""
    return Result(Level.WARNING, message, details, hint)


def error(message: str, *details: str, hint: str) -> Result:
    """It does not work, or will not."""
    return Result(Level.ERROR, message, details, hint)


def unread(what: str, missing: Missing, needs: str) -> Result:
    """The result of a check that could not be made.

    Args:
        what: what could not be read, as the beginning of a sentence.
        missing: why.
        needs: the permission that it requires.
    """
    return warning(f"{what} could not be read", missing.why, hint=f"needed for this check: {needs}")


def listed(names: "list[str] | tuple[str, ...]", most: int = 5) -> str:
    """Names in a sentence: the first few, and how many more there are."""
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """A number with its noun; the plural where it is not made by an s."""
    return f"{number} {noun if number == 1 else plural or f'{noun}s'}"
