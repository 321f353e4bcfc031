"""A cache of results of pure functions under one policy: pods of the same template get the same result."""

from collections.abc import Hashable
from typing import Any, Final

from webhook.quantity import MIB

MAX_RESULTS: Final = 1024
"""Number of cached results, one for each pod template; with fewer, CPU time costs more than the memory saves."""

MAX_BYTES: Final = 32 * MIB
"""Estimated bytes of all results together; results for ordinary pods take a third of that."""

MAX_MET: Final = 4096
"""Number of arguments that are noted without a result."""


class Memo:
    """Results by the arguments of their functions. When there are too many, all are dropped at once."""

    __slots__ = ("_bytes", "_met", "_results")

    def __init__(self) -> None:
        self._results: dict[Hashable, Any] = {}
        self._bytes = 0
        self._met: set[int] = set()

    def __len__(self) -> int:
        return len(self._results)

    def get(self, key: Hashable) -> Any:
        """Return the result for these arguments, or None."""
        return self._results.get(key)

    def met(self, key: Hashable) -> bool:
        """Return whether these arguments were met before, and note them: what occurs once is not worth storing."""
        number = hash(key)
        if number in self._met:
            return True
        if len(self._met) >= MAX_MET:
            self._met.clear()
        self._met.add(number)
        return False

    def keep(self, key: Hashable, result: Any, size: int) -> None:
        """Store a result that takes about `size` bytes together with its key."""
        if len(self._results) >= MAX_RESULTS or self._bytes + size > MAX_BYTES:
            self._results.clear()
            self._bytes = 0
        self._results[key] = result
        self._bytes += size

    def clear(self) -> None:
        """Drop everything."""
        self._results.clear()
        self._bytes = 0
        self._met.clear()
