"""The workflows: what they run is what a person runs, and nobody else can change it."""

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
MAKEFILE = (ROOT / "Makefile").read_text()
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


def test_nightly_runs_every_part() -> None:
    """Each part of `make test-all` that CI does not run with every change, and an issue is opened where one fails."""
    nightly = jobs(ROOT / ".github/workflows/nightly.yml")
    parts = subprocess.check_output(["make", "--silent", "test-all", "PART=list"], cwd=ROOT, text=True).split()
    ran = re.search(r"^for target in (.+); do$", (ROOT / ".ci/run").read_text(), re.MULTILINE)
    assert ran is not None
    assert [f"test-{part}".replace("test-test", "test") for part in parts[:3]] == ran[1].split()
    assert parts[3:] == nightly["part"]["strategy"]["matrix"]["part"]
    assert (nightly["issue"]["needs"], nightly["issue"]["if"]) == ("part", "failure()")


def test_release_is_made_by_targets() -> None:
    """The release is what `make release` builds; every target exists."""
    commands = [
        step.get("run", "") for job in jobs(ROOT / ".github/workflows/release.yml").values() for step in job["steps"]
    ]
    targets = {target for command in commands for target in re.findall(r"^make ([a-z-]+)", command)}
    assert {"test", "test-cluster", "release", "release-image", "release-checksums"} == targets
    assert targets <= set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))


def test_release_has_a_version_and_is_of_main() -> None:
    """Nothing is built before the tag and its commit are checked, and the tests pass."""
    release = jobs(ROOT / ".github/workflows/release.yml")
    commands = [step.get("run", "") for step in release["check"]["steps"]]
    assert "git merge-base --is-ancestor HEAD origin/main" in commands
    first = [name for name, job in release.items() if "needs" not in job]
    assert first == ["check"]
    for tag, accepted in {
        "v1.2.3": True,
        "v1.2.3-rc.1": True,
        "1.2.3": False,
        "v1.2": False,
        "v1.2.3;id": False,
    }.items():
        environment = {**os.environ, "GITHUB_REF_NAME": tag}
        done = subprocess.run(["bash", "-ec", commands[0]], env=environment, stdout=subprocess.DEVNULL, check=False)
        assert (done.returncode == 0) is accepted, tag


def test_tag_is_passed_on_unread(tmp_path: Path) -> None:
    """A tag with quotes and commands is one argument, and nothing in it is run; without a tag there is no argument."""
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nprintf '<%s>' \"$@\"\n")
    python.chmod(0o755)
    (tmp_path / "installed").touch()
    command = ["make", "--silent", "release", f"BIN={tmp_path}", f"INSTALLED={tmp_path / 'installed'}"]
    environment = {name: value for name, value in os.environ.items() if name != "TAG" and not name.startswith("MAKE")}
    assert subprocess.check_output(command, cwd=ROOT, env=environment, text=True) == "<-m><deploy.release>"
    tag = f"v1\"'; touch {tmp_path}/a; $(shell touch {tmp_path}/b) `touch {tmp_path}/c`"
    printed = subprocess.check_output(command, cwd=ROOT, env={**environment, "TAG": tag}, text=True)
    assert printed == f"<-m><deploy.release><--tag><{tag}>"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["installed", "python"]


def test_one_approval_publishes_a_release() -> None:
    """Only the job that publishes has the environment, so one approval is required; only the release follows it."""
    release = jobs(ROOT / ".github/workflows/release.yml")
    assert [name for name, job in release.items() if "environment" in job] == ["publish"]
    assert set(release["publish"]["needs"]) == {"base", "build"}
    assert [name for name, job in release.items() if "publish" in job.get("needs", ())] == ["github"]


def test_package_index_comes_last() -> None:
    """What it has cannot be replaced: it is uploaded once image and chart are in the registry, and signed."""
    steps = jobs(ROOT / ".github/workflows/release.yml")["publish"]["steps"]
    texts = [f"{step.get('uses', '')} {step.get('run', '')}" for step in steps]
    (index,) = [number for number, text in enumerate(texts) if "pypi-publish" in text]
    assert index == len(texts) - 1
    for earlier in ("buildah manifest push", "helm push", "cosign sign", "actions/attest@"):
        assert any(earlier in text for text in texts[:index]), earlier
