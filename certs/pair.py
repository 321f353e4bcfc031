"""A certificate and its private key, and their PEM form."""

import datetime as dt
from dataclasses import dataclass, field

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from certs.problem import UnusablePairError


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
