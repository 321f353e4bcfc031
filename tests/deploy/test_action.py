"""What runs the program in other people's pipelines: hooks for pre-commit, and the GitHub Action."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import yaml

from tests.project.warm import warm_program
from webhook.cli import COMMANDS

ROOT = Path(__file__).parents[2]
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "deploy/action/action.yml").read_text())
DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: train}
spec:
  template:
    spec:
      containers: [{name: main, image: app, resources: {limits: {nvidia.com/gpumem: 3000}}}]
"""


def test_hooks_call_commands() -> None:
    """With what the program can do."""
    for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text()):
        program, command = hook["entry"].split()
        assert program == "vgpu-webhook"
        assert command in COMMANDS
        assert hook["id"] == f"vgpu-webhook-{command}"
        # Documents are checked together, and not in batches of files.
        assert hook.get("require_serial") or not hook.get("pass_filenames", True)


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the program, which has imported what its commands need."""
    # The address of a socket has to be short: not in pytest's folder.
    with TemporaryDirectory() as scratch, warm_program(Path(scratch)) as folder:
        yield folder


@pytest.mark.parametrize("expect, status", [("warnings: [VGW101]", 0), ("denied: VGW401", 1)])
def test_steps_of_the_action(tmp_path: Path, programs: Path, expect: str, status: int) -> None:
    """Each step but the installation is run by bash as GitHub does, with its inputs as variables."""
    case = tmp_path / "case"
    case.mkdir()
    (case / "pod.yaml").write_text(DEPLOYMENT)
    (case / "expect.yaml").write_text(expect)
    (tmp_path / "settings.yaml").write_text(
        "{kind: Settings, apiVersion: vgpu-webhook.io/v1alpha1, bareDevices: share}\n"
    )
    inputs = {"files": f"{tmp_path}/settings.yaml", "cases": str(tmp_path), "options": ""}
    assert inputs.keys() == ACTION["inputs"].keys()
    install, *steps = ACTION["runs"]["steps"]
    assert "pip install" in install["run"]
    ended = [subprocess.run(**of_step(step, inputs, programs), check=False).returncode for step in steps]
    assert ended == [0, status]


def of_step(step: Any, inputs: dict[str, str], programs: Path) -> dict[str, Any]:
    """How a step is run."""
    env = {name: inputs[value.split("inputs.")[1].split()[0]] for name, value in step["env"].items()}
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
    return {"args": command, "env": {**os.environ, "PATH": path, **env}}


EVIL = "--kubeconfig=evil.yaml"
"""The name of a file in somebody's pull request."""


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """A folder with such a file, a kubeconfig whose program would leave a trace, and an ordinary file."""
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": "touch", "args": [str(tmp_path / "ran")]}
    user = {"name": "u", "user": {"exec": {**plugin, "interactiveMode": "Never"}}}
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [user],
    }
    for name in ("evil.yaml", EVIL):
        (tmp_path / name).write_text(yaml.safe_dump(kubeconfig))
    (tmp_path / "settings.yaml").write_text("{kind: Settings, apiVersion: vgpu-webhook.io/v1alpha1}\n")
    return tmp_path


def test_the_plant_would_run(planted: Path, programs: Path) -> None:
    """As an option."""
    assert (
        subprocess.run([programs / "vgpu-webhook", "check", EVIL, "settings.yaml"], cwd=planted, check=False).returncode
        != 0
    )
    assert (planted / "ran").exists()


@pytest.mark.parametrize("files", [[EVIL, "settings.yaml"], ["settings.yaml", EVIL]])
def test_names_of_files_are_no_options(planted: Path, programs: Path, files: list[str]) -> None:
    """In the command line of the hook, which pre-commit makes of entry, args and files, and of each step of the action."""
    (hook,) = (
        each
        for each in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
        if each.get("pass_filenames", True)
    )
    options = [*hook["entry"].split()[1:], *hook["args"]]
    inputs = {"files": " ".join(files), "cases": " ".join(files), "options": ""}
    for run in (
        {"args": [programs / "vgpu-webhook", *options, *files]},
        *(of_step(step, inputs, programs) for step in ACTION["runs"]["steps"][1:]),
    ):
        subprocess.run(**run, cwd=planted, check=False)
        assert not (planted / "ran").exists()


def test_a_cluster_is_named_before_files(planted: Path, programs: Path) -> None:
    """Also without `--`: what follows a file is one."""
    done = subprocess.run([programs / "vgpu-webhook", "check", "settings.yaml", EVIL], cwd=planted, check=False)
    assert done.returncode == 0
    assert not (planted / "ran").exists()
