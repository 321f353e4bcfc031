"""What commands print: text for a terminal, the error for unusable input, and reports for other programs."""

import itertools
import json
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TextIO, TypeAlias

import click

from webhook.doctor import FileLine, Level
from webhook.text import shown

FOUND: Final = 1
DENIED: Final = 2
ENDINGS: Final = {
    0: "done; there may be warnings",
    FOUND: "a finding (a failed check, a case or a comparison that differs), a usage error, or input that is invalid "
    "or cannot be read",
    DENIED: "otherwise: a pod is denied, or would be",
}
"""The exit codes of every command."""

WIDTH: Final = 80
"""Columns of a line of prose, and of a table where stdout is no terminal.

Longer are only lines to be copied, and words that do not fit a line: keys, paths, URLs, commands.
"""


def table_width() -> int:
    """Return the columns of the terminal; `WIDTH` if stdout is none."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else WIDTH


def columns(rows: Sequence[Sequence[str]]) -> str:
    """Align the cells of rows, separated by two spaces, without trailing spaces, in lines that fit the terminal."""
    return "".join(aligned(rows, table_width()))


def json_text(data: Any) -> str:
    """Format data as JSON."""
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


_GAP: Final = "  "
_NARROW: Final = 8
"""Characters that a column keeps, however narrow the terminal is."""


def aligned(rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """Align the cells of rows; return the lines of each row."""
    by_column = list(zip(*rows, strict=True))
    widths = [max(map(len, column)) for column in by_column]
    words = [max(len(word) for cell in column for word in (*cell.split(), "")) for column in by_column]
    for least in (words, [_NARROW] * len(words)):
        while sum(widths) + len(_GAP) * (len(widths) - 1) > width:
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
    indent = " " * (len(cell) - len(cell.lstrip()) + 2) if cell.startswith(" ") else ""
    return textwrap.wrap(cell, width, subsequent_indent=indent, break_on_hyphens=False)


LABEL: Final = 9
"""Columns of a label, with the space after it."""


def heading(text: str, color: str | None = None, indent: int = 0) -> str:
    """Format the heading of a section."""
    lines = (line[indent:] for line in wrapped(text, indent))
    return "".join(f"{' ' * indent}{click.style(line, bold=True, fg=color)}\n" for line in lines)


_TO_PASTE: Final = (
    r"\b(?:kubectl|helm|vgpu-webhook) [a-z]+(?: (?!\()[^\s;]*[^\s;:,])*(?= |$|[;:,])|`[^`\n]+`"
    r"|[\w./-]+: \{[^{}\n]*\}|[\w-]+(?:\.[\w-]+)+/[\w.{}-]+: [\w'\"-]+(?![\w./-])"
)
"""Commands, what stands in backticks, maps of YAML, and keys with their values; compiled where a text is wrapped."""

_NO_BREAK: Final = "\N{NO-BREAK SPACE}"


def wrapped(text: str, indent: int, further: int = 2) -> list[str]:
    """Wrap a text to `WIDTH` columns; lines after the first are indented by `further` columns more."""
    return prose(text, " " * indent, " " * (indent + further))


def prose(text: str, first: str = "", rest: str = "", width: int = WIDTH) -> list[str]:
    """Wrap a text between words; what can be pasted stays in one line."""
    whole = re.sub(_TO_PASTE, lambda found: found[0].replace(" ", _NO_BREAK), shown(text))
    lines = textwrap.wrap(
        whole, width, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False
    )
    return [line.replace(_NO_BREAK, " ") for line in lines]


def tell(text: str, *, err: bool = True) -> None:
    """Print a message: one line for programs, wrapped for a terminal."""
    click.echo(fitted(text, sys.stderr if err else sys.stdout), err=err)


def fitted(text: str, stream: TextIO, before: int = 0) -> str:
    """Wrap a text for a terminal, behind so many characters; for a program it stays one line."""
    if not stream.isatty():
        return text
    lines = prose(text, " " * before, "  ", shutil.get_terminal_size().columns)
    return "\n".join(lines)[before:]


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

    exit_code = FOUND

    def __init__(self, messages: Iterable[str]) -> None:
        self.messages = tuple(messages)
        super().__init__("\n".join(self.messages))

    def show(self, file: object = None) -> None:
        del file
        for message in self.messages:
            tell(f"error: {message}")


TestCase: TypeAlias = tuple[str, str, Sequence[str], Sequence[str]]
"""Class name, name, what failed (nothing: it passed; the first is the message), and other output."""


class ReportLine(NamedTuple):
    """One thing that is reported: a violated rule, its severity, message and place."""

    rule: str
    level: Level
    text: str
    at: FileLine


class CommandReport(NamedTuple):
    """What a command found: what passed and failed, and all lines."""

    command: str
    cases: Sequence[TestCase]
    lines: Sequence[ReportLine]


_NOT_XML: Final = "[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
"""What XML 1.0 forbids, also as a reference (its production 2, ``Char``)."""


def _junit(report: CommandReport) -> str:
    """Format test cases by the schema of Jenkins' xUnit plugin."""
    from xml.etree import ElementTree as ET

    failed = sum(bool(failures) for _, _, failures, _ in report.cases)
    counts = {"tests": str(len(report.cases)), "failures": str(failed), "errors": "0"}
    suites = ET.Element("testsuites", counts)
    suite = ET.SubElement(suites, "testsuite", {"name": f"vgpu-webhook {report.command}", **counts, "skipped": "0"})
    for group, name, failures, output in report.cases:
        attributes = {"classname": _xml(f"{report.command}.{group}"), "name": _xml(name)}
        case = ET.SubElement(suite, "testcase", attributes)
        if failures:
            message, *rest = failures
            failure = ET.SubElement(case, "failure", {"message": _xml(message), "type": _xml(name)})
            failure.text = _xml("\n".join(rest))
        elif output:
            ET.SubElement(case, "system-out").text = _xml("\n".join(output))
    ET.indent(suites)
    document: bytes = ET.tostring(suites, "us-ascii", xml_declaration=True)
    return document.decode() + "\n"


def _xml(text: str) -> str:
    return re.sub(_NOT_XML, "\ufffd", text)


def _github(report: CommandReport) -> str:
    """Format a workflow command for each line; they are escaped as in ``@actions/core``, ``command.ts``."""
    lines = []
    for each in _placed(report.lines):
        at = {"file": each.at.file, "line": each.at.line or 1} if each.at.file else {}
        properties = ",".join(f"{key}={_property(str(value))}" for key, value in {**at, "title": each.rule}.items())
        lines.append(f"::{each.level.value} {properties}::{_command(each.text)}\n")
    return "".join(lines)


def _command(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _command(text).replace(":", "%3A").replace(",", "%2C")


_NO_FILES: Final = {"stdin", "built-in"}
"""Sources of documents, as messages name them, that are not files."""


def _placed(lines: Sequence[ReportLine]) -> Iterator[ReportLine]:
    """Yield each line without its place in the text, and with a place only if that is in a file that can be opened."""
    for each in lines:
        if not each.at.file or each.at.file in _NO_FILES:
            yield each._replace(at=FileLine())
            continue
        start = f"{each.at.file}: " if each.text.startswith(f"{each.at.file}: ") else f"{each.at.file}:{each.at.line}: "
        yield each._replace(text=each.text.removeprefix(start))


REPORTS: Final[Mapping[str, Callable[[CommandReport], str]]] = {"junit": _junit, "github": _github}
"""The formats of reports."""
