"""What a policy remembers of its own work: results of pure functions, kept because pods come from templates."""

from collections.abc import Hashable
from typing import Any, Final

from webhook.quantity import MIB

MAX_RESULTS: Final = 1024
"""Results kept: two for a pod template; fewer cost more CPU than the memory is worth."""

MAX_BYTES: Final = 32 * MIB
"""What results may take together, as they estimate it: honest ones take a third of that."""

MAX_SEEN: Final = 3 * MIB
"""Bytes of undecoded parts of pods kept beside them, which are compared faster than searched."""

MAX_SEEN_ONCE: Final = MAX_SEEN // 8
"""Of one pod; an honest one has less than half of it."""


class Memo:
    """Results by the arguments of their functions. When there are too many, all of them are dropped at once."""

    __slots__ = ("_bytes", "_bytes_seen", "_results", "_seen")

    def __init__(self) -> None:
        self._results: dict[Hashable, Any] = {}
        self._bytes = 0
        self._seen: dict[Hashable, tuple[bytes, ...]] = {}
        self._bytes_seen = 0

    def __len__(self) -> int:
        return len(self._results)

    def get(self, key: Hashable) -> Any:
        """The result for these arguments, or None."""
        return self._results.get(key)

    def keep(self, key: Hashable, result: Any, size: int) -> None:
        """Keeps a result that takes about `size` bytes with its key."""
        if len(self._results) >= MAX_RESULTS or self._bytes + size > MAX_BYTES:
            self.clear()
        self._results[key] = result
        self._bytes += size

    def seen(self, key: Hashable) -> tuple[bytes, ...] | None:
        """The parts of a pod for which the result was last found to hold."""
        return self._seen.get(key)

    def see(self, key: Hashable, parts: tuple[bytes, ...]) -> None:
        """Keeps the parts of a pod for which the result holds; those seen first make room."""
        self._forget(key)
        size = sum(map(len, parts))
        if size > MAX_SEEN_ONCE:
            return
        self._seen[key] = parts
        self._bytes_seen += size
        while self._bytes_seen > MAX_SEEN:
            self._forget(next(iter(self._seen)))

    def _forget(self, key: Hashable) -> None:
        self._bytes_seen -= sum(map(len, self._seen.pop(key, ())))

    def clear(self) -> None:
        """Forgets everything."""
        self._results.clear()
        self._seen.clear()
        self._bytes = self._bytes_seen = 0
