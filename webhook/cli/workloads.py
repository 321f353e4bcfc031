"""Finds the pods in objects, and what requests GPUs outside of every pod that was found: nothing judges that."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, TypeAlias

from msgspec import Struct

from webhook.cli.files import Manifest, ManifestError
from webhook.mapping.document import FieldPath, path_text
from webhook.workloads import (
    CONTAINERS,
    NOTHING,
    Kinds,
    KnownKind,
    Pattern,
    PodPath,
    Spot,
    assembled,
    children,
    controller_of,
    known_workloads,
    matches,
    patch_of,
    scheduled,
    spots_in,
)

_TEMPLATE: Final = PodPath((), template=True)


class KubeObject(Struct, frozen=True):
    """One object of a manifest: the document itself, or an item of a list, whose kind may come from that of the list."""

    manifest: Manifest
    path: FieldPath
    data: dict[str, Any]
    kind: str
    group: str

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Its metadata; empty if there is none."""
        return mapping_or_empty(self.data.get("metadata"))

    @property
    def name(self) -> str:
        """Its name as far as it is known: ``demo``, or ``demo-*`` for a generated one."""
        name, prefix = self.metadata.get("name"), self.metadata.get("generateName")
        return str(name) if name else f"{prefix}*" if prefix else "?"

    @property
    def title(self) -> str:
        """Its name in messages: ``deployment/demo``."""
        return f"{self.kind.lower()}/{self.name}"


class PodPlace(Struct, frozen=True):
    """A pod, a pod template, or what a controller makes a pod of, in an object.

    Attributes:
        path: its path in the object; ``()`` for the object itself.
        owner: kind and name of the owner that a controller would write into the pods that it creates; None for a pod.
        parts: where the parts of the pod are in the object, as pairs of paths.
        fixed: whether a text in the object changes the pod, so that nothing can be written beside it.
        fields: the fields of the pod spec, besides the containers, that the object's API has; None: all of them.
    """

    path: FieldPath
    owner: tuple[str, str] | None
    pod: dict[str, Any]
    parts: tuple[tuple[FieldPath, FieldPath], ...]
    fields: tuple[str, ...] | None = None
    fixed: bool = False

    @property
    def template(self) -> bool:
        """Whether the pod is in the object as a whole, with its metadata."""
        return self.parts == (((), self.path),)

    def target(self, place: str) -> str | None:
        """Where a JSON pointer in the pod points to in the object; None if that part of the pod has no place in the object."""
        if self.fixed:
            return None
        if self.fields is not None and (field := field_of(place)) and field not in (*self.fields, "containers"):
            return None
        for part, path in self.parts:
            prefix = pointer(part)
            if place == prefix or place.startswith(f"{prefix}/"):
                return pointer(path) + place.removeprefix(prefix)
        return None

    def field(self, path: FieldPath) -> FieldPath:
        """The path in the object of a field of the pod, or of the nearest known parent."""
        for part, own in self.parts:
            if path[: len(part)] == part:
                return (*own, *path[len(part) :])
        return self.path


def field_of(place: str) -> str | None:
    """The field of the pod spec that a JSON pointer in a pod is in; None if it is in none."""
    _, parent, field, *_ = (*place.split("/"), "", "")
    return field if parent == "spec" else None


def mapping_or_empty(value: object) -> Mapping[str, Any]:
    """A mapping of keys; empty if it is none."""
    return value if isinstance(value, dict) else {}


def kube_object(
    manifest: Manifest, data: object, path: FieldPath = (), kind: str = "", version: str = ""
) -> KubeObject:
    """Make an object of a manifest; a `ManifestError` if it is not a mapping, or its apiVersion or kind is missing."""
    if not isinstance(data, dict):
        raise manifest.error(path, "an object is not a mapping of keys")
    identity: dict[str, str] = {}
    for key, default in (("apiVersion", version), ("kind", kind)):
        value = data.get(key) or default
        if not isinstance(value, str) or not value:
            raise manifest.error(
                (*path, key) if key in data else path, f"no Kubernetes object: `{key}` is missing or not a string"
            )
        identity[key] = value
    return KubeObject(manifest, path, data, identity["kind"], identity["apiVersion"].rpartition("/")[0])


def list_items(obj: KubeObject, *, lenient: bool = False) -> list[KubeObject] | None:
    """The items of a ``List`` or of a list of one kind (``PodList``); None if the object is not a list.

    Raises:
        ManifestError: an item is not an object.
    """
    items = obj.data.get("items")
    if not obj.kind.endswith("List") or not isinstance(items, list):
        return None
    kind = obj.kind.removesuffix("List")
    version = str(obj.data.get("apiVersion", "")) if kind else ""
    found: list[KubeObject] = []
    passed_over = (ManifestError,) if lenient else ()
    for i, item in enumerate(items):
        with suppress(*passed_over):
            found.append(kube_object(obj.manifest, item, (*obj.path, "items", i), kind, version))
    return found


def flattened(obj: KubeObject, *, lenient: bool = False) -> Iterator[KubeObject]:
    """Yield an object, or of a list its items and theirs; see `list_items`; a `ManifestError` if an item is not an object."""
    items = list_items(obj, lenient=lenient)
    yield from [obj] if items is None else (inner for item in items for inner in flattened(item, lenient=lenient))


def pod_places(obj: KubeObject, kinds: Kinds | None = None) -> list[PodPlace]:
    """Find the pods in an object: itself, those of a known kind, or else whatever looks like one.

    Raises:
        ManifestError: a parent of a pod is no mapping, or a pod is none.
    """
    if (obj.group, obj.kind) == ("", "Pod"):
        return [PodPlace((), None, obj.data, (((), ()),))]
    kinds = known_workloads() if kinds is None else kinds
    workload = kinds.get((obj.group, obj.kind))
    if workload is not None:
        return list(_known(obj, workload, kinds))
    rest = {key: value for key, value in obj.data.items() if key not in {"metadata", "status"}}
    return [_place(obj, path, value, shape) for path, value, shape in _found(rest, ())]


def pointer(path: FieldPath) -> str:
    """Format a path as a JSON pointer."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


def _known(obj: KubeObject, workload: KnownKind, kinds: Kinds) -> Iterator[PodPlace]:
    """The pods of a known kind, also of objects inside it."""
    for pod in workload.pods:
        _check_parents(obj, pod.at)
        for path, value in matches(obj.data, pod.at):
            if not isinstance(value, dict):
                if pod.at[-1] == "*":
                    continue
                what = "a pod template" if pod.template else "a pod spec"
                raise obj.manifest.error((*obj.path, *path), f"{what} is not a mapping of keys")
            place = _place(obj, path, scheduled(obj.data, value, workload) if pod.template else value, pod)
            if pod.template or any(place.pod["spec"].get(key) for key in CONTAINERS):
                yield place
    for path, inner in inner_objects(obj, workload):
        for place in pod_places(inner, kinds):
            parts = tuple((part, (*path, *own)) for part, own in place.parts)
            owner = place.owner or (obj.kind, obj.name)
            yield PodPlace((*path, *place.path), owner, place.pod, parts, place.fields, place.fixed)


def inner_objects(obj: KubeObject, workload: KnownKind) -> Iterator[tuple[FieldPath, KubeObject]]:
    """The objects inside an object of a known kind, with their paths in it.

    Raises:
        ManifestError: what is there is not an object.
    """
    for pattern in workload.objects:
        for path, value in matches(obj.data, pattern):
            yield path, kube_object(obj.manifest, value, (*obj.path, *path))


def _check_parents(obj: KubeObject, pattern: Pattern) -> None:
    value: Any = obj.data
    for depth, part in enumerate(pattern):
        if value is None or part == "*":
            return
        if not isinstance(value, dict):
            raise obj.manifest.error((*obj.path, *pattern[:depth]), "a mapping is expected here")
        value = value.get(part)


def _place(obj: KubeObject, path: FieldPath, value: dict[str, Any], shape: PodPath) -> PodPlace:
    """Assemble the pod that is described at a path."""
    owner = controller_of(obj.kind, obj.name)
    if shape.template:
        return PodPlace(path, owner, value, (((), path),), shape.fields)
    pod, parts = assembled(obj.data, value, shape, path)
    assembles = shape.containers or shape.resources
    fixed = any(patch_of(text) is not None for _, text in shape.patches(obj.data, value))
    return PodPlace(path, owner, pod, parts, None if assembles else shape.fields, fixed)


_TEMPLATE_KEYS: Final = frozenset({"apiVersion", "kind", "metadata", "spec", "status"})


def _found(value: Any, path: FieldPath) -> Iterator[tuple[FieldPath, Any, PodPath]]:
    """Whatever looks like a pod template or a pod spec."""
    if _is_spec(value):
        yield path, value, PodPath(())
    elif path and isinstance(value, dict) and value.keys() <= _TEMPLATE_KEYS and _is_spec(value.get("spec")):
        yield path, value, _TEMPLATE
    else:
        for key, child in children(value):
            yield from _found(child, (*path, key))


def _is_spec(value: Any) -> bool:
    """Whether a mapping has a list of containers: each a mapping, and some with an image or resources."""
    containers = value.get("containers") if isinstance(value, dict) else None
    return (
        isinstance(containers, list)
        and all(isinstance(container, dict) for container in containers)
        and any(not container.keys().isdisjoint({"image", "resources"}) for container in containers)
    )


IsKey: TypeAlias = Callable[[str], bool]
"""Whether a name is a resource name of a vendor."""

_NAME: Final = re.compile(r"[\w.-]+/[\w.-]+")


def spots_of(obj: KubeObject, places: Sequence[PodPlace], kinds: Kinds) -> list[Spot]:
    """Where the pods of an object stand in it, as they are written."""
    spots = list(spots_in(obj.data, obj.group, obj.kind, kinds))
    known = {spot.path for spot in spots}
    for place in places:
        for path, value in matches(obj.data, tuple(map(str, place.path))) if place.path not in known else ():
            if path == place.path and isinstance(value, dict):
                spots.append(Spot(path, value, _TEMPLATE if place.template else PodPath(()), obj.data))
    return spots


def unjudged(
    obj: KubeObject, places: Sequence[PodPlace], is_key: IsKey, kinds: Kinds | None = None
) -> Iterator[tuple[FieldPath, str]]:
    """Yield the path of each request in an object that is in no pod, and a message.

    Raises:
        ManifestError: an object inside it is none.
    """
    if (obj.group, obj.kind) == ("", "Pod"):
        return
    kinds = known_workloads() if kinds is None else kinds
    known = kinds.get((obj.group, obj.kind), _UNKNOWN)
    if known is not _UNKNOWN and not known.requests:
        return
    inner = dict(inner_objects(obj, known))
    for path, each in inner.items():
        found = unjudged(each, pod_places(each, kinds), is_key, kinds)
        yield from (((*path, *within), f"{path_text(path)}: {text}") for within, text in found)
    spec = {key: value for key, value in obj.data.items() if key not in {"metadata", "status"}}
    spots = [*spots_in(obj.data, obj.group, obj.kind, kinds)]
    judged = {own for place in places for _, own in place.parts}
    # What is in a pod's spec and in none of its containers is a stray key.
    for path in _keys(spec, (), {*judged, *inner, *(spot.spec for spot in spots)}, is_key):
        yield path, f"not judged: {path_text(path)} is outside of every pod template and pod spec found in it"
    yield from _unnamed(obj, known, spec, spots, is_key)


_UNKNOWN: Final = KnownKind("", (), (), (), ())


def _at(obj: KubeObject, patterns: Sequence[Pattern]) -> Iterator[tuple[FieldPath, Any]]:
    return (found for pattern in patterns for found in matches(obj.data, pattern))


def _unnamed(
    obj: KubeObject, known: KnownKind, spec: Mapping[str, Any], spots: Sequence[Spot], is_key: IsKey
) -> Iterator[tuple[FieldPath, str]]:
    """Yield what requests GPUs without a resource name as a key: numbers, texts, and what is merged into every pod."""
    merged = known.merged if any(_keys(spec, (), set(), is_key)) else ()
    for patterns, what in (
        (known.counts, "requests GPUs without a resource name"),
        (merged, "is merged into every pod"),
    ):
        for path, value in _at(obj, patterns):
            if value not in NOTHING:
                yield path, f"not judged: {path_text(path)} {what}"
    read = {path for spot in spots for path in spot.patches()}
    for path, value in _at(obj, known.texts):
        if isinstance(value, str) and path not in read:
            names = dict.fromkeys(filter(is_key, _NAME.findall(value)))
            yield from ((path, f"not judged: {path_text(path)} contains {name}") for name in names)


def _keys(value: Any, path: FieldPath, judged: set[FieldPath], is_key: IsKey) -> Iterator[FieldPath]:
    if path in judged:
        return
    for key, child in children(value):
        if isinstance(child, dict | list):
            yield from _keys(child, (*path, key), judged, is_key)
        elif isinstance(key, str) and child not in NOTHING and is_key(key):
            yield (*path, key)
