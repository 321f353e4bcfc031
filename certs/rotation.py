"""What is stored of certificates, whom callers trust, and what to renew when: pure functions, the same on every replica.

===========  ====================================================================================
``ca.crt``   every CA that callers must trust
``ca.key``   the keys of those that may still sign: of the one in use, and of the one that is next
``tls.crt``  the serving certificate, one for all replicas
``tls.key``  its key
``rotate``   a request for a new ``certificate`` or ``ca``; in a Secret, an annotation
===========  ====================================================================================

A CA is published beside the others before anything under it is served: the next serving certificate is made under the
newest CA that every API server has had the time to learn of. A CA stays trusted until it expires, or until somebody
deletes its entry in ``ca.crt``.
"""

import datetime as dt
import enum
from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from typing import Final, NamedTuple, Self

from cryptography import x509
from msgspec import Struct
from msgspec.structs import replace

from certs.x509 import (
    CA_LIFE,
    CLOCK_SKEW,
    SERVING_CERTIFICATE,
    SERVING_LIFE,
    Pair,
    UnusablePairError,
    blocks,
    der,
    in_order,
    issue,
    lacking,
    load_certificates,
    load_key,
    make_ca,
    may_sign,
    names_of,
    pem,
    signed_by,
)

BUNDLE: Final = "ca.crt"
CA_KEY: Final = "ca.key"
CERTIFICATE: Final = "tls.crt"
KEY: Final = "tls.key"
ROTATE: Final = "rotate"
FILES: Final = (CA_KEY, BUNDLE, KEY, CERTIFICATE, ROTATE)
"""In the order in which they are written: a key is there before its certificate."""

CA: Final = "the CA"


class RotationRequest(enum.Enum):
    """What to renew before it is due."""

    SERVING_CERTIFICATE = "certificate"
    CA = "ca"


class State(Struct, frozen=True, dict=True):
    """Everything that is stored; printing it shows no key.

    The CAs are those that callers must trust, in an order that depends only on them; the signers those of them whose keys are
    stored, the newest last; the pair is the serving certificate with its key, under one of the CAs.
    """

    cas: tuple[x509.Certificate, ...] = ()
    signers: tuple[Pair, ...] = ()
    pair: Pair | None = None
    requested: RotationRequest | None = None

    @property
    def bundle(self) -> bytes:
        """The CAs that callers must trust, PEM."""
        return pem(self.cas)

    @cached_property
    def issuer(self) -> x509.Certificate | None:
        """The CA of the serving certificate; None if there is none, or it was deleted."""
        pair = self.pair
        return None if pair is None else next((ca for ca in self.cas if signed_by(pair.certificate, ca)), None)

    def trusting(self, *cas: x509.Certificate) -> Self:
        return replace(self, cas=in_order([*self.cas, *cas]))

    def files(self) -> dict[str, bytes]:
        """The files to store, by name; those without content are missing."""
        pair = self.pair
        files = {
            BUNDLE: self.bundle,
            CA_KEY: b"".join(signer.key_pem for signer in self.signers),
            CERTIFICATE: b"" if pair is None else pair.certificate_pem,
            KEY: b"" if pair is None else pair.key_pem,
            ROTATE: b"" if self.requested is None else self.requested.value.encode(),
        }
        return {name: content for name, content in files.items() if content}


def decode(stored: Mapping[str, bytes] | None) -> State | None:
    """Decode the files of a store; None if there is no CA. Keys and certificates that belong to nothing are left out.

    An `UnusablePairError` says that a file has another format, or that no CA can sign.
    """
    files = {name: content for name, content in (stored or {}).items() if content.strip()}
    if BUNDLE not in files:
        return None
    cas = in_order(load_certificates(files[BUNDLE], CA))
    keys = [load_key(block, CA) for block in blocks(files.get(CA_KEY, b""), b"PRIVATE KEY")]
    signers = tuple(Pair(ca, key) for ca in cas for key in keys if ca.public_key() == key.public_key() and may_sign(ca))
    if not signers:
        raise UnusablePairError(CA, "has no key")
    return State(cas, signers, _pair(files, cas), _requested(files))


def _pair(files: Mapping[str, bytes], cas: Collection[x509.Certificate]) -> Pair | None:
    if CERTIFICATE not in files or KEY not in files:
        return None
    certificate = load_certificates(files[CERTIFICATE], SERVING_CERTIFICATE)[0]
    pair = Pair(certificate, load_key(files[KEY], SERVING_CERTIFICATE))
    matching = certificate.public_key() == pair.key.public_key() and any(signed_by(certificate, ca) for ca in cas)
    return pair if matching else None


def _requested(files: Mapping[str, bytes]) -> RotationRequest | None:
    text = files.get(ROTATE, b"").decode(errors="replace").strip()
    return RotationRequest(text) if text in {each.value for each in RotationRequest} else None


class Trust(Struct, frozen=True):
    """The CAs (DER) in the webhook configuration of a cluster, as known at one moment; seconds are of a monotonic clock.

    API servers learn of a change at different moments, so a CA that has just been written counts only after a settle time.

    Attributes:
        known: whether the configuration has been read; before that, nothing is trusted.
        no_callers: there is no webhook configuration, so nobody calls.
        since: by CA, since when every webhook of the configuration has had it.
        at_first: those of them that were in the configuration when it was first read, or when it was created: an API
            server that learns of the configuration learns of them.
        all_cas: every CA of any webhook of the configuration.
    """

    settle: float
    known: bool = False
    no_callers: bool = False
    since: Mapping[bytes, float] = {}
    at_first: frozenset[bytes] = frozenset()
    all_cas: frozenset[bytes] = frozenset()

    def observed(self, bundles: Iterable[Collection[bytes]] | None, at: float) -> Self:
        """The trust after the CAs of each webhook were read again; None: there is no webhook configuration."""
        each = [frozenset(bundle) for bundle in bundles or ()]
        # A CA that one of the webhooks lacks fails its calls.
        seen = frozenset.intersection(*each) if each else frozenset()
        return replace(
            self,
            known=True,
            no_callers=not each,
            since={ca: self.since.get(ca, at) for ca in seen},
            at_first=self.at_first & seen if self.known and not self.no_callers else seen,
            all_cas=frozenset().union(*each),
        )

    def servable(self, ca: bytes, at: float, *, first: bool, aged: bool = True) -> bool:
        """Whether certificates under a CA may be served; the `first` one may, where there are no callers.

        A CA that was in the configuration when it was first read had settled before its first use, if it is old enough
        for that (`aged`).
        """
        return self.seconds(ca, at) <= 0 or (aged and ca in self.at_first) or (first and self.no_callers)

    def only(self, cas: Collection[bytes]) -> bool:
        """Whether callers trust no CA but these: they would not accept a serving certificate under another one."""
        return self.known and self.all_cas <= frozenset(cas)

    def seconds(self, ca: bytes, at: float) -> float:
        """Seconds until every API server has learned of a CA; infinite if the webhook configuration does not have it."""
        since = self.since.get(ca)
        return float("inf") if since is None else max(0.0, since + self.settle - at)


RENEW_AFTER: Final = 2 / 3
"""Part of a life after which a certificate is renewed: of 90 days, a month remains for failures."""

SETTLE: Final = 120.0
"""Seconds within which every API server has learned of a change; their watches take one second."""

RETURN_TIME: Final = 10.0
"""Seconds within which a replica writes the CA that it serves under back into the store, if that lacks it."""


class Rules(Struct, frozen=True):
    """How certificates are made: the name of CAs, the names of serving certificates, and the life of each.

    A CA is valid for several times as long as a serving certificate.
    """

    ca: str
    names: Collection[str]
    serving_life: dt.timedelta = SERVING_LIFE
    ca_life: dt.timedelta = CA_LIFE


def due(pair: Pair) -> dt.datetime:
    """When a certificate is to be renewed."""
    begin = pair.certificate.not_valid_before_utc
    return begin + (pair.not_after - begin) * RENEW_AFTER


class PlannedStep(NamedTuple):
    """The new state, the seconds until the next step, and what was made, for people."""

    state: State
    due: float
    made: str


def step(stored: State | None, trust: Trust, rules: Rules, now: dt.datetime, at: float) -> PlannedStep:
    """Compute the next state; `at` is the same moment as `now`, by the clock of `trust`."""
    valid = _valid(stored or State(), now)
    with_ca = _with_ca(valid, rules, now)
    state = _with_pair(with_ca, trust, rules, now, at)
    made = [what for what, same in ((CA, with_ca is valid), (SERVING_CERTIFICATE, state is with_ca)) if not same]
    return PlannedStep(replace(state, requested=None), _seconds(state, trust, now, at), ", ".join(made))


def _valid(state: State, now: dt.datetime) -> State:
    """It without CAs that have expired, and without a serving certificate that no caller accepts now."""
    pair = state.pair
    return replace(
        state,
        cas=tuple(ca for ca in state.cas if now <= ca.not_valid_after_utc),
        signers=tuple(signer for signer in state.signers if now <= signer.not_after),
        pair=None if pair is None or not pair.valid_at(now) else pair,
    )


def _with_ca(state: State, rules: Rules, now: dt.datetime) -> State:
    """It with a new CA, if the newest one is near its end, or none can sign, or one is requested and not there yet."""
    usable = _usable(state, now)
    if usable and now < due(usable[-1]) and (state.requested is not RotationRequest.CA or has_next(state)):
        return state
    made = make_ca(rules.ca, now, rules.ca_life)
    return replace(state.trusting(made.certificate), signers=(*state.signers, made))


def has_next(state: State) -> bool:
    """Whether there is a CA that the serving certificate will be under once callers have learned of it."""
    return state.issuer is not None and bool(state.signers) and state.signers[-1].certificate != state.issuer


def _usable(state: State, now: dt.datetime) -> list[Pair]:
    return [signer for signer in state.signers if signer.valid_at(now)]


def _with_pair(state: State, trust: Trust, rules: Rules, now: dt.datetime, at: float) -> State:
    """It with a serving certificate under the CA that is to sign, for every name, and not near its end."""
    signer, pair, names = _next_signer(state, trust, now, at), state.pair, [*rules.names]
    if signer is None:
        return state
    if pair is not None and state.issuer == signer.certificate:
        requested = state.requested is RotationRequest.SERVING_CERTIFICATE
        # One that ends with its CA is not renewed for nothing.
        late = now >= due(pair) and pair.not_after < signer.not_after
        if lacking(pair.certificate, names):
            # Replicas of two releases may need different names: each keeps the other's until the next renewal.
            names += names_of(pair.certificate)
        elif not requested and not late:
            return state
    made = issue(signer, list(dict.fromkeys(names)), now, rules.serving_life)
    # Older CAs sign nothing any more.
    return replace(state, signers=state.signers[state.signers.index(signer) :], pair=made)


def _next_signer(state: State, trust: Trust, now: dt.datetime, at: float) -> Pair | None:
    """The newest CA that every caller has learned of; otherwise the one in use, if it can still sign."""
    usable, issuer = _usable(state, now), state.issuer
    settled = [signer for signer in usable if trust.seconds(der(signer.certificate), at) <= 0]
    if settled:
        return settled[-1]
    # Where nothing valid is served, there is no reason to wait for the last caller.
    return next((signer for signer in usable if issuer in {None, signer.certificate}), None)


def _seconds(state: State, trust: Trust, now: dt.datetime, at: float) -> float:
    moments = [ca.not_valid_after_utc for ca in state.cas]
    moments += [due(pair) for pair in (*state.signers[-1:], state.pair) if pair is not None]
    seconds = [(moment - now).total_seconds() for moment in moments]
    if has_next(state):
        seconds.append(trust.seconds(der(state.signers[-1].certificate), at))
    # What is overdue waits for something else: for trust, or for a clock to be corrected.
    return min((left for left in seconds if left > 0), default=float("inf"))


def seconds_to_serve(state: State, served: x509.Certificate | None, trust: Trust, now: dt.datetime, at: float) -> float:
    """Seconds until the stored serving certificate may be served; infinite if callers do not know its CA.

    `served` is the CA of what is served now; `at` is the same moment as `now`, by the clock of `trust`.
    """
    ca, first = state.issuer, served is None
    assert ca is not None  # noqa: S101  (ensured by decoding and planning)
    # A clock that was set back must not prolong the wait.
    age = max(0.0, (now - ca.not_valid_before_utc - CLOCK_SKEW).total_seconds())
    # Another serving certificate under the same CA changes nothing for callers.
    if ca == served or trust.servable(der(ca), at, first=first, aged=age >= trust.settle):
        return 0.0
    wait = trust.seconds(der(ca), at)
    others = trust.all_cas & {der(other) for other in state.cas if other != ca}
    if not first or wait == float("inf") or others:
        return wait
    # Waiting makes sense while another replica answers callers under a CA that they trust: its CA would be in the store.
    return 0.0 if trust.only([der(ca)]) else max(0.0, min(RETURN_TIME, wait) - age)
