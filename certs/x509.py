"""X.509: makes CAs and serving certificates, and says whether API servers accept one.

Keys are on EC P-256: a handshake costs the server a quarter less than with RSA-2048, and making a key takes microseconds.

Acceptance follows Go, with which API servers verify, and is as lenient: a company's CA may be older than today's rules.
`cryptography.x509.verification` is not: whatever its policy, it refuses CAs on Ed25519, P-224 or short RSA keys, critical
certificate policies, and an empty issuer.
"""

import base64
import binascii
import datetime as dt
import ipaddress
import re
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, TypeVar

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

E = TypeVar("E", bound=x509.ExtensionType)

SERVING_CERTIFICATE: Final = "the serving certificate"


class CertificateError(Exception):
    """Base of all errors of this package; no message ever holds any part of a key."""


class UnusablePairError(CertificateError):
    """A certificate or its key that cannot be served."""

    def __init__(self, what: str, why: str) -> None:
        super().__init__(f"{what} {why}")


class StoreError(CertificateError):
    """A store that cannot be read or written."""

    def __init__(self, place: str, why: str) -> None:
        super().__init__(f"{place}: {why}")


_BLOCK: Final = re.compile(rb"-----BEGIN ([A-Z ]+)-----(.*?)-----END \1-----", re.DOTALL)


def blocks(text: bytes, kind: bytes) -> list[bytes]:
    """The PEM blocks of a text whose label ends with `kind`."""
    return [block[0] for block in _BLOCK.finditer(text) if block[1].endswith(kind)]


def by_der(text: bytes) -> dict[bytes, bytes]:
    """The certificates of a text: the DER of each, and its PEM. Blocks that are not base64 are skipped."""
    certificates = {}
    for block in blocks(text, b"CERTIFICATE"):
        with suppress(binascii.Error):
            certificates[base64.b64decode(b"".join(block.split(b"-----")[2:-2]))] = block
    return certificates


def der(certificate: x509.Certificate) -> bytes:
    """The DER of a certificate."""
    return certificate.public_bytes(serialization.Encoding.DER)


def pem(certificates: Iterable[x509.Certificate]) -> bytes:
    """Certificates in PEM, one after the other."""
    return b"".join(certificate.public_bytes(serialization.Encoding.PEM) for certificate in certificates)


def fingerprint(certificate: x509.Certificate) -> str:
    """The SHA-256 of a certificate's DER, in hexadecimal digits."""
    return certificate.fingerprint(hashes.SHA256()).hex()


def in_order(certificates: Iterable[x509.Certificate]) -> tuple[x509.Certificate, ...]:
    """Each certificate once, the oldest first: the same set gives the same bytes on every replica.

    CAs of one second are in an order of chance, the same on all replicas. Each of them is trusted and may sign: it
    only decides which one is next; the other stays trusted until it expires.
    """
    return tuple(sorted(set(certificates), key=lambda each: (each.not_valid_before_utc, fingerprint(each))))


def load_certificates(text: bytes, what: str) -> list[x509.Certificate]:
    """Load the certificates of a text, of which there is one at least; `what` names it in errors."""
    try:
        return x509.load_pem_x509_certificates(text)
    except (ValueError, x509.InvalidVersion):
        raise UnusablePairError(what, "has a certificate that is not valid PEM") from None


def load_key(text: bytes, what: str) -> ec.EllipticCurvePrivateKey:
    """Load an unencrypted key on an elliptic curve; `what` names its pair in errors."""
    try:
        key = serialization.load_pem_private_key(text, password=None)
    except TypeError:
        raise UnusablePairError(what, "has an encrypted key") from None
    except (ValueError, UnsupportedAlgorithm):
        raise UnusablePairError(what, "has a key that is not valid PEM") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise UnusablePairError(what, "has a key that is not on an elliptic curve")
    return key


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key. Printing it shows no key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey = field(repr=False)

    @property
    def not_after(self) -> dt.datetime:
        return self.certificate.not_valid_after_utc

    def valid_at(self, moment: dt.datetime) -> bool:
        """Whether a client whose clock shows `moment` accepts it."""
        return self.certificate.not_valid_before_utc <= moment <= self.not_after

    @property
    def certificate_pem(self) -> bytes:
        """The certificate in PEM, for clients and the ``caBundle`` of a webhook."""
        return pem([self.certificate])

    @property
    def key_pem(self) -> bytes:
        """The key, unencrypted (PKCS #8): only for a file of mode 0600 or a Secret."""
        return self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )


CA_LIFE: Final = dt.timedelta(days=365)
"""One year: a CA stays trusted until it expires."""

STATIC_CA_LIFE: Final = dt.timedelta(days=3652)
"""Ten years, where people have to tell callers of another one."""

SERVING_LIFE: Final = dt.timedelta(days=90)
"""Clients need not do anything when a serving certificate is renewed, and a stolen one soon expires."""

CLOCK_SKEW: Final = dt.timedelta(minutes=5)
"""How far a client's clock may be behind: as Kerberos allows and cert-manager recommends."""

MAX_COMMON_NAME: Final = 64
"""``ub-common-name`` of RFC 5280; clients read the alternative names instead."""

_USAGES: Final = (
    *("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement"),
    *("key_cert_sign", "crl_sign", "encipher_only", "decipher_only"),
)


def make_ca(name: str, now: dt.datetime, life: dt.timedelta = CA_LIFE) -> Pair:
    """Make a self-signed CA that can sign serving certificates, but no further CA."""
    return _made(name[:MAX_COMMON_NAME], None, now, now + life, {"key_cert_sign", "crl_sign"})


def issue(ca: Pair, names: Collection[str], now: dt.datetime, life: dt.timedelta = SERVING_LIFE) -> Pair:
    """Issue a serving certificate for `names`, ASCII DNS names or IP addresses; it never outlives its CA."""
    if not names:
        raise ValueError("a serving certificate needs at least one name")
    common = next((name for name in names if len(name) <= MAX_COMMON_NAME), None)
    # RFC 5280 §4.2.1.6: critical where there is no subject.
    alternative = (x509.SubjectAlternativeName(map(_general_name, names)), common is None)
    usage = (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False)
    return _made(common, ca, now, min(now + life, ca.not_after), {"digital_signature"}, alternative, usage)


def _made(
    common: str | None,
    ca: Pair | None,
    now: dt.datetime,
    until: dt.datetime,
    usages: Collection[str],
    *extensions: tuple[x509.ExtensionType, bool],
) -> Pair:
    """Make a key and its certificate, signed by a CA or by itself; each extension is critical or not."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([] if common is None else [x509.NameAttribute(x509.NameOID.COMMON_NAME, common)])
    identifier = by = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    if ca is not None:
        # A CA that somebody made by hand may lack it.
        by = _extension(ca.certificate, x509.SubjectKeyIdentifier) or x509.SubjectKeyIdentifier.from_public_key(
            ca.certificate.public_key()
        )
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if ca is None else ca.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(until)
    )
    for extension, critical in (
        *extensions,
        (x509.BasicConstraints(ca=ca is None, path_length=0 if ca is None else None), True),
        (x509.KeyUsage(**{usage: usage in usages for usage in _USAGES}), True),
        (identifier, False),
        (x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(by), False),
    ):
        builder = builder.add_extension(extension, critical=critical)
    return Pair(builder.sign(key if ca is None else ca.key, hashes.SHA256()), key)


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _extension(certificate: x509.Certificate, kind: type[E]) -> E | None:
    try:
        return certificate.extensions.get_extension_for_class(kind).value
    except x509.ExtensionNotFound:
        return None


def names_of(certificate: x509.Certificate) -> list[str]:
    """The DNS names and IP addresses of a certificate."""
    alternative = _extension(certificate, x509.SubjectAlternativeName)
    if alternative is None:
        return []
    return [*alternative.get_values_for_type(x509.DNSName), *map(str, alternative.get_values_for_type(x509.IPAddress))]


def lacking(certificate: x509.Certificate, names: Collection[str]) -> list[str]:
    """Those of `names` that a certificate is not for: case does not count, ``*`` is a whole first label (RFC 6125 §6.4)."""
    own = {name.lower() for name in names_of(certificate)}
    wanted = {name: str(_general_name(name).value).lower() for name in names}
    return [name for name, text in wanted.items() if own.isdisjoint({text, f"*.{text.partition('.')[2]}"})]


def signed_by(certificate: x509.Certificate, ca: x509.Certificate) -> bool:
    """Whether the key of a CA signed a certificate."""
    try:
        certificate.verify_directly_issued_by(ca)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def why_unusable(certificate: x509.Certificate, names: Collection[str], now: dt.datetime) -> str | None:
    """Why a server with these names cannot use a certificate, or the clock is wrong; None if it can."""
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if now < begin:
        return f"is not valid before {begin:%Y-%m-%d %H:%M} UTC, and the clock says {now:%Y-%m-%d %H:%M}"
    if now > end:
        return f"expired at {end:%Y-%m-%d %H:%M} UTC"
    if missing := lacking(certificate, names):
        return f"is not for {', '.join(missing)}: it names {', '.join(names_of(certificate)) or 'no name'}"
    return None if _for_servers(certificate) else "is not for servers (extendedKeyUsage serverAuth is missing)"


def _for_servers(certificate: x509.Certificate) -> bool:
    usages = _extension(certificate, x509.ExtendedKeyUsage)
    return usages is None or not {
        ExtendedKeyUsageOID.SERVER_AUTH,
        ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE,
    }.isdisjoint(usages)


def ca_of(
    certificate: x509.Certificate,
    intermediates: Sequence[x509.Certificate],
    cas: Collection[x509.Certificate],
    now: dt.datetime,
) -> x509.Certificate:
    """The CA, valid now, that a serving certificate is under: directly, through its intermediates, or listed itself."""
    valid = [each for each in (*cas, *intermediates) if each.not_valid_before_utc <= now <= each.not_valid_after_utc]
    found = certificate if certificate in cas else _ca_of([certificate], valid, cas)
    if found is None:
        why = "is not signed by a CA of the bundle that is valid now, directly or through intermediates that are"
        raise UnusablePairError(SERVING_CERTIFICATE, why)
    return found


def _ca_of(
    path: list[x509.Certificate], issuers: Sequence[x509.Certificate], cas: Collection[x509.Certificate]
) -> x509.Certificate | None:
    """Where a path from a serving certificate ends, by way of any of the issuers."""
    below = len(path) - 1
    next_ones = (each for each in issuers if each not in path and may_sign(each, below) and signed_by(path[-1], each))
    ends = (each if each in cas else _ca_of([*path, each], issuers, cas) for each in next_ones)
    return next((end for end in ends if end is not None), None)


def may_sign(certificate: x509.Certificate, below: int = 0) -> bool:
    """Whether clients accept a certificate as a CA of servers (RFC 5280 §6.1.4) with `below` intermediates below it."""
    constraints, usage = _extension(certificate, x509.BasicConstraints), _extension(certificate, x509.KeyUsage)
    if constraints is None or not constraints.ca or not (usage is None or usage.key_cert_sign):
        return False
    short = constraints.path_length is None or below <= constraints.path_length
    return short and _for_servers(certificate)
