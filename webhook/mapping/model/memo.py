"""A cache of results of pure functions under one policy: pods of the same template get the same result."""

from collections.abc import Hashable
from typing import Any, Final

from webhook.quantity import MIB

MAX_BYTES: Final = 3 * MIB
"""Bytes of all results together. A replica that has answered 16 connections has 76 MiB, and is to stay below 80.

Results for two hundred ordinary templates or more fit: of templates that request alike there is one result.
"""

ENTRY: Final = 108
"""Bytes of a dictionary for one key at most: just after it grew it has four places of 24 bytes, and six indices."""

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

    @property
    def size(self) -> int:
        """Bytes of all results, as counted."""
        return self._bytes

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
        """Store a result that takes `size` bytes together with its key; not if it alone is over the bound."""
        size += ENTRY
        if size > MAX_BYTES:
            return
        if self._bytes + size > MAX_BYTES:
            self._results.clear()
            self._bytes = 0
        self._results[key] = result
        self._bytes += size

    def clear(self) -> None:
        """Drop everything."""
        self._results.clear()
        self._bytes = 0
        self._met.clear()
