"""Reading pairs from PEM, and what is reported about those that can't be used."""

import datetime as dt

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from certs.ca import CertificateError, Pair, UnusablePairError, decode_pair, make_ca

NOW = dt.datetime(2030, 5, 17, 12, tzinfo=dt.UTC)
CERTIFICATE = make_ca("one", NOW)
OTHER = make_ca("other", NOW)
ENCRYPTED = CERTIFICATE.key.private_bytes(
    serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"word")
)
RSA = rsa.generate_private_key(65537, 2048).private_bytes(
    serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
)


def test_round_trip() -> None:
    """A pair survives its PEM form."""
    read = decode_pair(CERTIFICATE.certificate_pem, CERTIFICATE.key_pem, what="the serving certificate")
    assert read.certificate == CERTIFICATE.certificate
    assert read.key_pem == CERTIFICATE.key_pem


@pytest.mark.parametrize(
    "certificate, key, why",
    [
        (b"", CERTIFICATE.key_pem, "a certificate that is not valid PEM"),
        (CERTIFICATE.certificate_pem[:200], CERTIFICATE.key_pem, "a certificate that is not valid PEM"),
        (CERTIFICATE.certificate_pem, b"", "a key that is not valid PEM"),
        (CERTIFICATE.certificate_pem, CERTIFICATE.key_pem[:100], "a key that is not valid PEM"),
        (CERTIFICATE.certificate_pem, ENCRYPTED, "an encrypted key"),
        (CERTIFICATE.certificate_pem, RSA, "not on an elliptic curve"),
        (CERTIFICATE.certificate_pem, OTHER.key_pem, "belongs to another certificate"),
    ],
    ids=["none", "cut", "no key", "cut key", "encrypted", "RSA", "another's key"],
)
def test_unusable(certificate: bytes, key: bytes, why: str) -> None:
    """Each mistake has its own message, which holds nothing of the key."""
    with pytest.raises(UnusablePairError, match=f"^the serving certificate has .*{why}") as caught:
        decode_pair(certificate, key, what="the serving certificate")
    assert isinstance(caught.value, CertificateError)
    assert caught.value.what == "the serving certificate"
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("hours, valid", [(-1, False), (0, True), (24 * 3652 + 1, False)])
def test_valid_at(hours: int, *, valid: bool) -> None:
    """A pair is valid between its dates."""
    pair: Pair = CERTIFICATE
    assert pair.valid_at(NOW + dt.timedelta(hours=hours)) is valid
