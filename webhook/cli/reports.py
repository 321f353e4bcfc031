"""Reports for other programs, which several commands write: one table of formats, `REPORTS`."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from webhook.doctor.result import FileLine, Level

TestCase: TypeAlias = tuple[str, str, Sequence[str], Sequence[str]]
"""Class name, name, what failed (nothing: it passed; the first is the message), and other output."""


@dataclass(frozen=True, slots=True)
class ReportLine:
    """One thing that is reported: a violated rule, its severity, message and place."""

    rule: str
    level: Level
    text: str
    at: FileLine


@dataclass(frozen=True, slots=True)
class CommandReport:
    """What a command found: what passed and failed, and all lines."""

    command: str
    cases: Sequence[TestCase]
    lines: Sequence[ReportLine]


_NOT_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
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
    return _NOT_XML.sub("\ufffd", text)


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
            yield replace(each, at=FileLine())
            continue
        start = f"{each.at.file}: " if each.text.startswith(f"{each.at.file}: ") else f"{each.at.file}:{each.at.line}: "
        yield replace(each, text=each.text.removeprefix(start))


REPORTS: Final[Mapping[str, Callable[[CommandReport], str]]] = {"junit": _junit, "github": _github}
"""The formats of reports."""
