"""ConfigMaps in manifests, and the documents in them, with the lines of the file."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from webhook.cli.manifests.manifest import Manifest, Path
from webhook.cluster.configuration.config_maps import MAPPING_KEY, SETTINGS_KEY, SETTINGS_NAME
from webhook.cluster.configuration.verdict import Kind
from webhook.labels import MAPPING, PREFIX
from webhook.mapping.document.problem import MappingError, Problem
from webhook.mapping.document.strict_yaml import Document, parse

_LITERAL: Final = re.compile(r"[|][-+0-9]*\s*(?:#.*)?$")
"""The end of a line before a literal block, whose lines are those of the file."""


@dataclass(frozen=True, slots=True)
class Found:
    """A document and its kind."""

    kind: Kind
    document: Document


@dataclass(frozen=True, slots=True)
class _ConfigMap:
    """A ConfigMap in a manifest."""

    manifest: Manifest
    text: str
    path: Path
    data: Mapping[str, Any]

    def line(self, path: Path) -> int:
        """The line of the value at a path in it, or of the nearest known parent."""
        whole = (*self.path, *path)
        return next(
            self.manifest.lines[whole[:end]] for end in range(len(whole), -1, -1) if whole[:end] in self.manifest.lines
        )

    def problem(self, path: Path, message: str, hint: str | None = None) -> Problem:
        return Problem(message, (*self.path, *path), hint, self.manifest.source, self.line(path))


def in_manifest(manifest: Manifest, text: str) -> tuple[list[Found], list[Problem]]:
    """Decode the documents in the ConfigMaps of a manifest; return them and their problems.

    Args:
        manifest: a manifest of a file.
        text: the text of the whole file.
    """
    found: list[Found] = []
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


def _documents(config_map: _ConfigMap) -> Iterator[Found]:
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


def _embedded(config_map: _ConfigMap, kind: Kind, key: str, value: object) -> Found:
    path: Path = ("data", key)
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
    return Found(kind, replace(document, lines={place: moved(inner) for place, inner in document.lines.items()}))


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
