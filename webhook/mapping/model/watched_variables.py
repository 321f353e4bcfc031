"""The environment variables that a policy cares about, found in undecoded JSON: most containers have none of them."""

from collections.abc import Iterable
from typing import Any, Final

import re2  # type: ignore[import-untyped]

from webhook.mapping.notation.pattern import literal

_BYTES: Final = 8 * 1024 * 1024
"""The memory in bytes that RE2 may use: its default."""


class WatchedVariables:
    """Variables that the guard, the shim or the device plugin of any vendor has a part in."""

    __slots__ = ("_search",)

    def __init__(self, names: Iterable[str]) -> None:
        """Compile names; ``*`` in one matches any text."""
        # Up to the star: more variables than that are found, never fewer. RE2 searches them all at once.
        beginnings = sorted({literal(name.partition("*")[0]) + ("" if "*" in name else '"') for name in names})
        options = re2.Options()
        options.max_mem = _BYTES
        pattern = rf'"name"\s*:\s*"(?:{"|".join(beginnings)})'
        self._search: Any = re2.compile(pattern.encode(), options).search if beginnings else None

    def among(self, raw_env: bytes) -> bool:
        """Return whether an undecoded ``env`` list may hold one of them.

        A fast check with false positives but no false negatives, so that hundreds of ordinary variables stay undecoded.
        An escape may hide any name; few manifests have one.
        """
        if self._search is None or not raw_env:
            return False
        text = bytes(raw_env)
        # Searching for one byte is ten times as fast as for two, and most manifests have no backslash.
        return self._search(text) is not None or (b"\\" in text and b"\\u" in text)
