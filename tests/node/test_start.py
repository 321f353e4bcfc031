"""What somebody does first: docs/start.md, and the beginning of docs/install.md, print on a node what the pages show."""

import contextlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.controlplane.client import wait_until
from tests.project.test_docs import BLOCKS, YAML, commands_of, shown_as

from .configuration import PAUSE
from .conftest import REPOSITORY, TAG
from .images import ROOT
from .releases import Release
from .small_images import GPU

pytestmark = [pytest.mark.node, pytest.mark.timeout(1200)]

FIRST_HOUR: Final = "docs/start.md"
LAPTOP: Final = "docs/install.md"
OURS: Final = f"{REPOSITORY},image.tag={TAG}"
INSTEAD: Final = {
    FIRST_HOUR: {"registry.example/vgpu-webhook": OURS, "docker.io/library/busybox:1.37": GPU},
    LAPTOP: {"repository=localhost/vgpu-webhook": f"repository={OURS}", "registry.k8s.io/pause:3.10": PAUSE},
}
"""What a page takes from a registry or from an engine, and the node's image in its place."""

READING: Final = re.compile(r"kubectl (get|logs) |vgpu-webhook (check|preview) (?!--pre)|vgpu-webhook check$")
"""Commands that change nothing: whoever reads the page repeats them until they see what it shows."""

PATIENCE: Final = 90
"""Seconds until a cluster has done what a command asked for."""


@dataclass(frozen=True)
class Desk:
    """Where somebody goes through a page: a folder with what a checkout has, a shell, and a network that leads to pods."""

    folder: Path
    release: Release

    def run(self, command: str) -> "subprocess.CompletedProcess[str]":
        plane = self.release.plane
        path = f"{self.folder}/bin:{Path(sys.executable).parent}:{os.environ['PATH']}"
        return subprocess.run(
            ["nsenter", f"--target={plane.pid}", "--net", "bash", "-c", f"exec 2>&1\nset -e\n{command}"],
            cwd=self.folder,
            env={"PATH": path, "HOME": str(self.folder), "KUBECONFIG": str(plane.kubeconfig), "LANG": "C.UTF-8"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            check=False,
            timeout=300,
        )

    def follow_page(self, page: str) -> None:
        """Run every command of a page that this file is to run, with the files that the page shows."""
        blocks = [block for block in BLOCKS if block.page == page and (block.run or block.not_run == "node")]
        assert blocks
        for block in YAML:
            if block.page == page and block.file is not None:
                (self.folder / block.file).write_text(instead(page, block.text))
        for block in blocks:
            for command in commands_of(block):
                self.follow(command.where, instead(page, command.text), command.printed)

    def follow(self, where: str, text: str, shown: str) -> None:
        """Run a command, repeatedly if it only reads, until it succeeds and prints what is shown."""
        expected = shown_as(shown) if shown else re.compile(r"(?s:.*)")
        reads = all(READING.match(line) for line in text.replace("\\\n", "").splitlines())
        again = reads or "rollout restart" in text  # kubectl refuses two within a second
        did: list[subprocess.CompletedProcess[str]] = []

        def right() -> bool:
            did[:] = [self.run(text)]
            return did[0].returncode == 0 and expected.fullmatch(did[0].stdout) is not None

        done = right()
        if again and not done:
            with contextlib.suppress(TimeoutError):
                done = wait_until(right, where, PATIENCE)
        assert done, f"{where}: {text}ended with {did[0].returncode}\nshown:\n{shown}\nprinted:\n{did[0].stdout}"


def instead(page: str, text: str) -> str:
    """A text of a page, with the node's images."""
    for shown, used in INSTEAD[page].items():
        text = text.replace(shown, used)
    return text


@pytest.fixture
def desk(any_release: Release, tmp_path: Path) -> Iterator[Desk]:
    """A cluster without the product, and a folder with what a checkout has."""
    any_release.remove()
    any_release.plane.wait_until(lambda: not any_release.replicas(), "replicas of an earlier release gone", 120)
    for name in ("deploy/chart", "examples"):
        shutil.copytree(ROOT / name, tmp_path / name)
    (tmp_path / "bin").mkdir()
    for name, program in (("kubectl", any_release.plane.binaries.path("kubectl")), ("helm", any_release.helm.helm)):
        (tmp_path / "bin" / name).symlink_to(program)
    found = Desk(tmp_path, any_release)
    yield found
    # Where the page was not followed to its end; what is gone is gone.
    for command in ("configmap vcuda --namespace vgpu-webhook", "namespace demo"):
        found.run(f"kubectl delete {command} --ignore-not-found")
    any_release.remove()


@pytest.mark.parametrize("page", INSTEAD)
def test_images_are_those_of_the_page(page: str) -> None:
    """Each name that is replaced stands in the page's commands or files."""
    text = "".join(block.text for block in BLOCKS if block.page == page)
    assert not [shown for shown in INSTEAD[page] if shown not in text]


def test_laptop(desk: Desk) -> None:
    """After cluster and GPUs have been simulated, a pod written for another system runs."""
    desk.follow_page(LAPTOP)


@pytest.mark.long
def test_first_hour(desk: Desk) -> None:
    """From the first look to the end, each step as the page has it; then nothing of it is left."""
    desk.follow_page(FIRST_HOUR)
    assert not desk.release.left()
    assert desk.run("kubectl get namespaces --output name").stdout.count("namespace/demo") == 0
