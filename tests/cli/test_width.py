"""Prose and tables of every command fit 80 columns; data, and what can be pasted, are never wrapped."""

import contextlib
import os
import subprocess
import sys

import pytest

from tests.cli.conftest import EXAMPLES, SHARES, Run
from tests.cli.width import too_long
from webhook.cli import COMMANDS
from webhook.cli.terminal import aligned, prose

PODS = str(EXAMPLES / "pods")
VALUES = str(EXAMPLES / "values" / "shares.yaml")

TEXTS: tuple[tuple[str, ...], ...] = (
    ("--help",),
    *((name, "--help") for name in COMMANDS),
    ("explain", "-f", PODS, *SHARES),
    ("explain", "--name", "nvidia.com/gpumem-percentage"),
    ("explain", "--name", "vgpu-webhook.io/mode"),
    ("preview", "-f", PODS, *SHARES),
    ("preview", "-f", PODS, *SHARES, "--compare", VALUES),
    ("vendors", "--values", VALUES),
    ("test", str(EXAMPLES.parent / "tests/cli/golden/told/cases")),
    ("check", "-o", "text", PODS),
    ("codes",),
    *(("codes", code) for code in ("VGW001", "VGW101", "VGW303", "VGW601")),
)

DATA = {
    "mutate": "manifests",
    "schema": "JSON",
    "serve": "log lines in JSON",
    "certs": "one line",
    "registration": "YAML",
    "playground": "an address",
}
"""Commands that print no report, and what they print."""


@pytest.mark.parametrize("arguments", TEXTS, ids=" ".join)
def test_lines_fit(run: Run, arguments: tuple[str, ...]) -> None:
    """80 columns."""
    result = run(*arguments)
    assert result.stdout
    assert [*too_long(result.stdout)] == []


def test_every_command_is_seen() -> None:
    """As a report, or it prints data."""
    assert {name for name, *more in TEXTS if more and "--help" not in more[0]} | DATA.keys() == COMMANDS.keys()


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
