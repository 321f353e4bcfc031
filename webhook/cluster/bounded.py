"""Memory of what comes from outside: bounded in bytes, whatever is sent."""

import heapq
import sys
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any, Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

ENTRY: Final = 200
"""Bytes of an entry in two dicts."""


def deep_size(value: Any) -> int:
    """The bytes of plain data, tuples and structs; a text that occurs twice counts twice."""
    size, left = 0, [value]
    while left:
        each = left.pop()
        size += sys.getsizeof(each)
        kind = type(each)
        if kind is str:  # nearly always
            continue
        if isinstance(each, Mapping):
            left += each.keys()
            left += each.values()
        elif isinstance(each, tuple | list | set | frozenset):
            left += each
        elif names := getattr(kind, "__struct_fields__", None) or getattr(kind, "__dataclass_fields__", None):
            left += [getattr(each, name) for name in names]
    return size


class Bounded(Generic[K, V]):
    """Values by key, the oldest first, of at most so many bytes together.

    Beyond that, whoever has the most loses its oldest ones until a tenth is free: nobody displaces those that have little.
    `owner` tells whose a value is by its key, and `size` its bytes.
    """

    __slots__ = ("_most", "_owner", "_size", "_sizes", "bytes", "values")

    def __init__(
        self, most: int, owner: Callable[[K], Hashable] = lambda _: None, size: Callable[[V], int] = deep_size
    ) -> None:
        self.values: dict[K, V] = {}
        self.bytes = 0
        self._sizes: dict[K, int] = {}
        self._most = most
        self._owner = owner
        self._size = size

    def __len__(self) -> int:
        return len(self.values)

    def put(self, key: K, value: V) -> list[K]:
        """Store a value as the newest; return the keys that are gone for it, perhaps its own."""
        self.drop(key)
        self.values[key] = value
        self._sizes[key] = size = ENTRY + deep_size(key) + self._size(value)
        self.bytes += size
        return list(self._shrink()) if self.bytes > self._most else []

    def drop(self, key: K) -> bool:
        """Forget a key; return whether there was one."""
        if key not in self.values:
            return False
        del self.values[key]
        self.bytes -= self._sizes.pop(key)
        return True

    def _shrink(self) -> Iterator[K]:
        totals: dict[Hashable, int] = {}
        keys: dict[Hashable, list[K]] = {}
        for key, size in self._sizes.items():
            owner = self._owner(key)
            totals[owner] = totals.get(owner, 0) + size
            keys.setdefault(owner, []).append(key)
        # The number decides among equals, so that nothing else is compared.
        most = [(-totals[owner], number, iter(keys[owner])) for number, owner in enumerate(totals)]
        heapq.heapify(most)
        while self.bytes > self._most - self._most // 10:
            total, number, oldest = most[0]
            key = next(oldest)
            heapq.heapreplace(most, (total + self._sizes[key], number, oldest))
            self.drop(key)
            yield key
