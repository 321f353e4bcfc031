"""Makes JSON readable that a cluster stores and a decoder refuses: nested deeper than a stack, or with invalid characters.

An API server stores thousands of levels, and parts of an object (``RawExtension``, ``FieldsV1``) byte by byte as they were
sent (``k8s.io/apimachinery/pkg/runtime/extension.go``, ``pkg/apis/meta/v1/fields_proto.go``). Nothing here recurses.
"""

import re
from typing import Final

MAX_DEPTH: Final = 256
"""Levels that are kept: far beyond those of any field that is read, and far below Python's stack."""

_TOKEN: Final = re.compile(rb'"(?:[^"\\]++|\\.?)*+(?:"|\Z)|[\[\]{}]', re.DOTALL)
_SURROGATES: Final = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
)
_PAIR: Final = len(r"\ud83d\ude00")
_OPENING, _CLOSING, _QUOTE = b"[{", b"]}", b'"'


def mended(text: bytes, depth: int = MAX_DEPTH) -> bytes:
    """JSON without what is nested deeper than a number of levels, and with a replacement for each invalid character."""
    parts: list[bytes] = []
    level = kept = 0
    for token in _TOKEN.finditer(text):
        first = text[token.start()]
        if first in _OPENING:
            level += 1
            if level == depth + 1:
                parts += (text[kept : token.start()], b"null")
        elif first in _CLOSING:
            level -= 1
            if level == depth:
                kept = token.end()
    shallow = b"".join([*parts, text[kept:]]) if parts else text
    valid = shallow.decode("utf-8", "replace").encode()
    return _SURROGATES.sub(lambda found: found[0] if len(found[0]) == _PAIR else rb"\ufffd", valid)


def split(text: bytes) -> tuple[bytes, list[bytes]]:
    """A list of the API without its items, and each of them."""
    items: list[bytes] = []
    key = b""
    level = array = begin = 0
    for token in _TOKEN.finditer(text):
        first = text[token.start()]
        if first in _QUOTE:
            key = token[0]
        elif first in _OPENING:
            level += 1
            if level == 2 and key == b'"items"' and not array:  # noqa: PLR2004  (within the list itself)
                array = token.start()
            elif level == 3 and array:  # noqa: PLR2004  (within its items)
                begin = token.start()
        else:
            level -= 1
            if level == 2 and array:  # noqa: PLR2004
                items.append(text[begin : token.end()])
            elif level == 1 and array:
                return text[:array] + b"[]" + text[token.end() :], items
    return text, []
