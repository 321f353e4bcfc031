"""Stores of certificates: the interface, a directory, and the first certificate of a process.

A directory that stores certificates, in the layout of a mounted ``kubernetes.io/tls`` Secret.

::

    ca.crt  ca.key  tls.crt  tls.key  …   symbolic links to ..data/<name>
    ..data                                symbolic link to the generation in force
    ..<random>/                           one generation: files of mode 0600

A symbolic link can be replaced atomically, several files cannot: a reader that resolves ``..data`` first sees one
complete generation, as with the kubelet's own mounts. A directory of plain files can be read, too.

When a replica that serves nothing yet may serve a certificate whose CA has not settled.

Waiting makes sense while other replicas answer callers under a CA that the callers trust. Without such a replica,
waiting would only cause an outage.
"""

import asyncio
import contextlib
import datetime as dt
import fcntl
import hashlib
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from cryptography import x509

from certs.ca import CLOCK_SKEW, StoreError, Trust
from certs.state import FILES, State, der


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The content of a store at one moment. Printing it shows no file.

    Attributes:
        files: by name; None if the store is empty.
        version: opaque; it changes with every write.
    """

    files: Mapping[str, bytes] | None = field(repr=False)
    version: str


class Store(Protocol):
    """A store that several processes may read and write at once."""

    async def read(self) -> Snapshot:
        """Read the store.

        Raises:
            StoreError: it cannot be read.
        """
        ...

    async def write(self, files: Mapping[str, bytes], version: str) -> bool:
        """Replace all files if the store is still at a version.

        Returns:
            False if it is not: another process wrote first, and the store has to be read again.

        Raises:
            StoreError: it cannot be written.
        """
        ...

    async def changed(self) -> None:
        """Return when the content may differ from what was last read or written.

        Raises:
            StoreError: the store cannot be observed now.
        """
        ...


_CURRENT: Final = "..data"
_LOCK: Final = ".lock"

MAX_BYTES: Final = 1024 * 1024
"""The most bytes that are read of a file: as many as a Secret can hold."""

READ_ATTEMPTS: Final = 3
"""A generation can be replaced between resolving the link and reading; it happens once in months."""

POLL: Final = 2.0
"""Seconds between two reads. No kind of notification works on every file system and through symbolic links."""


@dataclass(slots=True)
class Directory:
    """A directory that stores certificates and keys; a `Store`.

    Attributes:
        path: the directory; made at the first write.
        poll: seconds between two checks for changes by other processes.
    """

    path: Path
    poll: float = POLL
    _seen: str | None = field(default=None, init=False)

    async def read(self) -> Snapshot:
        """Read all files.

        Raises:
            StoreError: a file cannot be read.
        """
        snapshot = await asyncio.to_thread(self.read_blocking)
        self._seen = snapshot.version
        return snapshot

    async def write(self, files: Mapping[str, bytes], version: str) -> bool:
        """Replace all files if the directory is still at a version; False if it is not.

        A reader, or a crash, sees either the old or the new generation.

        Raises:
            StoreError: the directory cannot be written.
        """
        written = await asyncio.to_thread(self.write_blocking, files, version)
        if written:
            self._seen = _version(files)
        return written

    async def changed(self) -> None:
        """Return when the content differs from what was last read or written.

        Raises:
            StoreError: a file cannot be read.
        """
        while True:
            await asyncio.sleep(self.poll)
            if (await asyncio.to_thread(self.read_blocking)).version != self._seen:
                return

    def read_blocking(self) -> Snapshot:
        """Read all files, blocking.

        Raises:
            StoreError: a file cannot be read.
        """
        for _ in range(READ_ATTEMPTS):
            generation = self._generation()
            files = {}
            for name in FILES:
                try:
                    with (generation / name).open("rb") as file:
                        files[name] = file.read(MAX_BYTES)
                except FileNotFoundError:
                    continue
                except OSError as error:
                    raise self._error(error) from error
            if generation == self._generation():
                return Snapshot(files or None, _version(files))
        raise StoreError(str(self.path), "is rewritten faster than it can be read")

    def write_blocking(self, files: Mapping[str, bytes], version: str) -> bool:
        """Do what `write` does, blocking.

        Raises:
            StoreError: the directory cannot be written.
        """
        with self._locked():
            if self.read_blocking().version != version:
                return False
            try:
                before = self._generation()
                self._write(files)
                if before != self.path:
                    shutil.rmtree(before, ignore_errors=True)
            except OSError as error:
                raise self._error(error) from error
        return True

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Keep other processes from writing, and create the directory if there is none."""
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = os.open(self.path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise self._error(error) from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def _generation(self) -> Path:
        try:
            return self.path / (self.path / _CURRENT).readlink()
        except OSError:
            return self.path

    def _write(self, content: Mapping[str, bytes]) -> None:
        generation = self.path / f"..{secrets.token_hex(8)}"
        generation.mkdir(mode=0o700)
        try:
            for name, data in content.items():
                _write_file(generation / name, data)
            _sync_directory(generation)
            self._link(_CURRENT, generation.name)
        except OSError:
            # Writing is retried as long as it fails: what failed attempts leave behind would fill the disk.
            shutil.rmtree(generation, ignore_errors=True)
            raise
        for name in FILES:
            # A plain file of that name, in a directory made by hand, is replaced last: readers use it until then.
            target = f"{_CURRENT}/{name}"
            linked = _links_to(self.path / name, target)
            if name in content and not linked:
                self._link(name, target)
            elif name not in content and linked:
                (self.path / name).unlink(missing_ok=True)
        _sync_directory(self.path)

    def _link(self, name: str, target: str) -> None:
        new = self.path / f".{name}.{secrets.token_hex(4)}"
        try:
            new.symlink_to(target)
            new.replace(self.path / name)
        except OSError:
            new.unlink(missing_ok=True)
            raise

    def _error(self, error: OSError) -> StoreError:
        return StoreError(error.filename or str(self.path), error.strerror or type(error).__name__)


def _version(files: Mapping[str, bytes]) -> str:
    digest = hashlib.sha256()
    for name, data in sorted(files.items()):
        digest.update(f"{name} {len(data)} ".encode() + data)
    return digest.hexdigest()


def _links_to(path: Path, target: str) -> bool:
    try:
        return str(path.readlink()) == target
    except OSError:
        return False


def _write_file(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(descriptor)


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


CLAIM_TIME: Final = 10.0
"""Seconds within which a replica claims a CA that it serves under and that the store lacks (see `Rotator`). It learns of
a change to the store within one second."""


def first_wait(state: State, ca: x509.Certificate, trust: Trust, now: dt.datetime) -> float:
    """The seconds after which no other replica can be answering callers successfully; infinite if one may be.

    Args:
        state: the stored state.
        ca: the CA of the stored serving certificate.
        trust: which CAs callers trust.
        now: the current time, in UTC.
    """
    if not trust.sees(der(ca)):
        return float("inf")
    if trust.only([der(ca)]):
        return 0.0
    if any(ca.claimed and now < ca.until and der(ca.certificate) in trust.all_cas for ca in state.retired):
        return float("inf")
    return max(0.0, min(CLAIM_TIME, trust.settle) - _age(ca, now))


def aged(ca: x509.Certificate, trust: Trust, now: dt.datetime) -> bool:
    """Whether a CA is old enough to have settled before its first use; the replacement of a lost CA is not."""
    return _age(ca, now) >= trust.settle


def _age(ca: x509.Certificate, now: dt.datetime) -> float:
    # A clock that was set back must not prolong the wait.
    return max(0.0, (now - ca.not_valid_before_utc - CLOCK_SKEW).total_seconds())
