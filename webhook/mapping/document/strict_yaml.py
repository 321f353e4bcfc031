"""YAML for mappings and settings, read without surprises: it is what is meant, or it is an error with its line.

Stricter than YAML 1.2's core schema, on purpose:

- ``true`` and ``false`` are booleans; ``null``, ``~`` and nothing are null. What only some parsers take for one of
  these (``yes``, ``off``, ``y``, ``True``, ``NULL`` …) is an error.
- A plain decimal whole number is an int. Every other plain scalar is text exactly as written: ``0.01`` and ``1e3``
  (exactness matters), ``010``, ``0x1f``, ``1:30``, ``1_000``, ``2024-01-01``.
- Keys are text (``1:`` is the key "1"), each once. No tags, no merge keys, no anchors and aliases (a billion laughs
  are nine lines), no deep nesting, at most `MAX_BYTES`.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import yaml
from yaml import events

from webhook.mapping.document.problem import MappingError, Path, Problem, held_against

MAX_BYTES: Final = 1024 * 1024
"""Longest text that is read: what a ConfigMap can hold (``MaxSecretSize`` of the API server)."""

MAX_DEPTH: Final = 32
"""Deepest nesting; the schema needs seven levels."""

MAX_DIGITS: Final = 40
"""Longest whole number, as for quantities; Python itself refuses to read more than 4300 digits."""

MAX_PROBLEMS: Final = 20
"""How many mistakes of one text are told at once."""

_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_WORDS: Final[Mapping[str, bool | None]] = {"true": True, "false": False, "null": None, "~": None, "": None}
_MISTAKABLE: Final = {
    **dict.fromkeys(("yes", "on", "y", "true"), "true"),
    **dict.fromkeys(("no", "off", "n", "false"), "false"),
    "null": "null",
}
_WHOLE: Final = re.compile(r"-?(?:0|[1-9][0-9]*)")


@dataclass(frozen=True, slots=True)
class Document:
    """One document of a YAML text.

    Attributes:
        source: where the text came from, as it is named in messages.
        data: the document; values are dicts, lists, text, ints, booleans and None.
        lines: line from 1 of every key and list element by its path; ``()`` is the document's own.
    """

    source: str
    data: dict[str, Any]
    lines: Mapping[Path, int]


def parse(text: str, source: str) -> list[Document]:
    """The documents of a YAML (or JSON) text; empty ones are left out.

    Args:
        text: the whole text.
        source: how messages name where it came from: a file, a ConfigMap, "built-in".

    Raises:
        MappingError: no YAML, or YAML that could be misread; each problem with its line and what to write instead.
    """
    with held_against(source):
        return _parsed(text, source)


def _parsed(text: str, source: str) -> list[Document]:
    reader = _Reader(source)
    try:
        if len(text.encode()) > MAX_BYTES:
            raise MappingError([Problem(f"longer than {MAX_BYTES // 1024} KiB", source=source, line=1)])
        documents = reader.read(yaml.parse(text, Loader=_LOADER))
    except UnicodeEncodeError as error:
        line = text.count("\n", 0, error.start) + 1
        raise MappingError([*reader.problems, Problem("not Unicode text", source=source, line=line)]) from error
    except yaml.YAMLError as error:
        raise MappingError([*reader.problems, _syntax(error, text, source)]) from error
    if reader.problems:
        raise MappingError(reader.problems)
    return documents


def _syntax(error: yaml.YAMLError, text: str, source: str) -> Problem:
    if isinstance(error, yaml.reader.ReaderError):
        line = text.count("\n", 0, error.position) + 1
        return Problem(f"a character that YAML does not permit: {error.reason}", source=source, line=line)
    if isinstance(error, yaml.MarkedYAMLError):
        said = ", ".join(part for part in (error.problem, error.context) if part)
        mark = error.problem_mark or error.context_mark
        last = text.rstrip("\n").count("\n")  # libyaml finds the end of a text one line below it
        return Problem(f"not YAML: {said}", source=source, line=1 if mark is None else min(mark.line, last) + 1)
    return Problem(f"not YAML: {error}", source=source, line=1)


class _TooMany(Exception):  # noqa: N818  (not an error of its own: enough has been found)
    """Enough problems have been found."""


@dataclass(slots=True)
class _Open:
    """A mapping or list that is being read."""

    path: Path
    value: dict[str, Any] | list[Any]
    key: str | None = None
    used: dict[str, int] = field(default_factory=dict)


class _Reader:
    """Builds documents from parser events, for only events still tell tags, anchors and plain scalars."""

    def __init__(self, source: str) -> None:
        self.problems: list[Problem] = []
        self._source = source

    def read(self, stream: Iterator[events.Event]) -> list[Document]:
        """All documents of a stream; what is wrong is added to `problems`."""
        documents = []
        try:
            for event in stream:
                if isinstance(event, events.DocumentStartEvent):
                    document = self._document(stream)
                    if document is not None:
                        documents.append(document)
        except _TooMany:
            pass
        return documents

    def _document(self, stream: Iterator[events.Event]) -> Document | None:
        lines: dict[Path, int] = {}
        root: Any = None
        stack: list[_Open] = []
        for event in stream:
            if isinstance(event, events.DocumentEndEvent):
                break
            if isinstance(event, events.CollectionEndEvent):
                stack.pop()
                continue
            line = _line(event)
            top = stack[-1] if stack else None
            if top is not None and isinstance(top.value, dict) and top.key is None:
                top.key = self._key(event, top, line)
                lines.setdefault((*top.path, top.key), line)
                if not isinstance(event, events.CollectionStartEvent):
                    continue
                # a list or mapping as a key has been told; it is read into nothing, and what follows it is its value
                stack.append(_Open((*top.path, top.key), [] if isinstance(event, events.SequenceStartEvent) else {}))
                continue
            path, value = self._node(event, top, line)
            lines.setdefault(path, line)
            if top is None:
                root = value
            if isinstance(event, events.CollectionStartEvent):
                self._check_depth(stack, path, line)
                stack.append(_Open(path, value))
        if root is None:
            return None
        if not isinstance(root, dict):
            self._tell("the document is not a mapping of keys", (), lines[()], hint="write `key: value` lines")
            return None
        return Document(self._source, root, lines)

    def _node(self, event: events.Event, top: _Open | None, line: int) -> tuple[Path, Any]:
        """A value: where it belongs, and what it is. It is put there already."""
        if top is None:
            path: Path = ()
        elif isinstance(top.value, list):
            path = (*top.path, len(top.value))
        else:
            path = (*top.path, top.key or "")
        self._check_plainness(event, path, line)
        value: Any = None
        if isinstance(event, events.ScalarEvent):
            value = self._scalar(event, path, line)
        elif isinstance(event, events.MappingStartEvent):
            value = {}
        elif isinstance(event, events.SequenceStartEvent):
            value = []
        if top is not None:
            if isinstance(top.value, list):
                top.value.append(value)
            else:
                top.value.setdefault(top.key or "", value)
                top.key = None
        return path, value

    def _key(self, event: events.Event, top: _Open, line: int) -> str:
        path = top.path
        self._check_plainness(event, path, line)
        if not isinstance(event, events.ScalarEvent):
            if not isinstance(event, events.AliasEvent):
                self._tell("a key is a list or mapping", path, line, hint="keys are text")
            return "?"
        key: str = event.value
        if _plain(event):
            if key == "<<":
                self._tell("merge keys are not read", path, line, hint="write the keys out, or use `extends`")
            elif key == "":
                self._tell("a key is missing before the colon", path, line)
            elif key.lower() in _MISTAKABLE or key == "~":
                self._tell(f"the key {key} is a boolean or null to some parsers", path, line, hint=f'quote it: "{key}"')
        if key in top.used:
            self._tell(f"the key {key} stands here twice", (*path, key), line, hint=f"first in line {top.used[key]}")
        top.used.setdefault(key, line)
        return key

    def _scalar(self, event: events.ScalarEvent, path: Path, line: int) -> str | int | bool | None:
        text: str = event.value
        if not _plain(event):
            return text
        if text in _WORDS:
            return _WORDS[text]
        meant = _MISTAKABLE.get(text.lower())
        if meant is not None:
            what = "null" if meant == "null" else "a boolean"
            self._tell(
                f"{text} is {what} to some parsers and text to others", path, line, hint=f'write {meant} or "{text}"'
            )
            return text
        if _WHOLE.fullmatch(text) is None:
            return text
        if len(text) > MAX_DIGITS:
            self._tell(f"a number of {len(text)} digits", path, line, hint=f"at most {MAX_DIGITS}, or quote it")
            return text
        return int(text)

    def _check_plainness(self, event: events.Event, path: Path, line: int) -> None:
        if isinstance(event, events.AliasEvent) or getattr(event, "anchor", None) is not None:
            sign = "*" if isinstance(event, events.AliasEvent) else "&"
            hint = f"write it out, or quote a text that begins with {sign}"
            self._tell(f"anchors and aliases are not read: {sign}{getattr(event, 'anchor', '')}", path, line, hint=hint)
        tag = getattr(event, "tag", None)
        if tag is not None:
            self._tell(f"tags are not read: {tag}", path, line, hint="leave it out, or quote a text that begins with !")

    def _check_depth(self, stack: list[_Open], path: Path, line: int) -> None:
        if len(stack) >= MAX_DEPTH:
            self._tell(f"nested deeper than {MAX_DEPTH} levels", path[:3], line)
            raise _TooMany

    def _tell(self, message: str, path: Path, line: int, hint: str | None = None) -> None:
        self.problems.append(Problem(message, path, hint, self._source, line))
        if len(self.problems) >= MAX_PROBLEMS:
            raise _TooMany


def _plain(event: events.ScalarEvent) -> bool:
    return bool(event.implicit[0])


def _line(event: events.Event) -> int:
    return 1 if event.start_mark is None else int(event.start_mark.line) + 1
