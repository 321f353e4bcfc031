"""What tests build once on a machine and keep: in the user's cache, under a hash of everything that makes it what it is."""

import contextlib
import fcntl
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path


def cached(name: str, digest: str, make: Callable[[Path], None]) -> Path:
    """Return the folder kept under a name and a hash, made now if this machine has never made it.

    Args:
        name: what it is.
        digest: a hash of its inputs; a change of any of them makes it anew.
        make: fills an empty folder. What it leaves there appears whole or not at all.
    """
    folder = _cache() / name / digest
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _locked(folder.with_suffix(".lock")):
            if not folder.exists():
                scratch = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=folder.parent))
                try:
                    make(scratch)
                    scratch.chmod(0o755)
                    scratch.rename(folder)
                finally:
                    shutil.rmtree(scratch, ignore_errors=True)
    return folder


def say(line: str) -> None:
    """Print a line about what takes minutes, for whoever waits."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "vgpu-webhook"


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock between processes; the kernel lets go of it however its holder ends."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
