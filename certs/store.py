"""Where certificates are: a store that several replicas read and write at once, a directory that is one, a TLS context."""

import asyncio
import datetime as dt
import fcntl
import hashlib
import os
import ssl
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final, Protocol

from cryptography import x509
from msgspec import Struct

from certs.rotation import FILES
from certs.x509 import SERVING_CERTIFICATE, StoreError, UnusablePairError, ca_of, why_unusable


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


class Directory(Struct):
    """A directory that stores certificates and keys, with the names of a mounted ``kubernetes.io/tls`` Secret; a `Store`.

    Each file is replaced as a whole, keys before certificates, and files are read in the opposite order. A reader may see
    some old and some new ones: what does not match counts as damaged, and cannot be written over the new version. It is made
    at the first write.
    """

    path: Path
    poll: float = POLL
    _seen: str | None = None

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


ALPN: Final = ["http/1.1"]
"""Never h2: clients use it if it is offered, and the server behind does not support it. API servers request 1.1."""

CIPHERS: Final = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""For TLS 1.2 only: forward secrecy and authenticated encryption, as in Mozilla's intermediate profile."""


class Serving:
    """A server's TLS context (`context`) and the pair that it serves; until the first `swap`, every handshake fails.

    With `client_cas` (PEM), clients need a certificate under one of these.

    Loading a new pair into a live context is unsafe: a mismatched pair breaks every later handshake, and a pair of another
    key type leaves the old one in its slot. So a new pair is loaded into a context of its own, checked, and put into force by
    one assignment; the front context, which the listener has, hands each handshake over to it. Its callback is called for
    clients that send no server name, too.
    """

    def __init__(self, client_cas: bytes | None = None) -> None:
        self._in_force: tuple[ssl.SSLContext, x509.Certificate] | None = None
        self._client_cas = client_cas
        # The front context needs no pair: its callback is called before a certificate is chosen.
        self.context = _context(client_cas)
        self.context.sni_callback = self._hand_over

    def _hand_over(self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> int | None:
        if self._in_force is None:
            return ssl.ALERT_DESCRIPTION_INTERNAL_ERROR
        connection.context, _ = self._in_force
        return None

    def swap(
        self,
        chain_pem: bytes,
        key_pem: bytes,
        now: dt.datetime,
        names: Collection[str] = (),
        cas: Sequence[x509.Certificate] | None = None,
    ) -> None:
        """Serve another pair from the next handshake on: the serving certificate, then intermediates, and its unencrypted key.

        Its key may be of any type that clients accept; `cas` are those that clients trust, as far as they are known.

        Raises:
            UnusablePairError: the two do not match, cannot be decoded, are not valid now, or not for these names or CAs; the
                previous pair stays in force.
        """
        context = _context(self._client_cas)
        _load(context, chain_pem, key_pem)
        certificate, *intermediates = x509.load_pem_x509_certificates(chain_pem)
        if why := why_unusable(certificate, names, now):
            raise UnusablePairError(SERVING_CERTIFICATE, why)
        if cas is not None:
            ca_of(certificate, intermediates, cas, now)
        self._in_force = context, certificate

    @property
    def certificate(self) -> x509.Certificate | None:
        """The serving certificate in force; None if there is none yet."""
        return None if self._in_force is None else self._in_force[1]

    def failure(self, now: dt.datetime) -> str | None:
        """Why no client can be served at a moment; None if clients can be."""
        if self.certificate is None:
            return "no certificate is served yet"
        why = why_unusable(self.certificate, (), now)
        return None if why is None else f"{SERVING_CERTIFICATE} {why}"


def _context(client_cas: bytes | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(CIPHERS)
    context.set_alpn_protocols(ALPN)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    if client_cas is not None:
        # In the front context, too: a handshake keeps its verify mode when it is handed over.
        context.verify_mode = ssl.CERT_REQUIRED
        # A resumed session would not be verified again, although its certificate may have expired.
        context.num_tickets = 0
        context.options |= ssl.OP_NO_TICKET
        try:
            context.load_verify_locations(cadata=client_cas.decode("ascii"))
        except (ssl.SSLError, ValueError):
            raise UnusablePairError("the CAs of clients", "are not valid PEM") from None
    return context


def _load(context: ssl.SSLContext, chain_pem: bytes, key_pem: bytes) -> None:
    # Python passes only files to OpenSSL. A memory file leaves no key on disk, needs no writable disk, and never blocks.
    file = os.memfd_create("pair")
    try:
        os.pwrite(file, key_pem + b"\n" + chain_pem, 0)
        context.load_cert_chain(f"/proc/self/fd/{file}", password=_no_password)
    except ssl.SSLError as error:
        # A key of another type goes into another slot of the context, which then has no certificate.
        mismatch = error.reason in {"KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH", "NO_CERTIFICATE_ASSIGNED"}
        why = "a key that belongs to another certificate" if mismatch else "a certificate or key that is not valid PEM"
        raise UnusablePairError(SERVING_CERTIFICATE, f"has {why}") from None
    finally:
        os.close(file)


def _no_password() -> str:
    # Without this, OpenSSL would prompt on the terminal.
    raise UnusablePairError(SERVING_CERTIFICATE, "has an encrypted key")
