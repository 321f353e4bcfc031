"""A part of the tests that cannot run here fails in CI, and is skipped elsewhere."""

import shutil
import subprocess
import sys
from pathlib import Path
from runpy import run_module

import pytest

from tests.parts import skip_part

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
WITHOUT_CACHE = ("pytest", "-q", "-p", "no:cacheprovider")
NODE = (*WITHOUT_CACHE, "tests/node/test_node.py", "tests/node/test_image.py", "-m", "node")
BROWSER = (*WITHOUT_CACHE, "tests/playground/test_browser.py", "-m", "browser", "-k", "typing")


def run(folder: Path, settings: dict[str, str], *module: str) -> "subprocess.CompletedProcess[str]":
    """Run a module without any program on the path."""
    environment = {"PATH": str(folder), "PYTHONPATH": str(ROOT), **settings}
    command = [sys.executable, "-m", *module]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "settings, permitted",
    [
        ({}, True),
        ({"TESTS_MAY_SKIP": "image"}, True),
        ({"CI": ""}, True),
        ({"CI": "true"}, False),
        ({"CI": "true", "TESTS_MAY_SKIP": "workflows,image"}, False),
        ({"CI": "true", "TESTS_MAY_SKIP": "nodes"}, False),
        ({"CI": "true", "TESTS_MAY_SKIP": "node"}, True),
        ({"CI": "true", "TESTS_MAY_SKIP": "image,node"}, True),
    ],
)
def test_what_may_be_skipped(settings: dict[str, str], monkeypatch: pytest.MonkeyPatch, *, permitted: bool) -> None:
    """Anything outside CI; in CI what is listed, and what is not fails with what would permit it."""
    for name in ("CI", "TESTS_MAY_SKIP"):
        monkeypatch.delenv(name, raising=False)
    for name, text in settings.items():
        monkeypatch.setenv(name, text)
    outcome = pytest.skip.Exception if permitted else pytest.fail.Exception
    with pytest.raises(outcome, match=r"^no runc$" if permitted else r"^no runc \(CI is set: TESTS_MAY_SKIP=node "):
        skip_part("node", "no runc")


@pytest.mark.parametrize(
    "settings, status, told",
    [
        ({"CI": "true", "TESTS_MAY_SKIP": "node"}, 1, "TESTS_MAY_SKIP=image"),
        pytest.param({}, 0, "skipped", marks=pytest.mark.deep),
        pytest.param({"CI": "true"}, 1, "TESTS_MAY_SKIP=node", marks=pytest.mark.deep),
        pytest.param({"CI": "true", "TESTS_MAY_SKIP": "node,image"}, 0, "skipped", marks=pytest.mark.deep),
    ],
)
def test_tests_on_a_node(settings: dict[str, str], status: int, told: str, tmp_path: Path) -> None:
    """Without any program on the path, no node can be started and no image can be built."""
    done = run(tmp_path, settings, *NODE)
    assert done.returncode == status, done.stdout + done.stderr
    assert told in done.stdout
    assert " passed" not in done.stdout


@pytest.mark.parametrize(
    "settings, status",
    [
        ({"CI": "true"}, 1),
        pytest.param({}, 0, marks=pytest.mark.deep),
        pytest.param({"CI": "true", "TESTS_MAY_SKIP": "browser"}, 0, marks=pytest.mark.deep),
    ],
)
def test_tests_in_a_browser(settings: dict[str, str], status: int, tmp_path: Path) -> None:
    """Without Chromium they are skipped, but in CI only where that is permitted."""
    done = run(tmp_path, settings, *BROWSER)
    assert done.returncode == status, done.stdout + done.stderr
    assert "Chromium is not installed: see tests/node/install.sh" in done.stdout
    assert " passed" not in done.stdout


@pytest.mark.parametrize("module, part", [("tests.node", "node"), ("tests.actionlint", "workflows")])
def test_what_is_built_before(
    module: str, part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What `make` builds for a part says so, too, before any test runs; without Go `make check` goes on."""
    monkeypatch.setenv("PATH", str(tmp_path))
    for ci, may_skip, fails in (("", "", False), ("true", "", True), ("true", part, False)):
        monkeypatch.setenv("CI", ci)
        monkeypatch.setenv("TESTS_MAY_SKIP", may_skip)
        ended: object = None
        try:
            run_module(module, run_name="__main__")
        except SystemExit as end:
            ended = end.code
        assert (f"TESTS_MAY_SKIP={part}" in str(ended)) is bool(ended) is fails
        said = str(ended) + "".join(capsys.readouterr())
        assert ("NOT checked: actionlint is built with Go: install Go" in said) is (part == "workflows")


@pytest.mark.parametrize("may_skip, status", [("", 1), ("image", 1), ("node", 0), ("image,node", 0)])
def test_a_failed_installation(may_skip: str, status: int, tmp_path: Path) -> None:
    """`.ci/run` ends with it, unless the tests on a node may be skipped; what it calls afterwards knows that it is CI."""
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", tmp_path / ".ci" / "run")
    programs = tmp_path / "programs"
    for program, text in ((tmp_path / "tests/node/install.sh", "exit 3"), (programs / "make", 'echo "$CI $*"')):
        program.parent.mkdir(parents=True)
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)
    environment = {"PATH": f"{programs}:/usr/bin:/bin", "TESTS_MAY_SKIP": may_skip}
    done = subprocess.run(
        ["bash", tmp_path / ".ci" / "run"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == status
    expected = [f"true {target}" for target in ("test", "test-node", "test-deep", "coverage")]
    assert done.stdout.splitlines() == ([] if status else expected)
