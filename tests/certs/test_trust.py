"""What callers trust, and since when."""

from hypothesis import given
from hypothesis import strategies as st

from certs.rotation import Trust

A, B, C = b"a", b"b", b"c"


def test_nothing_is_known_at_first() -> None:
    """Before anybody has looked nothing may be served."""
    trust = Trust(10)
    assert not trust.servable(A, 0, first=True)
    assert trust.seconds(A, 0) == float("inf")


def test_nobody_calls() -> None:
    """Without a webhook configuration the first serving certificate is served at once; a later one is not."""
    trust = Trust(10).observed(None, 0)
    assert trust.servable(A, 0, first=True)
    assert not trust.servable(A, 1e9, first=False)


def test_what_the_registration_was_made_with() -> None:
    """Who learns of the webhook configuration learns of it, too: replicas that start together need not wait."""
    trust = Trust(10).observed(None, 0).observed([[A]], 1)
    assert trust.servable(A, 1, first=True)
    assert trust.seconds(A, 1) == 10


def test_what_was_there_at_the_first_look() -> None:
    """It is in use already; to put it in the place of another one takes the whole time."""
    trust = Trust(10).observed([[A, B], [A]], 0)
    assert trust.servable(A, 0, first=False)
    assert trust.seconds(A, 9) == 1
    assert trust.seconds(A, 10) == 0
    assert B not in trust.since, "one of the two webhooks would fail"


def test_what_came_later_has_to_settle() -> None:
    """From the moment it is seen in both webhooks."""
    trust = Trust(10).observed([[A]], 0).observed([[A, B], [A]], 1).observed([[A, B], [A, B]], 5)
    assert trust.seconds(B, 5) == 10
    assert not trust.servable(B, 14.9, first=True)
    assert trust.servable(B, 15, first=False)
    assert trust.seconds(C, 5) == float("inf")


def test_what_was_taken_away_begins_again() -> None:
    """Even if it was there at first."""
    trust = Trust(10).observed([[A]], 0).observed([[]], 100).observed([[A]], 101)
    assert not trust.servable(A, 110, first=False)
    assert trust.servable(A, 111, first=False)


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
