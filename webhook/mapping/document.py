"""A document: strict YAML, in which what parsers could read differently is an error, and its problems, each with its line.

Stricter than the core schema of YAML 1.2:

- ``true`` and ``false`` are booleans; ``null``, ``~`` and an empty value are null. A scalar that only some parsers read as
  one of these (``yes``, ``off``, ``y``, ``True``, ``NULL`` …) is an error.
- A plain decimal whole number is an int. Every other plain scalar is text exactly as written: ``0.01`` and ``1e3``
  (exactness matters), ``010``, ``0x1f``, ``1:30``, ``1_000``, ``2024-01-01``.
- Keys are text (``1:`` is the key "1") and unique. Tags, merge keys, anchors and aliases (nine lines make a billion
  laughs), deep nesting, and more than `MAX_BYTES` are errors.

`Walker` makes data of a parser's events, with the line of every key and element; the dialect of manifests is another one.
"""

import difflib
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeVar

import yaml
from msgspec import Struct
from yaml import events

from webhook.text import without_middle

T = TypeVar("T")

FieldPath = tuple[str | int, ...]


class Problem(Struct, frozen=True):
    """One mistake in a document."""

    message: str
    path: FieldPath = ()
    hint: str | None = None
    source: str = ""
    line: int | None = None

    def __str__(self) -> str:
        place = self.source if self.line is None else f"{self.source}:{self.line}"
        text = ": ".join(part for part in (place, path_text(self.path), without_middle(self.message)) if part)
        return text if self.hint is None else f"{text} ({without_middle(self.hint)})"


def path_text(path: FieldPath) -> str:
    """Format a path: ``forms[0].when``."""
    return without_middle(
        "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")
    )


_BEGINNING: Final = 3  # the fewest characters of a name that count as the beginning of a longer one


def nearest_known(name: str, known: Iterable[str], aliases: Iterable[str] = ()) -> str:
    """Return a hint for an unknown name: the known one, or alias of one, that was probably meant, else all known ones."""
    names = sorted(known)
    likely = {each.lower(): each for each in sorted({*names, *aliases})}
    near = [likely[each] for each in difflib.get_close_matches(name[:64].lower(), likely, n=1)]
    near = near or [each for each in names if len(name) >= _BEGINNING and each.startswith(name)][:1]
    return f"did you mean `{near[0]}`?" if near else f"known are {', '.join(names)}" if names else "there are none"


class MappingError(Exception):
    """Documents are invalid; `problems` has the reasons, each with its place."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))


class Problems(Struct, frozen=True):
    """Collects the problems of a part of a document: compilation continues after each, so that all are reported at once."""

    found: list[Problem] = []
    path: FieldPath = ()
    source: str = ""

    def at(self, *path: str | int) -> "Problems":
        """Return what collects those of a part of this part."""
        return Problems(self.found, (*self.path, *path), self.source)

    def of(self, source: str) -> "Problems":
        """Return what collects those of a document."""
        return Problems(self.found, (), source)

    def add(self, path: FieldPath | str, message: str, hint: str | None = None) -> None:
        """Add a problem of what is at a path in the part."""
        part = (path,) if isinstance(path, str) else path
        self.found.append(Problem(message, (*self.path, *part), hint, self.source))

    def when(self, wrong: object, path: FieldPath | str, message: str, hint: str | None = None) -> None:
        """Add a problem if something is wrong."""
        if wrong:
            self.add(path, message, hint)

    def unknown(
        self, path: FieldPath | str, kind: str, name: str, known: Collection[str], aliases: Iterable[str] = ()
    ) -> None:
        """Add a problem if none of these has the name, with a hint for the first ones: each is searched for."""
        if name not in known:
            hint = nearest_known(name, known, aliases) if len(self.found) < MAX_PROBLEMS else None
            self.add(path, f"no {kind} is called {name!r}", hint)

    def parsed(self, path: FieldPath, written: Any, parse: Callable[[Any], T]) -> T | None:
        """Parse what is written; None if that is nothing, or no such value."""
        try:
            return None if written is None else parse(written)
        except ValueError as error:
            self.add(path, str(error))
            return None


@contextmanager
def problems_of(source: str, line: int | None = 1) -> Iterator[None]:
    """Turn every error into a problem of one document, so that it affects no other document.

    Raises:
        MappingError: in place of any other error.
    """
    try:
        yield
    except MappingError:
        raise
    except Exception as error:
        raise MappingError([bug(error, source, line)]) from error


def bug(error: Exception, source: str, line: int | None = 1) -> Problem:
    """Return a problem for an unexpected error that a document causes."""
    message = f"it causes an internal error of the webhook: {type(error).__name__}"
    return Problem(message, hint="please report it", source=source, line=line)


_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def line_of(event: events.Event) -> int:
    """Return the line of an event from 1."""
    return 1 if event.start_mark is None else int(event.start_mark.line) + 1


def syntax_problem(error: yaml.YAMLError, text: str, source: str) -> Problem:
    """Return the problem of a text that is not YAML, with its line."""
    if isinstance(error, yaml.reader.ReaderError):
        line = text.count("\n", 0, error.position) + 1
        return Problem(f"a character that YAML does not permit: {error.reason}", source=source, line=line)
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        if mark is not None and text[mark.index : mark.index + 1] == "\t":
            return Problem("a tab: indent with spaces", source=source, line=mark.line + 1)
        text_ = ", ".join(part for part in (error.problem, error.context) if part)
        last = text.rstrip("\n").count("\n")  # libyaml reports the end of a text one line below it
        return Problem(f"not YAML: {text_}", source=source, line=1 if mark is None else min(mark.line, last) + 1)
    return Problem(f"not YAML: {error}", source=source, line=1)


MAX_BYTES: Final = 1024 * 1024
"""The longest text in bytes: the limit of a ConfigMap (``MaxSecretSize`` of the API server)."""

MAX_DEPTH: Final = 32  # the deepest nesting; the schema needs seven levels
MAX_DIGITS: Final = 40  # the longest whole number, as for quantities; Python itself raises above 4300 digits
MAX_PROBLEMS: Final = 20  # the most problems that are reported for one text
_CONSTANTS: Final[Mapping[str, bool | None]] = {"true": True, "false": False, "null": None, "~": None, "": None}
_AMBIGUOUS: Final = {
    **dict.fromkeys(("yes", "on", "y", "true"), "true"),
    **dict.fromkeys(("no", "off", "n", "false"), "false"),
    "null": "null",
}
_WHOLE: Final = re.compile(r"-?(?:0|[1-9][0-9]*)")


class Document(Struct, frozen=True):
    """One document of a YAML text, with the line of every key and list element by its path; ``()`` is the document."""

    source: str
    data: dict[str, Any]
    lines: Mapping[FieldPath, int]

    def line(self, path: FieldPath) -> int:
        """Return the line of a path, or of the nearest known parent."""
        return next(self.lines[path[:end]] for end in range(len(path), -1, -1) if path[:end] in self.lines)


def parse(text: str, source: str) -> list[Document]:
    """Parse the documents of a YAML (or JSON) text; empty ones are left out.

    Raises:
        MappingError: not YAML, or YAML that could be misread; each problem with its line and what to write instead.
    """
    with problems_of(source):
        reader, documents = Walker(text, source), list[Document]()
        try:
            if len(text.encode()) > MAX_BYTES:
                raise MappingError([Problem(f"longer than {MAX_BYTES // 1024} KiB", source=source, line=1)])
            documents = list(reader.read())
        except UnicodeEncodeError as error:
            line = text.count("\n", 0, error.start) + 1
            reader.problems.append(Problem("not UTF-8 text", source=source, line=line))
        except yaml.YAMLError as error:
            reader.problems.append(syntax_problem(error, text, source))
        if reader.problems:
            raise MappingError(reader.problems)
        return documents


class _TooMany(Exception):  # noqa: N818  (not an error: it ends the reading)
    """`MAX_PROBLEMS` have been found."""


class Walker:
    """Builds documents of events, which still have tags, anchors and lines, and collects what is wrong.

    Another dialect reads and reports in methods of its own.
    """

    def __init__(self, text: str, source: str) -> None:
        self.lines: dict[FieldPath, int] = {}
        self.problems: list[Problem] = []
        self._text = text
        self._stream: Iterator[events.Event] = iter(())
        self._source = source

    def documents(self) -> Iterator[tuple[Any, dict[FieldPath, int]]]:
        """Yield each document with its lines; one without content is None."""
        self._stream = iter(_LOADER(self._text).get_event, None)
        for event in self._stream:
            if isinstance(event, events.DocumentStartEvent):
                root = next(self._stream)
                self.lines = {(): line_of(root)}
                yield self.node(root, ()), self.lines

    def node(self, event: events.Event, path: FieldPath) -> Any:
        """Build the value that begins with an event."""
        self.check(event, path)
        if isinstance(event, events.ScalarEvent):
            return self.scalar(event, path)
        return self.alias(event) if isinstance(event, events.AliasEvent) else self.content(event, path)

    def content(self, event: events.Event, path: FieldPath) -> Any:
        """Build the list or mapping that begins with an event."""
        if isinstance(event, events.SequenceStartEvent):
            elements: list[Any] = []
            while not isinstance(event := next(self._stream), events.SequenceEndEvent):
                here = (*path, len(elements))
                self.lines[here] = line_of(event)
                elements.append(self.node(event, here))
            return elements
        values: dict[str, Any] = {}
        while not isinstance(event := next(self._stream), events.MappingEndEvent):
            key = self.key(event, path, values)
            if key is not None:
                here = (*path, key)
                self.lines[here] = line_of(event)
                values[key] = self.node(next(self._stream), here)
        return values

    def read(self) -> Iterator[Document]:
        """Read all documents; add what is wrong to `problems`."""
        with suppress(_TooMany):
            for root, lines in self.documents():
                if isinstance(root, dict):
                    yield Document(self._source, root, lines)
                elif root is not None:
                    hint = "write `key: value` lines"
                    self._report("the document is not a mapping of keys", (), lines[()], hint)

    def check(self, event: events.Event, path: FieldPath) -> None:
        """Report an event that the dialect does not permit as a value: anchors, aliases, tags and deep nesting."""
        self._check_features(event, path)
        if len(path) >= MAX_DEPTH and isinstance(event, events.CollectionStartEvent):
            self._report(f"nested deeper than {MAX_DEPTH} levels", path[:3], line_of(event))
            raise _TooMany

    def key(self, event: events.Event, path: FieldPath, values: Mapping[str, Any]) -> str | None:
        """Return a key, or ``?`` for what cannot be one: its content is dropped, and the next node is its value."""
        self._check_features(event, path)
        if not isinstance(event, events.ScalarEvent):
            if not isinstance(event, events.AliasEvent):
                self._report("a key is a list or mapping", path, line_of(event), "write text as the key")
                self.content(event, (*path, "?"))
            return "?"
        key: str = event.value
        if event.implicit[0]:
            if key == "<<":
                hint = "write the keys out, or use `extends`"
                self._report("merge keys are not supported", path, line_of(event), hint)
            elif key == "":
                self._report("a key is missing before the colon", path, line_of(event))
            elif key.lower() in _AMBIGUOUS or key == "~":
                message = f"the key {key} is a boolean or null to some parsers"
                self._report(message, path, line_of(event), f'quote it: "{key}"')
        if key in values:
            here = (*path, key)
            self._report(f"duplicate key {key}", here, line_of(event), f"first in line {self.lines[here]}")
        return key

    def alias(self, event: events.AliasEvent) -> None:
        """Return nothing: aliases are reported."""

    def scalar(self, event: events.ScalarEvent, path: FieldPath) -> str | float | bool | None:
        """Return a value; report one that parsers read differently."""
        text = str(event.value)
        if not event.implicit[0]:
            return text
        if text in _CONSTANTS:
            return _CONSTANTS[text]
        meant = _AMBIGUOUS.get(text.lower())
        if meant is not None:
            what = "null" if meant == "null" else "a boolean"
            message = f"{text} is {what} to some parsers and text to others"
            self._report(message, path, line_of(event), f'write {meant} or "{text}"')
        whole = _WHOLE.fullmatch(text) is not None
        if whole and len(text) > MAX_DIGITS:
            hint = f"at most {MAX_DIGITS}, or quote it"
            self._report(f"a number of {len(text)} digits", path, line_of(event), hint)
            return text
        return int(text) if whole else text

    def _check_features(self, event: events.Event, path: FieldPath) -> None:
        anchor, tag = getattr(event, "anchor", None), getattr(event, "tag", None)
        if anchor is not None:
            sign = "*" if isinstance(event, events.AliasEvent) else "&"
            hint = f"write it out, or quote a text that begins with {sign}"
            self._report(f"anchors and aliases are not supported: {sign}{anchor}", path, line_of(event), hint)
        if tag is not None:
            hint = "remove it, or quote a text that begins with !"
            self._report(f"tags are not supported: {tag}", path, line_of(event), hint)

    def _report(self, message: str, path: FieldPath, line: int, hint: str | None = None) -> None:
        self.problems.append(Problem(message, path, hint, self._source, line))
        if len(self.problems) >= MAX_PROBLEMS:
            raise _TooMany
