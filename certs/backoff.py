"""Pauses between tries of whatever fails: each twice as long as the one before.

Everything that retries uses it, in this package and above it.
"""

from collections.abc import Callable

MAX_DOUBLINGS = 32
"""After days of trying, an unbounded exponent would make a number too large for a float."""


class Backoff:
    """The pauses of one activity.

    Args:
        first: seconds after the first failure.
        longest: seconds that no pause exceeds.
        chance: a random number from 0 to 1: a pause lasts at least half of what it would at most, so that
            replicas do not come back all at once. By default there is no spread.

    Attributes:
        failures: since the last `reset`.
    """

    def __init__(self, first: float, longest: float, chance: Callable[[], float] = lambda: 1.0) -> None:
        self.failures = 0
        self._first = first
        self._longest = longest
        self._chance = chance

    def failed(self) -> float:
        """Count a failure; seconds to wait before the next try."""
        pause = min(self._longest, self._first * 2.0 ** min(self.failures, MAX_DOUBLINGS))
        self.failures += 1
        return pause * (1 + self._chance()) / 2

    def reset(self) -> None:
        """Start over: the last try succeeded."""
        self.failures = 0
