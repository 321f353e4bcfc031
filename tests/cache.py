"""What tests build once on a machine and keep: in the user's cache, under a hash of everything that makes it what it is."""

import contextlib
import fcntl
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path


def cached(name: str, digest: str, make: Callable[[Path], None], days: float = 30) -> Path:
    """Return the folder kept under a name and a hash, made now if this machine has not made it, or not used it for long.

    Args:
        name: what it is.
        digest: a hash of its inputs; a change of any of them makes it anew.
        make: fills an empty folder. What it leaves there appears whole or not at all.
        days: how long what is not used is kept, while others are made under the same name.
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
                _remove_unused(folder.parent, days)
    with contextlib.suppress(PermissionError):  # it may be another user's
        os.utime(folder)
    return folder


def _remove_unused(folder: Path, days: float) -> None:
    oldest = time.time() - days * 86400
    for path in folder.iterdir():
        if path.is_dir() and path.stat().st_mtime < oldest:
            shutil.rmtree(path, ignore_errors=True)


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
