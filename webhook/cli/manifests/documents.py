"""Reads mapping and settings documents from files: plain ones, and those in ConfigMaps."""

import difflib
import itertools
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

from webhook.cli.manifests.config_maps import Found, in_manifest
from webhook.cli.manifests.manifest import Manifest, ManifestError
from webhook.cli.manifests.read import read_manifests
from webhook.cluster.configuration.verdict import Kind
from webhook.mapping.document import schema
from webhook.mapping.document.extends import EXTENDS
from webhook.mapping.document.problem import MappingError, Problem
from webhook.mapping.document.schema_types import API_VERSION, Strict
from webhook.mapping.document.settings import Settings
from webhook.mapping.document.strict_yaml import parse

LIKE: Final = 0.8
"""Similarity from which a key counts as a misspelled known one (`difflib`)."""

MOST_KEYS: Final = 100
"""Keys of a document that are compared to determine its kind."""

_HAS_KIND: Final = re.compile(r'^(?:kind|"kind"| +"kind") *:(?! *["\']?(?:Mapping|Settings)\b)', re.MULTILINE)
"""A line with the kind of a Kubernetes object, not of a mapping or settings document."""


def documents_of(body: bytes, source: str) -> tuple[list[Found], list[Problem]]:
    """Read the documents in a file; return them and the problems. Other objects are skipped.

    Args:
        body: the content of the file.
        source: its name in messages.
    """
    try:
        text = body.decode("utf-8-sig")
        if not _HAS_KIND.search(text):
            return [Found(_kind_of(document.data), document) for document in parse(text, source)], []
        manifests = read_manifests(body, source)
    except UnicodeDecodeError as error:
        return [], [Problem("not UTF-8 text", source=source, line=body.count(b"\n", 0, error.start) + 1)]
    except ManifestError as error:
        return [], [Problem(error.message, source=source, line=error.line)]
    except MappingError as error:
        return [], list(error.problems)
    found: list[Found] = []
    problems: list[Problem] = []
    for manifest in manifests:
        more, wrong = in_manifest(manifest, text)
        found += more
        problems += wrong
    return found, problems


def header_warnings(found: Iterable[Found]) -> Iterator[str]:
    """Warn of documents that do not specify their schema."""
    for each in found:
        header = {"apiVersion": API_VERSION, "kind": each.kind.capitalize()}
        missing = [f"{key}: {text}" for key, text in header.items() if key not in each.document.data]
        if missing:
            yield f"{each.document.source}: read as {API_VERSION}: add {' and '.join(missing)}"


def objects_in(body: bytes, source: str) -> list[Manifest]:
    """Read the Kubernetes objects in a file without problems; empty if it has plain documents."""
    return read_manifests(body, source) if _HAS_KIND.search(body.decode("utf-8-sig")) else []


def _kind_of(data: Mapping[str, Any]) -> Kind:
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
