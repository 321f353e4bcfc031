"""What a policy cares about, found in undecoded JSON: variables, volumes and mounts; most containers have none of them."""

import json
from collections.abc import Callable, Iterable
from typing import Final

import re2  # type: ignore[import-untyped]

from webhook.mapping.notation.pattern import literal
from webhook.quantity import MIB

MAX_MEMORY: Final = 32 * MIB
"""Bytes that RE2 may use: enough for ten thousand names."""


MAX_KNOWN: Final = 64
"""Lists whose answer is stored: the containers of so many templates that are created side by side."""

MAX_LIST: Final = 8 * 1024
"""The most bytes of a list whose answer is stored, so that all of them take at most 512 KiB."""

_NOTHING: Final = r"[^\x00-\xff]"
"""An expression that no byte matches."""


_ESCAPE: Final = re2.compile(rb"\\[u/]")
"""An escape that may hide a name. The operator `in` takes three times as long in a text of backslashes."""


class WatchedVariables:
    """Variables that the guard, the shim or the device plugin of any vendor has a part in."""

    __slots__ = ("_known", "_search")

    def __init__(self, names: Iterable[str]) -> None:
        """Compile names; ``*`` in one matches any text."""
        # Up to the star: more variables than that are found, never fewer.
        beginnings = sorted({_written(name.partition("*")[0]) + ("" if "*" in name else '"') for name in names})
        self._search = _searcher(rf'"name"\s*:\s*"(?:{"|".join(beginnings)})' if beginnings else _NOTHING)
        self._known: dict[bytes, bool] = {}

    def among(self, raw_env: bytes) -> bool:
        """Return whether an undecoded ``env`` list may hold one of them.

        A fast check with false positives but no false negatives, so that hundreds of ordinary variables stay undecoded.
        An escape may hide any name; few manifests have one. The pods of a template have the same list, whose answer is known.
        """
        text = bytes(raw_env)
        if not text:
            return False
        known = self._known.get(text)
        if known is None:
            # Searching for one byte is ten times as fast as for two, and most manifests have no backslash.
            known = bool(self._search(text)) or (b"\\" in text and _ESCAPE.search(text) is not None)
            if len(text) <= MAX_LIST:
                if len(self._known) >= MAX_KNOWN:
                    del self._known[next(iter(self._known))]
                self._known[text] = known
        return known


class Marks:
    """Texts of which undecoded volumes or mounts contain one if they could meet a shim or a guard (their `marks`)."""

    __slots__ = ("_search",)

    def __init__(self, marks: Iterable[bytes]) -> None:
        """Compile the marks."""
        self._search = _searcher("|".join(literal(mark.decode()) for mark in marks) or _NOTHING)

    def among(self, raw_lists: bytes) -> bool:
        """Return whether undecoded lists contain one."""
        return bool(self._search(raw_lists))


def _searcher(pattern: str) -> Callable[[bytes], object]:
    """A search for an expression; RE2 searches for all alternatives at once."""
    options = re2.Options()
    options.max_mem = MAX_MEMORY
    options.log_errors = False
    options.encoding = re2.Options.Encoding.LATIN1
    try:
        search: Callable[[bytes], object] = re2.compile(pattern.encode(), options).search
    except re2.error:  # too large: every list is decoded
        return len
    return search


def _written(name: str) -> str:
    """An expression for a name as JSON writes it: a quote or a backslash is escaped."""
    return literal(json.dumps(name, ensure_ascii=False)[1:-1])
