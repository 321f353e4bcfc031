"""Pauses between tries."""

from certs.upkeep import Backoff


def test_pauses_double_up_to_the_longest() -> None:
    """Each failure doubles the pause, up to the longest one; a success starts over."""
    backoff = Backoff(0.5, 3.0)
    assert [backoff.failed() for _ in range(5)] == [0.5, 1.0, 2.0, 3.0, 3.0]
    backoff.reset()
    assert (backoff.failures, backoff.failed()) == (0, 0.5)


def test_chance_takes_away_up_to_half() -> None:
    """Replicas that fail together do not retry together."""
    assert Backoff(2.0, 60.0, lambda: 0.0).failed() == 1.0
    assert Backoff(2.0, 60.0, lambda: 1.0).failed() == 2.0


def test_days_of_failures() -> None:
    """The exponent is bounded."""
    backoff = Backoff(1.0, 60.0)
    assert {backoff.failed() for _ in range(3000)} == {1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0}
