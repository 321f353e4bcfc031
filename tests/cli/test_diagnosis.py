"""`vgpu-webhook check` without files: how findings are laid out, and options that exclude each other."""

import json

import pytest

from tests.cli.conftest import Run
from webhook.cli.commands.check import as_data, as_text
from webhook.cli.terminal import WIDTH
from webhook.doctor.checks import CHECKS
from webhook.doctor.facts import ClusterFacts
from webhook.doctor.result import Check, Result, error, ok, warning

LONG = " ".join(["word"] * 60)


def found(*results: Result) -> list[tuple[Check[ClusterFacts], Result]]:
    """Results of the first checks."""
    return list(zip(CHECKS, results, strict=False))


def test_text() -> None:
    """Sections, marks, details and hints, each under the other."""
    results = found(
        ok("answers"),
        error("bad", "one", "two\nlines", hint="kubectl edit"),
        ok("none"),
        warning("odd", hint="look at it"),
    )
    import click

    assert click.unstyle(as_text(results)) == (
        "cluster\n"
        "✓ api-server: answers\n"
        "× mappings: bad\n"  # noqa: RUF001  (a cross)
        "    - one\n"
        "    - two lines\n"
        "    → kubectl edit\n"
        "✓ events: none\n"
        "\n"
        "registration\n"
        "‼ registration: odd\n"
        "    → look at it\n"
        "\n"
        "2 ✓, 1 ‼, 1 ×\n"  # noqa: RUF001  (a cross)
    )


def test_colours_are_for_terminals_only() -> None:
    """Marks have colours, which `click.echo` takes away where there is not a terminal."""
    assert "\x1b[31m" in as_text(found(error("bad", hint="x")))


def test_lines_fit() -> None:
    """Long messages, details and hints are wrapped, and continue under their beginning."""
    import click

    lines = click.unstyle(as_text(found(error(LONG, LONG, hint=LONG)))).splitlines()
    assert max(map(len, lines)) <= WIDTH
    assert sum(line.count("word") for line in lines) == 180
    assert lines[2].startswith("  word")


def test_data() -> None:
    """The same for programs; it is well unless something is an error."""
    assert as_data(found(ok("a"), warning("b", "c", hint="d")))["ok"] is True
    assert as_data(found(ok("a"), error("b", "c", hint="d"))) == {
        "ok": False,
        "checks": [
            {"name": "api-server", "section": "cluster", "level": "ok", "message": "a", "details": [], "hint": ""},
            {"name": "mappings", "section": "cluster", "level": "error", "message": "b", "details": ["c"], "hint": "d"},
        ],
    }


@pytest.mark.parametrize("option", ["--values", "--mappings", "--settings"])
def test_options_that_need_files(run: Run, option: str) -> None:
    """An installation is examined under the policy that is in force there."""
    result = run("check", option, "x")
    assert result.exit_code == 1
    assert f"{option} applies to files: name them, or remove it" in result.stderr


def test_without_a_cluster(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing says where the API server is, that is a usage error, and nothing is printed as a finding."""
    result = run("check", "--kubeconfig", "/nowhere")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "/nowhere" in result.stderr


def test_nobody_answers(run: Run, tmp_path_factory: pytest.TempPathFactory) -> None:
    """An API server that cannot be reached is a finding: exit code 2."""
    config = {
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "c", "user": {}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
    }
    file = tmp_path_factory.mktemp("kube") / "config"
    file.write_text(json.dumps(config))
    result = run("check", "--kubeconfig", str(file), "-o", "json")
    assert result.exit_code == 2
    printed = json.loads(result.stdout)
    assert [check["name"] for check in printed["checks"]] == ["api-server"]
    assert printed["ok"] is False
