"""Makes JSON readable that a cluster stores and a decoder refuses: nested deeper than a stack, or with invalid characters.

An API server stores thousands of levels, and parts of an object (``RawExtension``, ``FieldsV1``) byte by byte as they were
sent (``k8s.io/apimachinery/pkg/runtime/extension.go``, ``pkg/apis/meta/v1/fields_proto.go``). Nothing here recurses.
"""

import re
from collections.abc import Iterator
from typing import Final

MAX_DEPTH: Final = 256
"""Levels that are kept: far beyond those of any field that is read, and far below Python's stack."""

_TOKEN: Final = re.compile(rb'"(?:[^"\\]++|\\.?)*+(?:"|\Z)|[\[\]{}]', re.DOTALL)
_SURROGATES: Final = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
)
_PAIR: Final = len(r"\ud83d\ude00")
_OPENING, _CLOSING, _QUOTE = b"[{", b"]}", b'"'
_ITEM: Final = 3
"""The level of the items of a list."""


def _tokens(text: bytes) -> Iterator[tuple[int, int, re.Match[bytes]]]:
    """Every string and bracket, each with its level and its first byte; both brackets of a pair have the same level."""
    level = 0
    for token in _TOKEN.finditer(text):
        first = text[token.start()]
        level += first in _OPENING
        yield level, first, token
        level -= first in _CLOSING


def mended(text: bytes, depth: int = MAX_DEPTH) -> bytes:
    """JSON without what is nested deeper than a number of levels, and with a replacement for each invalid character."""
    parts: list[bytes] = []
    kept = 0
    for level, first, token in _tokens(text):
        if level == depth + 1 and first in _OPENING:
            parts += (text[kept : token.start()], b"null")
        elif level == depth + 1 and first in _CLOSING:
            kept = token.end()
    shallow = b"".join([*parts, text[kept:]]) if parts else text
    valid = shallow.decode("utf-8", "replace").encode()
    return _SURROGATES.sub(lambda found: found[0] if len(found[0]) == _PAIR else rb"\ufffd", valid)


def split(text: bytes) -> tuple[bytes, list[bytes]]:
    """A list of the API without its items, and each of them."""
    items: list[bytes] = []
    key = b""
    array = begin = 0
    for level, first, token in _tokens(text):
        if first in _QUOTE:
            key = token[0]
        elif level == _ITEM and array:
            if first in _CLOSING:
                items.append(text[begin : token.end()])
            begin = token.start()
        elif level == _ITEM - 1 and array:
            return text[:array] + b"[]" + text[token.end() :], items
        elif level == _ITEM - 1 and key == b'"items"' and first in _OPENING:
            array = token.start()
    return text, []
