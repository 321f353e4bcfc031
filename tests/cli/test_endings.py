"""Every command ends with 0, 1 or 2, which mean the same everywhere."""

import re

import pytest

from tests.cli.conftest import EXAMPLES, Run
from tests.cli.test_transcripts import every_run
from webhook.cli import COMMANDS
from webhook.cli.terminal import ENDINGS

ROOT = EXAMPLES.parent


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", ""),
        ("mutate", "-f", ""),
        ("explain", "-f", ""),
        ("preview", "-f", ""),
        ("test", ""),
        ("vendors", "--mappings", ""),
        ("vendors", "--values", ""),
        ("preview", "-f", "pod.yaml", "--compare", ""),
        ("serve", "--standalone", "--state-dir", ""),
        ("registration", "--service", "a/b", "--ca-file", ""),
        ("certs", "rotate", "--state-dir", ""),
    ],
    ids=" ".join,
)
def test_an_empty_name_is_not_the_current_folder(
    run: Run, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    """It is that of a variable that is not set; a case, a pod and mappings would be found there."""
    monkeypatch.chdir(ROOT / "tests/cases/shim-csi")
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "the name is empty" in result.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_an_option_that_is_none(run: Run, name: str) -> None:
    """A usage error of every command."""
    assert run(name, "--nonsense").exit_code == 1


def test_every_command_is_seen_to_end() -> None:
    """With an error, and, unless it runs until it is stopped, needs a cluster or prints data, without."""
    ended = {(each["run"].split()[0], each.get("exit", 0)) for each in every_run()}
    assert COMMANDS.keys() <= {command for command, code in ended if code == 1}
    assert COMMANDS.keys() - {command for command, code in ended if code == 0} == {
        *("serve", "playground", "certs", "schema", "registration"),
    }
    assert {code for _, code in ended} == ENDINGS.keys()


@pytest.mark.parametrize("arguments", [(), *((name,) for name in COMMANDS), ("certs", "rotate")], ids=str)
def test_help_ends_with_them(run: Run, arguments: tuple[str, ...]) -> None:
    """The same table in each."""
    printed = " ".join(run(*arguments, "--help").stdout.partition("Exit codes:")[2].split())
    assert printed == " ".join(f"{code} {text}" for code, text in ENDINGS.items())


def test_the_page_has_them() -> None:
    """Once."""
    rows = re.findall(r"^\| (\d) \| (.+) \|$", (ROOT / "docs/cli.md").read_text(), re.MULTILINE)
    assert rows == [(str(code), text) for code, text in ENDINGS.items()]
