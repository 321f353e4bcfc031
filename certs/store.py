"""Stores of certificates: what several replicas read and write at once, and a directory that is one."""

import asyncio
import fcntl
import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final, Protocol

from certs.rotation import FILES
from certs.x509 import StoreError


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The files of a store at one moment, None if it is empty, and a version that changes with every write.

    Printing it shows no file.
    """

    files: Mapping[str, bytes] | None = field(repr=False)
    version: str


class Store(Protocol):
    """A store that several processes may read and write at once; each method raises `StoreError` where it cannot."""

    async def read(self) -> Snapshot:
        """Read the store."""
        ...

    async def write(self, files: Mapping[str, bytes], version: str) -> bool:
        """Replace all files if the store is still at a version; False if another process wrote first: read it again."""
        ...

    async def changed(self) -> None:
        """Return when the content may differ from what was last read or written."""
        ...


MAX_BYTES: Final = 1024 * 1024
"""The most bytes that are read of a file: as many as a Secret can hold."""

POLL: Final = 2.0
"""Seconds between two reads. No kind of notification works on every file system and through symbolic links."""


def read_file(path: Path) -> bytes | None:
    """Read a file; None if there is none."""
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _failed(path, error) from error


@dataclass(slots=True)
class Directory:
    """A directory that stores certificates and keys, with the names of a mounted ``kubernetes.io/tls`` Secret; a `Store`.

    Each file is replaced as a whole, keys before certificates, and files are read in the opposite order. A reader may see
    some old and some new ones: what does not match counts as damaged, and cannot be written over the new version. It is made
    at the first write.
    """

    path: Path
    poll: float = POLL
    _seen: str | None = field(default=None, init=False)

    async def read(self) -> Snapshot:
        snapshot = await asyncio.to_thread(self.read_blocking)
        self._seen = snapshot.version
        return snapshot

    async def write(self, files: Mapping[str, bytes], version: str) -> bool:
        written = await asyncio.to_thread(self.write_blocking, files, version)
        if written:
            self._seen = _version(files)
        return written

    async def changed(self) -> None:
        while True:
            await asyncio.sleep(self.poll)
            if (await asyncio.to_thread(self.read_blocking)).version != self._seen:
                return

    def read_blocking(self) -> Snapshot:
        """Do what `read` does, blocking."""
        read = {name: read_file(self.path / name) for name in reversed(FILES)}
        files = {name: content for name, content in read.items() if content is not None}
        return Snapshot(files or None, _version(files))

    def write_blocking(self, files: Mapping[str, bytes], version: str) -> bool:
        """Do what `write` does, blocking."""
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            with _private(self.path / ".lock") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                if self.read_blocking().version != version:
                    return False
                self._write(files)
        except OSError as error:
            raise _failed(self.path, error) from error
        return True

    def _write(self, files: Mapping[str, bytes]) -> None:
        new = {name: self.path / f".{name}.new" for name in files}
        try:
            for name, path in new.items():
                with _private(path) as file:
                    file.write(files[name])
        except OSError:
            # Writing is retried as long as it fails, such as on a full disk.
            for path in new.values():
                path.unlink(missing_ok=True)
            raise
        for name in FILES:
            if name in new:
                new[name].replace(self.path / name)
            else:
                (self.path / name).unlink(missing_ok=True)


def _failed(path: Path, error: OSError) -> StoreError:
    return StoreError(error.filename or str(path), error.strerror or type(error).__name__)


def _version(files: Mapping[str, bytes]) -> str:
    digest = hashlib.sha256()
    for name, data in sorted(files.items()):
        digest.update(f"{name} {len(data)} ".encode() + data)
    return digest.hexdigest()


def _private(path: Path) -> BinaryIO:
    """Open a file that only this user may read, for writing."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb")
