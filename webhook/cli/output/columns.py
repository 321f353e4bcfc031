"""Tables for a terminal."""

from collections.abc import Sequence


def columns(rows: Sequence[Sequence[str]]) -> str:
    """Rows with their cells under each other, two blanks apart, nothing at the ends of lines."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() + "\n" for row in rows
    )
