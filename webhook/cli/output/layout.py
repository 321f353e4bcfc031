"""Text for a terminal: labels on the left, what they label on the right, wrapped to `WIDTH`."""

import textwrap
from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

import click

WIDTH: Final = 100
"""Columns that every line keeps to, but those that are to be copied."""

LABEL: Final = 9
"""Columns of a label with what follows it."""

_CONTROL: Final = dict.fromkeys((*range(32), *range(127, 160)), "�")
"""A manifest may hold anything, and a terminal would obey it."""


def clean(text: str) -> str:
    """A text from a manifest, without what a terminal would obey."""
    return text.translate(_CONTROL)


def heading(text: str, colour: str | None = None, indent: int = 0) -> str:
    """A line that begins a part."""
    lines = (line[indent:] for line in wrapped(text, indent))
    return "".join(f"{' ' * indent}{click.style(line, bold=True, fg=colour)}\n" for line in lines)


def wrapped(text: str, indent: int, further: int = 2) -> list[str]:
    """A text on lines of at most `WIDTH` columns; those after the first begin `further` columns more to the right."""
    return textwrap.wrap(
        clean(text),
        WIDTH,
        initial_indent=" " * indent,
        subsequent_indent=" " * (indent + further),
        break_on_hyphens=False,
    )


Row: TypeAlias = tuple[str, str]
"""A text, and one that stands to its right."""


def labelled(label: str, rows: Iterable[str | Row], indent: int = 2, colour: str = "cyan") -> Iterator[str]:
    """Lines under one label, which stands beside the first; the right texts of rows under each other."""
    listed = [(row, "") if isinstance(row, str) else row for row in rows]
    start = indent + LABEL + 1
    room = (WIDTH - start) // 2
    left = max((len(clean(one)) for one, other in listed if other and len(one) <= room), default=0)
    for number, (one, other) in enumerate(listed):
        text = f"{clean(one).ljust(left)}  {other}" if other else one
        first, *rest = wrapped(text, start, left + 2 if other and len(one) <= room else 2) or [" " * start]
        styled = click.style(label.ljust(LABEL), fg=colour) if number == 0 else " " * LABEL
        yield f"{' ' * indent}{styled} {first[start:]}".rstrip() + "\n"
        yield from (f"{line}\n" for line in rest)


def block(lines: Iterable[str], indent: int) -> Iterator[str]:
    """Lines to be copied: indented, and never broken."""
    return (f"{' ' * indent}{clean(line)}".rstrip() + "\n" for line in lines)
