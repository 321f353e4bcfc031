"""Why a pod cannot be decoded, and where: msgspec's message, made into a place in the manifest and a sentence."""

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
    """Where data does not fit, and how.

    Args:
        message: what ``msgspec`` says.
        data: what was decoded.
        base: where in `data` the part is that the message speaks of.

    Returns:
        The path in `data`, and a sentence without a full stop.
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
        key = int(step["index"]) if step["index"] else step["key"] or _odd_one(value, got)
        if key is None:
            break
        path.append(key)
        value = _child(value, key)
    return tuple(path)


def _odd_one(value: Any, got: str | None) -> str | None:
    """The key whose value is of the type that did not fit: msgspec does not name the keys of maps."""
    wanted = _TYPES.get(got or "")
    if not isinstance(value, dict) or wanted is None:
        return None
    return next((str(key) for key, child in value.items() if type(child) is wanted), None)


def _child(value: Any, part: str | int) -> Any:
    if isinstance(value, dict):
        return value.get(part)
    if isinstance(value, list) and isinstance(part, int) and part < len(value):
        return value[part]
    return None
