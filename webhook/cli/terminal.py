"""Text for a terminal: aligned columns, labels on the left of wrapped content, and the error for unusable input."""

import itertools
import json
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, TypeAlias

import click

from webhook.text import shown


def terminal_width() -> int | None:
    """Return the columns of the terminal; None if stdout is none."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def columns(rows: Sequence[Sequence[str]]) -> str:
    """Align the cells of rows, separated by two spaces, without trailing spaces; on a terminal, in lines that fit it."""
    return "".join(aligned(rows, terminal_width()))


def json_text(data: Any) -> str:
    """Format data as JSON."""
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


_GAP: Final = "  "
_NARROW: Final = 8
"""Characters that a column keeps, however narrow the terminal is."""


def aligned(rows: Sequence[Sequence[str]], width: int | None) -> list[str]:
    """Align the cells of rows; return the lines of each row.

    Args:
        rows: the cells.
        width: the columns of a line; what does not fit is wrapped in its cell: first between words, then anywhere. None: no
            limit.
    """
    by_column = list(zip(*rows, strict=True))
    widths = [max(map(len, column)) for column in by_column]
    words = [max(len(word) for cell in column for word in (*cell.split(), "")) for column in by_column]
    for least in (words, [_NARROW] * len(words)):
        while width is not None and sum(widths) + len(_GAP) * (len(widths) - 1) > width:
            spare = [size if size > fewest else 0 for size, fewest in zip(widths, least, strict=True)]
            if not any(spare):
                break
            widths[spare.index(max(spare))] -= 1
    return [
        "".join(
            _GAP.join(cell.ljust(size) for cell, size in zip(line, widths, strict=True)).rstrip() + "\n"
            for line in itertools.zip_longest(
                *(_cell_lines(cell, size) for cell, size in zip(row, widths, strict=True)), fillvalue=""
            )
        )
        for row in rows
    ]


def _cell_lines(cell: str, width: int) -> list[str]:
    if len(cell) <= width:
        return [cell]
    return textwrap.wrap(cell, width, break_on_hyphens=False)


WIDTH: Final = 100
"""Maximum columns of a line, except lines to be copied."""

LABEL: Final = 9
"""Columns of a label, with the space after it."""


def heading(text: str, color: str | None = None, indent: int = 0) -> str:
    """Format the heading of a section."""
    lines = (line[indent:] for line in wrapped(text, indent))
    return "".join(f"{' ' * indent}{click.style(line, bold=True, fg=color)}\n" for line in lines)


def wrapped(text: str, indent: int, further: int = 2) -> list[str]:
    """Wrap a text to `WIDTH` columns; lines after the first are indented by `further` columns more."""
    return textwrap.wrap(
        shown(text),
        WIDTH,
        initial_indent=" " * indent,
        subsequent_indent=" " * (indent + further),
        break_on_hyphens=False,
    )


LabelledRow: TypeAlias = tuple[str, str]
"""A left and a right text."""


def labelled(label: str, rows: Iterable[str | LabelledRow], indent: int = 2, color: str = "cyan") -> Iterator[str]:
    """Format rows with one label beside the first; the right texts are aligned."""
    listed = [(row, "") if isinstance(row, str) else row for row in rows]
    room = max(LABEL, len(label))
    start = indent + room + 1
    half = (WIDTH - start) // 2
    width = max((len(shown(left)) for left, right in listed if right and len(left) <= half), default=0)
    for number, (left, right) in enumerate(listed):
        text = f"{shown(left).ljust(width)}  {right}" if right else left
        first, *rest = wrapped(text, start, width + 2 if right and len(left) <= half else 2) or [" " * start]
        styled = click.style(label.ljust(room), fg=color) if number == 0 else " " * room
        yield f"{' ' * indent}{styled} {first[start:]}".rstrip() + "\n"
        yield from (f"{line}\n" for line in rest)


def block(lines: Iterable[str]) -> Iterator[str]:
    """Indent lines that are to be copied; they are never wrapped."""
    return (f"{' ' * (LABEL + 3)}{shown(line)}".rstrip() + "\n" for line in lines)


class Failure(click.ClickException):
    """Problems of a file, a mapping or an argument; nothing was printed to stdout.

    Args:
        messages: one line each, with file and line as far as they are known.
    """

    exit_code = 1

    def __init__(self, messages: Iterable[str]) -> None:
        self.messages = tuple(messages)
        super().__init__("\n".join(self.messages))

    def show(self, file: object = None) -> None:
        del file
        for message in self.messages:
            click.echo(f"error: {message}", err=True)
