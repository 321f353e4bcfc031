"""Prose and tables of every command fit 80 columns; data, and what can be pasted, are never wrapped."""

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
    ("mutate", "--help-policy"),
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
    "completion": "a script",
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


def test_nothing_is_cut() -> None:
    """A long list continues in its cell."""
    names = ", ".join(f"vendor-{number}" for number in range(40))
    row = "".join(aligned([("a", names)], 80))
    assert max(map(len, row.splitlines())) <= 80
    assert " ".join(row.split()) == f"a {names}"
