"""`vgpu-webhook check`: documents and ConfigMaps that hold them, before they reach a cluster."""

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree as ET

import click
import pytest

from tests.cli.conftest import Run
from tests.cluster.config_maps import vendor
from webhook.cli.commands.check import as_json, as_text, formatted
from webhook.cli.terminal import WIDTH
from webhook.doctor import Check, FileLine, Result, error, ok, warning
from webhook.doctor.checks import CHECKS


def written(tmp_path: Path, **files: str) -> list[str]:
    """Write files, `_` for a dot in their names."""
    paths = []
    for name, text in files.items():
        path = tmp_path / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        paths.append(str(path))
    return paths


def test_files_that_cannot_be_read(run: Run, tmp_path: Path) -> None:
    """They are named."""
    assert "nothing.yaml: No such file or directory" in run("check", str(tmp_path / "nothing.yaml")).stderr
    (tmp_path / "a.yaml").write_bytes(b"\n\xff")
    assert f"error: {tmp_path}/a.yaml:2: not UTF-8 text" in run("check", str(tmp_path)).stderr
    assert run("check", "-o", "nothing").exit_code == 1


def test_forms_without_number(run: Run) -> None:
    """As many as a generator writes."""
    many = "".join(f"- {{name: f{number}, when: {{gpu: {number + 1}}}}}\n" for number in range(1500))
    result = run("check", "-", stdin=vendor("acme").partition("- {name")[0] + many)
    assert result.exit_code == 1
    assert "error: stdin:6: forms: has 1500 entries (at most 64 are allowed)" in result.stderr


LONG = " ".join(["word"] * 60)


def found(*results: Result) -> list[tuple[Check[Any], Result]]:
    """Results of the first checks from the API server on."""
    return list(zip([each for each in CHECKS[1:] if each.name != "replicas"], results, strict=False))


def test_text() -> None:
    """Sections, marks, details and hints, each under the other."""
    results = found(
        ok("answers"),
        error("bad", "one", "two\nlines", hint="kubectl edit"),
        ok("none"),
        warning("odd", hint="look at it"),
    )
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
    lines = click.unstyle(as_text(found(error(LONG, LONG, hint=LONG)))).splitlines()
    assert max(map(len, lines)) <= WIDTH
    assert sum(line.count("word") for line in lines) == 180
    assert lines[2].startswith("  word")


def test_data() -> None:
    """The same for programs; it is well unless something is an error."""
    assert json.loads(as_json(found(ok("a"), warning("b", "c", hint="d"))))["ok"] is True
    assert json.loads(as_json(found(ok("a"), error("b", "c", hint="d")))) == {
        "ok": False,
        "checks": [
            {"name": "api-server", "section": "cluster", "level": "ok", "message": "a", "details": [], "hint": ""},
            {"name": "mappings", "section": "cluster", "level": "error", "message": "b", "details": ["c"], "hint": "d"},
        ],
    }


def unreachable(folder: Path) -> str:
    """Write a kubeconfig of a cluster that nobody serves."""
    config = {
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "c", "user": {}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
    }
    file = folder / "config"
    file.write_text(json.dumps(config))
    return str(file)


def test_nobody_answers(run: Run, tmp_path_factory: pytest.TempPathFactory) -> None:
    """An API server that cannot be reached is a finding."""
    file = unreachable(tmp_path_factory.mktemp("kube"))
    result = run("check", "--kubeconfig", file, "-o", "json")
    assert result.exit_code == 1
    printed = json.loads(result.stdout)
    assert [check["name"] for check in printed["checks"]] == ["api-server"]
    assert printed["ok"] is False


def test_junit_of_what_xml_forbids() -> None:
    """A parser gets every character that XML permits, and a replacement for others."""
    text = "a\x00b\x1b[31m\ud800\uffff <&\"'> ]]> \U0001f600\tc"
    (suite,) = ET.fromstring(formatted(found(error(text, text, hint=text), ok("fine")), "junit", None))
    readable = "a\ufffdb\ufffd[31m\ufffd\ufffd <&\"'> ]]> \U0001f600\tc"
    assert suite[0][0].attrib["message"] == readable
    assert suite[0][0].text == f"{readable}\nnext: {readable}"
    assert len(suite[1]) == 0


def test_junit_of_a_cluster(run: Run, tmp_path: Path) -> None:
    """A failed check of an installation is a finding, as in other formats; there is no file to annotate."""
    file = unreachable(tmp_path)
    result = run("check", "--kubeconfig", file, "-o", "junit")
    assert result.exit_code == 1
    assert [case.attrib["name"] for case in ET.fromstring(result.stdout).iter("testcase")] == ["api-server"]
    result = run("check", "--kubeconfig", file, "-o", "github")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "-o github applies to files" in result.stderr


def test_github_escapes() -> None:
    """A runner decodes a command to the same text and name, and nothing in them begins another command."""
    file, text = "a,b:c%2C.yaml", "100 %\r\n::error::x%0A, y: z"
    results = found(Result(error("", hint="").level, "", (text,), "", (FileLine(file, 3),)))
    (line,) = formatted(results, "github", None).splitlines()
    command = re.fullmatch(r"::error file=([^,:]*),line=3,title=api-server::(.*)", line)
    assert command is not None
    assert unquote(command[1]) == file
    assert unquote(command[2]) == text
