"""The script that puts the shim's library on a node, run as it stands."""

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.controlplane.client import wait_until
from tests.waiting import PATIENCE

from .charts import CHART

SCRIPT = CHART / "files" / "install-shim.sh"
SIZE = 3_000_000


class Node:
    """A folder that stands for one of a node, and images with a library."""

    def __init__(self, folder: Path) -> None:
        self.target = folder / "node" / "vgpu-shim"
        self.images = folder / "images"

    def image(self, version: str, content: bytes | None = None) -> Path:
        """Make an image of that version, and return the library in it."""
        path = self.images / version / f"libvgpu.so.{version}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if content is not None else version.encode() * (SIZE // len(version)))
        return path

    def environment(self, version: str, **more: str) -> dict[str, str]:
        """The environment of an installer of that version, and nothing else."""
        source = str(self.images / version / "libvgpu.so.*")
        return {
            "PATH": os.defpath,
            "SOURCE": source,
            "VERSION": version,
            "TARGET": str(self.target),
            "PERIOD": "1",
            **more,
        }

    def run(self, version: str, command: str = "install", **more: str) -> subprocess.CompletedProcess[str]:
        environment = self.environment(version, **more)
        return subprocess.run(
            ["/bin/sh", str(SCRIPT), command],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )

    @property
    def library(self) -> Path:
        return self.target / "libvgpu.so"

    def names(self) -> set[str]:
        return {path.name for path in self.target.iterdir()}


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """A node without a library, and two images."""
    node = Node(tmp_path)
    node.image("v1")
    node.image("v2")
    return node


def test_installs_once_and_says_the_version(node: Node) -> None:
    """The library is there under its name and its version, readable for all, writable for nobody; again does nothing."""
    assert node.run("v1", "check").returncode == 1
    first = node.run("v1")
    assert (first.returncode, first.stderr) == (0, f"install-shim: {node.library} is version v1\n")
    assert node.names() == {"libvgpu.so", "libvgpu.so.v1", "VERSION"}
    assert node.library.read_bytes()[:4] == b"v1v1"
    assert node.library.resolve().stat().st_mode & 0o777 == 0o555
    assert node.target.stat().st_mode & 0o777 == 0o755
    assert node.run("v1", "check").returncode == 0
    before = node.library.resolve().stat()
    assert node.run("v1").stderr == ""
    assert node.library.resolve().stat().st_mtime_ns == before.st_mtime_ns


def test_another_version_leaves_what_is_in_use(node: Node) -> None:
    """Who has the old library open or mapped keeps it, the old version stays, new processes get the new one."""
    node.run("v1")
    with node.library.open("rb") as in_use:
        assert node.run("v2").returncode == 0
        assert in_use.read(4) == b"v1v1"
    assert node.library.read_bytes()[:4] == b"v2v2"
    assert node.names() == {"libvgpu.so", "libvgpu.so.v1", "libvgpu.so.v2", "VERSION"}
    assert (node.target / "VERSION").read_text() == "v2\n"
    # And back again.
    assert node.run("v1").returncode == 0
    assert node.library.read_bytes()[:4] == b"v1v1"


def test_running_program_is_replaced_under_its_feet(node: Node) -> None:
    """A file that is being executed can't be written to; it is replaced all the same, and continues running."""
    node.image("v1", Path("/bin/sleep").resolve().read_bytes())
    node.run("v1")
    with subprocess.Popen([str(node.library), "60"]) as running:
        try:
            node.image("v1", b"the same version, built anew")
            assert node.run("v1").returncode == 0
            assert node.library.read_bytes() == b"the same version, built anew"
            assert running.poll() is None
        finally:
            running.kill()


@pytest.mark.parametrize("step", ["cp", "mv", "ln", "chmod"])
def test_crash_half_way_harms_nothing(node: Node, tmp_path: Path, step: str) -> None:
    """Killed while it writes, at any step, the old version is whole and in force; the next run ends the work."""
    node.run("v1")
    tools = tmp_path / "tools"
    tools.mkdir()
    # Half of it is written, then the power goes: not even a trap runs.
    deadly = '#!/bin/sh\nfor last; do :; done\n[ -e "$last" ] || printf half > "$last"\nkill -9 $PPID\n'
    (tools / step).write_text(deadly)
    (tools / step).chmod(0o755)
    killed = node.run("v2", PATH=f"{tools}:{os.defpath}")
    assert killed.returncode == -9
    assert node.library.read_bytes() == (node.images / "v1" / "libvgpu.so.v1").read_bytes()
    assert node.run("v2").returncode == 0
    assert node.library.read_bytes() == (node.images / "v2" / "libvgpu.so.v2").read_bytes()


def test_many_at_once_end_with_one_whole_library(node: Node) -> None:
    """Two versions, ten installers, one reader: every read is one of the versions, whole, from first to last."""
    wholes = {(node.images / version / f"libvgpu.so.{version}").read_bytes() for version in ("v1", "v2")}
    node.run("v1")
    with ThreadPoolExecutor(11) as pool:
        runs = [pool.submit(node.run, ("v1", "v2")[number % 2]) for number in range(10)]
        reads = 0
        while not all(run.done() for run in runs):
            assert node.library.read_bytes() in wholes
            reads += 1
    assert reads
    assert [run.result().returncode for run in runs] == [0] * 10
    assert node.library.read_bytes() in wholes
    assert not [name for name in node.names() if name.startswith(".")]


def test_keeps_it_there_until_it_is_stopped(node: Node, tmp_path: Path) -> None:
    """Removed by hand, the library comes back; SIGTERM ends the script at once."""
    with subprocess.Popen(
        ["/bin/sh", str(SCRIPT), "keep"], env=node.environment("v1"), stderr=subprocess.DEVNULL
    ) as keeper:
        try:
            wait_until(lambda: node.run("v1", "check").returncode == 0, "installed")
            node.library.unlink()
            wait_until(lambda: node.run("v1", "check").returncode == 0, "installed again")
            keeper.terminate()
            assert keeper.wait(PATIENCE) == 143
        finally:
            keeper.kill()


@pytest.mark.parametrize(
    "more,message",
    [
        ({"SOURCE": "/nowhere/libvgpu.so.*"}, "name the library in shim.installer.path"),
        ({"SOURCE": "/dev/null"}, "is not in the image, or empty"),
        ({"VERSION": "../up"}, "only letters"),
        ({"SOURCE": "{images}/*/libvgpu.so.*"}, "matches 2 files of the image"),
    ],
)
def test_impossible_options_are_reported(node: Node, more: dict[str, str], message: str) -> None:
    """A wrong path or version ends it with what to write instead, and touches nothing."""
    filled = {key: value.format(images=node.images) for key, value in more.items()}
    failed = node.run("v1", **filled)
    assert failed.returncode == 1
    assert message in failed.stderr
    assert not node.target.exists()
