"""Images of the tests: a pod's sandbox, a program that uses a GPU, enforcing libraries. Built from C and this machine's shell.

All are `FROM scratch`: no container registry is needed, and each has a few megabytes.
"""

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.go_program import BinariesMissingError

from .configuration import PAUSE
from .images import built

SOURCE = Path(__file__).with_name("containers")
TOOLS = "sh cat chmod cmp cp env find head ln ls mkdir mv readlink rm sleep sync touch true uname".split()
"""What scripts in these images call."""

GPU = "localhost/gpu:test"
GPU_WITH_PATHS = "localhost/gpu-with-paths:test"
"""The same, with environment of its own in the image."""

IMAGE_PATHS = {"LD_LIBRARY_PATH": "/opt/own", "LD_PRELOAD": "/opt/own/libown.so"}
LIBRARY = "localhost/library"
LIBRARY_PATH = "/k8s-vgpu/lib/nvidia"
VERSIONS = ("v1", "v2")


def all_images() -> list[Path]:
    """Return the archives of all of them."""
    with tempfile.TemporaryDirectory(prefix="vgpu-webhook-images.") as folder:
        return [
            _image(Path(folder) / "pause", PAUSE, [], {"pause": _pause}, entry="/pause"),
            _image(Path(folder) / "gpu", GPU, TOOLS, {"program": _program}),
            _image(Path(folder) / "paths", GPU_WITH_PATHS, TOOLS, {"program": _program_and_own}, IMAGE_PATHS),
            *(
                _image(Path(folder) / version, f"{LIBRARY}:{version}", TOOLS, {version: _library})
                for version in VERSIONS
            ),
        ]


def compile_library(version: str, target: Path) -> None:
    """Build an enforcing library of a version."""
    target.parent.mkdir(parents=True, exist_ok=True)
    _cc("-shared", "-fPIC", f'-DVERSION="{version}"', SOURCE / "library.c", "-o", target)


def _pause(root: Path, _: str) -> None:
    _cc("-static", SOURCE / "pause.c", "-o", root / "pause")


def _program(root: Path, _: str) -> None:
    libraries = root / "usr" / "lib"
    libraries.mkdir(parents=True, exist_ok=True)
    _cc("-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", SOURCE / "driver.c", "-o", libraries / "libcuda.so.1")
    _cc(SOURCE / "program.c", libraries / "libcuda.so.1", "-ldl", "-o", root / "program")


def _program_and_own(root: Path, _: str) -> None:
    _program(root, _)
    own = root / "opt" / "own"
    own.mkdir(parents=True)
    _cc("-shared", "-fPIC", "-x", "c", "/dev/null", "-o", own / "libown.so")


def _library(root: Path, version: str) -> None:
    compile_library(version, root / LIBRARY_PATH.lstrip("/") / f"libvgpu.so.{version}")


def _image(  # type: ignore[no-untyped-def]
    folder: Path,
    name: str,
    tools: Iterable[str],
    parts,  # noqa: ANN001
    environment: Mapping[str, str] | None = None,
    entry: str = "/program",
) -> Path:
    root = folder / "root"
    root.mkdir(parents=True)
    for tool in tools:
        _take(tool, root)
    if tools:
        (root / "tmp").mkdir(mode=0o1777)
        (root / "etc").mkdir()
    for argument, make in parts.items():
        make(root, argument)
    lines = ["FROM scratch", "COPY root/ /", *(f"ENV {key}={value}" for key, value in (environment or {}).items())]
    (folder / "Containerfile").write_text("\n".join([*lines, f'ENTRYPOINT ["{entry}"]', ""]))
    return built(folder, name)


def _take(tool: str, root: Path) -> None:
    """Copy a program of this machine with the libraries that it needs."""
    path = shutil.which(tool)
    if path is None:
        raise BinariesMissingError(f"no {tool} on this machine")
    listed = subprocess.run(["ldd", path], capture_output=True, text=True, check=True).stdout
    for each in (path, *re.findall(r"(/\S+) \(0x", listed)):
        target = root / ("bin/" + tool if each == path else each.lstrip("/"))
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists():
            shutil.copy(Path(each).resolve(), target)


def _cc(*arguments: str | Path) -> None:
    command = ["cc", "-O1", "-Wall", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BinariesMissingError(f"{' '.join(command)} failed:\n{done.stderr}")
