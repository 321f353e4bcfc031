"""The pace of repairs: they slow down if something keeps undoing them, and never stop."""

from dataclasses import dataclass, field
from math import inf

from webhook.cluster.registration.update import Change


@dataclass(slots=True)
class RepairPace:
    """When the next repair of a kind may be made; seconds are monotonic.

    Attributes:
        shortest: the pause after the first repair; it doubles with each further one.
        longest: the longest pause.
        calm: seconds without a repair after which the next one counts as the first.
    """

    shortest: float
    longest: float
    calm: float
    _last: float = -inf
    _in_a_row: int = 0

    def made(self, at: float) -> None:
        """Count a repair."""
        self._in_a_row = self.count_in_a_row(at) + 1
        self._last = at

    def count_in_a_row(self, at: float) -> int:
        """The number of repairs without a calm period between them."""
        return 0 if at - self._last >= self.calm else self._in_a_row

    def wait(self, at: float) -> float:
        """Seconds until the next repair may be made; 0 if it may be made now."""
        made = self.count_in_a_row(at)
        if not made:
            return 0.0
        return max(0.0, self._last + min(self.shortest * 2.0 ** min(made - 1, 32), self.longest) - at)


@dataclass(slots=True)
class Repairs:
    """The repairs of one configuration: the number of each kind, and when the next may be made.

    Repairs that let more pods through wait a minute at most. Those that let fewer through, or take over, may wait an hour:
    as long as replicas disagree, all names of all of them stay in the end.
    """

    widening: RepairPace
    narrowing: RepairPace
    counts: dict[Change, int] = field(default_factory=lambda: dict.fromkeys(Change, 0))

    def made(self, change: Change, at: float) -> None:
        """Count a repair."""
        self.counts[change] += 1
        self.pace(change).made(at)

    def pace(self, change: Change) -> RepairPace:
        """The pace of a kind of repair."""
        return self.narrowing if change in {Change.NARROWED, Change.TAKEN_OVER} else self.widening
