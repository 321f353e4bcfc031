"""What an installation keeps of its certificates, and the files that it is kept in.

===============  =============================================================================
``ca.crt``       every CA that clients have to trust: current, coming, retired
``ca.key``       the key of the current authority: of the certificate in ``ca.crt`` that it fits
``next-ca.key``  the key of the coming CA, if there is one
``tls.crt``      the serving certificate, one for all replicas
``tls.key``      its key
``state.json``   until when retired CAs stay, who claims one, and what somebody has asked for; often missing
===============  =============================================================================

Decoding goes piece by piece: a serving certificate that cannot be used costs no CA, and a CA whose key is lost stays
trusted.
"""

import datetime as dt
import enum
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization

from certs.ca import signed_by
from certs.pair import Pair, decode_key, decode_pair
from certs.pem import blocks
from certs.problem import UnusablePairError

BUNDLE: Final = "ca.crt"
AUTHORITY_KEY: Final = "ca.key"
COMING_KEY: Final = "next-ca.key"
CERTIFICATE: Final = "tls.crt"
KEY: Final = "tls.key"
STATE: Final = "state.json"
FILES: Final = (BUNDLE, AUTHORITY_KEY, COMING_KEY, CERTIFICATE, KEY, STATE)

AUTHORITY: Final = "the CA"
COMING: Final = "the coming CA"
LEAF: Final = "the serving certificate"


class RotationRequest(enum.Enum):
    """What somebody wants made anew before its time."""

    LEAF = "leaf"
    AUTHORITY = "authority"


@dataclass(frozen=True, slots=True)
class Retired:
    """An CA that signs no more, and stays trusted while a serving certificate under it may be served.

    Attributes:
        certificate: its own.
        until: when nobody can serve such a serving certificate any more, in UTC.
        claimed: a replica was serving under it when the store lost it; it moves once the one in its place has settled.
    """

    certificate: x509.Certificate
    until: dt.datetime
    claimed: bool = False

    @property
    def abandoned(self) -> bool:
        """Whether nobody has said until when: its key was lost."""
        return not self.claimed and self.until >= self.certificate.not_valid_after_utc


@dataclass(frozen=True, slots=True)
class State:
    """All that is kept. Printing it shows no key.

    Attributes:
        authority: the current one; None if its key is lost, and then its certificate is among the retired.
        coming: the next one, that clients have to learn of before anything under it is served.
        retired: earlier ones.
        leaf: what is to be served; under one of these.
        asked: what somebody wants made anew.
    """

    ca: Pair | None
    coming: Pair | None = None
    retired: tuple[Retired, ...] = ()
    leaf: Pair | None = None
    asked: RotationRequest | None = None

    @property
    def authorities(self) -> tuple[x509.Certificate, ...]:
        """The certificates that clients have to trust, in an order that depends on nothing but themselves."""
        pairs = [pair.certificate for pair in (self.ca, self.coming) if pair is not None]
        return in_order([*pairs, *(one.certificate for one in self.retired)])

    @property
    def bundle_pem(self) -> bytes:
        """The same in PEM."""
        return pem(self.authorities)

    def issuer(self, leaf: x509.Certificate) -> x509.Certificate | None:
        """The CA among these that signed a serving certificate."""
        return next((one for one in self.authorities if signed_by(leaf, one)), None)

    def files(self) -> dict[str, bytes]:
        """It as files, by name; those that there is nothing for are missing."""
        found = {BUNDLE: self.bundle_pem}
        if self.ca is not None:
            found[AUTHORITY_KEY] = self.ca.key_pem
        if self.coming is not None:
            found[COMING_KEY] = self.coming.key_pem
        if self.leaf is not None:
            found |= {CERTIFICATE: self.leaf.certificate_pem, KEY: self.leaf.key_pem}
        state: dict[str, Any] = {}
        if self.retired:
            ends = {fingerprint(one.certificate): one.until.isoformat(timespec="seconds") for one in self.retired}
            state["retired"] = dict(sorted(ends.items()))
        if claims := sorted(fingerprint(one.certificate) for one in self.retired if one.claimed):
            state["claimed"] = claims
        if self.asked is not None:
            state["asked"] = self.asked.value
        if state:
            found[STATE] = json.dumps(state, indent=1).encode()
        return found


@dataclass(frozen=True, slots=True)
class Decoded:
    """What some files hold.

    Attributes:
        kept: what can be used; None if that is nothing.
        problems: what cannot.
    """

    kept: State | None
    problems: tuple[UnusablePairError, ...] = ()


def decode(files: Mapping[str, bytes] | None) -> Decoded:
    """What is kept in files, None or empty ones for nothing; see the module for their names."""
    if not files or not any(files.get(name, b"").strip() for name in FILES):
        return Decoded(None)
    problems: list[UnusablePairError] = []
    certificates = _certificates(files.get(BUNDLE, b""), problems)
    coming = authority = None
    if certificates:
        if files.get(COMING_KEY):
            coming = _usable(problems, lambda: _authority(certificates, files[COMING_KEY], COMING))
        # Without its key the current one signs no more; that is in order once there is another one to come.
        if files.get(AUTHORITY_KEY) or coming is None:
            authority = _usable(problems, lambda: _authority(certificates, files.get(AUTHORITY_KEY), AUTHORITY))
        if coming is not None and authority is not None and coming.certificate == authority.certificate:
            coming = None
    if not certificates:
        return Decoded(None, tuple(problems))
    ends, claims, asked = _state(files.get(STATE), problems)
    pairs = [pair.certificate for pair in (authority, coming) if pair is not None]
    kept = State(
        authority,
        coming,
        tuple(
            # Without a key of its end it stays as long as it can be of use to anybody.
            Retired(one, ends.get(fingerprint(one), one.not_valid_after_utc), fingerprint(one) in claims)
            for one in in_order(certificates)
            if one not in pairs
        ),
        asked=asked,
    )
    if files.get(CERTIFICATE) or files.get(KEY):
        kept = replace(kept, leaf=_usable(problems, lambda: _leaf(kept, files)))
    return Decoded(kept, tuple(problems))


def fingerprint(certificate: x509.Certificate) -> str:
    """SHA-256 of a certificate's DER, in hexadecimal digits."""
    return certificate.fingerprint(hashes.SHA256()).hex()


def der(certificate: x509.Certificate) -> bytes:
    """A certificate as it goes over the wire."""
    return certificate.public_bytes(serialization.Encoding.DER)


def pem(certificates: Iterable[x509.Certificate]) -> bytes:
    """Certificates in PEM, one after the other."""
    return b"".join(one.public_bytes(serialization.Encoding.PEM) for one in certificates)


def in_order(certificates: Iterable[x509.Certificate]) -> tuple[x509.Certificate, ...]:
    """Each certificate once, the oldest first: the same set gives the same bytes on every replica."""
    return tuple(sorted(set(certificates), key=lambda one: (one.not_valid_before_utc, fingerprint(one))))


def _certificates(bundle: bytes, problems: list[UnusablePairError]) -> list[x509.Certificate]:
    found = []
    pems = blocks(bundle)
    for block in pems:
        try:
            found.append(x509.load_pem_x509_certificate(block))
        except (ValueError, x509.InvalidVersion):
            problems.append(UnusablePairError("the bundle", "has a certificate that is no PEM"))
    if not pems:
        problems.append(UnusablePairError(AUTHORITY, "has a certificate that is no PEM"))
    return found


def _usable(problems: list[UnusablePairError], decoded: Callable[[], Pair]) -> Pair | None:
    """A pair if it can be used; else why it cannot is noted."""
    try:
        return decoded()
    except UnusablePairError as problem:
        problems.append(problem)
        return None


def _authority(certificates: list[x509.Certificate], key_pem: bytes | None, what: str) -> Pair:
    if not key_pem:
        raise UnusablePairError(what, "has no key")
    key = decode_key(key_pem, what=what)
    own = next((one for one in certificates if one.public_key() == key.public_key()), None)
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


def _leaf(kept: State, files: Mapping[str, bytes]) -> Pair:
    leaf = decode_pair(files.get(CERTIFICATE, b""), files.get(KEY, b""), what=LEAF)
    if kept.issuer(leaf.certificate) is None:
        raise UnusablePairError(LEAF, "is not signed by a CA of the bundle")
    return leaf


def _state(
    text: bytes | None, problems: list[UnusablePairError]
) -> tuple[Mapping[str, dt.datetime], frozenset[str], RotationRequest | None]:
    if not text:
        return {}, frozenset(), None
    try:
        state = json.loads(text)
        ends = {
            str(key): dt.datetime.fromisoformat(value).astimezone(dt.UTC)
            for key, value in (state.get("retired") or {}).items()
        }
        asked = state.get("asked")
        return ends, frozenset(state.get("claimed") or ()), None if asked is None else RotationRequest(asked)
    except (ValueError, TypeError, AttributeError):
        problems.append(UnusablePairError("the state", f"has a {STATE} that cannot be read: delete it"))
        return {}, frozenset(), None
