"""Waits until nothing has changed for a while before anything is removed: replicas learn of changes at different times."""

from collections.abc import Callable

from webhook.cluster.registration.observed import Observed


class QuietPeriod:
    """Measures how long neither the policy nor the webhook configuration has changed.

    Args:
        length: seconds without a change after which the period is over.
        clock: monotonic seconds.
    """

    def __init__(self, length: float, clock: Callable[[], float]) -> None:
        self._length = length
        self._clock = clock
        self._since = clock()
        self._seen: tuple[object, ...] | None = None

    @property
    def left(self) -> float:
        """Seconds until the period is over; 0 or less when it is."""
        return self._length - (self._clock() - self._since)

    @property
    def over(self) -> bool:
        """Whether nothing has changed for that long."""
        return self.left <= 0

    def restart(self) -> None:
        """Note a change."""
        self._since = self._clock()

    def observe(self, read: Observed) -> None:
        """Note the configuration that was read; if it differs from the previous one, that is a change."""
        seen = read.version, read.digest, read.desired, read.bundles
        if seen != self._seen:
            self._seen = seen
            self.restart()
