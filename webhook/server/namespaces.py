"""What is known of the namespaces that pods are created in; a review carries no more of one than its name."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from webhook.admission.context import Namespace
from webhook.mapping.problem import MappingError, Problem
from webhook.mapping.strict_yaml import Document, parse

OPT_IN: Final = "vgpu-webhook.io/inject"
"""The label by which a namespace opts in, if the settings name no other."""

SUFFIXES: Final = {".yaml", ".yml", ".json"}


@dataclass(frozen=True, slots=True)
class Described:
    """Namespaces from documents; any other counts as opted in."""

    known: Mapping[str, Namespace]
    opt_in: str = OPT_IN

    def lookup(self, name: str) -> Namespace:
        """The namespace as described, else an opted-in one: who sends its pods wants them treated."""
        return self.known.get(name) or Namespace(name, {self.opt_in: "enabled"})

    async def fetch(self, name: str) -> Namespace:
        """The same: there is nobody else to ask."""
        return self.lookup(name)


def load_namespaces(place: Path | None, opt_in: str = OPT_IN) -> Described:
    """The Namespace documents in a file, or in the YAML and JSON files of a folder; other kinds are passed over.

    Raises:
        MappingError: a file cannot be read, or is no Namespace where it says so; each problem with its place.
    """
    if place is None:
        return Described({}, opt_in)
    problems: list[Problem] = []
    known: dict[str, Namespace] = {}
    for path in _files(place):
        try:
            found = {namespace.name: namespace for namespace in _namespaces(parse(_text(path), str(path)))}
        except MappingError as error:
            problems += error.problems
            continue
        known |= found
    if problems:
        raise MappingError(problems)
    return Described(known, opt_in)


def _files(place: Path) -> list[Path]:
    if not place.is_dir():
        return [place]
    return sorted(path for path in place.iterdir() if path.suffix in SUFFIXES and path.is_file())


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except OSError as error:
        raise MappingError([Problem(error.strerror or "cannot be read", source=str(path))]) from error
    except UnicodeDecodeError as error:
        raise MappingError([Problem("not UTF-8", source=str(path))]) from error


def _namespaces(documents: Iterable[Document]) -> Iterable[Namespace]:
    for document in documents:
        items = (
            document.data.get("items") if document.data.get("kind") in {"List", "NamespaceList"} else [document.data]
        )
        for item in items if isinstance(items, list) else ():
            if isinstance(item, dict) and item.get("kind") == "Namespace":
                yield _namespace(item, document)


def _namespace(data: Mapping[str, Any], document: Document) -> Namespace:
    metadata = data.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
        raise MappingError([Problem("a Namespace without a name", ("metadata", "name"), source=document.source)])
    return Namespace(metadata["name"], _texts(metadata, "labels", document), _texts(metadata, "annotations", document))


def _texts(metadata: Mapping[str, Any], key: str, document: Document) -> Mapping[str, str]:
    values = metadata.get(key) or {}
    if not isinstance(values, dict) or not all(isinstance(value, str) for value in values.values()):
        problem = Problem(
            "must map text to text", ("metadata", key), "put numbers and booleans in quotes", document.source
        )
        raise MappingError([problem])
    return values
