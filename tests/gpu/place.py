"""Where a container's process runs: in a mount namespace of its own if that is permitted, with the environment of the pod."""

import contextlib
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from .pods import Container

PROGRAM: Final = Path(__file__).with_name("program.py")
_NAMESPACE: Final = ("unshare", "--mount", "--propagation", "private", "sh", "-ec")
_READ_ONLY: Final = "mount --bind '{0}' '{1}'; mount -o remount,bind,ro '{1}'"
_KEPT: Final = 1500
"""Characters of what a process wrote to its error output."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What a process has printed, and how it did."""

    seen: dict[str, Any]
    story: str


@dataclass(frozen=True, slots=True)
class Process:
    """A program that was started; its error output goes to a file, for nobody reads it while it runs."""

    popen: subprocess.Popen[str]
    errors: Path
    started: float

    def ready(self, limit: float) -> None:
        assert self.popen.stdout is not None
        if select.select([self.popen.stdout], [], [], limit)[0]:
            self.popen.stdout.readline()

    def go(self) -> None:
        if self.popen.stdin is not None:
            self.popen.stdin.close()
            self.popen.stdin = None

    def ended(self, limit: float) -> Reading:
        """Let it go on, and return what it has printed at its end, which comes after so many seconds at most."""
        self.go()
        try:
            out, _ = self.popen.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            out, _ = self.popen.communicate()
        lines = [line for line in out.splitlines() if line.startswith("{")]
        seen: dict[str, Any] = json.loads(lines[-1]) if lines else {"ready": True}
        if "ready" in seen:
            seen = {"error": f"ended with {self.popen.returncode} and without a result"}
        taken = time.monotonic() - self.started
        errors = self.errors.read_text(errors="replace")[-_KEPT:]
        return Reading(seen, f"{self.popen.args!r}\n{self.popen.returncode} after {taken:.1f} s\n{seen}\n{errors}\n")


@dataclass(frozen=True, slots=True)
class Place:
    """The library's folder, one for everything else, and why nothing can be mounted."""

    library: Path
    scratch: Path
    why: str

    @contextlib.contextmanager
    def started(self, container: Container, environment: Mapping[str, str], *arguments: str) -> Iterator[Process]:
        """Start the program in a new place of that container, and end it if it has not ended."""
        state = Path(tempfile.mkdtemp(dir=self.scratch))
        command = self._command(container, state, dict(environment), arguments)
        errors, pipe = state / "errors", subprocess.PIPE
        with (
            errors.open("w") as file,
            subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=file, text=True, errors="replace") as popen,
        ):
            try:
                yield Process(popen, errors, time.monotonic())
            finally:
                popen.kill()
        shutil.rmtree(state, ignore_errors=True)

    def _command(
        self, container: Container, state: Path, environment: dict[str, str], arguments: tuple[str, ...]
    ) -> list[str]:
        folders = {path: state / name for path, name in container.mounts.items() if name is not None}
        for folder in folders.values():
            folder.mkdir()
        shims = container.mounts.keys() - folders.keys()
        if "LD_LIBRARY_PATH" in environment:
            # A container's driver is where the webhook assumes it; this machine's may be elsewhere.
            environment["LD_LIBRARY_PATH"] += f":{os.environ.get('LD_LIBRARY_PATH', '/usr/local/nvidia/lib64')}"
        if self.why:
            for path, source in {**folders, **dict.fromkeys(shims, self.library)}.items():
                environment = {name: value.replace(path, str(source)) for name, value in environment.items()}
        program = ["env", *(f"{name}={value}" for name, value in environment.items())]
        program += [sys.executable, "-P", str(PROGRAM), *arguments]
        lines = [_READ_ONLY.format(self.library, path) for path in shims]
        lines += [f"mount --bind '{folder}' '{path}'" for path, folder in folders.items()]
        return program if self.why else [*_NAMESPACE, "\n".join([*lines, 'exec "$@"']), "sh", *program]


@contextlib.contextmanager
def place(shim: Path, paths: set[str]) -> Iterator[Place]:
    """Return where containers run; mount points that are made for it are removed at the end."""
    made: list[Path] = []
    with tempfile.TemporaryDirectory(prefix="shares.") as folder:
        library = Path(folder) / "library"
        library.mkdir()
        shutil.copy(shim, library / "libvgpu.so")
        try:
            yield Place(library, Path(folder), _why_not(library, sorted(paths), made))
        finally:
            for path in reversed(made):
                with contextlib.suppress(OSError):
                    path.rmdir()


def _why_not(library: Path, paths: list[str], made: list[Path]) -> str:
    """Return why nothing can be mounted at these paths, after making them; empty if it can."""
    if os.environ.get("WITHOUT_MOUNTS"):
        return "WITHOUT_MOUNTS is set"
    try:
        for path in map(Path, paths):
            missing = [each for each in (path, *path.parents) if not each.exists()]
            path.mkdir(parents=True, exist_ok=True)
            made.extend(reversed(missing))
        lines = [_READ_ONLY.format(library, path) for path in paths]
        subprocess.run([*_NAMESPACE, "\n".join(lines)], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        return f"{error} {getattr(error, 'stderr', '')}".strip()
    return ""
