"""Each trap of `tests/traps.md` is held by tests that are there and carry its number, and by those that the page names."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.trap_list import COLLECTED

ROOT = Path(__file__).parents[2]
NOT_OURS = {8}


def holder(test: str) -> str:
    """What the page calls a test: cases by their folder, keys together, others without their parameters."""
    name, _, parameters = test.partition("[")
    if name.startswith("tests/decisions/test_cases.py"):
        return f"tests/cases/{parameters.removesuffix(']')}"
    return "tests/keys" if name.startswith("tests/decisions/test_keys.py") else name


def marked(config: pytest.Config) -> list[tuple[int, str]]:
    """The trap and the place of each test that carries one: of this run where it collected all of them, else of another."""
    items = config.stash[COLLECTED]
    if {item.path for item in items} >= {*ROOT.glob("tests/**/test_*.py")}:
        return [(mark.kwargs["number"], item.nodeid) for item in items for mark in item.iter_markers("trap")]
    command = [sys.executable, "-m", "tests.trap_list"]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [(int(number), test) for number, test in re.findall(r"^trap (\d+) (.+)$", printed, re.MULTILINE)]


def test_page(pytestconfig: pytest.Config) -> None:
    """The page has a line for each of the 36 traps, with all tests that carry its number, and no other."""
    held: dict[int, set[str]] = {}
    for number, test in marked(pytestconfig):
        held.setdefault(number, set()).add(holder(test))
    lines = re.findall(r"^\| (\d+) \| .* \| (.*) \|$", (ROOT / "tests" / "traps.md").read_text(), re.MULTILINE)
    named = {int(number): set(re.findall(r"`(tests/[^`]+)`", text)) for number, text in lines}
    assert named == {number: held.get(number, set()) for number in range(1, 37)}
    assert {number for number, tests in named.items() if not tests} == NOT_OURS
