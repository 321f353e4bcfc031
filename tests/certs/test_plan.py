"""The renewal clock: what is created again and when, over the years."""

import datetime as dt
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from certs.ca import Trust, covers, issue, make_ca, names_of, signed_by
from certs.plan import Made, PlannedStep, Rules, step
from certs.state import Retired, RotationRequest, State, der
from tests.certs.made import DAY, NAMES, NOW, ca, state

RULES = Rules("test", NAMES)
UNKNOWN = Trust(120)


def seeing(whole: State, since: float = 0.0) -> Trust:
    """Callers that have known all of it for long, or since a moment."""
    bundle = [der(each) for each in whole.cas]
    return Trust(120).observed([[]], since - 1).observed([bundle], since)


def after(whole: State | None, days: float, rules: Rules = RULES) -> PlannedStep:
    """A step so many days later, with callers that keep up."""
    trust = UNKNOWN if whole is None else seeing(whole)
    return step(whole, trust, rules, NOW + days * DAY, days * 86400)


def test_an_empty_store_gets_a_ca_and_a_serving_certificate() -> None:
    """An empty store gives a serving certificate that its CA signed and that covers the names."""
    first = after(None, 0)
    assert first.made == (Made.CURRENT, Made.SERVING_CERTIFICATE)
    assert first.state.ca is not None
    assert first.state.serving_pair is not None
    assert signed_by(first.state.serving_pair.certificate, first.state.ca.certificate)
    assert covers(first.state.serving_pair.certificate, NAMES)
    assert first.due == pytest.approx(60 * 86400, rel=0.01)


def test_what_is_good_is_kept() -> None:
    """A restart changes nothing."""
    whole = state()
    assert after(whole, 59).state == whole
    assert after(whole, 59).made == ()


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
    whole = State(authority, serving_pair=issue(authority, NAMES, NOW))
    second = after(whole, days, replace(RULES, names=names))
    assert second.made == (Made.SERVING_CERTIFICATE,)
    assert second.state.ca == authority
    assert second.state.serving_pair is not None
    assert covers(second.state.serving_pair.certificate, names)
    assert second.state.serving_pair.valid_at(NOW + days * DAY)


def test_replicas_that_want_different_names_agree() -> None:
    """During an update the old release and the new one each add what they want, once; the next renewal forgets."""
    old, new = replace(RULES, names=("old",)), replace(RULES, names=("new",))
    widened = after(after(None, 0, old).state, 1, new)
    assert widened.made == (Made.SERVING_CERTIFICATE,)
    assert after(widened.state, 1, old).made == ()
    assert after(widened.state, 1, new).made == ()
    renewed = after(widened.state, 62, new).state.serving_pair
    assert renewed is not None
    assert names_of(renewed.certificate) == ["new"]


def test_lead_is_in_both_directions() -> None:
    """Replicas do it a little earlier or later."""
    whole = state()
    early, late = replace(RULES, lead=0.05), replace(RULES, lead=-0.05)
    assert after(whole, 56, early).made == (Made.SERVING_CERTIFICATE,)
    assert after(whole, 56).made == after(whole, 64, late).made == ()


def test_ca_of_a_short_life_outlives_two_certificates() -> None:
    """It gets its successor before two thirds of its life are over if what is left would be less than that."""
    rules = replace(RULES, serving_life=20 * DAY, ca_life=100 * DAY)
    whole = after(None, 0, rules).state
    assert whole is not None
    assert Made.NEXT_CA not in after(whole, 59, rules).made
    assert Made.NEXT_CA in after(whole, 61, rules).made


@pytest.mark.parametrize("days", [2500, 3500])
def test_ca_near_its_end_gets_a_successor(days: float) -> None:
    """It is published first; a certificate under it is made once that has settled, the old CA stays until its own ended."""
    leaf = issue(old := ca(), NAMES, NOW + (days - 1) * DAY)
    first = after(State(old, serving_pair=leaf), days)
    assert first.made == (Made.NEXT_CA,)
    assert first.state.ca == old
    assert first.state.serving_pair == leaf
    assert first.state.next_ca is not None
    now, at = NOW + days * DAY, 1000.0
    trust = seeing(first.state, at)
    soon = step(first.state, trust, RULES, now, at + 119)
    assert soon.state == first.state
    assert soon.due == pytest.approx(1)
    second = step(first.state, trust, RULES, now, at + 120)
    assert second.made == (Made.CURRENT, Made.SERVING_CERTIFICATE)
    assert second.state.ca == first.state.next_ca
    assert second.state.serving_pair is not None
    assert signed_by(second.state.serving_pair.certificate, first.state.next_ca.certificate)
    assert [each.certificate for each in second.state.retired] == [old.certificate]
    [retired] = second.state.retired
    assert leaf.not_after <= retired.until <= leaf.not_after + dt.timedelta(minutes=5)
    end = (retired.until - NOW) / DAY
    assert after(second.state, end - 0.001).state.retired
    assert not after(second.state, end).state.retired


def test_ca_whose_successor_is_seen_nowhere_stays() -> None:
    """With a webhook configuration that others keep, nothing is served that it does not hold."""
    first = after(State(ca(), serving_pair=issue(ca(), NAMES, NOW)), 3000)
    blind = UNKNOWN.observed([[b"other"]], 0)
    assert first.state.next_ca is not None
    later = step(first.state, blind, RULES, NOW + 3010 * DAY, 1e9)
    assert later.state.next_ca == first.state.next_ca


def test_ca_without_its_key_is_followed_by_another() -> None:
    """Its serving certificate is served on while callers learn of the next."""
    whole = state()
    assert whole.ca is not None
    keyless = State(None, retired=(Retired(whole.ca.certificate, whole.ca.not_after),), serving_pair=whole.serving_pair)
    first = after(keyless, 1)
    assert first.made == (Made.NEXT_CA,)
    assert first.state.serving_pair == whole.serving_pair
    second = step(first.state, seeing(first.state), RULES, NOW + DAY, 500.0)
    assert second.made == (Made.CURRENT, Made.SERVING_CERTIFICATE)


def test_after_the_end_of_everything_nobody_waits_for_the_last() -> None:
    """An installation that was off for eleven years: what is seen is served, for nothing else is valid."""
    whole = state(-4000)
    first = after(whole, 0)
    assert first.made == (Made.NEXT_CA,)
    assert step(first.state, UNKNOWN.observed(None, 0), RULES, NOW, 0).made == ()
    assert step(first.state, seeing(first.state, 0.0), RULES, NOW, 0.0).made[0] is Made.CURRENT


@pytest.mark.parametrize(
    "requested, made",
    [(RotationRequest.SERVING_CERTIFICATE, (Made.SERVING_CERTIFICATE,)), (RotationRequest.CA, (Made.NEXT_CA,))],
)
def test_somebody_asks(requested: RotationRequest, made: tuple[Made, ...]) -> None:
    """It is done, and the request is taken away."""
    done = after(replace(state(), requested=requested), 1)
    assert done.made == made
    assert done.state.requested is None
    again = after(replace(done.state, requested=RotationRequest.CA), 1)
    assert again.state.requested is None


def test_near_the_end_of_a_ca_certificates_do_not_get_shorter_and_shorter() -> None:
    """Where the successor is never trusted, the last serving certificate ends with its CA; it isn't renewed for nothing."""
    authority = ca(0, 400)
    whole: State = State(authority)
    made, day = 0, 0.0
    blind = UNKNOWN.observed([[b"other"]], 0)
    while day < 399:
        done = step(whole, blind, RULES, NOW + day * DAY, day * 86400)
        made += Made.SERVING_CERTIFICATE in done.made
        whole = done.state
        day += max(done.due, 60) / 86400
    assert made < 20


YEARS = 20


@settings(max_examples=5, deadline=None)
@given(
    leaf_days=st.integers(20, 400),
    authority_days=st.integers(1000, 5000),
    leads=st.lists(st.floats(-0.05, 0.05), min_size=1, max_size=4),
)
def test_twenty_years(leaf_days: int, authority_days: int, leads: list[float]) -> None:
    """Whenever it is due, some replica does it; no certificate comes near its end, nor a CA before its certificates."""
    everyone = [Rules("test", NAMES, leaf_days * DAY, authority_days * DAY, lead) for lead in leads]
    whole: State | None = None
    now, at, steps = NOW, 0.0, 0
    trust = Trust(120)
    while now < NOW + YEARS * 365 * DAY:
        steps += 1
        due = float("inf")
        for rules in everyone:
            done = step(whole, trust, rules, now, at)
            whole, due = done.state, min(due, done.due)
            trust = trust.observed([[der(each) for each in whole.cas]], at)
            due = min(due, step(whole, trust, rules, now, at).due)
        assert whole is not None
        assert whole.serving_pair is not None
        assert whole.ca is not None
        assert whole.serving_pair.valid_at(now + leaf_days * DAY * 0.27)
        assert whole.ca.not_after >= whole.serving_pair.not_after
        assert signed_by(whole.serving_pair.certificate, whole.ca.certificate)
        assert len(whole.retired) <= 1
        assert 0 < due < float("inf")
        now, at = now + dt.timedelta(seconds=due), at + due
    assert steps <= (YEARS * 365 / leaf_days * 2 + YEARS * 365 / authority_days * 20 + 20) * 2


def test_twenty_years_take_few_steps() -> None:
    """With the usual lives, a few for each renewal."""
    whole: State | None = None
    now, at, leaves, cas = NOW, 0.0, set(), set()
    trust, steps = Trust(120), 0
    while now < NOW + YEARS * 365 * DAY:
        steps += 1
        done = step(whole, trust, RULES, now, at)
        whole = done.state
        trust = trust.observed([[der(each) for each in whole.cas]], at)
        due = step(whole, trust, RULES, now, at).due
        assert whole.serving_pair is not None
        assert whole.ca is not None
        leaves.add(whole.serving_pair.certificate.serial_number)
        cas.add(whole.ca.certificate.serial_number)
        now, at = now + dt.timedelta(seconds=due), at + due
    assert len(leaves) == pytest.approx(YEARS * 365 / 60, abs=5)
    assert len(cas) == 3
    assert steps < 2 * len(leaves)


def test_a_short_ca_is_not_renewed_forever() -> None:
    """Even one that is hardly longer than a serving certificate lives half its life."""
    rules = replace(RULES, ca_life=100 * DAY)
    whole = State(make_ca("test", NOW, 100 * DAY))
    assert Made.NEXT_CA not in after(whole, 1, rules).made
