"""What goes wrong in the background: each lasting matter is told once, and tried again after longer and longer pauses.

Whoever works in the background, here and in `webhook`, sends a `Notice` about a matter through `Notices`.
"""

from collections.abc import Callable, Collection
from typing import Generic, NamedTuple, TypeVar

Matter = TypeVar("Matter")


class Notice(NamedTuple, Generic[Matter]):
    """What it is about, and a message for people, which never holds any part of a key."""

    matter: Matter
    message: str


class Notices(Generic[Matter]):
    """Sends each notice about a lasting matter once, until that is over; `send` must not block."""

    def __init__(self, send: Callable[[Notice[Matter]], None]) -> None:
        self._send = send
        self._lasting: dict[Matter, int] = {}

    def tell(self, matter: Matter, message: str) -> None:
        self._send(Notice(matter, message))

    def tell_once(self, matter: Matter, message: str) -> None:
        """Tell what lasts, unless the last notice about it was the same."""
        number = hash(message)  # a message has any length
        if self._lasting.get(matter) != number:
            self._lasting[matter] = number
            self.tell(matter, message)

    def tell_while(self, condition: object, matter: Matter, message: str) -> None:
        """Tell it if it lasts; otherwise consider it over."""
        if condition:
            self.tell_once(matter, message)
        else:
            self.forget(matter)

    def only(self, matter: Matter, message: str) -> None:
        """Tell what lasts, and consider all others over."""
        self.keep({matter})
        self.tell_once(matter, message)

    def forget(self, *matters: Matter) -> None:
        """Consider matters over, without a notice; if they recur, they are told again."""
        for matter in matters:
            self._lasting.pop(matter, None)

    def keep(self, matters: Collection[Matter]) -> set[Matter]:
        """Consider all matters over except some, and return those that end."""
        ended = self._lasting.keys() - set(matters)
        self.forget(*ended)
        return ended


MAX_DOUBLINGS = 32
"""An exponent without a bound would, after days of retries, make a number too large for a float."""


class Backoff:
    """The pauses of one activity in seconds: the first one, doubled after each failure up to the longest one.

    A pause takes half of that and, with `chance`, up to all of it, so that replicas do not retry at the same moment.
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
