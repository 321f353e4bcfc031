"""A Go program that tests need, built once from its modules into the user's cache.

It is kept under a hash of everything that makes it what it is, so that a change of any of it builds it anew.
"""

import contextlib
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tests.cache import cached, say


class BinariesMissingError(Exception):
    """A program is not there, and cannot be built; the text says what to install."""


@dataclass(frozen=True, slots=True)
class GoProgram:
    """How one program is built.

    Attributes:
        name: of the program, and of its folder in the cache.
        source: the folder of its go.mod.
        inputs: the files in there that make it what it is.
        package: what is built.
        link_flags: for the linker; they follow from the inputs.
        links: further names of the program.
        tags: for the compiler.
        others: further packages, from the same modules. Where there are any, each program has its package's own name.
        without_go: what to do where there is no Go.
    """

    name: str
    source: Path
    inputs: tuple[str, ...]
    package: str
    link_flags: str
    without_go: str
    links: tuple[str, ...] = ()
    tags: str = ""
    others: tuple[str, ...] = ()

    def program(self, variable: str = "") -> Path:
        """Return the program that an environment variable names, otherwise the built one.

        Raises:
            BinariesMissingError: it is not there, and cannot be built.
        """
        configured = os.environ.get(variable)
        if not configured:
            return self.folder() / self.name
        if not Path(configured).is_file():
            raise BinariesMissingError(
                f"{variable} is {configured}, which is no file: unset it to have {self.name} built"
            )
        return Path(configured)

    def folder(self) -> Path:
        """Return the folder that holds the program, built now if this machine has never built it."""
        go = shutil.which("go")
        if go is None:
            raise BinariesMissingError(self.without_go)
        return cached(self.name, self._digest(go), lambda folder: self._build(go, folder))

    def _digest(self, go: str) -> str:
        digest = hashlib.sha256()
        for name in self.inputs:
            digest.update((self.source / name).read_bytes())
        # Asked in the folder itself: its go.mod may call for a newer toolchain than the one on the path.
        digest.update(self._run([go, "env", "GOVERSION", "GOOS", "GOARCH"]).encode())
        digest.update(self.tags.encode())
        return digest.hexdigest()[:20]

    def _build(self, go: str, folder: Path) -> None:
        flags = ["-trimpath", "-buildvcs=false", f"-tags={self.tags}", "-ldflags", self.link_flags]
        output = f"{folder}/" if self.others else str(folder / self.name)
        command = [go, "build", *flags, "-o", output, self.package, *self.others]
        self._run_with_progress(command, f"building {self.name} below {folder.parent} (once, some minutes)")
        for link in self.links:
            (folder / link).symlink_to(self.name)

    def _run(self, command: list[str]) -> str:
        done = subprocess.run(command, cwd=self.source, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise BinariesMissingError(f"{' '.join(command)} failed:\n{done.stderr}")
        return done.stdout

    def _run_with_progress(self, command: list[str], what: str) -> None:
        """Run a command that takes minutes, with a line now and then that says that it still does."""
        began = time.monotonic()
        say(f"{what} …")
        with tempfile.TemporaryFile("w+") as output:
            process = subprocess.Popen(command, cwd=self.source, stdout=output, stderr=output)
            try:
                while True:
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        process.wait(timeout=20)
                        break
                    say(f"… still building, {time.monotonic() - began:.0f} s")
            finally:
                process.kill()
                process.wait()
            if process.returncode != 0:
                output.seek(0)
                raise BinariesMissingError(f"{' '.join(command)} failed:\n{output.read()}")
        say(f"… built in {time.monotonic() - began:.0f} s")


def kubernetes_link_flags(modules: Path) -> str:
    """Return the flags that give programs the version of Kubernetes in a go.mod; without them they have none.

    Raises:
        BinariesMissingError: the go.mod does not require Kubernetes.
    """
    found = re.search(r"k8s\.io/kubernetes (v(\d+)\.(\d+)\.\S+)", modules.read_text())
    if found is None:
        raise BinariesMissingError(f"{modules} does not require k8s.io/kubernetes")
    names = zip(("gitVersion", "gitMajor", "gitMinor"), found.groups(), strict=True)
    return " ".join(["-s -w", *(f"-X k8s.io/component-base/version.{name}={value}" for name, value in names)])
