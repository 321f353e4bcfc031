"""What is stored, created again and when, over the years; what survives damage; and since when callers trust what."""

import datetime as dt
import functools
import math

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from certs.rotation import (
    CA,
    PlannedStep,
    RotationRequest,
    Rules,
    State,
    Trust,
    decode,
    has_next,
    seconds_to_serve,
    step,
)
from certs.x509 import SERVING_CERTIFICATE, Pair, UnusablePairError, der, issue, lacking, make_ca, names_of, signed_by
from tests.certs.made import DAY, NAMES, NOW, ca, key_pem, state, stored

RULES = Rules("test", NAMES)
BLIND = Trust(120).observed([[b"other"]], 0)
"""Callers that others tell what to trust."""


def seeing(whole: State, since: float = 0.0) -> Trust:
    """Callers that have known all of it for long, or since a moment."""
    return Trust(120).observed([[]], since - 1).observed([[der(each) for each in whole.cas]], since)


def after(whole: State | None, days: float, rules: Rules = RULES) -> PlannedStep:
    """A step so many days later, with callers that keep up."""
    trust = Trust(120) if whole is None else seeing(whole)
    return step(whole, trust, rules, NOW + days * DAY, days * 86400)


def made(done: PlannedStep) -> Pair:
    """The serving certificate, which is valid for its names, and under the newest CA that can sign."""
    assert done.state.pair is not None
    assert signed_by(done.state.pair.certificate, done.state.signers[0].certificate)
    return done.state.pair


def test_an_empty_store_gets_a_ca_and_a_serving_certificate() -> None:
    """An empty store gives a serving certificate that its CA signed and that is for the names."""
    first = after(None, 0)
    assert first.made == f"{CA}, {SERVING_CERTIFICATE}"
    assert not lacking(made(first).certificate, NAMES)
    assert first.due == pytest.approx(60 * 86400, rel=0.01)


def test_what_is_good_is_kept() -> None:
    """A restart changes nothing; the next renewal is the serving certificate's."""
    whole = state()
    kept = after(whole, 59)
    assert (kept.state, kept.made) == (whole, "")
    assert kept.due == pytest.approx(86400, rel=0.01)


@pytest.mark.parametrize(
    "names, days",
    [
        pytest.param((*NAMES, "other"), 0, id="another name"),
        pytest.param(NAMES, 61, id="two thirds of its life are over"),
        pytest.param(NAMES, 100, id="expired"),
        pytest.param(NAMES, -1, id="not yet valid: the clock was set back"),
    ],
)
def test_serving_certificate_is_renewed_under_its_ca(names: tuple[str, ...], days: float) -> None:
    """A serving certificate that won't do is replaced, and nobody who trusts the CA notices."""
    authority = ca(-10)
    second = after(stored(authority, pair=issue(authority, NAMES, NOW)), days, replace(RULES, names=names))
    assert second.made == SERVING_CERTIFICATE
    assert second.state.signers == (authority,)
    assert not lacking(made(second).certificate, names)
    assert made(second).valid_at(NOW + days * DAY)


def test_replicas_that_want_different_names_agree() -> None:
    """During an update the old release and the new one each add what they want, once; the next renewal forgets."""
    old, new = replace(RULES, names=("old",)), replace(RULES, names=("new",))
    widened = after(after(None, 0, old).state, 1, new)
    assert widened.made == SERVING_CERTIFICATE
    assert after(widened.state, 1, old).made == after(widened.state, 1, new).made == ""
    assert names_of(made(after(widened.state, 62, new)).certificate) == ["new"]


def test_ca_near_its_end_gets_a_successor() -> None:
    """It is published first; a certificate under it is made once that has settled, the old CA stays until it expires."""
    leaf = issue(old := ca(), NAMES, NOW + 240 * DAY)
    assert after(stored(old, pair=leaf), 243).made == ""
    first = after(stored(old, pair=leaf), 244)
    assert first.made == CA
    assert first.state.pair == leaf
    assert len(first.state.cas) == 2
    now, at = NOW + 244 * DAY, 1000.0
    trust = seeing(first.state, at)
    soon = step(first.state, trust, RULES, now, at + 119)
    assert soon.state == first.state
    assert soon.due == pytest.approx(1)
    second = step(first.state, trust, RULES, now, at + 120)
    assert second.made == SERVING_CERTIFICATE
    assert signed_by(made(second).certificate, second.state.cas[1])
    assert second.state.cas == first.state.cas
    assert [signer.certificate for signer in second.state.signers] == [second.state.cas[1]], "the old key is gone"
    assert len(after(second.state, 364.9).state.cas) == 2
    assert after(second.state, 365.1).state.cas == second.state.cas[1:]


def test_a_serving_certificate_is_never_put_back_under_an_older_ca() -> None:
    """Whatever a replica that has just started knows: the newer CA alone can sign."""
    whole = stored(new := ca(-1), pair=issue(new, NAMES, NOW - 61 * DAY))
    old = ca(-200)
    renewed = step(whole.trusting(old.certificate), seeing(stored(old)), RULES, NOW, 1e9)
    assert signed_by(made(renewed).certificate, new.certificate)


def test_a_deleted_ca_is_gone_at_once() -> None:
    """With its key, and the serving certificate under it."""
    old, new = ca(-2), ca(-1)
    files = stored(old, new, pair=issue(old, NAMES, NOW)).files()
    found = decode({**files, "ca.crt": new.certificate_pem})
    assert found is not None
    assert (found.cas, len(found.signers), found.pair) == ((new.certificate,), 1, None)
    assert signed_by(made(after(found, 0)).certificate, new.certificate)


def test_ca_whose_successor_is_seen_nowhere_stays() -> None:
    """With a webhook configuration that others keep, it signs on, and nothing is served that callers do not trust."""
    first = after(stored(old := ca(), pair=issue(old, NAMES, NOW + 200 * DAY)), 250)
    assert has_next(first.state)
    later = step(first.state, BLIND, RULES, NOW + 270 * DAY, 1e9)
    assert later.made == SERVING_CERTIFICATE
    assert signed_by(made(later).certificate, old.certificate)
    assert later.state.signers == first.state.signers


def test_where_callers_trust_no_successor_certificates_do_not_get_shorter_and_shorter() -> None:
    """The last serving certificate ends with its CA; it isn't renewed for nothing."""
    whole: State | None = stored(ca(0, 400))
    renewals, day = 0, 0.0
    while day < 399:
        done = step(whole, BLIND, RULES, NOW + day * DAY, day * 86400)
        renewals += SERVING_CERTIFICATE in done.made
        whole = done.state
        day += max(done.due, 60) / 86400
    assert renewals < 10


def test_ca_whose_key_is_gone_serves_on() -> None:
    """Until callers have learned of one that can sign."""
    old, new = ca(-1), ca()
    leaf = issue(old, NAMES, NOW - 70 * DAY)
    whole = replace(stored(old, new, pair=leaf), signers=(new,))
    assert step(whole, BLIND, RULES, NOW, 0).state == whole
    assert step(whole, BLIND, RULES, NOW + 30 * DAY, 0).made == SERVING_CERTIFICATE, "it has expired"
    assert step(whole, seeing(whole), RULES, NOW, 500.0).made == SERVING_CERTIFICATE


def test_after_the_end_of_everything_nobody_waits_for_the_last() -> None:
    """An installation that was off for two years: nothing else is valid."""
    done = step(state(-730), BLIND, RULES, NOW, 0)
    assert (done.made, len(done.state.cas)) == (f"{CA}, {SERVING_CERTIFICATE}", 1)


def test_a_ca_that_expires_before_its_first_use() -> None:
    """Callers never learned of it: it is forgotten with its key."""
    old = ca(-10)
    done = after(stored(old, ca(-5, life=4), pair=issue(old, NAMES, NOW)), 0)
    assert (done.made, done.state.signers) == ("", (old,))


def test_a_clock_that_is_set_back() -> None:
    """What is not valid yet stays, and does not keep the others busy."""
    whole = state(10)
    done = after(whole, 0)
    assert done.made == f"{CA}, {SERVING_CERTIFICATE}"
    assert set(whole.cas) < set(done.state.cas)
    again = step(decode(done.state.files()), seeing(done.state), RULES, NOW, 1e9)
    assert (again.made, again.due > 3600) == ("", True)


@pytest.mark.parametrize(
    "requested, expected", [(RotationRequest.SERVING_CERTIFICATE, SERVING_CERTIFICATE), (RotationRequest.CA, CA)]
)
def test_somebody_asks(requested: RotationRequest, expected: str) -> None:
    """It is done, and the request is taken away; a CA that is next already is not followed by another one."""
    done = after(replace(state(), requested=requested), 1)
    assert done.made == expected
    assert done.state.requested is None
    again = step(replace(done.state, requested=RotationRequest.CA), BLIND, RULES, NOW + DAY, 0)
    assert again.made == ("" if requested is RotationRequest.CA else CA)
    assert again.state.requested is None


def test_another_certificate_under_the_same_ca_changes_nothing_for_callers() -> None:
    """Whatever they trust by now."""
    whole = state()
    assert seconds_to_serve(whole, whole.issuer, BLIND, NOW, 0) == 0
    assert (
        seconds_to_serve(whole, OTHER.certificate, BLIND, NOW, 0)
        == seconds_to_serve(whole, None, BLIND, NOW, 0)
        == math.inf
    )


YEARS = 20


@settings(max_examples=5, deadline=None)
@given(leaf_days=st.integers(20, 400), authority_days=st.integers(365, 5000), replicas=st.integers(1, 4))
def test_twenty_years(leaf_days: int, authority_days: int, replicas: int) -> None:
    """Whenever it is due, some replica does it; no certificate comes near its end, nor a CA before its certificates."""
    rules = Rules("test", NAMES, leaf_days * DAY, max(authority_days, 4 * leaf_days) * DAY)
    whole: State | None = None
    now, at, steps = NOW, 0.0, 0
    trust = Trust(120)
    while now < NOW + YEARS * 365 * DAY:
        steps += 1
        due = float("inf")
        for _ in range(replicas):
            done = step(whole, trust, rules, now, at)
            whole, due = done.state, min(due, done.due)
            trust = trust.observed([[der(each) for each in whole.cas]], at)
            due = min(due, step(whole, trust, rules, now, at).due)
        assert whole is not None
        assert whole.pair is not None
        assert whole.issuer is not None
        assert whole.pair.valid_at(now + leaf_days * DAY * 0.27)
        assert whole.issuer.not_valid_after_utc >= whole.pair.not_after
        assert len(whole.cas) <= 3
        assert 0 < due < float("inf")
        now, at = now + dt.timedelta(seconds=due), at + due
    assert steps <= (YEARS * 365 / leaf_days * 2 + YEARS * 365 / authority_days * 20 + 20) * 2


CAS = [ca(day) for day in range(4)]


@settings(deadline=None)
@given(
    signers=st.integers(1, 3),
    pair=st.booleans(),
    requested=st.sampled_from([None, *RotationRequest]),
    old=st.booleans(),
)
def test_what_was_encoded_is_decoded(signers: int, requested: RotationRequest | None, *, pair: bool, old: bool) -> None:
    """Every state is decoded from its own files."""
    able = CAS[1 : 1 + signers]
    whole = replace(stored(*able, pair=issue(able[0], NAMES, NOW) if pair else None), requested=requested)
    whole = whole.trusting(CAS[0].certificate) if old else whole
    found = decode(whole.files())
    assert found is not None
    assert (found.files(), found.cas, found.requested) == (whole.files(), whole.cas, requested)


@pytest.mark.parametrize("files", [None, {}, {"tls.crt": b"", "tls.key": b""}, {"other": b"x"}, {"rotate": b"ca"}])
def test_nothing(files: dict[str, bytes] | None) -> None:
    """An empty Secret of the right type is nothing."""
    assert decode(files) is None


def test_the_layout_of_earlier_versions() -> None:
    """One CA with a serving certificate is read as it is, and encoded the same."""
    files = state().files()
    assert set(files) == {"ca.crt", "ca.key", "tls.crt", "tls.key"}
    found = decode({**files, "state.json": b"["})
    assert found is not None
    assert found.files() == files


OTHER = ca()
LEAF = issue(OTHER, NAMES, NOW)


@pytest.mark.parametrize(
    "damage, problem",
    [
        ({"tls.key": b"broken"}, "the serving certificate has a key that is not valid PEM"),
        ({"tls.crt": b"broken"}, "the serving certificate has a certificate that is not valid PEM"),
        ({"tls.key": key_pem(OTHER.key, b"word")}, "the serving certificate has an encrypted key"),
        ({"ca.key": b""}, "the CA has no key"),
        ({"ca.key": b"broken"}, "the CA has no key"),
        ({"ca.key": OTHER.key_pem}, "the CA has no key"),
        ({"ca.key": LEAF.key_pem, "ca.crt": LEAF.certificate_pem}, "the CA has no key"),
        ({"ca.key": key_pem(OTHER.key, b"word")}, "the CA has an encrypted key"),
        (
            {"ca.key": key_pem(rsa.generate_private_key(65537, 2048))},
            "the CA has a key that is not on an elliptic curve",
        ),
        ({"ca.crt": b"broken"}, "the CA has a certificate that is not valid PEM"),
    ],
)
def test_another_format(damage: dict[str, bytes], problem: str) -> None:
    """What is damaged is named, without anything of a key."""
    with pytest.raises(UnusablePairError) as caught:
        decode({**state().files(), **damage})
    assert str(caught.value) == problem


@pytest.mark.parametrize(
    "damage",
    [
        {"tls.key": b""},
        {"tls.crt": b""},
        {"tls.key": OTHER.key_pem},
        {"tls.crt": LEAF.certificate_pem, "tls.key": LEAF.key_pem},
        {"rotate": b"\xffmore"},
    ],
)
def test_what_does_not_belong_is_left_out(damage: dict[str, bytes]) -> None:
    """The CA stays, and a serving certificate under it is made."""
    whole = state()
    found = decode({**whole.files(), **damage})
    assert found is not None
    assert (found.cas, found.requested) == (whole.cas, None)
    assert (found.pair is None) == ("rotate" not in damage)


def test_what_somebody_has_put_into_the_bundle_stays_for_its_own_life() -> None:
    """In an order that depends on nothing but the certificates: the same bundle on every replica."""
    whole, older = state(), make_ca("older", NOW - DAY)
    found = decode({**whole.files(), "ca.crt": whole.bundle + older.certificate_pem})
    assert found is not None
    assert found.cas == (older.certificate, *whole.cas)
    assert after(found, 0).state.bundle == older.certificate_pem + whole.bundle


def test_no_key_is_printed() -> None:
    """Neither the state nor its parts show a private key when printed."""
    assert "PRIVATE" not in repr(state())
    assert "EllipticCurve" not in repr(state())


A, B, C = b"a", b"b", b"c"


NEVER = float("inf")
LOOKS: dict[str, list[tuple[list[list[bytes]] | None, int]]] = {
    "nobody has looked": [],
    "nobody calls": [(None, 0)],
    "made with it": [(None, 0), ([[A]], 1)],
    "at the first look": [([[A, B], [A]], 0)],
    "later, in both from 5 on": [([[A]], 0), ([[A, B], [A]], 1), ([[A, B], [A, B]], 5)],
    "seen twice": [([[A]], 0), ([[A]], 5)],
    "taken away": [([[A]], 0), ([[]], 100), ([[A]], 101)],
}
"""What was seen in the two webhooks, and when."""


@pytest.mark.parametrize(
    "looks, ca, at, first, later, seconds",
    [
        ("nobody has looked", A, 0, False, False, NEVER),
        ("nobody calls", A, 1e9, True, False, NEVER),
        ("made with it", A, 1, True, True, 10),
        # It is in use already; to put it in the place of another one takes the whole time.
        ("at the first look", A, 9, True, True, 1),
        ("at the first look", A, 10, True, True, 0),
        # One of the two webhooks would fail.
        ("at the first look", B, 10, False, False, NEVER),
        ("seen twice", A, 10, True, True, 0),
        ("later, in both from 5 on", B, 5, False, False, 10),
        ("later, in both from 5 on", B, 14.75, False, False, 0.25),
        ("later, in both from 5 on", B, 15, True, True, 0),
        ("later, in both from 5 on", C, 15, False, False, NEVER),
        ("taken away", A, 110, False, False, 1),
        ("taken away", A, 111, True, True, 0),
    ],
)
def test_what_may_be_served(looks: str, ca: bytes, at: float, *, first: bool, later: bool, seconds: float) -> None:
    """As the first serving certificate, or as a later one; and how long it takes until all callers know its CA."""
    trust = functools.reduce(lambda found, look: found.observed(*look), LOOKS[looks], Trust(10))
    found = trust.servable(ca, at, first=True), trust.servable(ca, at, first=False), trust.seconds(ca, at)
    assert found == (first, later, seconds)


QUARTERS = st.integers(0, 40).map(lambda number: number / 4)
"""Seconds that add up without rounding."""


@given(st.lists(st.tuples(QUARTERS, st.sets(st.sampled_from([A, B, C]))), min_size=1, max_size=30), QUARTERS)
def test_settled_means_seen_for_so_long(looks: list[tuple[float, set[bytes]]], settle: float) -> None:
    """Nothing is settled that any look within the settle time has missed."""
    trust, at = Trust(settle), 0.0
    history: list[tuple[float, set[bytes]]] = []
    for pause, seen in looks:
        at += pause
        trust = trust.observed([seen, seen], at)
        history.append((at, seen))
        for each in (A, B, C):
            if trust.seconds(each, at) == 0:
                assert all(each in found for when, found in history if when > at - settle)
                assert any(when <= at - settle and each in found for when, found in history)


def test_what_callers_of_any_webhook_trust() -> None:
    """Who trusts nobody, or nobody else, cannot be calling another replica with success."""
    assert not Trust(1).only([A]), "nobody has looked"
    assert Trust(1).observed([[], []], 0).only([A])
    assert Trust(1).observed([[A], []], 0).only([A])
    assert not Trust(1).observed([[A], [B]], 0).only([A])
    assert not Trust(1).observed([[A, B]], 0).observed([[B]], 1).only([A])


def test_a_ca_that_is_too_young_was_never_found_settled() -> None:
    """Although it was there at the first look."""
    trust = Trust(10).observed([[A]], 0)
    assert not trust.servable(A, 0, first=True, aged=False)
    assert trust.servable(A, 10, first=True, aged=False)
