"""Pauses between retries: each twice as long as the previous one.

Everything that retries uses it, here and in `webhook`.
"""

from collections.abc import Callable

MAX_DOUBLINGS = 32
"""An exponent without a bound would, after days of retries, make a number too large for a float."""


class Backoff:
    """The pauses of one activity.

    Args:
        first: seconds after the first failure.
        longest: seconds that no pause exceeds.
        chance: returns a random number from 0 to 1. A pause then lasts between half and all of its length, so that
            replicas do not retry at the same moment. By default it lasts all of it.

    Attributes:
        failures: the number of failures since the last `reset`.
    """

    def __init__(self, first: float, longest: float, chance: Callable[[], float] = lambda: 1.0) -> None:
        self.failures = 0
        self._first = first
        self._longest = longest
        self._chance = chance

    def failed(self) -> float:
        """Count a failure, and return the seconds to wait before the next try."""
        pause = min(self._longest, self._first * 2.0 ** min(self.failures, MAX_DOUBLINGS))
        self.failures += 1
        return pause * (1 + self._chance()) / 2

    def reset(self) -> None:
        """Start over: the last try succeeded."""
        self.failures = 0
