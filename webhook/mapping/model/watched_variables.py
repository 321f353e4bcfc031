"""The environment variables that a policy cares about, found in undecoded JSON: most containers have none of them."""

import json
from collections.abc import Iterable
from typing import Any, Final

import re2  # type: ignore[import-untyped]

from webhook.mapping.notation.pattern import literal
from webhook.quantity import MIB

MAX_MEMORY: Final = 32 * MIB
"""Bytes that RE2 may use: enough for ten thousand names."""


_NOTHING: Final = r"[^\x00-\xff]"
"""An expression that no byte matches."""


_ESCAPE: Final[Any] = re2.compile(rb"\\[u/]")
"""An escape that may hide a name. The operator `in` takes three times as long in a text of backslashes."""


class WatchedVariables:
    """Variables that the guard, the shim or the device plugin of any vendor has a part in."""

    __slots__ = ("_search",)

    def __init__(self, names: Iterable[str]) -> None:
        """Compile names; ``*`` in one matches any text."""
        # Up to the star: more variables than that are found, never fewer. RE2 searches for all of them at once.
        beginnings = sorted({_written(name.partition("*")[0]) + ("" if "*" in name else '"') for name in names})
        options = re2.Options()
        options.max_mem = MAX_MEMORY
        options.log_errors = False
        options.encoding = re2.Options.Encoding.LATIN1
        pattern = rf'"name"\s*:\s*"(?:{"|".join(beginnings)})' if beginnings else _NOTHING
        try:
            self._search: Any = re2.compile(pattern.encode(), options).search
        except re2.error:  # too large: every list is decoded
            self._search = len

    def among(self, raw_env: bytes) -> bool:
        """Return whether an undecoded ``env`` list may hold one of them.

        A fast check with false positives but no false negatives, so that hundreds of ordinary variables stay undecoded.
        An escape may hide any name; few manifests have one.
        """
        if not raw_env:
            return False
        text = bytes(raw_env)
        # Searching for one byte is ten times as fast as for two, and most manifests have no backslash.
        return bool(self._search(text)) or (b"\\" in text and _ESCAPE.search(text) is not None)


def _written(name: str) -> str:
    """An expression for a name as JSON writes it: a quote or a backslash is escaped."""
    return literal(json.dumps(name, ensure_ascii=False)[1:-1])
