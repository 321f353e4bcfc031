"""The results of checks, of a cluster or of files, as text for a terminal or as JSON."""

import json
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any, Final

import click
import msgspec

from webhook.doctor.result import Check, Level, Result

WIDTH: Final = 100
"""Maximum columns of a line."""

_MARKS: Final = {Level.OK: "✓", Level.WARNING: "‼", Level.ERROR: "×"}  # noqa: RUF001  (a cross)
_COLORS: Final = {Level.OK: "green", Level.WARNING: "yellow", Level.ERROR: "red"}


def format_results(found: Sequence[tuple[Check[Any], Result]], output: str, policy: str | None = None) -> str:
    """Format the results as `output` says: ``text`` or ``json``; `policy` says under which policy files were checked."""
    if output == "text":
        return as_text(found) if policy is None else f"policy: {policy}\n\n{as_text(found)}"
    data = as_data(found) if policy is None else {"policy": policy, **as_data(found)}
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def as_text(found: Sequence[tuple[Check[Any], Result]]) -> str:
    """Format sections with a line for each check; `click.echo` strips the colors if stdout is not a terminal."""
    lines: list[str] = []
    section = ""
    for check, result in found:
        if check.section != section:
            section = check.section
            lines += ([""] if lines else []) + [click.style(section, bold=True)]
        lines += _lines(check.name, result)
    return "\n".join([*lines, "", _summary([result for _, result in found])]) + "\n"


def as_data(found: Sequence[tuple[Check[Any], Result]]) -> dict[str, Any]:
    """Return the same as data for JSON."""
    checks = [
        {"name": check.name, "section": check.section, **msgspec.to_builtins(result), "details": list(result.details)}
        for check, result in found
    ]
    return {"ok": all(result.level is not Level.ERROR for _, result in found), "checks": checks}


def _lines(name: str, result: Result) -> Iterator[str]:
    mark = click.style(_MARKS[result.level], fg=_COLORS[result.level])
    first, *rest = _wrapped(f"{name}: {result.message}", "  ")
    yield f"{mark} {first.lstrip()}"
    yield from rest
    for detail in result.details:
        yield from _wrapped(" ".join(detail.split()), "      ", "    - ")
    if result.hint:
        yield from _wrapped(result.hint, "      ", "    → ")


def _wrapped(text: str, indent: str, first: str | None = None) -> list[str]:
    # A command or a name is to be copied, even if it is too long for a line.
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=indent if first is None else first,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _summary(results: Sequence[Result]) -> str:
    counts = {level: sum(result.level is level for result in results) for level in Level}
    return ", ".join(f"{number} {_MARKS[level]}" for level, number in counts.items() if number)
