"""A directory that keeps an authority and a leaf, in the layout of a mounted ``kubernetes.io/tls`` Secret.

::

    ca.crt  ca.key  tls.crt  tls.key      symbolic links to ..data/<name>
    ..data                                symbolic link to the generation in force
    ..<random>/                           one generation: four files of mode 0600

Four files cannot be replaced at once, a symbolic link can: a reader that resolves ``..data`` first sees one generation
whole, as with the kubelet's own mounts. A directory of plain files is read, too.
"""

import contextlib
import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from certs.pair import Pair, decode_pair
from certs.problem import StoreError, UnusablePairError

CA_CERTIFICATE: Final = "ca.crt"
CA_KEY: Final = "ca.key"
CERTIFICATE: Final = "tls.crt"
KEY: Final = "tls.key"
_FILES: Final = (CA_CERTIFICATE, CA_KEY, CERTIFICATE, KEY)
_CURRENT: Final = "..data"
_LOCK: Final = ".lock"

MAX_BYTES: Final = 1024 * 1024
"""Longest file that is read: what a Secret can hold."""

READ_ATTEMPTS: Final = 3
"""A generation can be replaced between resolving the link and reading; it happens once in months."""


@dataclass(frozen=True, slots=True)
class Stored:
    """What a directory holds: the authority, and the leaf if there is one that can be used."""

    authority: Pair
    leaf: Pair | None


@dataclass(frozen=True, slots=True)
class Directory:
    """A directory that keeps certificates and keys."""

    path: Path

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes that lock from writing meanwhile; makes the directory if there is none.

        Raises:
            StoreError: it cannot be made or locked.
        """
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

    def read(self) -> Stored | None:
        """What is kept, None when nothing is. A leaf that cannot be used is passed over: it can be made anew.

        Raises:
            StoreError: a file cannot be read.
            UnusablePairError: the authority cannot be used.
        """
        files = self._read_files()
        if CA_CERTIFICATE not in files and CA_KEY not in files:
            return None
        authority = decode_pair(files.get(CA_CERTIFICATE, b""), files.get(CA_KEY, b""), what="the authority")
        try:
            leaf = decode_pair(files.get(CERTIFICATE, b""), files.get(KEY, b""), what="the leaf")
        except UnusablePairError:
            leaf = None
        return Stored(authority, leaf)

    def _read_files(self) -> dict[str, bytes]:
        for _ in range(READ_ATTEMPTS):
            generation = self._generation()
            found = {}
            for name in _FILES:
                try:
                    with (generation / name).open("rb") as file:
                        found[name] = file.read(MAX_BYTES)
                except FileNotFoundError:
                    continue
                except OSError as error:
                    raise self._error(error) from error
            if generation == self._generation():
                return found
        raise StoreError(str(self.path), "is being rewritten all the time")

    def _generation(self) -> Path:
        try:
            return self.path / (self.path / _CURRENT).readlink()
        except OSError:
            return self.path

    def write(self, stored: Stored) -> None:
        """Put `stored` in the place of whatever is kept; a reader, or a crash, sees the one or the other.

        Raises:
            StoreError: it cannot be written.
        """
        content = {CA_CERTIFICATE: stored.authority.certificate_pem, CA_KEY: stored.authority.key_pem}
        if stored.leaf is not None:
            content |= {CERTIFICATE: stored.leaf.certificate_pem, KEY: stored.leaf.key_pem}
        try:
            before = self._generation()
            self._write(content)
            if before != self.path:
                shutil.rmtree(before, ignore_errors=True)
        except OSError as error:
            raise self._error(error) from error

    def _write(self, content: dict[str, bytes]) -> None:
        generation = self.path / f"..{secrets.token_hex(8)}"
        generation.mkdir(mode=0o700)
        for name, data in content.items():
            _write_file(generation / name, data)
        _sync_directory(generation)
        self._link(_CURRENT, generation.name)
        for name in _FILES:
            # A plain file of that name, from a directory made by hand, gives way last: until then it is what is read.
            target = f"{_CURRENT}/{name}"
            if name in content and not _links_to(self.path / name, target):
                self._link(name, target)
        _sync_directory(self.path)

    def _link(self, name: str, target: str) -> None:
        new = self.path / f".{name}.{secrets.token_hex(4)}"
        new.symlink_to(target)
        new.replace(self.path / name)

    def _error(self, error: OSError) -> StoreError:
        return StoreError(error.filename or str(self.path), error.strerror or type(error).__name__)


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
