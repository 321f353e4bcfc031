"""The group: lazy commands, versions, and endings with 0, 1 or 2, which mean the same everywhere."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import EXAMPLES, Run
from tests.cli.test_transcripts import every_run
from webhook import __version__
from webhook.cli import COMMANDS, GROUPS
from webhook.cli.terminal import ENDINGS

ROOT = EXAMPLES.parent


@pytest.mark.parametrize("arguments", [(), *((name,) for name in COMMANDS)], ids=str)
def test_version_everywhere(run: Run, arguments: tuple[str, ...]) -> None:
    """The program and each command print the version."""
    result = run(*arguments, "--version")
    assert result.exit_code == 0
    assert result.stdout == f"vgpu-webhook, version {__version__}\n"


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_overview_names_every_command(run: Run, flag: str) -> None:
    """With a line on each."""
    result = run(flag)
    assert result.exit_code == 0
    for name, summary in COMMANDS.items():
        assert name in result.stdout
        assert summary in result.stdout


def test_overview_is_grouped(run: Run) -> None:
    """What somebody tries first comes first; each command is in one group."""
    titles = [line.removesuffix(":") for line in run("--help").stdout.splitlines() if re.fullmatch(r"\w+:", line)]
    assert titles == ["Options", *GROUPS]
    assert sum(map(len, GROUPS.values())) == len(COMMANDS)


def test_options_of_the_policy_are_explained_once(run: Run) -> None:
    """In the overview; a command that has them names them in a line."""
    explained = "Of an installation with these values"
    assert explained in run("--help").stdout
    for name in COMMANDS:
        told = run(name, "--help").stdout
        assert explained not in told
        assert ("Policy, explained by" in told) is (" --values" in told)


def test_summaries_agree_with_the_commands(run: Run) -> None:
    """Each command's help begins with a sentence of its own."""
    for name in COMMANDS:
        result = run(name, "--help")
        assert result.exit_code == 0
        assert result.stdout.startswith(f"Usage: vgpu-webhook {name} ")


def test_no_color(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """For all commands (https://no-color.org)."""
    arguments = ("mutate", "-o", "diff", "-f", "examples/pods/02-sizes-given.yaml")
    monkeypatch.chdir(Path(__file__).parents[2])
    assert "\x1b[" in run(*arguments, color=True).stdout
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in run(*arguments, color=True).stdout


def test_as_a_plugin_of_kubectl() -> None:
    """Kubectl finds a program `kubectl-vgpu` for `kubectl vgpu`."""
    program = Path(sys.executable).with_name("kubectl-vgpu")
    printed = subprocess.run([program, "codes", "--help"], capture_output=True, text=True, check=True)
    assert printed.stdout.startswith("Usage: kubectl vgpu codes ")


def test_python_m_webhook() -> None:
    """``python -m webhook`` is the same program."""
    done = subprocess.run([sys.executable, "-m", "webhook", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"vgpu-webhook, version {__version__}\n"


NEVER = ["aiohttp", "cryptography", "kubernetes", "prometheus_client", "structlog", "asyncio", "requests"]


@pytest.mark.parametrize(
    "arguments, more",
    [
        (["--help"], ["pydantic", "yaml", "msgspec", "jsonpatch", "webhook.admission", "webhook.mapping"]),
        (["check", "--help"], ["msgspec", "jsonpatch", "webhook.admission", "webhook.mapping"]),
        (["playground", "--help"], ["msgspec", "jsonpatch", "webhook.admission", "webhook.mapping"]),
        (["vendors"], ["jsonpatch"]),
        (["mutate", "-f", "-"], ["webhook.server", "certs", "certs.store", "webhook.explanation"]),
        pytest.param(["explain", "-f", "-"], ["webhook.server", "certs", "certs.store"], marks=pytest.mark.long),
        (["explain", "--name", "nvidia.com/gpu"], ["jsonpatch", "webhook.admission", "webhook.server", "certs"]),
    ],
    ids=lambda value: " ".join(value[:2]),
)
def test_a_command_imports_only_what_it_needs(arguments: list[str], more: list[str]) -> None:
    """Start-up time is spent on what is used."""
    code = f"""
import sys
from webhook.cli import main
try:
    main({arguments!r}, prog_name="vgpu-webhook")
finally:
    found = sorted(set({NEVER + more!r}) & set(sys.modules))
    print(*found, file=sys.stderr)
"""
    pod = "apiVersion: v1\nkind: Pod\nspec: {containers: [{name: a, resources: {limits: {nvidia.com/gpu: 1}}}]}\n"
    done = subprocess.run([sys.executable, "-c", code], input=pod, capture_output=True, text=True, check=True)
    assert done.stdout
    assert done.stderr.splitlines()[-1] == ""


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
