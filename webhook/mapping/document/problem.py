"""Problems of documents, each with its place and what to write instead.

MappingError            a document is invalid, or several contradict each other
  .problems             a `Problem` each: source, path, line, message, hint
"""

import difflib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from webhook.text import without_middle

T = TypeVar("T")

FieldPath = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake in a document."""

    message: str
    path: FieldPath = ()
    hint: str | None = None
    source: str = ""
    line: int | None = None

    def __str__(self) -> str:
        place = self.source if self.line is None else f"{self.source}:{self.line}"
        text = ": ".join(part for part in (place, path_text(self.path), without_middle(self.message)) if part)
        return text if self.hint is None else f"{text} ({without_middle(self.hint)})"


def path_text(path: FieldPath) -> str:
    """Format a path: ``forms[0].when``."""
    return without_middle(
        "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")
    )


_BEGINNING: Final = 3  # the fewest characters of a name that count as the beginning of a longer one


def nearest_known(name: str, known: Iterable[str], aliases: Iterable[str] = ()) -> str:
    """Return a hint for an unknown name: the known one, or alias of one, that was probably meant, else all known ones."""
    names = sorted(known)
    likely, start = sorted({*names, *aliases}), name[:64]
    near = difflib.get_close_matches(start, likely, n=1) or difflib.get_close_matches(start.lower(), likely, n=1)
    near = near or [each for each in names if len(name) >= _BEGINNING and each.startswith(name)][:1]
    return f"did you mean `{near[0]}`?" if near else f"known are {', '.join(names)}" if names else "there are none"


class MappingError(Exception):
    """Documents are invalid; `problems` has the reasons, each with its place."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))


@dataclass(frozen=True, slots=True)
class Problems:
    """Collects the problems of a part of a document: compilation continues after each, so that all are reported at once."""

    found: list[Problem] = field(default_factory=list)
    path: FieldPath = ()
    source: str = ""

    def at(self, *path: str | int) -> "Problems":
        """Return what collects those of a part of this part."""
        return Problems(self.found, (*self.path, *path), self.source)

    def of(self, source: str) -> "Problems":
        """Return what collects those of a document."""
        return Problems(self.found, (), source)

    def add(self, path: FieldPath | str, message: str, hint: str | None = None) -> None:
        """Add a problem of what is at a path in the part."""
        part = (path,) if isinstance(path, str) else path
        self.found.append(Problem(message, (*self.path, *part), hint, self.source))

    def when(self, wrong: object, path: FieldPath | str, message: str, hint: str | None = None) -> None:
        """Add a problem if something is wrong."""
        if wrong:
            self.add(path, message, hint)

    def unknown(
        self, path: FieldPath | str, kind: str, name: str, known: Collection[str], aliases: Iterable[str] = ()
    ) -> None:
        """Add a problem if none of these has the name."""
        if name not in known:
            self.add(path, f"no {kind} is called {name!r}", nearest_known(name, known, aliases))

    def parsed(self, path: FieldPath, written: Any, parse: Callable[[Any], T]) -> T | None:
        """Parse what is written; None if that is nothing, or no such value."""
        try:
            return None if written is None else parse(written)
        except ValueError as error:
            self.add(path, str(error))
            return None


@contextmanager
def problems_of(source: str, line: int | None = 1) -> Iterator[None]:
    """Turn every error into a problem of one document, so that it affects no other document.

    Raises:
        MappingError: in place of any other error.
    """
    try:
        yield
    except MappingError:
        raise
    except Exception as error:
        raise MappingError([bug(error, source, line)]) from error


def bug(error: Exception, source: str, line: int | None = 1) -> Problem:
    """Return a problem for an unexpected error that a document causes."""
    message = f"it causes an internal error of the webhook: {type(error).__name__}"
    return Problem(message, hint="please report it", source=source, line=line)
