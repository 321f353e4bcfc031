"""What a policy remembers of its own work: results of pure functions, kept because pods come from templates."""

from typing import Any, Final

MAX_RESULTS: Final = 1024
"""Results kept: two for a pod template; fewer cost more CPU than the memory is worth."""

MAX_BYTES: Final = 32 * 1024**2
"""What results may take together, as they estimate it: honest ones take a third of that."""

MAX_SEEN: Final = 2 * 1024**2
"""Bytes of undecoded parts of pods kept beside them, which are compared faster than searched."""


class Memo:
    """Results by the arguments of their functions. When there are too many, all of them are dropped at once.

    Attributes:
        room: bytes of undecoded parts that may still be kept.
    """

    __slots__ = ("_bytes", "_results", "room")

    def __init__(self) -> None:
        self._results: dict[Any, Any] = {}
        self._bytes = 0
        self.room = MAX_SEEN

    def __len__(self) -> int:
        return len(self._results)

    def get(self, key: Any) -> Any:
        """The result for these arguments, or None."""
        return self._results.get(key)

    def keep(self, key: Any, result: Any, size: int, seen: int = 0) -> None:
        """Keeps a result that takes about `size` bytes with its key, and so many bytes of what was seen."""
        if len(self._results) >= MAX_RESULTS or self._bytes + size > MAX_BYTES:
            self.clear()
        self._results[key] = result
        self._bytes += size
        self.room -= seen

    def clear(self) -> None:
        """Forgets everything."""
        self._results.clear()
        self._bytes = 0
        self.room = MAX_SEEN
