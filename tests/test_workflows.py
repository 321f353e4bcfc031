"""The workflows: what they run is what a person runs, and nobody else can change it."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def jobs(path: Path) -> dict[str, Any]:
    """The jobs of a workflow."""
    found: dict[str, Any] = yaml.safe_load(path.read_text())["jobs"]
    return found


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_pinned_by_commit(path: Path) -> None:
    """A tag can be moved, a commit cannot; its version stands beside it."""
    used = re.findall(r"uses: (.*)", path.read_text())
    assert used
    assert [line for line in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line)] == []


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_rights_are_those_of_a_reader(path: Path) -> None:
    """Each job that may do more says so, and none of these runs code of the project."""
    assert yaml.safe_load(path.read_text())["permissions"] == {"contents": "read"}
    for job in jobs(path).values():
        more = {right for right, how in job.get("permissions", {}).items() if how == "write"}
        steps = [step.get("uses", "") for step in job["steps"]]
        assert not more or not any(step.startswith("actions/checkout@") for step in steps)
        assert "timeout-minutes" in job


def test_same_action_same_commit() -> None:
    """Everywhere the same version of an action."""
    used = {line for path in WORKFLOWS for line in re.findall(r"uses: (.*)", path.read_text())}
    assert len({line.partition("@")[0] for line in used}) == len(used)


def test_ci_is_the_script_that_anybody_can_run() -> None:
    """On each push and pull request."""
    text = (ROOT / ".github/workflows/ci.yml").read_text()
    assert "bash .ci/run" in text
    assert {"push", "pull_request"} <= yaml.safe_load(text)[True].keys()


def test_release_is_made_by_targets() -> None:
    """The release is what `make release` builds; every target exists."""
    commands = [
        step.get("run", "") for job in jobs(ROOT / ".github/workflows/release.yml").values() for step in job["steps"]
    ]
    targets = {target for command in commands for target in re.findall(r"^make ([a-z-]+)", command)}
    assert {"release", "release-image", "release-checksums"} == targets
    assert targets <= set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def test_workflows_are_not_checked_without_go(tmp_path: Path) -> None:
    """`make check` goes on, and says what it has left out."""
    environment = {"PATH": str(tmp_path), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "tests.actionlint"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "the workflows are NOT checked" in done.stderr
    assert "https://go.dev/dl/" in done.stderr


@pytest.mark.skipif(shutil.which("go") is None, reason="actionlint is built with Go")
@pytest.mark.timeout(600)
@pytest.mark.controlplane
def test_mistakes_in_workflows_are_found(tmp_path: Path) -> None:
    """A misspelled key fails `make check`."""
    from tests.actionlint import actionlint

    wrong = tmp_path / "wrong.yml"
    wrong.write_text(WORKFLOWS[0].read_text().replace("timeout-minutes", "time-out"))
    done = subprocess.run([actionlint(), str(wrong)], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert 'unexpected key "time-out"' in done.stdout
