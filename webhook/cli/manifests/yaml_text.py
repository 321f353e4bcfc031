"""Reads YAML manifests as Kubernetes does (``sigs.k8s.io/yaml``, ``goyaml.v2/resolve.go``), with line numbers.

That is YAML 1.1 with its booleans (``yes``, ``on``, ``y``) and octal numbers, but without base 60 and dates, which stay
text. Unlike in Kubernetes, a key that occurs twice in one mapping is always an error.
"""

import copy
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import yaml
from yaml import events

from webhook.cli.manifests.manifest import MAX_DEPTH, WHOLE, Manifest, ManifestError, Path

MAX_NODES: Final = 1_000_000
"""Most values in one document with its aliases expanded (against the "billion laughs" attack)."""

_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_CONSTANTS: Final[Mapping[str, bool | None]] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
}
_NO_NUMBER: Final = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_INTEGER: Final = re.compile(r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|(0|[1-9][0-9]*))")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_TAG: Final = "tag:yaml.org,2002:"
_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    f"{_TAG}bool": (bool,),
    f"{_TAG}int": (int,),
    f"{_TAG}float": (int, float),
    f"{_TAG}null": (type(None),),
}


def read_yaml(text: str, source: str) -> Iterator[Manifest]:
    """Read the documents of a text, except empty ones.

    Raises:
        yaml.YAMLError: it is not YAML.
        ManifestError: it is YAML, but not a manifest.
    """
    stream = yaml.parse(text, Loader=_LOADER)
    for event in stream:
        if isinstance(event, events.DocumentStartEvent):
            reader = _Reader(stream, source)
            try:
                data = reader.node(next(stream), (), 0)
            except RecursionError as error:  # aliases in aliases
                raise ManifestError(source, reader.lines[()], f"nested deeper than {MAX_DEPTH} levels") from error
            if data is None:
                continue
            if not isinstance(data, dict):
                raise ManifestError(source, reader.lines[()], "the document is not a mapping of keys")
            yield Manifest(source, data, reader.lines)


class _Reader:
    """Builds one document from parser events."""

    def __init__(self, stream: Iterator[events.Event], source: str) -> None:
        self.lines: dict[Path, int] = {}
        self._stream = stream
        self._source = source
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._nodes = 0

    def node(self, event: events.Event, path: Path, depth: int) -> Any:
        """Build the value that begins with an event."""
        self.lines.setdefault(path, _line(event))
        before = self._nodes
        self._nodes += 1
        if isinstance(event, events.AliasEvent):
            return self._alias(event)
        if depth > MAX_DEPTH:
            raise self._error(event, f"nested deeper than {MAX_DEPTH} levels")
        value: Any
        if isinstance(event, events.ScalarEvent):
            value = self._scalar(event)
        else:
            if event.tag not in {None, "!", f"{_TAG}map", f"{_TAG}seq"}:  # type: ignore[attr-defined]
                raise self._error(event, f"a tag that Kubernetes does not read: {event.tag}")  # type: ignore[attr-defined]
            mapping = isinstance(event, events.MappingStartEvent)
            value = self._mapping(path, depth) if mapping else self._list(path, depth)
        anchor = event.anchor  # type: ignore[attr-defined]
        if anchor is not None:
            self._anchors[anchor] = value, self._nodes - before
        return value

    def _alias(self, event: events.AliasEvent) -> Any:
        if event.anchor not in self._anchors:
            raise self._error(event, f"the alias *{event.anchor} has no anchor before it")
        value, nodes = self._anchors[event.anchor]
        self._nodes += nodes
        if self._nodes > MAX_NODES:
            raise self._error(event, f"more than {MAX_NODES} values with aliases expanded")
        return copy.deepcopy(value)

    def _list(self, path: Path, depth: int) -> list[Any]:
        values: list[Any] = []
        while not isinstance(event := next(self._stream), events.SequenceEndEvent):
            values.append(self.node(event, (*path, len(values)), depth + 1))
        return values

    def _mapping(self, path: Path, depth: int) -> dict[str, Any]:
        values: dict[str, Any] = {}
        merged: list[dict[str, Any]] = []
        while not isinstance(event := next(self._stream), events.MappingEndEvent):
            if isinstance(event, events.ScalarEvent) and event.implicit[0] and event.value == "<<":
                merged += self._merge(event, path, depth)
                continue
            key = self._key(event)
            if key in values:
                first = self.lines[*path, key]
                raise self._error(event, f"the key {key} occurs twice in one mapping, first in line {first}")
            self.lines[*path, key] = _line(event)
            values[key] = self.node(next(self._stream), (*path, key), depth + 1)
        for more in merged:
            for key, value in more.items():
                values.setdefault(key, value)
        return values

    def _merge(self, event: events.ScalarEvent, path: Path, depth: int) -> list[dict[str, Any]]:
        value = self.node(next(self._stream), (*path, "<<"), depth + 1)
        merged = value if isinstance(value, list) else [value]
        if not all(isinstance(each, dict) for each in merged):
            raise self._error(event, "only mappings can be merged with <<")
        return merged

    def _key(self, event: events.Event) -> str:
        """Read a key as text: numbers and booleans are converted back to text, as in Kubernetes."""
        value = self._anchors.get(event.anchor or "", (None, 0))[0] if isinstance(event, events.AliasEvent) else None
        if isinstance(event, events.ScalarEvent):
            value = self._scalar(event)
            if event.anchor is not None:
                self._anchors[event.anchor] = value, 1
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, str | int | float):
            return str(value)
        raise self._error(event, "a key is not a string")

    def _scalar(self, event: events.ScalarEvent) -> str | int | float | bool | None:
        tag = event.tag
        if tag is None and not event.implicit[0]:
            return str(event.value)
        if tag in {"!", f"{_TAG}str"}:
            return str(event.value)
        if tag is not None and tag not in _TYPES:
            raise self._error(event, f"a tag that Kubernetes does not read: {tag}")
        value = self._resolve(event)
        if tag is not None and not (
            isinstance(value, _TYPES[tag]) and isinstance(value, bool) == (tag == f"{_TAG}bool")
        ):
            raise self._error(event, f"{event.value} is no {tag.removeprefix(_TAG)}")
        return value

    def _resolve(self, event: events.ScalarEvent) -> str | int | float | bool | None:
        text: str = event.value
        if text in _CONSTANTS:
            return _CONSTANTS[text]
        if text[0] not in "+-.0123456789":
            return text
        if _NO_NUMBER.fullmatch(text):
            raise self._error(event, f"{text} is not a number that JSON can represent")
        plain = text if text[0] == "." else text.replace("_", "")
        whole = _INTEGER.fullmatch(plain)
        if whole is not None and len(plain) <= len(bin(2**64)):
            sign, hexadecimal, binary, octal, decimal = whole.groups()
            digits, base = next((d, b) for d, b in ((hexadecimal, 16), (binary, 2), (octal, 8), (decimal, 10)) if d)
            number = int(sign + digits, base)
            if number in WHOLE:
                return number
        if _FLOAT.fullmatch(plain):
            value = float(plain)
            if not math.isfinite(value):
                raise self._error(event, f"{text[:40]} is not a number that JSON can represent")
            return int(value) if value.is_integer() and int(value) in WHOLE else value
        return text

    def _error(self, event: events.Event, message: str) -> ManifestError:
        return ManifestError(self._source, _line(event), message)


def _line(event: events.Event) -> int:
    return 1 if event.start_mark is None else int(event.start_mark.line) + 1
