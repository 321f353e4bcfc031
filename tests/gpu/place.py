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

from .pods import Container, Mount

PROGRAM: Final = Path(__file__).with_name("program.py")
LIBRARY: Final = "libvgpu.so"
_NAMESPACE: Final = ("unshare", "--mount", "--propagation", "private", "sh", "-ec")
_KEPT: Final = 60_000
"""Characters of what a process wrote to its error output."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What a process has printed, and how it ended."""

    seen: dict[str, Any]
    code: int
    seconds: float
    errors: str
    command: str = ""


@dataclass(frozen=True, slots=True)
class Process:
    """A program that was started; its error output goes to a file, for nobody reads it while it runs."""

    popen: subprocess.Popen[str]
    errors: Path
    started: float

    def ready(self, limit: float) -> bool:
        """Wait until it has said that it is ready."""
        assert self.popen.stdout is not None
        readable, _, _ = select.select([self.popen.stdout], [], [], limit)
        return bool(readable) and '"ready"' in self.popen.stdout.readline()

    def go(self) -> None:
        """Tell it to go on; it may have ended, as its reading then says."""
        assert self.popen.stdin is not None
        with contextlib.suppress(OSError):
            self.popen.stdin.write("go\n")
            self.popen.stdin.flush()

    def ended(self, limit: float) -> Reading:
        """Return what it has printed at its end, which comes after so many seconds at most."""
        try:
            out, _ = self.popen.communicate(timeout=max(limit, 1))
            code = self.popen.returncode
        except subprocess.TimeoutExpired:
            self.popen.kill()
            out, _ = self.popen.communicate()
            code = 124
        lines = [line for line in out.splitlines() if line.startswith("{")]
        seen: dict[str, Any] = json.loads(lines[-1]) if lines else {}
        if "ready" in seen or not seen:
            seen = {"error": f"ended with {code} and without a result"}
        command = " ".join(map(str, self.popen.args)) if isinstance(self.popen.args, list) else ""
        taken = round(time.monotonic() - self.started, 1)
        return Reading(seen, code, taken, self.errors.read_text(errors="replace")[-_KEPT:], command)


@dataclass(frozen=True, slots=True)
class Place:
    """The library's folder, a folder for state, and whether mounting is permitted."""

    library: Path
    scratch: Path
    mounts: bool
    why: str
    search: str = ""
    """Folders that the driver needs beyond those that the webhook assumes."""

    def run(self, container: Container, environment: Mapping[str, str], *arguments: str, limit: float) -> Reading:
        """Run the program to its end, for at most so many seconds."""
        with self.started(container, environment, *arguments) as process:
            return process.ended(limit)

    @contextlib.contextmanager
    def started(self, container: Container, environment: Mapping[str, str], *arguments: str) -> Iterator[Process]:
        """Start the program in a new place of that container, and end it if it has not ended."""
        state = Path(tempfile.mkdtemp(dir=self.scratch))
        command = self._command(container.mounts, state, environment, arguments)
        errors, pipe = state / "errors", subprocess.PIPE
        with errors.open("w") as file:
            popen = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=file, text=True, errors="replace")
        try:
            yield Process(popen, errors, time.monotonic())
        finally:
            popen.kill()
            popen.wait()
            for stream in (popen.stdin, popen.stdout):
                if stream is not None:
                    with contextlib.suppress(OSError):
                        stream.close()
            shutil.rmtree(state, ignore_errors=True)

    def _command(
        self, mounts: tuple[Mount, ...], state: Path, environment: Mapping[str, str], arguments: tuple[str, ...]
    ) -> list[str]:
        sources = {each.path: self.library if each.state is None else state / each.state for each in mounts}
        for source in sources.values():
            source.mkdir(exist_ok=True)
        if self.search and "LD_LIBRARY_PATH" in environment:
            environment = {**environment, "LD_LIBRARY_PATH": f"{environment['LD_LIBRARY_PATH']}:{self.search}"}
        program = (sys.executable, "-P", str(PROGRAM), *arguments)
        if self.mounts:
            lines = [
                f"mount --bind '{source}' '{path}'"
                + (f"; mount -o remount,bind,ro '{path}'" if source == self.library else "")
                for path, source in sources.items()
            ]
            variables = [f"{name}={value}" for name, value in environment.items()]
            return [*_NAMESPACE, "\n".join([*lines, 'exec "$@"']), "sh", "env", *variables, *program]
        variables = [f"{name}={_elsewhere(value, sources)}" for name, value in environment.items()]
        return ["env", *variables, *program]


def _elsewhere(value: str, sources: Mapping[str, Path]) -> str:
    for path, source in sources.items():
        value = value.replace(path, str(source))
    return value


@contextlib.contextmanager
def place(shim: Path, paths: set[str]) -> Iterator[Place]:
    """Return where containers run; mount points that are made for it are removed at the end."""
    made: list[Path] = []
    with tempfile.TemporaryDirectory(prefix="shares.") as folder:
        library = Path(folder) / "library"
        library.mkdir()
        shutil.copy(shim, library / LIBRARY)
        why = _why_not(library, sorted(paths), made)
        try:
            yield Place(library, Path(folder), not why, why)
        finally:
            for path in reversed(made):
                with contextlib.suppress(OSError):
                    path.rmdir()


def _why_not(library: Path, paths: list[str], made: list[Path]) -> str:
    """Return why nothing can be mounted at these paths, after making them; empty if it can."""
    try:
        for text in paths:
            path = Path(text)
            missing = [each for each in (path, *path.parents) if not each.exists()]
            path.mkdir(parents=True, exist_ok=True)
            made.extend(reversed(missing))
        lines = [f"mount --bind '{library}' '{path}'; mount -o remount,bind,ro '{path}'" for path in paths]
        tried = subprocess.run([*_NAMESPACE, "\n".join(lines)], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if os.environ.get("WITHOUT_MOUNTS"):
        return "WITHOUT_MOUNTS is set"
    return tried.stderr.strip() or f"ended with {tried.returncode}" if tried.returncode else ""
