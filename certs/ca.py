"""Makes a CA and serving certificates under it, on EC P-256, in the form that strict clients (Go, OpenSSL, webpki) accept.

P-256, because a handshake costs the server a quarter less than with RSA-2048, and making a key takes microseconds,
short enough for an event loop.

The errors of this package. No message ever holds any part of a key.

CertificateError            base of all
├── UnusablePairError       a certificate or key that does not match, cannot be decoded, or is not valid now
│   .what, .why             which of them, and the rest of the sentence
└── StoreError              a store that cannot be read or written

Whether clients accept a serving certificate: its validity, its names, and a path to a CA that they trust.

The checks follow Go, with which API servers verify, and are as lenient: a company's CA may be older than today's rules.

Which CAs callers are known to trust, and since when.

API servers learn of a change at different moments, so a CA that has just been written counts only after a settle time.
Seconds are of a monotonic clock.
"""

import base64
import binascii
import datetime as dt
import ipaddress
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Self, TypeVar

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

E = TypeVar("E", bound=x509.ExtensionType)


class CertificateError(Exception):
    """Base of all errors of this package."""


class UnusablePairError(CertificateError):
    """A certificate or its key that cannot be served."""

    def __init__(self, what: str, why: str) -> None:
        self.what = what
        self.why = why
        super().__init__(f"{what} {why}")


class StoreError(CertificateError):
    """A store that cannot be read or written."""

    def __init__(self, place: str, why: str) -> None:
        super().__init__(f"{place}: {why}")


_BLOCK: Final = re.compile(rb"-----BEGIN CERTIFICATE-----(.*?)-----END CERTIFICATE-----", re.DOTALL)


def blocks(text: bytes) -> list[bytes]:
    """The certificates of a text, each in PEM."""
    return [block[0] for block in _BLOCK.finditer(text)]


def by_der(text: bytes) -> dict[bytes, bytes]:
    """The certificates of a text: the DER of each, and its PEM. Blocks that are not base64 are skipped."""
    certificates = {}
    for block in _BLOCK.finditer(text):
        try:
            certificates[base64.b64decode(block[1], validate=False)] = block[0]
        except (binascii.Error, ValueError):
            continue
    return certificates


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key. Printing it shows no key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey = field(repr=False)

    @property
    def not_before(self) -> dt.datetime:
        """The start of its validity, in UTC."""
        return self.certificate.not_valid_before_utc

    @property
    def not_after(self) -> dt.datetime:
        """The end of its validity, in UTC."""
        return self.certificate.not_valid_after_utc

    def valid_at(self, moment: dt.datetime) -> bool:
        """Whether a client whose clock shows `moment` accepts it."""
        return self.not_before <= moment <= self.not_after

    @property
    def certificate_pem(self) -> bytes:
        """The certificate in PEM, for clients and the ``caBundle`` of a webhook."""
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        """The key, unencrypted (PKCS #8): only for a file of mode 0600 or a Secret."""
        return self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )


def decode_pair(certificate_pem: bytes, key_pem: bytes, *, what: str) -> Pair:
    """Decode a pair from two PEM texts.

    Args:
        certificate_pem: the certificate.
        key_pem: its key.
        what: the pair's name in errors: "the CA", "the serving certificate".

    Raises:
        UnusablePairError: a text is not PEM, the key is encrypted or not on an elliptic curve, or the two do not match.
    """
    try:
        certificate = x509.load_pem_x509_certificate(certificate_pem)
    except (ValueError, x509.InvalidVersion):
        raise UnusablePairError(what, "has a certificate that is not valid PEM") from None
    key = decode_key(key_pem, what=what)
    if certificate.public_key() != key.public_key():
        raise UnusablePairError(what, "has a key that belongs to another certificate")
    return Pair(certificate, key)


def decode_key(key_pem: bytes, *, what: str) -> ec.EllipticCurvePrivateKey:
    """Decode a key from a PEM text; `what` names its pair in errors.

    Raises:
        UnusablePairError: the text is not PEM, or the key is encrypted or not on an elliptic curve.
    """
    try:
        key = serialization.load_pem_private_key(key_pem, password=None)
    except TypeError:
        raise UnusablePairError(what, "has an encrypted key") from None
    except (ValueError, UnsupportedAlgorithm):
        raise UnusablePairError(what, "has a key that is not valid PEM") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise UnusablePairError(what, "has a key that is not on an elliptic curve")
    return key


CA_LIFE: Final = dt.timedelta(days=3652)
"""Ten years: everyone who trusts a CA has to learn of its replacement."""

SERVING_LIFE: Final = dt.timedelta(days=90)
"""Clients need not do anything when a serving certificate is renewed, and a stolen one soon expires."""

CLOCK_SKEW: Final = dt.timedelta(minutes=5)
"""How far a client's clock may be behind: as Kerberos allows and cert-manager recommends."""

MAX_COMMON_NAME: Final = 64
"""``ub-common-name`` of RFC 5280; clients read the alternative names instead."""

_NO_USAGE: Final = dict.fromkeys(
    (
        "digital_signature",
        "content_commitment",
        "key_encipherment",
        "data_encipherment",
        "key_agreement",
        "key_cert_sign",
        "crl_sign",
        "encipher_only",
        "decipher_only",
    ),
    False,
)


def make_ca(name: str, now: dt.datetime, life: dt.timedelta = CA_LIFE) -> Pair:
    """Make a self-signed CA that can sign serving certificates, but no further CA."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name[:MAX_COMMON_NAME])])
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    certificate = (
        _builder(subject, subject, key, now, now + life)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.KeyUsage(**{**_NO_USAGE, "key_cert_sign": True, "crl_sign": True}), critical=True)
        .add_extension(identifier, critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False)
        .sign(key, hashes.SHA256())
    )
    return Pair(certificate, key)


def issue(ca: Pair, names: Collection[str], now: dt.datetime, life: dt.timedelta = SERVING_LIFE) -> Pair:
    """Issue a serving certificate for `names` (DNS names, IP addresses); it never outlives its CA.

    Raises:
        ValueError: there is no name, or one that is not ASCII.
    """
    if not names:
        raise ValueError("a serving certificate needs at least one name")
    key = ec.generate_private_key(ec.SECP256R1())
    common = next((name for name in names if len(name) <= MAX_COMMON_NAME), None)
    subject = x509.Name([] if common is None else [x509.NameAttribute(x509.NameOID.COMMON_NAME, common)])
    issuer = ca.certificate
    identifier = _key_identifier(issuer)
    certificate = (
        _builder(subject, issuer.subject, key, now, min(now + life, ca.not_after))
        # RFC 5280 §4.2.1.6: critical where there is no subject.
        .add_extension(x509.SubjectAlternativeName(map(_general_name, names)), critical=common is None)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.KeyUsage(**{**_NO_USAGE, "digital_signature": True}), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False)
        .sign(ca.key, hashes.SHA256())
    )
    return Pair(certificate, key)


def _extension(certificate: x509.Certificate, kind: type[E]) -> E | None:
    try:
        return certificate.extensions.get_extension_for_class(kind).value
    except x509.ExtensionNotFound:
        return None


def covers(certificate: x509.Certificate, names: Collection[str]) -> bool:
    """Whether a certificate is for every one of `names`."""
    alternative = _extension(certificate, x509.SubjectAlternativeName)
    return alternative is not None and set(map(_general_name, names)) <= set(alternative)


def names_of(certificate: x509.Certificate) -> list[str]:
    """The DNS names and IP addresses of a certificate."""
    alternative = _extension(certificate, x509.SubjectAlternativeName)
    if alternative is None:
        return []
    return [*alternative.get_values_for_type(x509.DNSName), *map(str, alternative.get_values_for_type(x509.IPAddress))]


def signed_by(certificate: x509.Certificate, ca: x509.Certificate) -> bool:
    """Whether the key of a CA signed a certificate."""
    try:
        certificate.verify_directly_issued_by(ca)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    now: dt.datetime,
    until: dt.datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(until)
    )


def _key_identifier(certificate: x509.Certificate) -> x509.SubjectKeyIdentifier:
    # A CA that somebody made by hand may lack it.
    found = _extension(certificate, x509.SubjectKeyIdentifier)
    return found or x509.SubjectKeyIdentifier.from_public_key(certificate.public_key())


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


MAX_INTERMEDIATES: Final = 8
"""The most intermediates between a serving certificate and its CA; real chains have one or two."""


def check_time(certificate: x509.Certificate, now: dt.datetime, what: str) -> None:
    """Check that a certificate is valid now.

    Raises:
        UnusablePairError: it is not, or the clock is wrong.
    """
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if now < begin:
        raise UnusablePairError(
            what, f"is not valid before {begin:%Y-%m-%d %H:%M} UTC, and the clock says {now:%Y-%m-%d %H:%M}"
        )
    if now > end:
        raise UnusablePairError(what, f"expired at {end:%Y-%m-%d %H:%M} UTC")


def check_use(certificate: x509.Certificate, names: Collection[str], what: str) -> None:
    """Check that a certificate is for a server with these names.

    Raises:
        UnusablePairError: it is not.
    """
    missing = [name for name in names if not _has_name(certificate, name)]
    if missing:
        names_text = ", ".join(names_of(certificate)) or "no name"
        raise UnusablePairError(what, f"is not for {', '.join(missing)}: it names {names_text}")
    usages = _extension(certificate, x509.ExtendedKeyUsage)
    if usages is not None and not {ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE} & set(
        usages
    ):
        raise UnusablePairError(what, "is not for servers (extendedKeyUsage serverAuth is missing)")


def path_to(
    certificate: x509.Certificate,
    intermediates: Sequence[x509.Certificate],
    cas: Collection[x509.Certificate],
    now: dt.datetime,
    what: str,
) -> list[x509.Certificate]:
    """Find the path from a serving certificate to a CA: its issuer first, the CA last.

    Raises:
        UnusablePairError: there is no path, or a certificate on it is not valid.
    """
    path: list[x509.Certificate] = []
    lower = certificate
    for _ in range(MAX_INTERMEDIATES):
        ca = _issuer(lower, [candidate for candidate in cas if may_sign(candidate, len(path))], now)
        if ca is not None:
            check_time(ca, now, "the CA")
            return [*path, ca]
        unused = [candidate for candidate in intermediates if candidate not in path and may_sign(candidate, len(path))]
        intermediate = _issuer(lower, unused, now)
        if intermediate is None:
            break
        check_time(intermediate, now, "an intermediate")
        path.append(intermediate)
        lower = intermediate
    raise UnusablePairError(what, "is not signed by a CA of the bundle, directly or through its intermediates")


def may_sign(certificate: x509.Certificate, below: int) -> bool:
    """Whether clients accept a certificate as a CA (RFC 5280 §6.1.4) with `below` intermediates below it."""
    constraints, usage = _extension(certificate, x509.BasicConstraints), _extension(certificate, x509.KeyUsage)
    if constraints is None or not constraints.ca or not (usage is None or usage.key_cert_sign):
        return False
    return constraints.path_length is None or constraints.path_length >= below


def _has_name(certificate: x509.Certificate, name: str) -> bool:
    """Whether a certificate is for a name: case does not count, ``*`` matches one whole first label (RFC 6125 §6.4)."""
    names = {own.lower() for own in names_of(certificate)}
    _, dot, parent = name.lower().partition(".")
    return covers(certificate, [name]) or name.lower() in names or (bool(dot) and f"*.{parent}" in names)


def _issuer(
    certificate: x509.Certificate, candidates: Iterable[x509.Certificate], now: dt.datetime
) -> x509.Certificate | None:
    """The certificate that signed another; of several with the same key, preferably one that is valid now."""
    issuers = [candidate for candidate in candidates if signed_by(certificate, candidate)]
    valid = (issuer for issuer in issuers if issuer.not_valid_before_utc <= now <= issuer.not_valid_after_utc)
    return next(valid, issuers[0] if issuers else None)


@dataclass(frozen=True, slots=True)
class Trust:
    """The CAs in the webhook configuration of a cluster, as known at one moment.

    Attributes:
        settle: seconds after which every API server has learned of a change.
        known: whether the configuration has been read; before that, nothing is trusted.
        no_callers: there is no webhook configuration, so nobody calls.
        since: by CA (DER), since when every webhook of the configuration has had it.
        at_first: those of them that were in the configuration when it was first read, or when it was created: an API
            server that learns of the configuration learns of them.
        all_cas: every CA of any webhook of the configuration.
    """

    settle: float
    known: bool = False
    no_callers: bool = False
    since: Mapping[bytes, float] = field(default_factory=dict)
    at_first: frozenset[bytes] = frozenset()
    all_cas: frozenset[bytes] = frozenset()

    @property
    def bare(self) -> bool:
        """Whether the webhook configuration has no CA: API servers trust what their machines trust, and none of our CAs."""
        return self.known and not self.no_callers and not self.all_cas

    def observed(self, bundles: Iterable[Collection[bytes]] | None, at: float) -> Self:
        """The trust after the configuration was read again.

        Args:
            bundles: the CAs (DER) of each webhook of the configuration; None if there is no webhook configuration.
            at: when it was read.
        """
        each = [frozenset(bundle) for bundle in bundles or ()]
        if not each:
            return replace(self, known=True, no_callers=True, since={}, at_first=frozenset(), all_cas=frozenset())
        # A CA that one of the webhooks lacks fails its calls.
        seen = frozenset.intersection(*each)
        return replace(
            self,
            known=True,
            no_callers=False,
            since={ca: self.since.get(ca, at) for ca in seen},
            at_first=self.at_first & seen if self.known and not self.no_callers else seen,
            all_cas=frozenset().union(*each),
        )

    def sees(self, ca: bytes) -> bool:
        """Whether the webhook configuration has a CA now."""
        return ca in self.since

    def settled(self, ca: bytes, at: float) -> bool:
        """Whether every API server has learned of a CA."""
        return ca in self.since and at - self.since[ca] >= self.settle

    def servable(self, ca: bytes, at: float, *, first: bool, aged: bool = True) -> bool:
        """Whether serving certificates under a CA may be served.

        A CA that was in the configuration when it was first read had settled before its first use, if it is old enough.

        Args:
            ca: its DER.
            at: the moment.
            first: nothing has been served yet: without callers, nothing can go wrong.
            aged: the CA is old enough to have settled before its first use.
        """
        return self.settled(ca, at) or (aged and ca in self.at_first) or (first and self.no_callers)

    def only(self, cas: Collection[bytes]) -> bool:
        """Whether callers trust no CA but these: they would not accept a serving certificate under another one."""
        return self.known and self.all_cas <= frozenset(cas)

    def seconds_until_settled(self, ca: bytes, at: float) -> float:
        """Seconds until a CA has settled; infinite if the webhook configuration does not have it."""
        since = self.since.get(ca)
        return float("inf") if since is None else max(0.0, since + self.settle - at)
