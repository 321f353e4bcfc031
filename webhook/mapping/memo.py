"""What a policy remembers of its own work: results of pure functions, kept because pods come from templates."""

from typing import Any, Final

MAX_RESULTS: Final = 1024
"""Results kept: two for a pod template; fewer cost more CPU than the memory is worth."""

MAX_SEEN: Final = 2 * 1024**2
"""Bytes of undecoded parts of pods kept beside them, which are compared faster than searched."""


class Memo:
    """Results by the arguments of their functions. When there are too many, all of them are dropped at once.

    Attributes:
        room: bytes of undecoded parts that may still be kept.
    """

    __slots__ = ("_results", "room")

    def __init__(self) -> None:
        self._results: dict[Any, Any] = {}
        self.room = MAX_SEEN

    def __len__(self) -> int:
        return len(self._results)

    def get(self, key: Any) -> Any:
        """The result for these arguments, or None."""
        return self._results.get(key)

    def keep(self, key: Any, result: Any, seen: int = 0) -> None:
        """Keeps a result, and with it so many bytes of what was seen."""
        if len(self._results) >= MAX_RESULTS:
            self.clear()
        self._results[key] = result
        self.room -= seen

    def clear(self) -> None:
        """Forgets everything."""
        self._results.clear()
        self.room = MAX_SEEN
