"""Manifests as text: reads files in YAML or JSON, with any number of documents, and writes YAML.

YAML is read as Kubernetes does (``sigs.k8s.io/yaml``, ``goyaml.v2/resolve.go``), with line numbers: YAML 1.1 with its
booleans (``yes``, ``on``, ``y``) and octal numbers, but without base 60 and dates, which stay text. Of a key that occurs
twice in one mapping, the last one counts, as for ``kubectl``, with a warning.

It is written with keys in their order, and text quoted if any parser could read it as another type.
"""

import copy
import difflib
import json
import math
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click
import yaml
from msgspec.structs import replace
from yaml import events

from webhook.cli.terminal import Failure
from webhook.mapping.document import Document, FieldPath, Problem, Walker, line_of, syntax_problem
from webhook.workloads import children

MAX_DEPTH: Final = 150
"""Maximum depth of nesting; schemas in CustomResourceDefinitions have about sixty levels."""


WHOLE: Final = range(-(2**63), 2**64)
"""Whole numbers that JSON in Go keeps exactly; others become floats."""


class ManifestError(Exception):
    """A manifest that cannot be read; `problem` says where and why."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        super().__init__(str(problem))


class Manifest(Document, frozen=True):
    """One document of a file, as JSON data, with warnings of what was read in another way than its author may expect."""

    warnings: tuple[Problem, ...] = ()

    def error(self, path: FieldPath, message: str) -> ManifestError:
        """Make the error for a path; its line is that of the path or of the nearest known parent."""
        return ManifestError(Problem(message, path, source=self.source, line=self.line(path)))


MAX_NODES: Final = 1_000_000
"""Most values in one document with its aliases expanded (against the "billion laughs" attack)."""

MAX_EXPANDED: Final = 1024 * 1024
"""Most characters that the aliases of one document may add: as many as an object in etcd has bytes."""

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


def read_yaml(text: str, source: str, most: int) -> Iterator[Manifest]:
    """Read the documents of a text, except empty ones, with at most so many values in each.

    Raises:
        yaml.YAMLError: it is not YAML.
        ManifestError: it is YAML, but not a manifest.
    """
    reader = _Reader(text, source, most)
    try:
        for data, lines in reader.documents():
            if data is not None and not isinstance(data, dict):
                raise _error(source, lines[()], "the document is not a mapping of keys")
            if data is not None:
                yield Manifest(source, data, lines, tuple(reader.warnings))
    except RecursionError as error:  # aliases in aliases
        raise _error(source, reader.lines[()], f"nested deeper than {MAX_DEPTH} levels") from error


class _Reader(Walker):
    """Builds documents, and ends at the first mistake."""

    def __init__(self, text: str, source: str, most: int) -> None:
        super().__init__(text, source)
        self.warnings: list[Problem] = []
        self._most = most
        self._anchors: dict[str, tuple[Any, int, int]] = {}
        self._nodes = self._characters = self._expanded = 0
        self._merged: dict[FieldPath, list[dict[str, Any]]] = {}

    def node(self, event: events.Event, path: FieldPath) -> Any:
        """Build the value that begins with an event, and remember it for aliases."""
        if not path:
            self._anchors, self.warnings = {}, []
            self._nodes = self._characters = self._expanded = 0
        nodes, characters = self._nodes, self._characters
        self._nodes += 1
        value = super().node(event, path)
        if not isinstance(event, events.AliasEvent) and event.anchor is not None:  # type: ignore[attr-defined]
            counts = self._nodes - nodes, self._characters - characters
            self._anchors[event.anchor] = value, *counts  # type: ignore[attr-defined]
        return value

    def content(self, event: events.Event, path: FieldPath) -> Any:
        """Build a list or mapping; what is merged into it does not replace its own keys."""
        value = super().content(event, path)
        for more in self._merged.pop(path, ()):
            for key, each in more.items():
                value.setdefault(key, each)
        return value

    def check(self, event: events.Event, path: FieldPath) -> None:
        """Permit only tags of JSON's types, and no deep nesting."""
        if isinstance(event, events.AliasEvent):
            return
        if len(path) > MAX_DEPTH:
            raise self._error(event, f"nested deeper than {MAX_DEPTH} levels")
        tag = getattr(event, "tag", None)
        if isinstance(event, events.CollectionStartEvent) and tag not in {None, "!", f"{_TAG}map", f"{_TAG}seq"}:
            raise self._error(event, f"a tag that Kubernetes does not read: {tag}")

    def alias(self, event: events.AliasEvent) -> Any:
        """Return a copy of the value with the anchor."""
        if event.anchor not in self._anchors:
            raise self._error(event, f"the alias *{event.anchor} has no anchor before it")
        value, nodes, characters = self._anchors[event.anchor]
        self._nodes += nodes
        self._characters += characters
        self._expanded += characters
        if self._nodes > self._most:
            raise self._error(event, f"more than {self._most} values with aliases expanded")
        if self._expanded > MAX_EXPANDED:
            raise self._error(event, f"aliases add more than {MAX_EXPANDED // 1024} KiB of text")
        return copy.deepcopy(value)

    def key(self, event: events.Event, path: FieldPath, values: Mapping[str, Any]) -> str | None:
        """Return a key, with a warning if it occurs twice; read a merge with its value."""
        if isinstance(event, events.ScalarEvent) and event.implicit[0] and event.value == "<<":
            value = self.node(next(self._stream), (*path, "<<"))
            merged = value if isinstance(value, list) else [value]
            if not all(isinstance(each, dict) for each in merged):
                raise self._error(event, "only mappings can be merged with <<")
            self._merged.setdefault(path, []).extend(merged)
            return None
        key = self._key(event)
        if key in values:
            text = f"the key {key} occurs twice in one mapping, first in line {self.lines[*path, key]}: the last one counts"
            self.warnings.append(Problem(text, path, source=self._source, line=line_of(event)))
        return key

    def _key(self, event: events.Event) -> str:
        """Read a key as text: numbers and booleans are converted back to text, as in Kubernetes."""
        value = self.alias(event) if isinstance(event, events.AliasEvent) else None
        if isinstance(event, events.ScalarEvent):
            value = self.scalar(event, ())
            if event.anchor is not None:
                self._anchors[event.anchor] = value, 1, len(event.value)
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, str | int | float):
            return str(value)
        raise self._error(
            event, "a key is not a string: quote it, or render a template of Helm by `helm template` first"
        )

    def scalar(self, event: events.ScalarEvent, path: FieldPath) -> str | int | float | bool | None:  # noqa: ARG002
        """Return a value as Kubernetes resolves it, and count its characters."""
        self._characters += len(event.value)
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
        return _error(self._source, line_of(event), message)


def _error(source: str, line: int, message: str) -> ManifestError:
    return ManifestError(Problem(message, source=source, line=line))


_SPACE: Final = re.compile(r"\s*")


def read_json(text: str, source: str) -> Iterator[Manifest]:
    """Decode the documents of a text.

    Raises:
        json.JSONDecodeError: it is not JSON; it may be YAML.
        ManifestError: it is JSON, but not a manifest; the line is that of the document.
    """
    twice: list[str] = []

    def mapping(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        data = dict(pairs)
        if len(data) != len(pairs):
            twice.extend(key for key, times in Counter(key for key, _ in pairs).items() if times > 1)
        return data

    decoder = json.JSONDecoder(
        object_pairs_hook=mapping, parse_int=_json_int, parse_float=_json_float, parse_constant=_json_float
    )
    end = _after_space(text, 0)
    while end < len(text):
        line = text.count("\n", 0, end) + 1
        data: Any = None
        try:
            data, end = decoder.raw_decode(text, end)
            json.dumps(data, ensure_ascii=False).encode()
            depth = _depth(data)
        except json.JSONDecodeError:
            raise
        except RecursionError:
            depth = MAX_DEPTH + 1
        except UnicodeEncodeError as error:
            raise _error(source, line, "not Unicode text: half of a surrogate pair") from error
        except ValueError as error:
            raise _error(source, line, str(error)) from error
        if depth > MAX_DEPTH:
            raise _error(source, line, f"nested deeper than {MAX_DEPTH} levels")
        if not isinstance(data, dict):
            raise _error(source, line, "the document is not a mapping of keys")
        texts = [f"the key {key} occurs twice in one mapping: the last one counts" for key in dict.fromkeys(twice)]
        twice.clear()
        yield Manifest(source, data, {(): line}, tuple(Problem(text, source=source, line=line) for text in texts))
        end = _after_space(text, end)


def _after_space(text: str, start: int) -> int:
    found = _SPACE.match(text, start)
    return start if found is None else found.end()


def _json_int(text: str) -> int | float:
    number = int(text) if len(text) <= len(str(WHOLE.start)) else WHOLE.stop
    return number if number in WHOLE else _json_float(text)


def _json_float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:40]} is not a number")
    return number


def _depth(data: Any) -> int:
    return 1 + max((_depth(child) for _, child in children(data)), default=0) if isinstance(data, dict | list) else 0


_MESSAGE: Final = re.compile(r"(?P<what>.*?)(?: - at (?P<key>`key` in )?`\$(?P<path>.*)`)?", re.DOTALL)
_STEP: Final = re.compile(r"\.(?P<key>[^.\[\]]+)|\[(?P<index>\d+)\]|(?P<any>\[\.\.\.\])")
_MISMATCH: Final = re.compile(r"Expected `(?P<expected>[^`]+)`, got `(?P<got>[^`]+)`")
_TYPES_OF_JSON: Final[Mapping[str, tuple[type, str]]] = {
    "str": (str, "text"),
    "int": (int, "a whole number"),
    "float": (float, "a number"),
    "bool": (bool, "a boolean"),
    "object": (dict, "a mapping"),
    "array": (list, "a list"),
    "null": (type(None), "nothing"),
}
"""The names of types in messages of ``msgspec``: the type, and what it is called here."""


def _called(name: str) -> str:
    return _TYPES_OF_JSON[name][1] if name in _TYPES_OF_JSON else name


def decode_error(message: str, data: Any, base: FieldPath) -> tuple[FieldPath, str]:
    """Locate and describe a mismatch."""
    match = _MESSAGE.fullmatch(message)
    if match is None:
        return base, message
    mismatch = _MISMATCH.fullmatch(match["what"])
    path = _path(match["path"] or "", data, base, mismatch["got"] if mismatch else None)
    if mismatch is None:
        return path, match["what"]
    expected = " or ".join(_called(name) for name in mismatch["expected"].split(" | ") if name != "null")
    got = mismatch["got"]
    hint = ": quote it" if "str" in mismatch["expected"] and got in {"int", "float", "bool"} else ""
    return path, f"{expected} is expected here, not {_called(got)}{hint}"


def _path(text: str, data: Any, base: FieldPath, got: str | None) -> FieldPath:
    path = list(base)
    value = data
    for part in base:
        value = dict(children(value)).get(part)
    for step in _STEP.finditer(text):
        key = int(step["index"]) if step["index"] else step["key"] or _key_of_type(value, got)
        if key is None:
            break
        path.append(key)
        value = dict(children(value)).get(key)
    return tuple(path)


def _key_of_type(value: Any, got: str | None) -> str | None:
    """The first key whose value has the mismatched type: msgspec does not name the keys of maps."""
    mismatched, _ = _TYPES_OF_JSON.get(got or "", (None, ""))
    if not isinstance(value, dict) or mismatched is None:
        return None
    return next((str(key) for key, child in value.items() if type(child) is mismatched), None)


def read_manifests(body: bytes, source: str, most: int = MAX_NODES) -> list[Manifest]:
    """Read the documents of a file, except empty ones.

    Raises:
        ManifestError: neither YAML nor JSON, or a document that is not a mapping.
    """
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _error(source, body.count(b"\n", 0, error.start) + 1, "not UTF-8 text") from error
    try:
        if text.lstrip()[:1] == "{":
            # JSON is nearly YAML, except for tabs, surrogate pairs and documents without a marker between them.
            try:
                return list(read_json(text, source))
            except json.JSONDecodeError:
                pass
        return list(read_yaml(text, source, most))
    except yaml.YAMLError as error:
        raise ManifestError(syntax_problem(error, text, source)) from error


def read_stream(body: bytes, source: str, most: int = MAX_NODES) -> tuple[list[Manifest], list[Problem]]:
    """Read the documents of a file as `read_manifests`, but continue behind each that cannot be read."""
    try:
        return read_manifests(body, source, most), []
    except ManifestError as error:
        whole = error.problem
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError:
        return [], [whole]
    found: list[Manifest] = []
    problems: list[Problem] = []
    line = 0
    for chunk in _SEPARATOR.split(text):
        try:
            manifests = read_manifests(chunk.encode(), source, most)
        except ManifestError as error:
            problems.append(_moved(error.problem, line))
            manifests = list(_json_before_mistake(chunk, source))
        for manifest in manifests:
            lines = {path: number + line for path, number in manifest.lines.items()}
            warnings = tuple(_moved(warning, line) for warning in manifest.warnings)
            found.append(replace(manifest, lines=lines, warnings=warnings))
        line += chunk.count("\n")
    return found, problems or [whole]


_SEPARATOR: Final = re.compile(r"^(?=---(?:\s|$))", re.MULTILINE)
"""Where a document begins: no scalar may contain such a line (``c-forbidden``), and ``kubectl`` splits there, too."""


def _json_before_mistake(text: str, source: str) -> Iterator[Manifest]:
    try:
        yield from read_json(text, source)
    except (ManifestError, json.JSONDecodeError):
        return


def _moved(problem: Problem, lines: int) -> Problem:
    return replace(problem, line=(problem.line or 1) + lines)


_DUMPER: Final[type[Any]] = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_UNFOLDED: Final = 2**31 - 1
"""Width of lines: folded lines would make diffs hard to read."""

# Beyond what PyYAML quotes by itself (YAML 1.1 as it knows it): go-yaml's `y` and `n`, floats without a dot or a sign
# in the exponent (YAML 1.2, go-yaml), octals of YAML 1.2, octal-like numbers that are decimal in YAML 1.2, dates.
_AMBIGUOUS: Final = re.compile(
    r"[yYnN]|[-+]?(?:\.[0-9_]+|[0-9][0-9_]*(?:\.[0-9_]*)?)(?:[eE][-+]?[0-9_]+)?|[-+]?0[oO][0-7_]+|[-+]?0[xXbB][0-9a-fA-F_]+"
    r"|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}.*"
)


class _Dumper(_DUMPER):  # type: ignore[misc]  # C or Python: decided above
    """Quotes ambiguous text, and writes no aliases."""

    def ignore_aliases(self, data: object) -> bool:
        del data
        return True


def _text(dumper: Any, text: str) -> Any:
    style = None
    if "\n" in text:
        style = "|"
    elif _AMBIGUOUS.fullmatch(text):
        style = "'"
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def yaml_text(data: object) -> str:
    """Format one document, without a document marker."""
    text: str = yaml.dump(
        data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=False, width=_UNFOLDED
    )
    return text


def yaml_stream(documents: Iterable[object]) -> str:
    """Format documents, with markers between them."""
    return "---\n".join(yaml_text(document) for document in documents)


def difference(title: str, before: object, after: object) -> Iterator[str]:
    """Yield the lines of a unified difference of an object in YAML; none where it stays, or is None afterwards."""
    if after is None or after == before:
        return
    old, new = (yaml_text(data).splitlines() for data in (before, after))
    yield from difflib.unified_diff(old, new, f"{title} as written", f"{title} as stored", lineterm="")


SUFFIXES: Final = {".yaml", ".yml", ".json"}


def files_in(place: Path) -> list[Path]:
    """List the YAML and JSON files in a folder and below it, sorted by path; anything else counts as a file."""
    if not place.is_dir():
        return [place]
    return sorted(each for each in place.rglob("*") if each.suffix in SUFFIXES and each.is_file())


STDIN: Final = "-"


def bodies_of(files: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    """Read files, all manifest files of folders, and standard input (``-``): yield their names and contents."""
    names = list(files)
    if names.count(STDIN) > 1:
        raise click.UsageError("standard input can be read only once")
    for name in names:
        if name == STDIN:
            yield "stdin", sys.stdin.buffer.read()
            continue
        paths = files_in(Path(name))
        if not paths:
            raise Failure([f"{name}: nothing found: the folder contains no YAML or JSON file"])
        for path in paths:
            try:
                yield str(path), path.read_bytes()
            except OSError as error:
                raise Failure([f"{path}: {error.strerror}"]) from error


def manifests_in(files: Sequence[str]) -> tuple[list[Manifest], list[Problem]]:
    """Read the documents of files, see `bodies_of`; return them, and the problem of each that cannot be read."""
    manifests: list[Manifest] = []
    problems: list[Problem] = []
    for source, body in bodies_of(files):
        found, wrong = read_stream(body, source)
        manifests, problems = manifests + found, problems + wrong
    if not manifests:
        raise Failure([str(each) for each in problems] or [f"{', '.join(files)}: no document"])
    return manifests, problems
