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
      containers: [{name: main, image: app, resources: {limits: {nvidia.com/gpu: 1}}}]
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


@pytest.mark.parametrize("expect, status", [("warnings: [VGW101, VGW509]", 0), ("denied: VGW401", 2)])
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
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    install, *steps = ACTION["runs"]["steps"]
    assert "pip install" in install["run"]
    ended = []
    for step in steps:
        env = {name: inputs[value.split("inputs.")[1].split()[0]] for name, value in step["env"].items()}
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        ended.append(subprocess.run(command, env={**os.environ, "PATH": path, **env}, check=False).returncode)
    assert ended == [0, status]
