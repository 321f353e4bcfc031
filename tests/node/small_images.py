"""Images of the tests: a pod's sandbox, a program that uses a GPU, enforcing libraries. Built from C and this machine's shell.

All are `FROM scratch`: no container registry is needed, and each has a few megabytes.
"""

import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.go_program import BinariesMissingError
from tests.ways_out import UNSEEN

from .configuration import PAUSE
from .images import built

SOURCE = Path(__file__).with_name("containers")
TOOLS = (
    *("sh", "cat", "chmod", "cmp", "cp", "env", "find", "ln", "ls", "mkdir", "mv", "readlink", "rm", "sleep", "sync"),
    *("touch", "true", "uname"),
)
"""What scripts in these images call."""

GPU = "localhost/gpu:test"
GPU_WITH_PATHS = "localhost/gpu-with-paths:test"
"""The same, with environment of its own in the image."""

GPU_OF_CUDA = "localhost/gpu-of-cuda:test"
"""The same as the first, with what images of CUDA ask for."""

LOADER = "localhost/loader:test"
"""The program as the loader treats it differently: setuid, static, linked with musl; with environment of its own."""

IMAGE_ENVIRONMENT = {**UNSEEN, "NVIDIA_VISIBLE_DEVICES": "all", "GLIBC_TUNABLES": "glibc.malloc.arena_max=1"}
LIBRARY = "localhost/library"
LIBRARY_PATH = "/k8s-vgpu/lib/nvidia"
VERSIONS = ("v1", "v2")


def all_images() -> list[Path]:
    """Return the archives of all of them."""
    with tempfile.TemporaryDirectory(prefix="vgpu-webhook-images.") as folder:
        return [
            _image(Path(folder) / "pause", PAUSE, _pause, "/pause"),
            _image(Path(folder) / "gpu", GPU, _program, "/program"),
            _image(Path(folder) / "paths", GPU_WITH_PATHS, _program_and_own, "/program", **IMAGE_ENVIRONMENT),
            _image(Path(folder) / "cuda", GPU_OF_CUDA, _program, "/program", NVIDIA_VISIBLE_DEVICES="all"),
            _image(Path(folder) / "loader", LOADER, _programs, "/program", **IMAGE_ENVIRONMENT),
            *(
                _image(Path(folder) / version, f"{LIBRARY}:{version}", partial(_library, version), "/bin/true")
                for version in VERSIONS
            ),
        ]


def compile_library(version: str, target: Path, *more: str, compiler: str = "cc") -> None:
    """Build an enforcing library of a version."""
    target.parent.mkdir(parents=True, exist_ok=True)
    _cc("-shared", "-fPIC", f'-DVERSION="{version}"', *more, SOURCE / "library.c", "-o", target, compiler=compiler)


def _pause(root: Path) -> None:
    root.mkdir()
    _cc("-static", SOURCE / "pause.c", "-o", root / "pause")


def _program(root: Path) -> None:
    _tools(root)
    libraries = root / "usr" / "lib"
    libraries.mkdir(parents=True, exist_ok=True)
    _cc("-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", SOURCE / "driver.c", "-o", libraries / "libcuda.so.1")
    _cc(SOURCE / "program.c", libraries / "libcuda.so.1", "-ldl", "-o", root / "program")


def _program_and_own(root: Path) -> None:
    _program(root)
    own = root / "opt" / "own"
    own.mkdir(parents=True)
    _cc("-shared", "-fPIC", SOURCE / "own.c", "-o", own / "libown.so")
    # Where LD_AUDIT looks for it, as in any distribution.
    shutil.copy(root / "lib64" / "ld-linux-x86-64.so.2", root / "lib" / "x86_64-linux-gnu")


def _programs(root: Path) -> None:
    _program_and_own(root)
    driver = root / "usr" / "lib" / "libcuda.so.1"
    shutil.copy(root / "program", root / "setuid")
    (root / "setuid").chmod(0o4755)
    _cc("-static", SOURCE / "program.c", SOURCE / "driver.c", "-o", root / "static")
    _cc(SOURCE / "program.c", driver, "-o", root / "musl", compiler="musl-gcc")
    shutil.copy(Path("/lib/ld-musl-x86_64.so.1").resolve(), root / "lib" / "ld-musl-x86_64.so.1")


def _library(version: str, root: Path) -> None:
    _tools(root)
    library_folder(version, root / LIBRARY_PATH.lstrip("/"))


def library_folder(version: str, folder: Path) -> None:
    """The library, and other forms of it: in the driver's place, by a list of files, for either libc, for LD_AUDIT."""
    name = f"libvgpu.so.{version}"
    compile_library(version, folder / name)
    for other in ("driver/libcuda.so.1", f"lib64/{name}", f"lib/x86_64-linux-gnu/{name}"):
        (folder / other).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(folder / name, folder / other)
    compile_library(version, folder / "audit.so", "-DAUDIT")
    compile_library(f"{version}-musl", folder / "$LIB" / name, compiler="musl-gcc")
    (folder / "ld.so.preload").write_text(f"/usr/local/vgpu-shim/{name}\n")


def _image(folder: Path, name: str, make: Callable[[Path], None], entry: str, **environment: str) -> Path:
    folder.mkdir()
    make(folder / "root")
    variables = (f"ENV {key}={value}" for key, value in environment.items())
    # Copying a folder takes the bit of setuid away.
    setuid = ["COPY --chmod=4755 root/setuid /setuid"] if (folder / "root" / "setuid").exists() else []
    lines = ["FROM scratch", "COPY root/ /", *setuid, *variables, f'ENTRYPOINT ["{entry}"]', ""]
    (folder / "Dockerfile").write_text("\n".join(lines))
    return built(folder, name)


def _tools(root: Path) -> None:
    root.mkdir()
    for tool in TOOLS:
        _take(tool, root)
    (root / "tmp").mkdir()
    (root / "tmp").chmod(0o1777)
    (root / "etc").mkdir()


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


def _cc(*arguments: str | Path, compiler: str = "cc") -> None:
    command = [compiler, "-O1", "-Wall", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BinariesMissingError(f"{' '.join(command)} failed:\n{done.stderr}")
