"""Reads mapping and settings documents from files: plain ones, and those in ConfigMaps."""

import difflib
import itertools
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from webhook.cli.manifests.read import Manifest, read_stream
from webhook.cluster.configuration.config_maps import MAPPING_KEY, SETTINGS_KEY, SETTINGS_NAME, DocumentKind
from webhook.labels import MAPPING, PREFIX
from webhook.mapping.document import schema
from webhook.mapping.document.problem import FieldPath, MappingError, Problem
from webhook.mapping.document.schema import API_VERSION, Strict
from webhook.mapping.document.settings import Settings
from webhook.mapping.document.strict_yaml import Document, parse
from webhook.mapping.document.validation import EXTENDS

SUFFIXES: Final = {".yaml", ".yml", ".json"}


def files_in(place: Path) -> list[Path]:
    """List the YAML and JSON files in a folder and below it, sorted by path; anything else counts as a file."""
    if not place.is_dir():
        return [place]
    return sorted(each for each in place.rglob("*") if each.suffix in SUFFIXES and each.is_file())


_LITERAL: Final = re.compile(r"[|][-+0-9]*\s*(?:#.*)?$")
"""The end of a line before a literal block, whose lines are those of the file."""


@dataclass(frozen=True, slots=True)
class FoundDocument:
    """A document and its kind."""

    kind: DocumentKind
    document: Document


@dataclass(frozen=True, slots=True)
class _ConfigMap:
    """A ConfigMap in a manifest."""

    manifest: Manifest
    text: str
    path: FieldPath
    data: Mapping[str, Any]

    def line(self, path: FieldPath) -> int:
        """The line of the value at a path in it, or of the nearest known parent."""
        return self.manifest.line((*self.path, *path))

    def problem(self, path: FieldPath, message: str, hint: str | None = None) -> Problem:
        return Problem(message, (*self.path, *path), hint, self.manifest.source, self.line(path))


def in_manifest(manifest: Manifest, text: str) -> tuple[list[FoundDocument], list[Problem]]:
    """Decode the documents in the ConfigMaps of a manifest; return them and their problems.

    Args:
        manifest: a manifest of a file.
        text: the text of the whole file.
    """
    found: list[FoundDocument] = []
    problems: list[Problem] = []
    plain = str(manifest.data.get("apiVersion")).startswith(PREFIX)
    if plain or "kind" not in manifest.data:
        message = "a plain document among Kubernetes objects: put it into a file of its own, or into a ConfigMap"
        problems.append(Problem(message, source=manifest.source, line=manifest.lines[()]))
    for config_map in _config_maps(manifest, text):
        try:
            found += _documents(config_map)
        except MappingError as error:
            problems += error.problems
    return found, problems


def _config_maps(manifest: Manifest, text: str) -> Iterator[_ConfigMap]:
    kind, items = manifest.data.get("kind"), manifest.data.get("items")
    if kind == "ConfigMap":
        yield _ConfigMap(manifest, text, (), manifest.data)
    elif kind in {"List", "ConfigMapList"} and isinstance(items, list):
        for index, item in enumerate(items):
            if isinstance(item, dict) and item.get("kind", "ConfigMap") == "ConfigMap":
                yield _ConfigMap(manifest, text, ("items", index), item)


def _documents(config_map: _ConfigMap) -> Iterator[FoundDocument]:
    metadata, texts = _mapping(config_map.data.get("metadata")), _mapping(config_map.data.get("data"))
    label = _mapping(metadata.get("labels")).get(MAPPING)
    if metadata.get("name") == SETTINGS_NAME:
        yield _embedded(config_map, "settings", SETTINGS_KEY, texts.get(SETTINGS_KEY))
    elif label == "true":
        yield _embedded(config_map, "mapping", MAPPING_KEY, texts.get(MAPPING_KEY))
    elif MAPPING_KEY in texts:
        hint = f'add the label `{MAPPING}: "true"`'
        raise MappingError(
            [config_map.problem(("metadata", "labels"), "without its label the webhook does not read it", hint)]
        )


def _embedded(config_map: _ConfigMap, kind: DocumentKind, key: str, value: object) -> FoundDocument:
    path: FieldPath = ("data", key)
    if not isinstance(value, str):
        raise MappingError([config_map.problem(path, f"a text {key} is required")])
    line = config_map.line(path)
    # The lines of other scalars are not those of the file.
    literal = _LITERAL.search(config_map.text.splitlines()[line - 1]) is not None

    def moved(inner: int | None) -> int:
        return line + inner if literal and inner is not None else line

    source = config_map.manifest.source
    try:
        documents = parse(value, source)
    except MappingError as error:
        raise MappingError([replace(each, line=moved(each.line)) for each in error.problems]) from None
    if not documents and kind == "settings":
        documents = [Document(source, {}, {})]
    if len(documents) != 1:
        raise MappingError([config_map.problem(path, f"{len(documents)} documents: a ConfigMap contains exactly one")])
    (document,) = documents
    return FoundDocument(
        kind, replace(document, lines={place: moved(inner) for place, inner in document.lines.items()})
    )


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


LIKE: Final = 0.8
"""Similarity from which a key counts as a misspelled known one (`difflib`)."""

MOST_KEYS: Final = 100
"""Keys of a document that are compared to determine its kind."""

_HAS_KIND: Final = re.compile(r'^(?:kind|"kind"| +"kind") *:(?! *["\']?(?:Mapping|Settings)\b)', re.MULTILINE)
"""A line with the kind of a Kubernetes object, not of a mapping or settings document."""


def documents_of(body: bytes, source: str) -> tuple[list[FoundDocument], list[Problem]]:
    """Read the documents in a file; return them and the problems. Other objects are skipped.

    Args:
        body: the content of the file.
        source: its name in messages.
    """
    try:
        text = body.decode("utf-8-sig")
        if not _HAS_KIND.search(text):
            return [FoundDocument(_kind_of(document.data), document) for document in parse(text, source)], []
    except UnicodeDecodeError as error:
        return [], [Problem("not UTF-8 text", source=source, line=body.count(b"\n", 0, error.start) + 1)]
    except MappingError as error:
        return [], list(error.problems)
    manifests, problems = read_stream(body, source)
    found: list[FoundDocument] = []
    for manifest in manifests:
        more, wrong = in_manifest(manifest, text)
        found += more
        problems += wrong
    return found, problems


def header_warnings(found: Iterable[FoundDocument]) -> Iterator[str]:
    """Warn of documents that do not specify their schema."""
    for each in found:
        header = {"apiVersion": API_VERSION, "kind": each.kind.capitalize()}
        missing = [f"{key}: {text}" for key, text in header.items() if key not in each.document.data]
        if missing:
            yield f"{each.document.source}: read as {API_VERSION}: add {' and '.join(missing)}"


def objects_in(body: bytes, source: str) -> list[Manifest]:
    """Read the Kubernetes objects in a file without problems; empty if it has plain documents."""
    return read_stream(body, source)[0] if _HAS_KIND.search(body.decode("utf-8-sig")) else []


def _kind_of(data: Mapping[str, Any]) -> DocumentKind:
    """The kind of a document: as specified, otherwise by its keys."""
    if data.get("kind") in {"Mapping", "Settings"}:
        return "mapping" if data["kind"] == "Mapping" else "settings"
    settings, mapping = _likeness(data, _keys(Settings)), _likeness(data, [EXTENDS, *_keys(schema.Mapping)])
    # Keys that both kinds have do not distinguish them.
    return "settings" if settings and settings >= mapping else "mapping"


def _likeness(data: Iterable[str], keys: Collection[str]) -> int:
    compared = itertools.islice(data, MOST_KEYS)
    return sum(bool(difflib.get_close_matches(key[:64], keys, n=1, cutoff=LIKE)) for key in compared)


def _keys(model: type[Strict]) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()]
