"""The version before is found in whatever copy of the project there is; where it cannot be, the reason is reported."""

import subprocess
from pathlib import Path

import pytest

from .before import PROGRAM, NoVersionBeforeError, unpack, version_before


def git(folder: Path, *arguments: str) -> str:
    """Run git as somebody whose settings don't matter."""
    who = ["-c", "user.name=A", "-c", "user.email=a@example.com", "-c", "init.defaultBranch=main"]
    done = subprocess.run(["git", *who, *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def commit(folder: Path, path: str, text: str) -> str:
    """Write a file and commit it."""
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    (folder / path).write_text(text)
    git(folder, "add", path)
    git(folder, "commit", "--message", f"{path}: {text}")
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A history: the program twice, and after it nothing of the program."""
    folder = tmp_path / "project"
    folder.mkdir()
    git(folder, "init")
    commit(folder, "deploy/chart/Chart.yaml", "")
    for part in PROGRAM:
        commit(folder, f"{part}/a.py", "old")
    return folder


def test_last_commit_with_another_program(project: Path, tmp_path: Path) -> None:
    """What differs elsewhere is the same version; what is not committed yet is the one under test."""
    before = commit(project, "webhook/a.py", "older")
    newer = commit(project, "webhook/a.py", "newer")
    last = commit(project, "docs/a.md", "page")
    assert version_before(project) == before
    unpack(before, tmp_path / "unpacked", project)
    assert (tmp_path / "unpacked/webhook/a.py").read_text() == "older"
    assert not (tmp_path / "unpacked/docs").exists()
    (project / "certs/a.py").write_text("changed")
    assert version_before(project) == last != newer


def test_clones(project: Path, tmp_path: Path) -> None:
    """A fresh clone has the version before; a shallow one says what to do."""
    before = git(project, "rev-parse", "HEAD")
    commit(project, "webhook/a.py", "newer")
    git(tmp_path, "clone", project.as_uri(), "whole")
    assert version_before(tmp_path / "whole") == before
    git(tmp_path, "clone", "--depth=1", project.as_uri(), "shallow")
    with pytest.raises(NoVersionBeforeError, match=r"in the 1 commits.*shallow clone: git fetch --unshallow"):
        version_before(tmp_path / "shallow")


def test_no_history(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing came before the first version, an unpacked archive has no history, and a machine may have no git."""
    git(project, "reset", "--hard", git(project, "rev-list", "--max-parents=0", "HEAD"))
    with pytest.raises(NoVersionBeforeError, match="in the 1 commits"):
        version_before(project)
    with pytest.raises(NoVersionBeforeError, match="not a git repository"):
        version_before(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoVersionBeforeError, match="no git"):
        version_before(project)


def test_one_that_is_named(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An older one, if somebody asks for it; one that isn't there is named."""
    old = git(project, "rev-parse", "HEAD^")
    monkeypatch.setenv("UPGRADE_FROM", old[:12])
    assert version_before(project) == old
    monkeypatch.setenv("UPGRADE_FROM", "no-such-commit")
    with pytest.raises(NoVersionBeforeError, match=r"no-such-commit|single revision"):
        version_before(project)
