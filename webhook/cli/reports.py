"""Reports for other programs, which several commands write."""

import re
from collections.abc import Sequence
from typing import Final, TypeAlias
from xml.etree import ElementTree as ET

TestCase: TypeAlias = tuple[str, str, Sequence[str], Sequence[str]]
"""Class name, name, what failed (nothing: it passed; the first is the message), and other output."""

_NOT_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 forbids, also as a reference (its production 2, ``Char``)."""


def junit(command: str, cases: Sequence[TestCase]) -> str:
    """Format test cases by the schema of Jenkins' xUnit plugin."""
    failed = sum(bool(failures) for _, _, failures, _ in cases)
    counts = {"tests": str(len(cases)), "failures": str(failed), "errors": "0"}
    suites = ET.Element("testsuites", counts)
    suite = ET.SubElement(suites, "testsuite", {"name": f"vgpu-webhook {command}", **counts, "skipped": "0"})
    for group, name, failures, output in cases:
        case = ET.SubElement(suite, "testcase", {"classname": f"{command}.{group}", "name": name})
        if failures:
            message, *rest = failures
            ET.SubElement(case, "failure", {"message": _xml(message), "type": name}).text = _xml("\n".join(rest))
        elif output:
            ET.SubElement(case, "system-out").text = _xml("\n".join(output))
    ET.indent(suites)
    document: bytes = ET.tostring(suites, "us-ascii", xml_declaration=True)
    return document.decode() + "\n"


def _xml(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)
