"""How often the registration is repaired: two hands that undo each other's work would go on for ever."""

from collections import deque
from dataclasses import dataclass, field

from webhook.cluster.amendment import Change


@dataclass(slots=True)
class Repairs:
    """The repairs of late; seconds are of a clock that never jumps.

    Attributes:
        most: that are made in any `window`.
        window: seconds.
    """

    most: int
    window: float
    _made: deque[float] = field(default_factory=deque)

    def made(self, at: float) -> None:
        """Count one."""
        self._made.append(at)

    def permitted(self, change: Change, at: float) -> bool:
        """Whether another one is within bounds. Narrowing has half of them: at the end of a fight all are let through."""
        while self._made and self._made[0] <= at - self.window:
            self._made.popleft()
        return len(self._made) < (self.most // 2 if change is Change.NARROWED else self.most)

    def rest(self, at: float) -> float:
        """Seconds until the oldest of them counts no more, one at least."""
        oldest = self._made[0] if self._made else at
        return max(1.0, oldest + self.window - at)

    def __str__(self) -> str:
        return f"{len(self._made)} times within {self.window / 3600:g} h"
