"""The kinds whose objects contain pods, and where: the table of ``workloads.yaml``."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Final, TypeAlias

from webhook.mapping.document.problem import FieldPath
from webhook.mapping.document.strict_yaml import parse

FILE: Final = "workloads.yaml"

Pattern: TypeAlias = tuple[str, ...]
"""The parts of a path; ``*`` is any key or element."""

_PARTS: Final = re.compile(r"(?:\\.|[^.\\])+")


@dataclass(frozen=True, slots=True)
class PodPath:
    """Where a kind contains pods, and of what a controller assembles them.

    Attributes:
        at: path of the pod template, or of the mapping with the fields of a pod spec.
        template: whether it is a template: `metadata` and `spec`.
        containers: paths, from there, of further containers.
        resources: paths, from there, of the resources of a container whose rest is elsewhere.
        metadata: path, from there, of the labels and annotations of a pod without a template; None: it has none.
    """

    at: Pattern
    template: bool = False
    containers: tuple[Pattern, ...] = ()
    resources: tuple[Pattern, ...] = ()
    metadata: Pattern | None = None


@dataclass(frozen=True, slots=True)
class KnownKind:
    """What is known of a kind.

    Attributes:
        source: the repository, and the file in it, with the paths.
        pods: where it contains pods.
        objects: paths of whole objects in it.
        counts: paths of GPU numbers that are no resource names, so that nothing judges them.
        texts: paths of texts that may contain a resource name, likewise.
        scheduler: path of the scheduler that its controller gives to pods without one; None: it gives none.
        absent_scheduler: that scheduler in an object without the path.
    """

    source: str
    pods: tuple[PodPath, ...]
    objects: tuple[Pattern, ...]
    counts: tuple[Pattern, ...]
    texts: tuple[Pattern, ...]
    scheduler: Pattern | None = None
    absent_scheduler: str = ""

    @property
    def requests(self) -> bool:
        """Whether such objects can request anything; otherwise, resource names in them are capacities or quotas."""
        return bool(self.pods or self.objects or self.counts or self.texts)


@cache
def known_workloads() -> Mapping[tuple[str, str], KnownKind]:
    """Read the table: API group ("" for the core) and kind → what is known of it."""
    (document,) = parse((resources.files("webhook") / FILE).read_text(), FILE)
    return {(entry["group"], kind): _workload(entry) for entry in document.data["workloads"] for kind in entry["kinds"]}


def parse_path(text: str) -> Pattern:
    """Split a dotted path; a dot inside a key is escaped by a backslash."""
    return tuple(part.replace("\\.", ".") for part in _PARTS.findall(text))


def matches(value: Any, parts: Pattern, path: FieldPath = ()) -> Iterator[tuple[FieldPath, Any]]:
    """Yield the values at a path, each with its own path without ``*``; null counts as absent."""
    if value is None:
        return
    if not parts:
        yield path, value
        return
    for key, child in children(value):
        if parts[0] in {"*", str(key)}:
            yield from matches(child, parts[1:], (*path, key))


def children(value: Any) -> Iterator[tuple[str | int, Any]]:
    """Yield the values of a mapping or list with their keys or indexes; nothing for a scalar."""
    if isinstance(value, dict):
        yield from value.items()
    elif isinstance(value, list):
        yield from enumerate(value)


def _workload(entry: Mapping[str, Any]) -> KnownKind:
    templates = (PodPath(parse_path(text), template=True) for text in entry.get("templates", ()))
    pods = (*templates, *map(_spec, entry.get("specs", ())))
    scheduler = entry.get("scheduler")
    return KnownKind(
        entry["source"],
        pods,
        _paths(entry, "objects"),
        _paths(entry, "counts"),
        _paths(entry, "texts"),
        scheduler=None if scheduler is None else parse_path(scheduler["at"]),
        absent_scheduler="" if scheduler is None else scheduler["absent"],
    )


def _spec(entry: str | Mapping[str, Any]) -> PodPath:
    if isinstance(entry, str):
        return PodPath(parse_path(entry))
    metadata = entry.get("metadata")
    return PodPath(
        parse_path(entry["at"]),
        containers=_paths(entry, "containers"),
        resources=_paths(entry, "resources"),
        metadata=None if metadata is None else parse_path(metadata),
    )


def _paths(entry: Mapping[str, Any], key: str) -> tuple[Pattern, ...]:
    return tuple(map(parse_path, entry.get(key, ())))
