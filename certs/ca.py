"""Makes a CA and serving certificates under it, on EC P-256, in the form that strict clients (Go, OpenSSL, webpki) accept.

P-256, because a handshake costs the server a quarter less than with RSA-2048, and making a key takes microseconds,
short enough for an event loop.
"""

import datetime as dt
import ipaddress
from collections.abc import Collection
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

from certs.pair import Pair

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


def covers(certificate: x509.Certificate, names: Collection[str]) -> bool:
    """Whether a certificate is for every one of `names`."""
    try:
        alternative = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return False
    return set(map(_general_name, names)) <= set(alternative)


def names_of(certificate: x509.Certificate) -> list[str]:
    """The DNS names and IP addresses of a certificate."""
    try:
        alternative = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
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
    try:
        return certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    except x509.ExtensionNotFound:
        # A CA that somebody made by hand may lack it.
        return x509.SubjectKeyIdentifier.from_public_key(certificate.public_key())


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
