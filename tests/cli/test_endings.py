"""Every command ends with 0, 1 or 2, which mean the same everywhere."""

import re
from pathlib import Path

import pytest

from tests.cli.conftest import EXAMPLES, SHARES, Run
from webhook.cli import COMMANDS
from webhook.cli.terminal import ENDINGS

ROOT = EXAMPLES.parent
GOOD = str(EXAMPLES / "pods/22-mig-slice.yaml")
DENIED = str(EXAMPLES / "pods/26-misspelled.yaml")
CASES = ROOT / "tests/cli/golden/reports/files/cases"
NOWHERE = "{no-such-file}"
UNJUDGED = "apiVersion: v1\nkind: A\nspec: {template: {limits: {nvidia.com/gpu: 1}}}\n"

ENDED: tuple[tuple[int, tuple[str, ...]], ...] = (
    (0, ("mutate", "-f", GOOD)),
    (1, ("mutate", "-f", NOWHERE)),
    (1, ("mutate", "-f", "-")),
    (0, ("mutate", "-f", "-", "--no-strict")),
    (1, ("mutate", "-f", DENIED, "-f", NOWHERE)),
    (2, ("mutate", "-f", DENIED)),
    (0, ("explain", "-f", GOOD)),
    (0, ("explain", "--name", "nvidia.com/gpu")),
    (1, ("explain", "--name", "nonsense")),
    (1, ("explain", "-f", NOWHERE)),
    (1, ("explain", "-f", "-")),
    (1, ("preview", "-f", "-")),
    (2, ("explain", "-f", DENIED)),
    (0, ("preview", "-f", GOOD)),
    (1, ("preview", "-f", NOWHERE)),
    (1, ("preview", "-f", str(EXAMPLES / "pods/01-default-memory.yaml"), "--compare", str(EXAMPLES / "values/shares.yaml"))),
    (2, ("preview", "-f", DENIED)),
    (1, ("playground", "--port", "nonsense")),
    (0, ("vendors",)),
    (1, ("vendors", "nonsense")),
    (1, ("vendors", "--settings", NOWHERE)),
    (0, ("test", str(CASES / "good"), *SHARES)),
    (1, ("test", str(CASES / "bad"), *SHARES)),
    (1, ("test", NOWHERE)),
    (0, ("schema", "mapping")),
    (1, ("schema", "nonsense")),
    (0, ("codes",)),
    (1, ("codes", "VGW999")),
    (0, ("check", str(EXAMPLES / "settings.yaml"))),
    (1, ("check", str(ROOT / "tests/cli/golden/reports/files/wrong.yaml"))),
    (1, ("check", NOWHERE)),
    (1, ("check", "-")),
    (1, ("check", "--kubeconfig", NOWHERE)),
    (1, ("check", DENIED, NOWHERE)),
    (2, ("check", DENIED)),
    (2, ("check", "-o", "json", DENIED)),
    (1, ("serve", "--standalone", "--settings", NOWHERE)),
    (1, ("certs", "rotate", "--state-dir", NOWHERE)),
    (0, ("registration", "--service", "a/b")),
    (1, ("registration",)),
    (1, ("registration", "--service", "a/b", "--settings", NOWHERE)),
    *((1, (name, "--nonsense")) for name in COMMANDS),
)  # fmt: skip


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
    monkeypatch.chdir(CASES / "good")
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "the name is empty" in result.stderr


@pytest.mark.parametrize(
    "ending, arguments", ENDED, ids=lambda each: " ".join(each) if isinstance(each, tuple) else str(each)
)
def test_endings(run: Run, tmp_path: Path, ending: int, arguments: tuple[str, ...]) -> None:
    """Nothing can be read at the place that is no file; standard input has a request that is in no pod."""
    given = [str(tmp_path / "none") if each == NOWHERE else each for each in arguments]
    result = run(*given, stdin=UNJUDGED)
    assert result.exit_code == ending, result.output
    assert result.output


def test_every_command_is_seen_to_end() -> None:
    """With a finding or an error, and, unless it runs until it is stopped or needs a cluster, without."""
    endless = {"serve", "playground", "certs"}
    assert {arguments[0] for ending, arguments in ENDED if ending == 1} == COMMANDS.keys()
    assert {arguments[0] for ending, arguments in ENDED if ending == 0} == COMMANDS.keys() - endless
    assert {ending for ending, _ in ENDED} == ENDINGS.keys()


@pytest.mark.parametrize("arguments", [(), *((name,) for name in COMMANDS), ("certs", "rotate")], ids=str)
def test_help_ends_with_them(run: Run, arguments: tuple[str, ...]) -> None:
    """The same table in each."""
    printed = " ".join(run(*arguments, "--help").stdout.partition("Exit codes:")[2].split())
    assert printed == " ".join(f"{code} {text}" for code, text in ENDINGS.items())


def test_the_page_has_them() -> None:
    """Once."""
    rows = re.findall(r"^\| (\d) \| (.+) \|$", (ROOT / "docs/cli.md").read_text(), re.MULTILINE)
    assert rows == [(str(code), text) for code, text in ENDINGS.items()]
