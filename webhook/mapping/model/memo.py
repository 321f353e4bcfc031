"""A cache of results of pure functions under one policy: pods of the same template get the same result."""

from collections.abc import Hashable
from typing import Any, Final

from webhook.quantity import MIB

MAX_RESULTS: Final = 1024
"""Number of cached results, two for each pod template; with fewer, CPU time costs more than the memory saves."""

MAX_BYTES: Final = 32 * MIB
"""Estimated bytes of all results together; results for ordinary pods take a third of that."""

MAX_SEEN: Final = 3 * MIB
"""Bytes of the undecoded parts of pods in the cache; comparing such parts is faster than searching them."""

MAX_SEEN_ONCE: Final = MAX_SEEN // 8
"""The same for one pod; an ordinary one has less than half of it."""


class Memo:
    """Results by the arguments of their functions. When there are too many, all are dropped at once."""

    __slots__ = ("_bytes", "_bytes_seen", "_results", "_seen")

    def __init__(self) -> None:
        self._results: dict[Hashable, Any] = {}
        self._bytes = 0
        self._seen: dict[Hashable, tuple[bytes, ...]] = {}
        self._bytes_seen = 0

    def __len__(self) -> int:
        return len(self._results)

    def get(self, key: Hashable) -> Any:
        """Return the result for these arguments, or None."""
        return self._results.get(key)

    def keep(self, key: Hashable, result: Any, size: int) -> None:
        """Store a result that takes about `size` bytes together with its key."""
        if len(self._results) >= MAX_RESULTS or self._bytes + size > MAX_BYTES:
            self.clear()
        self._results[key] = result
        self._bytes += size

    def seen(self, key: Hashable) -> tuple[bytes, ...] | None:
        """Return the parts of the last pod for which the result was confirmed."""
        return self._seen.get(key)

    def see(self, key: Hashable, parts: tuple[bytes, ...]) -> None:
        """Store the parts of a pod for which the result holds; the oldest parts are dropped for it."""
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
        """Drop everything."""
        self._results.clear()
        self._seen.clear()
        self._bytes = self._bytes_seen = 0
