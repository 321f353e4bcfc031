"""What is wrong with a document: told with its place and what to write instead.

MappingError            a document, or all of them together, cannot be put in force
  .problems             each a `Problem`: source, path, line, message, hint
"""

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Path = tuple[str | int, ...]


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
        said = ": ".join(part for part in (place, path_text(self.path), self.message) if part)
        return said if self.hint is None else f"{said} ({self.hint})"


def path_text(path: Path) -> str:
    """A path for people: ``forms[0].when``."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")


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
