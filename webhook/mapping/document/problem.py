"""What is wrong with a document: told with its place and what to write instead.

MappingError            a document, or all of them together, cannot be put in force
  .problems             each a `Problem`: source, path, line, message, hint
"""

import difflib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

Path = tuple[str | int, ...]

MOST_SHOWN: Final = 1000
"""Letters of a message or hint that are shown: it may quote a document of a megabyte."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake in a document.

    Attributes:
        message: what is wrong, in a sentence without a full stop.
        path: where in the document: keys and indexes.
        hint: what to write instead, or None.
        source: file, ConfigMap or built-in that the document came from.
        line: line in that source from 1, or None where it is not known.
    """

    message: str
    path: Path = ()
    hint: str | None = None
    source: str = ""
    line: int | None = None

    def __str__(self) -> str:
        place = self.source if self.line is None else f"{self.source}:{self.line}"
        said = ": ".join(part for part in (place, path_text(self.path), shown(self.message)) if part)
        return said if self.hint is None else f"{said} ({shown(self.hint)})"


def path_text(path: Path) -> str:
    """A path for people: ``forms[0].when``."""
    return shown("".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip("."))


def shown(text: str, most: int = MOST_SHOWN) -> str:
    """A text of so many letters at most, cut in its middle: what is wrong often stands at the end."""
    return text if len(text) <= most else f"{text[: most // 2]} … {text[-(most // 2) :]}"


def nearest_known(name: str, known: Iterable[str]) -> str:
    """What to say of a name that is not known: the one that was probably meant, else all that there are."""
    names = sorted(known)
    near = difflib.get_close_matches(name[:64], names, n=1)
    return f"did you mean `{near[0]}`?" if near else f"known are {', '.join(names)}"


class MappingError(Exception):
    """Documents that cannot be put in force; `problems` says why, each with its place."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))


@contextmanager
def held_against(source: str, line: int | None = 1) -> Iterator[None]:
    """What is done with one document: whatever goes wrong is a problem of that document, and of no other one.

    Args:
        source: of the document.
        line: of what is told of an error that nobody has thought of.

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
    """An error that nobody has thought of, held against the document that brings it out."""
    message = f"it brings out a bug of the webhook: {type(error).__name__}"
    return Problem(message, hint="please report it", source=source, line=line)
