"""Converts msgspec's message about a pod that cannot be decoded into a path in the manifest and a sentence."""

import re
from collections.abc import Mapping
from typing import Any, Final

from webhook.cli.manifests.manifest import Path

_MESSAGE: Final = re.compile(r"(?P<what>.*?)(?: - at (?P<key>`key` in )?`\$(?P<path>.*)`)?", re.DOTALL)
_STEP: Final = re.compile(r"\.(?P<key>[^.\[\]]+)|\[(?P<index>\d+)\]|(?P<any>\[\.\.\.\])")
_MISMATCH: Final = re.compile(r"Expected `(?P<expected>[^`]+)`, got `(?P<got>[^`]+)`")
_NAMES: Final[Mapping[str, str]] = {
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "a boolean",
    "object": "a mapping",
    "array": "a list",
    "null": "nothing",
}
_TYPES: Final[Mapping[str, type]] = {
    "str": str,
    "int": int,
    "float": float,
    "bool": bool,
    "object": dict,
    "array": list,
    "null": type(None),
}


def decode_error(message: str, data: Any, base: Path) -> tuple[Path, str]:
    """Locate and describe a mismatch.

    Args:
        message: the message of ``msgspec``.
        data: the decoded data.
        base: the path in `data` that the message is relative to.

    Returns:
        The path in `data`, and a sentence without a period.
    """
    match = _MESSAGE.fullmatch(message)
    if match is None:
        return base, message
    mismatch = _MISMATCH.fullmatch(match["what"])
    path = _path(match["path"] or "", data, base, mismatch["got"] if mismatch else None)
    if mismatch is None:
        return path, match["what"]
    expected = " or ".join(_NAMES.get(name, name) for name in mismatch["expected"].split(" | ") if name != "null")
    got = mismatch["got"]
    hint = ": quote it" if "str" in mismatch["expected"] and got in {"int", "float", "bool"} else ""
    return path, f"{expected} is expected here, not {_NAMES.get(got, got)}{hint}"


def _path(text: str, data: Any, base: Path, got: str | None) -> Path:
    path = list(base)
    value = data
    for part in base:
        value = _child(value, part)
    for step in _STEP.finditer(text):
        key = int(step["index"]) if step["index"] else step["key"] or _key_of_type(value, got)
        if key is None:
            break
        path.append(key)
        value = _child(value, key)
    return tuple(path)


def _key_of_type(value: Any, got: str | None) -> str | None:
    """The first key whose value has the mismatched type: msgspec does not name the keys of maps."""
    mismatched = _TYPES.get(got or "")
    if not isinstance(value, dict) or mismatched is None:
        return None
    return next((str(key) for key, child in value.items() if type(child) is mismatched), None)


def _child(value: Any, part: str | int) -> Any:
    if isinstance(value, dict):
        return value.get(part)
    if isinstance(value, list) and isinstance(part, int) and part < len(value):
        return value[part]
    return None
