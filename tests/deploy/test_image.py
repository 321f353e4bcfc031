"""The steps of the image, run as they stand: as another user, in an empty environment, from a folder that is read-only.

tests/node/test_image.py builds the image itself.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from runpy import run_path

import pytest

from .charts import ROOT

IMAGE = ROOT / "deploy" / "image"
DOCKERFILE = ROOT / "Dockerfile"
NOBODY = 65532


def instructions() -> list[tuple[str, str]]:
    """Return the instructions of the Dockerfile, each with its arguments."""
    text = re.sub(r"\\\n", " ", re.sub(r"^#.*\n", "", DOCKERFILE.read_text(), flags=re.MULTILINE))
    return [
        (instruction, rest.strip())
        for instruction, _, rest in (line.partition(" ") for line in text.splitlines() if line)
    ]


def test_every_step_is_a_script_and_every_file_is_there() -> None:
    """There is nothing in the image that no test could run; what is copied exists, and is let through."""
    let_through = (ROOT / ".dockerignore").read_text().splitlines()
    scripts = []
    for instruction, rest in instructions():
        if instruction == "RUN":
            script, *_ = json.loads(rest)
            scripts.append(ROOT / script.removeprefix("/source/"))
        if instruction == "COPY" and not rest.startswith("--from"):
            for name in rest.split()[:-1]:
                assert (ROOT / name).exists()
                assert f"!{name}" in let_through
    called = [
        path for path in IMAGE.glob("*.sh") if any(f"deploy/image/{path.name}" in by.read_text() for by in scripts)
    ]
    assert {*scripts, *called} == set(IMAGE.glob("*.sh"))
    assert all(os.access(path, os.X_OK) for path in IMAGE.glob("*.sh"))


def test_nothing_is_removed_from_a_package_of_another_shape(tmp_path: Path) -> None:
    """A later version that has its clients elsewhere fails the build, instead of growing the image unseen."""
    for folder in ("client/models", "client/api", "aio"):
        (tmp_path / "kubernetes" / folder).mkdir(parents=True)
        (tmp_path / "kubernetes" / folder / "__init__.py").touch()
    done = subprocess.run([IMAGE / "slim.sh", tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "kubernetes/aio/client does not have the folders models and api" in done.stderr


AS_A_WHOLE = "is imported as a whole: import the names that are used"


@pytest.mark.parametrize(
    "statement, told",
    [
        ("from json import missing", "No module named 'json.missing'"),
        # An attribute of a client would be missing only when it is used.
        ("import kubernetes", AS_A_WHOLE),
        ("import kubernetes.client", AS_A_WHOLE),
        ("import kubernetes.aio.config", AS_A_WHOLE),
        ("from kubernetes.aio.client import models", AS_A_WHOLE),
        ("from kubernetes import client", AS_A_WHOLE),
        ("from kubernetes.aio import client as c", AS_A_WHOLE),
    ],
)
def test_imports_inside_functions_are_tried(
    statement: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check of the image finds what is missing, also where only a function needs it."""
    (tmp_path / "late").mkdir()
    (tmp_path / "late" / "__init__.py").write_text(f"def use():\n    {statement}\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "late", raising=False)
    with pytest.raises(ImportError, match=re.escape(told)):
        run_path(str(IMAGE / "imports.py"))["main"](["late"])


def test_image_is_run_by_nobody_in_particular() -> None:
    """The last user is a number that is not root's: `runAsNonRoot` can be checked by the kubelet."""
    users = [rest for instruction, rest in instructions() if instruction == "USER"]
    assert users[-1] == f"{NOBODY}:{NOBODY}"
    assert [rest for instruction, rest in instructions() if instruction == "ENTRYPOINT"] == [
        '["/opt/vgpu-webhook/bin/vgpu-webhook"]'
    ]


@pytest.mark.parametrize("name", ["requirements.txt", "build-requirements.txt"])
def test_lock_files_have_the_versions_that_are_tested(name: str) -> None:
    """Each pin of the image is one of the tests', with hashes; nothing is there that only tests need."""
    pins = set(re.findall(r"^(\S+==\S+)", (IMAGE / name).read_text(), re.MULTILINE))
    assert pins <= set(re.findall(r"^(\S+==\S+)", (ROOT / "requirements-test.txt").read_text(), re.MULTILINE))
    assert len(re.findall(r"--hash=sha256:", (IMAGE / name).read_text())) > len(pins)
    assert not [pin for pin in pins if pin.startswith(("pytest", "mypy", "ruff", "hypothesis"))]
