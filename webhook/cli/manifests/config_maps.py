"""ConfigMaps in manifests, and the documents in them, with lines of the file."""

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
"""How a line ends below which a block of text begins, line by line as it is."""


@dataclass(frozen=True, slots=True)
class Found:
    """A document, and what it is."""

    kind: Kind
    document: Document


@dataclass(frozen=True, slots=True)
class _ConfigMap:
    """One in a manifest: itself, and where it is."""

    manifest: Manifest
    text: str
    path: Path
    data: Mapping[str, Any]

    def line(self, path: Path) -> int:
        """The line of what is at a path in it, or of the nearest above."""
        whole = (*self.path, *path)
        return next(
            self.manifest.lines[whole[:end]] for end in range(len(whole), -1, -1) if whole[:end] in self.manifest.lines
        )

    def problem(self, path: Path, message: str, hint: str | None = None) -> Problem:
        return Problem(message, (*self.path, *path), hint, self.manifest.source, self.line(path))


def in_manifest(manifest: Manifest, text: str) -> tuple[list[Found], list[Problem]]:
    """The documents in the ConfigMaps of a manifest, and what is wrong with these.

    Args:
        manifest: one of a file.
        text: the whole file.
    """
    found: list[Found] = []
    problems: list[Problem] = []
    plain = str(manifest.data.get("apiVersion")).startswith(PREFIX)
    if plain or "kind" not in manifest.data:
        message = "a plain document among Kubernetes objects: put it into a file of its own, or into a ConfigMap"
        problems.append(Problem(message, source=manifest.source, line=manifest.lines[()]))
    for one in _config_maps(manifest, text):
        try:
            found += _documents(one)
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


def _documents(one: _ConfigMap) -> Iterator[Found]:
    metadata, texts = _mapping(one.data.get("metadata")), _mapping(one.data.get("data"))
    label = _mapping(metadata.get("labels")).get(MAPPING)
    if metadata.get("name") == SETTINGS_NAME:
        yield _embedded(one, "settings", SETTINGS_KEY, texts.get(SETTINGS_KEY))
    elif label == "true":
        yield _embedded(one, "mapping", MAPPING_KEY, texts.get(MAPPING_KEY))
    elif MAPPING_KEY in texts:
        hint = f'write `{MAPPING}: "true"` into its labels'
        raise MappingError(
            [one.problem(("metadata", "labels"), "without its label the webhook does not read it", hint)]
        )


def _embedded(one: _ConfigMap, kind: Kind, key: str, written: object) -> Found:
    where: Path = ("data", key)
    if not isinstance(written, str):
        raise MappingError([one.problem(where, f"there has to be a text {key}")])
    line = one.line(where)
    # Only of such a block are the lines those of the file.
    literal = _LITERAL.search(one.text.splitlines()[line - 1]) is not None

    def moved(inner: int | None) -> int:
        return line + inner if literal and inner is not None else line

    source = one.manifest.source
    try:
        documents = parse(written, source)
    except MappingError as error:
        raise MappingError([replace(each, line=moved(each.line)) for each in error.problems]) from None
    if not documents and kind == "settings":
        documents = [Document(source, {}, {})]
    if len(documents) != 1:
        raise MappingError([one.problem(where, f"{len(documents)} documents: a ConfigMap holds one")])
    (document,) = documents
    return Found(kind, replace(document, lines={path: moved(inner) for path, inner in document.lines.items()}))


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
