"""Prose and tables of every command fit 80 columns; data, and what can be pasted, are never wrapped."""

import contextlib
import os
import re
import subprocess
import sys

import pytest

from tests.cli.conftest import Run
from tests.cli.test_transcripts import every_run
from tests.cli.width import too_long
from tests.naming import naming
from webhook.cli import COMMANDS
from webhook.cli.terminal import aligned, prose

REPORTS = ("explain ", "preview ", "vendors ", "test ", "codes ", "check -o text ")
"""How the commands begin that print reports for people."""


@pytest.mark.parametrize("arguments", [(), *((name,) for name in COMMANDS)], ids=str)
def test_help_fits(run: Run, arguments: tuple[str, ...]) -> None:
    """80 columns."""
    assert [*too_long(run(*arguments, "--help").stdout)] == []


def test_reports_fit() -> None:
    """80 columns, whatever is told in the transcripts."""
    reports = [
        each for each in every_run() if each["run"].startswith(REPORTS) and not re.search("-o [gj]", each["run"])
    ]
    assert {each["run"].split()[0] for each in reports} == {report.split()[0] for report in REPORTS}
    for each in reports:
        with naming(each["run"]):
            assert [*too_long(each.get("out", ""))] == []


@pytest.mark.parametrize(
    "text, lines",
    [
        ("see why again: kubectl logs --selector a=b", ["see why again:", "kubectl logs --selector a=b"]),
        ("write owners: {a.example/b: c} there", ["write", "owners: {a.example/b: c}", "there"]),
        ("it needs a.example/count: 12, a whole number", ["it needs", "a.example/count: 12,", "a whole number"]),
        ("a `setting: value` of it", ["a", "`setting: value`", "of it"]),
    ],
)  # fmt: skip
def test_what_can_be_pasted_is_one_line(text: str, lines: list[str]) -> None:
    """Commands, maps, keys with values, and what stands in backticks; text around it is wrapped."""
    assert prose(text, width=14) == lines


@pytest.mark.parametrize(
    "arguments, told",
    [
        (
            ("codes", "999"),
            ["Error: Invalid value for VGW###: 999 is not a reason", "  code; `vgpu-webhook codes` lists them"],
        ),
        (("check", "none.yaml"), ["error: none.yaml: No such file or directory"]),
        ((), ["  mutate        Print manifests as the cluster"]),
    ],
    ids=["usage", "failure", "help"],
)
def test_errors_are_wrapped_in_a_terminal(arguments: tuple[str, ...], told: list[str]) -> None:
    """Between words, as wide as it is; a program gets one line."""
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "webhook", *arguments]
    environment = {**os.environ, "COLUMNS": "55", "TERM": "dumb"}
    subprocess.run(command, stderr=theirs, env=environment, check=False, timeout=600)
    os.close(theirs)
    seen = b""
    with contextlib.suppress(OSError):  # at the end, nobody has the terminal open any more
        while part := os.read(ours, 4096):
            seen += part
    os.close(ours)
    assert "\n".join(told) in "\n".join(seen.decode().splitlines())


def test_nothing_is_cut() -> None:
    """A long list continues in its cell."""
    names = ", ".join(f"vendor-{number}" for number in range(40))
    row = "".join(aligned([("a", names)], 80))
    assert max(map(len, row.splitlines())) <= 80
    assert " ".join(row.split()) == f"a {names}"
