"""Finds the binaries of a control plane, and builds them from Go modules where there are none.

``KUBEBUILDER_ASSETS`` (a folder with ``etcd``, ``kube-apiserver``, ``kubectl``) comes first. Otherwise the program of
this folder is built once into the user's cache and kept there under a hash of everything that makes it what it is.
``python -m tests.controlplane.build`` does that ahead of a test run and prints the folder.
"""

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).parent
PROGRAM = "controlplane"
COMPONENTS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
REQUIRED = ("etcd", "kube-apiserver", "kubectl")


class BinariesMissingError(Exception):
    """There is no control plane, and none can be built; the text says what to install."""


@dataclass(frozen=True, slots=True)
class Binaries:
    """A folder that holds the components of a control plane, each under its own name."""

    folder: Path

    def path(self, component: str) -> Path:
        """Return where a component is, or fail saying why this folder does not have it."""
        path = self.folder / component
        if not path.exists():
            raise BinariesMissingError(
                f"{component} is not in {self.folder}: "
                f"unset KUBEBUILDER_ASSETS to have all of {', '.join(COMPONENTS)} built"
            )
        return path


def find() -> Binaries:
    """Return the components of a control plane, built now if this machine has never built them."""
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if assets:
        binaries = Binaries(Path(assets))
        for component in REQUIRED:
            binaries.path(component)
        return binaries
    go = shutil.which("go")
    if go is None:
        raise BinariesMissingError(
            "the control plane for tests is built with Go: install Go 1.26 from https://go.dev/dl/ (any from 1.21 "
            "on fetches what it lacks), or set KUBEBUILDER_ASSETS to a folder with etcd, kube-apiserver and kubectl "
            "(`setup-envtest use` makes one)"
        )
    folder = _cache() / _digest(go)
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _locked(folder.with_suffix(".lock")):
            if not folder.exists():
                _build(go, folder)
    return Binaries(folder)


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "vgpu-webhook" / PROGRAM


def _digest(go: str) -> str:
    digest = hashlib.sha256()
    for name in ("go.mod", "go.sum", "main.go"):
        digest.update((SOURCE / name).read_bytes())
    # Asked in the folder itself: its go.mod may call for a newer toolchain than the one on the path.
    digest.update(_run([go, "env", "GOVERSION", "GOOS", "GOARCH"]).encode())
    return digest.hexdigest()[:20]


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock between processes; the kernel lets go of it however its holder ends."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _build(go: str, folder: Path) -> None:
    scratch = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=folder.parent))
    try:
        command = [
            go,
            "build",
            "-trimpath",
            "-buildvcs=false",
            "-ldflags",
            _link_flags(),
            "-o",
            str(scratch / PROGRAM),
            ".",
        ]
        _run_with_progress(command, f"building etcd, kube-apiserver and the rest into {folder} (once, some minutes)")
        for component in COMPONENTS:
            (scratch / component).symlink_to(PROGRAM)
        scratch.chmod(0o755)
        scratch.rename(folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _link_flags() -> str:
    """Tell the linker the version that go.mod names: a server built without it calls itself v0.0.0."""
    found = re.search(r"k8s\.io/kubernetes (v(\d+)\.(\d+)\.\S+)", (SOURCE / "go.mod").read_text())
    if found is None:
        raise BinariesMissingError("go.mod does not require k8s.io/kubernetes")
    version = "k8s.io/component-base/version"
    names = zip(("gitVersion", "gitMajor", "gitMinor"), found.groups(), strict=True)
    return " ".join(["-s -w", *(f"-X {version}.{name}={value}" for name, value in names)])


def _run(command: list[str]) -> str:
    done = subprocess.run(command, cwd=SOURCE, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BinariesMissingError(f"{' '.join(command)} failed:\n{done.stderr}")
    return done.stdout


def _run_with_progress(command: list[str], what: str) -> None:
    """Run a command that takes minutes, with a line now and then that says that it still does."""
    began = time.monotonic()
    _say(f"{what} …")
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(command, cwd=SOURCE, stdout=output, stderr=output)
        try:
            while True:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=20)
                    break
                _say(f"… still building, {time.monotonic() - began:.0f} s")
        finally:
            process.kill()
            process.wait()
        if process.returncode != 0:
            output.seek(0)
            raise BinariesMissingError(f"{' '.join(command)} failed:\n{output.read()}")
    _say(f"… built in {time.monotonic() - began:.0f} s")


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    try:
        sys.stdout.write(f"{find().folder}\n")
    except BinariesMissingError as error:
        sys.exit(f"error: {error}")
