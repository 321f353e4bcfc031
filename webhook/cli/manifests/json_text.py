"""JSON manifests: any number of documents in a text, with unique keys."""

import json
import math
from collections.abc import Iterator
from typing import Any

from webhook.cli.manifests.manifest import MAX_DEPTH, WHOLE, Manifest, ManifestError


class _Misread(Exception):  # noqa: N818  (internal: becomes a ManifestError where the line is known)
    """A problem inside a JSON document, whose line is unknown inside the decoder."""


def read_json(text: str, source: str) -> Iterator[Manifest]:
    """Decode the documents of a text.

    Raises:
        json.JSONDecodeError: it is not JSON; it may be YAML.
        ManifestError: it is JSON, but not a manifest; the line is that of the document.
    """
    decoder = json.JSONDecoder(
        object_pairs_hook=_unique, parse_int=_json_int, parse_float=_json_float, parse_constant=_json_float
    )
    end = 0
    while True:
        start = end + len(text[end:]) - len(text[end:].lstrip())
        if start == len(text):
            return
        line = text.count("\n", 0, start) + 1
        try:
            data, end = decoder.raw_decode(text, start)
            json.dumps(data, ensure_ascii=False).encode()
        except _Misread as error:
            raise ManifestError(source, line, str(error)) from error
        except UnicodeEncodeError as error:
            raise ManifestError(source, line, "not Unicode text: half of a surrogate pair") from error
        except RecursionError as error:
            raise ManifestError(source, line, f"nested deeper than {MAX_DEPTH} levels") from error
        if not isinstance(data, dict):
            raise ManifestError(source, line, "the document is not a mapping of keys")
        if _deeper(data, MAX_DEPTH):
            raise ManifestError(source, line, f"nested deeper than {MAX_DEPTH} levels")
        yield Manifest(source, data, {(): line})


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise _Misread(f"the key {twice} occurs twice in one mapping")
    return data


def _json_int(text: str) -> int | float:
    number = int(text) if len(text) <= len(str(WHOLE.start)) else WHOLE.stop
    return number if number in WHOLE else _json_float(text)


def _json_float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise _Misread(f"{text[:40]} is not a number")
    return number


def _deeper(data: object, depth: int) -> bool:
    """Whether data is nested deeper; checked level by level, without recursion."""
    level = [data]
    for _ in range(depth):
        level = [
            child
            for value in level
            if isinstance(value, dict | list)
            for child in (value.values() if isinstance(value, dict) else value)
            if isinstance(child, dict | list)
        ]
        if not level:
            return False
    return True
