"""The certificates of an installation, and the files in which they are stored.

===============  =============================================================================
``ca.crt``       every CA that clients must trust: current, next, retired
``ca.key``       the key of the current CA: of the certificate in ``ca.crt`` that it matches
``next-ca.key``  the key of the next CA, if there is one
``tls.crt``      the serving certificate, one for all replicas
``tls.key``      its key
``state.json``   the end of each retired CA, which of them are claimed, a rotation request; often missing
===============  =============================================================================

Each part is decoded by itself: an unusable serving certificate costs no CA, and a CA whose key is lost stays trusted.

Restores from memory what is missing in the store: a pure function of both.

A store may be emptied or damaged while replicas still serve its certificates.
"""

import datetime as dt
import enum
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization

from certs.ca import Pair, UnusablePairError, blocks, decode_key, decode_pair, signed_by

BUNDLE: Final = "ca.crt"
CA_KEY: Final = "ca.key"
NEXT_CA_KEY: Final = "next-ca.key"
CERTIFICATE: Final = "tls.crt"
KEY: Final = "tls.key"
STATE: Final = "state.json"
FILES: Final = (BUNDLE, CA_KEY, NEXT_CA_KEY, CERTIFICATE, KEY, STATE)

CA: Final = "the CA"
NEXT_CA: Final = "the next CA"
SERVING_CERTIFICATE: Final = "the serving certificate"


class RotationRequest(enum.Enum):
    """What to renew before it is due."""

    SERVING_CERTIFICATE = "serving certificate"
    CA = "CA"


@dataclass(frozen=True, slots=True)
class Retired:
    """A CA that signs nothing anymore, and stays trusted while a serving certificate under it may be in use.

    Attributes:
        certificate: its certificate.
        until: when the last serving certificate under it expires, in UTC.
        claimed: a replica was serving under it when the store lost it; that replica moves to its replacement once that
            has settled.
    """

    certificate: x509.Certificate
    until: dt.datetime
    claimed: bool = False

    @property
    def abandoned(self) -> bool:
        """Whether no end was stored: its key was lost."""
        return not self.claimed and self.until >= self.certificate.not_valid_after_utc


@dataclass(frozen=True, slots=True)
class State:
    """Everything that is stored. Printing it shows no key.

    Attributes:
        ca: the current CA; None if its key is lost: then its certificate is among the retired ones.
        next_ca: the next CA, of which clients must learn before anything under it is served.
        retired: earlier CAs.
        serving_pair: the serving certificate with its key, under one of these.
        requested: what to renew before it is due.
    """

    ca: Pair | None
    next_ca: Pair | None = None
    retired: tuple[Retired, ...] = ()
    serving_pair: Pair | None = None
    requested: RotationRequest | None = None

    @property
    def cas(self) -> tuple[x509.Certificate, ...]:
        """The CA certificates that clients must trust, in an order that depends only on them."""
        pairs = [pair.certificate for pair in (self.ca, self.next_ca) if pair is not None]
        return in_order([*pairs, *(ca.certificate for ca in self.retired)])

    @property
    def bundle_pem(self) -> bytes:
        """The CA certificates that clients must trust, in PEM."""
        return pem(self.cas)

    def issuer(self, certificate: x509.Certificate) -> x509.Certificate | None:
        """The CA that signed a serving certificate; None if it is none of these."""
        return next((ca for ca in self.cas if signed_by(certificate, ca)), None)

    def files(self) -> dict[str, bytes]:
        """The files to store, by name; those without content are missing."""
        files = {BUNDLE: self.bundle_pem}
        if self.ca is not None:
            files[CA_KEY] = self.ca.key_pem
        if self.next_ca is not None:
            files[NEXT_CA_KEY] = self.next_ca.key_pem
        if self.serving_pair is not None:
            files |= {CERTIFICATE: self.serving_pair.certificate_pem, KEY: self.serving_pair.key_pem}
        extra: dict[str, Any] = {}
        if self.retired:
            ends = {fingerprint(ca.certificate): ca.until.isoformat(timespec="seconds") for ca in self.retired}
            extra["retired"] = dict(sorted(ends.items()))
        if claims := sorted(fingerprint(ca.certificate) for ca in self.retired if ca.claimed):
            extra["claimed"] = claims
        if self.requested is not None:
            extra["requested"] = self.requested.value
        if extra:
            files[STATE] = json.dumps(extra, indent=1).encode()
        return files


@dataclass(frozen=True, slots=True)
class Decoded:
    """The content of files.

    Attributes:
        state: what can be used; None if nothing can.
        problems: what cannot be used, and why.
    """

    state: State | None
    problems: tuple[UnusablePairError, ...] = ()


def decode(files: Mapping[str, bytes] | None) -> Decoded:
    """Decode the files of a store, by name as in the module's docstring; None or empty files for an empty store."""
    if not files or not any(files.get(name, b"").strip() for name in FILES):
        return Decoded(None)
    problems: list[UnusablePairError] = []
    certificates = _certificates(files.get(BUNDLE, b""), problems)
    next_ca = ca = None
    if certificates:
        if files.get(NEXT_CA_KEY):
            next_ca = _usable(problems, lambda: _ca(certificates, files[NEXT_CA_KEY], NEXT_CA))
        # Without its key, the current CA signs nothing anymore; that is fine once there is a next CA.
        if files.get(CA_KEY) or next_ca is None:
            ca = _usable(problems, lambda: _ca(certificates, files.get(CA_KEY), CA))
        if next_ca is not None and ca is not None and next_ca.certificate == ca.certificate:
            next_ca = None
    if not certificates:
        return Decoded(None, tuple(problems))
    ends, claims, requested = _state(files.get(STATE), problems)
    pairs = [pair.certificate for pair in (ca, next_ca) if pair is not None]
    state = State(
        ca,
        next_ca,
        tuple(
            # A CA without a stored end stays until it expires.
            Retired(certificate, ends.get(mark, certificate.not_valid_after_utc), mark in claims)
            for certificate in in_order(certificates)
            if certificate not in pairs
            for mark in (fingerprint(certificate),)
        ),
        requested=requested,
    )
    if files.get(CERTIFICATE) or files.get(KEY):
        state = replace(state, serving_pair=_usable(problems, lambda: _serving_pair(state, files)))
    return Decoded(state, tuple(problems))


def fingerprint(certificate: x509.Certificate) -> str:
    """The SHA-256 of a certificate's DER, in hexadecimal digits."""
    return certificate.fingerprint(hashes.SHA256()).hex()


def der(certificate: x509.Certificate) -> bytes:
    """The DER of a certificate."""
    return certificate.public_bytes(serialization.Encoding.DER)


def pem(certificates: Iterable[x509.Certificate]) -> bytes:
    """Certificates in PEM, one after the other."""
    return b"".join(certificate.public_bytes(serialization.Encoding.PEM) for certificate in certificates)


def in_order(certificates: Iterable[x509.Certificate]) -> tuple[x509.Certificate, ...]:
    """Each certificate once, the oldest first: the same set gives the same bytes on every replica."""
    return tuple(
        sorted(set(certificates), key=lambda certificate: (certificate.not_valid_before_utc, fingerprint(certificate)))
    )


def _certificates(bundle: bytes, problems: list[UnusablePairError]) -> list[x509.Certificate]:
    certificates = []
    pems = blocks(bundle)
    for block in pems:
        try:
            certificates.append(x509.load_pem_x509_certificate(block))
        except (ValueError, x509.InvalidVersion):
            problems.append(UnusablePairError("the bundle", "has a certificate that is not valid PEM"))
    if not pems:
        problems.append(UnusablePairError(CA, "has a certificate that is not valid PEM"))
    return certificates


def _usable(problems: list[UnusablePairError], decoded: Callable[[], Pair]) -> Pair | None:
    """Decode a pair; None if it cannot be used, which is added to `problems`."""
    try:
        return decoded()
    except UnusablePairError as problem:
        problems.append(problem)
        return None


def _ca(certificates: list[x509.Certificate], key_pem: bytes | None, what: str) -> Pair:
    if not key_pem:
        raise UnusablePairError(what, "has no key")
    key = decode_key(key_pem, what=what)
    own = next((candidate for candidate in certificates if candidate.public_key() == key.public_key()), None)
    if own is None:
        raise UnusablePairError(what, "has a key that belongs to another certificate")
    if not _may_sign(own):
        raise UnusablePairError(what, "has a certificate that may not sign others (basicConstraints CA:TRUE)")
    return Pair(own, key)


def _may_sign(certificate: x509.Certificate) -> bool:
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except (x509.ExtensionNotFound, ValueError):
        return False


def _serving_pair(state: State, files: Mapping[str, bytes]) -> Pair:
    pair = decode_pair(files.get(CERTIFICATE, b""), files.get(KEY, b""), what=SERVING_CERTIFICATE)
    if state.issuer(pair.certificate) is None:
        raise UnusablePairError(SERVING_CERTIFICATE, "is not signed by a CA of the bundle")
    return pair


def _state(
    text: bytes | None, problems: list[UnusablePairError]
) -> tuple[Mapping[str, dt.datetime], frozenset[str], RotationRequest | None]:
    if not text:
        return {}, frozenset(), None
    try:
        extra = json.loads(text)
        ends = {
            str(key): dt.datetime.fromisoformat(value).astimezone(dt.UTC)
            for key, value in (extra.get("retired") or {}).items()
        }
        requested = extra.get("requested")
        return ends, frozenset(extra.get("claimed") or ()), None if requested is None else RotationRequest(requested)
    except (ValueError, TypeError, AttributeError):
        problems.append(UnusablePairError("the state", f"has a {STATE} that cannot be decoded: delete it"))
        return {}, frozenset(), None


def completed_files(found: State | None, remembered: State | None) -> State | None:
    """The stored state, completed from memory where something is missing."""
    if found is None or remembered is None:
        return found or remembered
    ca = remembered.ca
    if found.ca is None and ca is not None and ca.certificate in found.cas:
        retired = tuple(other for other in found.retired if other.certificate != ca.certificate)
        found = replace(found, ca=ca, retired=retired)
    if found.ca is None and found.next_ca is None:
        # No stored CA can sign, and a remembered one can; stored CAs stay trusted.
        known = set(remembered.cas)
        others = tuple(other for other in found.retired if other.certificate not in known)
        found = replace(remembered, retired=(*remembered.retired, *others), requested=found.requested)
    pair = remembered.serving_pair
    if (
        found.serving_pair is None
        and pair is not None
        and found.requested is not RotationRequest.SERVING_CERTIFICATE
        and found.ca is not None
        and found.issuer(pair.certificate) == found.ca.certificate
    ):
        found = replace(found, serving_pair=pair)
    return found
