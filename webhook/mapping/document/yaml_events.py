"""Parser events of a YAML text, walked to data with the line of every key and element; a dialect says what they mean."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, Final

import yaml
from yaml import events

from webhook.mapping.document.problem import FieldPath, Problem

_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def events_of(text: str) -> Iterator[events.Event]:
    """Parse a text to events: only they still have tags, anchors, the style of scalars, and lines.

    Raises:
        yaml.YAMLError: while the events are read.
    """
    stream: Iterator[events.Event] = yaml.parse(text, Loader=_LOADER)
    return stream


def line_of(event: events.Event) -> int:
    """Return the line of an event from 1."""
    return 1 if event.start_mark is None else int(event.start_mark.line) + 1


class Walker(ABC):
    """Builds documents from events; what a dialect permits, reads and reports is in its subclass.

    Attributes:
        lines: of the current document, the line of every key and element.
    """

    def __init__(self, stream: Iterator[events.Event]) -> None:
        self.lines: dict[FieldPath, int] = {}
        self._stream = stream

    def documents(self) -> Iterator[tuple[Any, dict[FieldPath, int]]]:
        """Yield each document with its lines; one without content is None."""
        for event in self._stream:
            if isinstance(event, events.DocumentStartEvent):
                self.lines = {}
                yield self.node(next(self._stream), ()), self.lines

    def node(self, event: events.Event, path: FieldPath) -> Any:
        """Build the value that begins with an event."""
        self.lines.setdefault(path, line_of(event))
        self.check(event, path)
        if isinstance(event, events.AliasEvent):
            return self.alias(event)
        return self.scalar(event, path) if isinstance(event, events.ScalarEvent) else self.content(event, path)

    def content(self, event: events.Event, path: FieldPath) -> Any:
        """Build the list or mapping that begins with an event."""
        if isinstance(event, events.SequenceStartEvent):
            elements: list[Any] = []
            while not isinstance(event := next(self._stream), events.SequenceEndEvent):
                elements.append(self.node(event, (*path, len(elements))))
            return elements
        values: dict[str, Any] = {}
        while not isinstance(event := next(self._stream), events.MappingEndEvent):
            key = self.key(event, path, values)
            if key is not None:
                self.lines[*path, key] = line_of(event)
                values[key] = self.node(next(self._stream), (*path, key))
        return values

    @abstractmethod
    def check(self, event: events.Event, path: FieldPath) -> None:
        """Report an event that the dialect does not permit as a value."""

    @abstractmethod
    def key(self, event: events.Event, path: FieldPath, values: Mapping[str, Any]) -> str | None:
        """Return a key of a mapping that has these values so far; None if it was read with its value."""

    @abstractmethod
    def scalar(self, event: events.ScalarEvent, path: FieldPath) -> Any:
        """Return a value."""

    @abstractmethod
    def alias(self, event: events.AliasEvent) -> Any:
        """Return the value of an alias."""


def syntax_problem(error: yaml.YAMLError, text: str, source: str) -> Problem:
    """Return the problem of a text that is not YAML, with its line."""
    if isinstance(error, yaml.reader.ReaderError):
        line = text.count("\n", 0, error.position) + 1
        return Problem(f"a character that YAML does not permit: {error.reason}", source=source, line=line)
    if isinstance(error, yaml.MarkedYAMLError):
        text_ = ", ".join(part for part in (error.problem, error.context) if part)
        mark = error.problem_mark or error.context_mark
        last = text.rstrip("\n").count("\n")  # libyaml reports the end of a text one line below it
        return Problem(f"not YAML: {text_}", source=source, line=1 if mark is None else min(mark.line, last) + 1)
    return Problem(f"not YAML: {error}", source=source, line=1)
