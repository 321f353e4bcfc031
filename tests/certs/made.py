"""Certificates and stores for tests."""

import asyncio
import datetime as dt
from collections.abc import Mapping
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from certs.rotation import State
from certs.store import Snapshot
from certs.x509 import Pair, issue, make_ca

NOW = dt.datetime(2030, 5, 17, 12, tzinfo=dt.UTC)
NAMES = ("webhook.gpu.svc", "127.0.0.1")
DAY = dt.timedelta(days=1)


def ca(days: float = 0, life: float = 365) -> Pair:
    """A CA made so many days from now."""
    return make_ca("test", NOW + days * DAY, life * DAY)


def stored(*cas: Pair, pair: Pair | None = None) -> State:
    """CAs, the oldest first, all of which may sign, and a serving certificate."""
    return State(tuple(each.certificate for each in cas), cas, pair)


def state(days: float = 0) -> State:
    """A CA and a serving certificate under it, both made so many days from now."""
    authority = ca(days)
    return stored(authority, pair=issue(authority, NAMES, NOW + days * DAY))


def key_pem(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey, password: bytes | None = None) -> bytes:
    """A key in PEM, encrypted if there is a key for it."""
    encryption = serialization.NoEncryption() if password is None else serialization.BestAvailableEncryption(password)
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)


def signed(
    key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey,
    by: Any,
    subject: str,
    until: dt.datetime,
    *extensions: tuple[x509.ExtensionType, bool],
    since: dt.datetime,
) -> x509.Certificate:
    """A certificate of a key, by a CA (a `Pair` of any key) or by itself; each extension is critical or not."""
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, subject)] if subject else [])
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name if by is None else by.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(since)
        .not_valid_after(until)
    )
    for extension, critical in extensions:
        builder = builder.add_extension(extension, critical=critical)
    signer = key if by is None else by.key
    return builder.sign(signer, None if isinstance(signer, ed25519.Ed25519PrivateKey) else hashes.SHA256())


def intermediate_under(root: Pair, now: dt.datetime, days: float = 365) -> Pair:
    """A CA that another one signed, as companies have them."""
    key = ec.generate_private_key(ec.SECP384R1())
    constraints = x509.BasicConstraints(ca=True, path_length=0)
    return Pair(signed(key, root, "intermediate", now + days * DAY, (constraints, True), since=now - DAY), key)


def root(now: dt.datetime) -> Pair:
    """A CA that may sign CAs."""
    key = ec.generate_private_key(ec.SECP256R1())
    constraints = x509.BasicConstraints(ca=True, path_length=None)
    return Pair(signed(key, None, "company root", now + 3652 * DAY, (constraints, True), since=now - DAY), key)


def rsa_leaf(ca: Pair, now: dt.datetime, names: tuple[str, ...] = ("localhost",)) -> tuple[bytes, bytes]:
    """The certificate and key, PEM, of a serving certificate as most CAs of companies make them."""
    key = rsa.generate_private_key(65537, 2048)
    alternatives = x509.SubjectAlternativeName([x509.DNSName(name) for name in names])
    certificate = signed(key, ca, "", now + 30 * DAY, (alternatives, True), since=now - DAY)
    return certificate.public_bytes(serialization.Encoding.PEM), key_pem(key)


class Memory:
    """A `Store` in memory that several rotators share.

    Attributes:
        files: what is kept.
        writes: how often something was written.
        trouble: raised in place of any answer.
    """

    def __init__(self, files: Mapping[str, bytes] | None = None) -> None:
        self.files = files
        self.writes = 0
        self.trouble: Exception | None = None
        self._version = 0
        self._changed = asyncio.Event()

    def put(self, files: Mapping[str, bytes] | None) -> None:
        self.files = files
        self._version += 1
        self._changed.set()

    async def read(self) -> Snapshot:
        """Return what is stored, after other tasks had a turn."""
        await asyncio.sleep(0)
        if self.trouble is not None:
            raise self.trouble
        return Snapshot(self.files, str(self._version))

    async def write(self, files: Mapping[str, bytes], version: str) -> bool:
        await asyncio.sleep(0)
        if self.trouble is not None:
            raise self.trouble
        if version != str(self._version):
            return False
        self.writes += 1
        self.put(files)
        return True

    async def changed(self) -> None:
        """Wait for the next change by anybody."""
        await self._changed.wait()
        self._changed.clear()
