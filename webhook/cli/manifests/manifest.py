"""A document of a manifest file, and the error for a place in it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

Path: TypeAlias = tuple[str | int, ...]

MAX_DEPTH: Final = 150
"""Maximum depth of nesting; schemas in CustomResourceDefinitions have about sixty levels."""


WHOLE: Final = range(-(2**63), 2**64)
"""Whole numbers that JSON in Go keeps exactly; others become floats."""


class ManifestError(Exception):
    """A manifest that cannot be read.

    Attributes:
        source: the file.
        line: line in it from 1, or None where it is not known.
        message: what is wrong.
    """

    def __init__(self, source: str, line: int | None, message: str) -> None:
        self.source = source
        self.line = line
        self.message = message
        super().__init__(f"{source}: {message}" if line is None else f"{source}:{line}: {message}")


@dataclass(frozen=True, slots=True)
class Manifest:
    """One document of a file.

    Attributes:
        source: the file.
        data: the document, as JSON data.
        lines: line from 1 of keys and list elements by their path; ``()`` is the document's own and always there.
    """

    source: str
    data: dict[str, Any]
    lines: Mapping[Path, int]

    def error(self, path: Path, message: str) -> ManifestError:
        """Make the error for a path; its line is that of the path or of the nearest known parent."""
        line = next(self.lines[path[:end]] for end in range(len(path), -1, -1) if path[:end] in self.lines)
        return ManifestError(self.source, line, f"{path_text(path)}: {message}" if path else message)


def path_text(path: Path) -> str:
    """Format a path: ``spec.containers[0].name``."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")
