"""The kinds whose objects contain pods, and where: the table of ``workloads.yaml``, and the setting `workloads`."""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, lru_cache
from importlib import resources
from typing import Any, Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from webhook.mapping.document import FieldPath, MappingError, parse
from webhook.mapping.settings import Settings

FILE: Final = "workloads.yaml"
NOTHING: Final = (None, False, 0, "0", "")  # values of a key by which it requests nothing

Pattern: TypeAlias = tuple[str, ...]
"""The parts of a path; ``*`` is any key or element."""

Parts: TypeAlias = tuple[tuple[FieldPath, FieldPath], ...]

_PARTS: Final = re.compile(r"(?:\\.|[^.\\])+")


class PodPath(Struct, frozen=True):
    """Where a kind contains pods, and of what a controller assembles them."""

    at: Pattern  # path of the pod template, or of the mapping with the fields of a pod spec
    template: bool = False  # whether it is a template: `metadata` and `spec`
    containers: tuple[Pattern, ...] = ()  # paths, from there, of further containers
    resources: tuple[Pattern, ...] = ()  # paths, from there, of the resources of a container whose rest is elsewhere
    # path, from there, of the labels and annotations of a pod without a template; None: it has none
    metadata: Pattern | None = None
    # the fields of a pod spec that have a place there besides the containers; None: all of them
    fields: tuple[str, ...] | None = None
    defaults: Pattern | None = None  # path in the object of a mapping with fields for pods that have none of their own
    defaulted: tuple[str, ...] = ()  # those fields, which have a place at both
    # paths in the object of labels and annotations that such a pod also has, the strongest first
    below: tuple[Pattern, ...] = ()
    volumes: Pattern | None = None  # path in the object of volumes, of which a pod has those that it mounts
    patch: Pattern | None = None  # path, from there, of a text with a patch of the pod's spec that its controller makes
    patched: Pattern | None = None  # the same for all pods, as a path in the object; made first
    # name of a container without one, and of one that is in no list; empty: the key that it is the value of
    container: str = ""

    def patches(self, data: Any, value: Any) -> list[tuple[FieldPath, str]]:
        """The texts with patches in an object and in its pod, with their paths in these."""
        both = ((data, self.patched), (value, self.patch))
        found = (each for inside, pattern in both if pattern is not None for each in matches(inside, pattern))
        return [(path, text) for path, text in found if isinstance(text, str)]


class Counted(Struct, frozen=True):
    """How a controller counts devices of a template: resource names by patterns, or a number `at` a path beside it."""

    by: str
    names: tuple[str, ...]
    at: Pattern


class KnownKind(Struct, frozen=True):
    """What is known of a kind."""

    source: str  # the repository, and the file in it, with the paths; empty for a kind of the settings
    pods: tuple[PodPath, ...]  # where it contains pods
    objects: tuple[Pattern, ...]  # paths of whole objects in it
    counts: tuple[Pattern, ...]  # paths of GPU numbers that are no resource names, so that nothing judges them
    texts: tuple[Pattern, ...]  # paths of texts that may contain a resource name, likewise
    merged: tuple[Pattern, ...] = ()  # paths of what its controller merges into pods, which nothing judges
    # path of the scheduler that its controller gives to pods without one; None: it gives none
    scheduler: Pattern | None = None
    absent_scheduler: str = ""  # that scheduler in an object without the path
    counted: Counted | None = None  # how its controller counts devices; None: it does not

    @property
    def requests(self) -> bool:
        """Whether such objects can request anything; otherwise, resource names in them are capacities or quotas."""
        return bool(self.pods or self.objects or self.counts or self.texts)


Kinds: TypeAlias = Mapping[tuple[str, str], KnownKind]
"""What is known of each kind, by API group ("" for the core) and kind."""


@cache
def known_workloads() -> Kinds:
    """Read the table."""
    (document,) = parse((resources.files("webhook") / FILE).read_text(), FILE)
    return {(entry["group"], kind): _workload(entry) for entry in document.data["workloads"] for kind in entry["kinds"]}


def workloads_of(settings: Settings) -> Kinds:
    """Return the table with the kinds of the settings."""
    return _extended(tuple((each.group, each.kind, tuple(each.templates)) for each in settings.workloads))


@lru_cache(maxsize=4)
def _extended(further: tuple[tuple[str, str, tuple[str, ...]], ...]) -> Kinds:
    kinds = dict(known_workloads())
    for group, kind, templates in further:
        known = kinds.get((group, kind), KnownKind("", (), (), (), ()))
        at = {pod.at for pod in known.pods}
        paths = dict.fromkeys(path for path in map(parse_path, templates) if path not in at)
        kinds[group, kind] = replace(known, pods=(*known.pods, *(PodPath(path, template=True) for path in paths)))
    return kinds


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


def controller_of(kind: str, name: str) -> tuple[str, str]:
    """The kind and name of the owner that controllers write into the pods of an object, with an arbitrary hash or time."""
    if kind == "Deployment":
        return "ReplicaSet", f"{name}-5d4f8c7b9"
    if kind == "CronJob":
        return "Job", f"{name}-28000000"
    return kind, name


def scheduled(data: Any, template: Any, workload: KnownKind) -> Any:
    """The pod template in an object, with the scheduler that its controller gives to pods without one."""
    spec = template.get("spec") if isinstance(template, dict) else None
    if workload.scheduler is None or not isinstance(spec, dict) or spec.get("schedulerName"):
        return template
    found = next((value for _, value in matches(data, workload.scheduler) if value), workload.absent_scheduler)
    return {**template, "spec": {**spec, "schedulerName": found}}


CONTAINERS: Final = ("containers", "initContainers")
"""The fields of a pod spec with its containers."""


def assembled(data: Any, value: dict[str, Any], shape: PodPath, path: FieldPath = ()) -> tuple[dict[str, Any], Parts]:
    """Assemble the pod that an object describes at a path without a template, and where its parts are, as pairs of paths."""
    inherited = _inherited(data, value, shape)
    spec = value | inherited
    further = list(_further(value, shape))
    parts: dict[FieldPath, FieldPath] = {("spec",): path}
    if further:
        parts = _own_parts(value, shape, inherited, path)
    for inner, container, within in further:
        containers = list(spec.get("containers") or ())
        parts["spec", "containers", len(containers), *within] = (*path, *inner)
        spec["containers"] = [*containers, {**container, "name": _name_of(container, inner, shape)}]
    if volumes := _mounted(data, spec, shape):
        # The pod's own come first, and only there something can be written.
        own = list(spec.get("volumes") or ())
        spec["volumes"] = [*own, *volumes]
        parts.pop(("spec", "volumes"), None)
        parts |= {("spec", "volumes", at): (*path, "volumes", at) for at in (*range(len(own)), "-")}
    for _, text in shape.patches(data, value):
        patch = patch_of(text)
        spec = spec if patch is None else patched(spec, patch)
    metadata = _metadata(data, value, shape)
    return {"spec": spec} | ({"metadata": metadata} if metadata else {}), tuple(parts.items())


def _further(value: dict[str, Any], shape: PodPath) -> Iterator[tuple[FieldPath, dict[str, Any], FieldPath]]:
    """Yield containers elsewhere: the path of what is there, the container, and which part of it that is."""
    for pattern in shape.containers:
        yield from ((inner, each, ()) for inner, each in matches(value, pattern) if isinstance(each, dict))
    for pattern in shape.resources:
        yield from ((inner, {"resources": each}, ("resources",)) for inner, each in matches(value, pattern))


def _own_parts(
    value: dict[str, Any], shape: PodPath, inherited: Mapping[str, Any], path: FieldPath
) -> dict[FieldPath, FieldPath]:
    """Where a pod's own parts are: what else the webhook writes may have no place beside the fields of this kind."""
    listed = ((key, i) for key in CONTAINERS if isinstance(value.get(key), list) for i, _ in children(value[key]))
    parts: dict[FieldPath, FieldPath] = {("spec", *part): (*path, *part) for part in listed}
    # A pod's own scheduler takes the place of an inherited one; nothing can be added to an inherited list.
    fields = (
        key for key in (*(shape.fields or ()), *shape.defaulted) if not isinstance(inherited.get(key), dict | list)
    )
    return parts | {("spec", key): (*path, key) for key in fields}


def _name_of(container: Mapping[str, Any], inner: FieldPath, shape: PodPath) -> Any:
    """The name of a container elsewhere: its own, that of the kind, or the key that it is the value of."""
    if shape.container and not any(isinstance(part, int) for part in inner):
        return shape.container
    place = next((part for part in reversed(inner) if isinstance(part, str)), "main")
    return container.get("name") or shape.container or place


MAX_PATCH: Final = 4096
"""The most characters of a patch that is read, which takes time."""


@lru_cache(maxsize=16)
def patch_of(text: str) -> Mapping[str, Any] | None:
    """Read a patch of a pod's spec, as YAML or JSON; None if it is none, or too long."""
    if len(text) > MAX_PATCH:
        return None
    try:
        (document,) = parse(text, "")
    except (MappingError, ValueError):
        return None
    return document.data


def patched(base: Any, patch: Any) -> Any:
    """Merge a strategic patch: mappings by their keys, lists by the names of their entries."""
    if isinstance(base, dict) and isinstance(patch, dict):
        kept = {key: value for key, value in base.items() if key not in patch}
        return kept | {key: patched(base.get(key), value) for key, value in patch.items() if value is not None}
    if isinstance(base, list) and isinstance(patch, list) and len(_named(patch)) == len(patch) > 0:
        changes, present = _named(patch), _named(base)
        names = [each.get("name") if isinstance(each, dict) else None for each in base]
        merged = [
            patched(each, changes[name]) if name in changes else each for each, name in zip(base, names, strict=True)
        ]
        return merged + [each for name, each in changes.items() if name not in present]
    return patch


def _inherited(data: Any, value: dict[str, Any], shape: PodPath) -> dict[str, Any]:
    """The fields that a pod has from the defaults of its object, because it has none of its own."""
    found = () if shape.defaults is None else (value for _, value in matches(data, shape.defaults))
    defaults = next((each for each in found if isinstance(each, dict)), {})
    return {key: defaults[key] for key in shape.defaulted if defaults.get(key) and not value.get(key)}


def _mounted(data: Any, spec: dict[str, Any], shape: PodPath) -> list[dict[str, Any]]:
    """The volumes of its object that a pod mounts and has none of its own of that name."""
    volumes = spec.get("volumes") or []
    if shape.volumes is None or not isinstance(volumes, list):
        return []
    mounts = [each for key in CONTAINERS for _, each in matches(spec, (key, "*", "volumeMounts", "*"))]
    mounted, own = _named(mounts), _named(volumes)
    found = _named(each for _, each in matches(data, (*shape.volumes, "*")))
    return [each for name, each in found.items() if name in mounted and name not in own]


def _named(entries: Iterable[Any]) -> dict[str, dict[str, Any]]:
    """The first entry of each name."""
    found: dict[str, dict[str, Any]] = {}
    for each in entries:
        if isinstance(each, dict) and isinstance(each.get("name"), str):
            found.setdefault(each["name"], each)
    return found


def _metadata(data: Any, value: dict[str, Any], shape: PodPath) -> dict[str, Any]:
    """The labels and annotations of a pod without a template: its own, and those of its object."""
    own = () if shape.metadata is None else matches(value, shape.metadata)
    below = (found for pattern in shape.below for found in matches(data, pattern))
    metadata: dict[str, Any] = {}
    for _, each in (*own, *below):
        for key in ("labels", "annotations"):
            more, stronger = each.get(key) if isinstance(each, dict) else None, metadata.get(key, {})
            if isinstance(more, dict) and isinstance(stronger, dict):
                metadata[key] = {**more, **stronger}
            elif more is not None:
                metadata.setdefault(key, more)
    return metadata


class Spot(Struct, frozen=True):
    """A pod in an object as it is written there."""

    path: FieldPath  # its path in the object
    value: dict[str, Any]  # what stands there
    shape: PodPath  # what that is
    around: dict[str, Any]  # the object that it belongs to, which may be inside another one
    root: FieldPath = ()  # the path of that
    group: str = ""  # what that is
    kind: str = "Pod"
    counted: Counted | None = None  # how the controller counts its devices
    apart: bool = False  # whether its pods are known not to get the labels and annotations of the object itself

    @property
    def spec(self) -> FieldPath:
        """The path of its fields."""
        return (*self.path, "spec") if self.shape.template else self.path

    @property
    def metadata(self) -> FieldPath:
        """The path of its labels and annotations."""
        return (*self.path, *(("metadata",) if self.shape.metadata is None else self.shape.metadata))

    def patches(self) -> Iterator[FieldPath]:
        """The paths of texts that were read as patches of the pod: in its own part, and in its object."""
        for path, text in self.shape.patches(self.around, self.value):
            if patch_of(text) is not None:
                own = (
                    self.shape.patch is not None and next(matches(self.value, self.shape.patch), ((), None))[0] == path
                )
                yield (*(self.path if own else self.root), *path)

    def pod(self) -> dict[str, Any]:
        """The pod, as far as the object says it."""
        return self.value if self.shape.template else assembled(self.around, self.value, self.shape)[0]


def spots_in(data: Any, group: str, kind: str, kinds: Kinds, root: FieldPath = ()) -> Iterator[Spot]:
    """Yield where the pods of a known kind stand in an object."""
    workload = kinds.get((group, kind))
    if workload is None:
        return
    for shape in workload.pods:
        apart = shape.template or shape.metadata is not None or bool(shape.below)
        for path, value in matches(data, shape.at):
            if isinstance(value, dict):
                yield Spot((*root, *path), value, shape, data, root, group, kind, workload.counted, apart)
    for pattern in workload.objects:
        for path, inner in matches(data, pattern):
            if isinstance(inner, dict):
                inner_group = str(inner.get("apiVersion")).rpartition("/")[0]
                yield from spots_in(inner, inner_group, str(inner.get("kind")), kinds, (*root, *path))


def pods_in(data: Any, group: str, kind: str, kinds: Kinds) -> Iterator[tuple[FieldPath, dict[str, Any]]]:
    """Yield the pods of a known kind in an object, with their paths and owners; whatever has another shape is skipped."""
    for spot in spots_in(data, group, kind, kinds):
        around, workload = spot.around, kinds[spot.group, spot.kind]
        metadata = around.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else None
        pod = scheduled(around, spot.value, workload) if spot.shape.template else spot.pod()
        own = pod.get("metadata")
        owned = owned_metadata(*controller_of(spot.kind, str(name)))
        yield spot.path, {**pod, "metadata": {**(own if isinstance(own, dict) else {}), **owned}}


def owned_metadata(kind: str, name: str) -> dict[str, Any]:
    """The metadata that a controller of this kind and name writes into a pod that it creates."""
    owner = {"kind": kind, "name": name, "controller": True}
    return {"name": None, "generateName": f"{name}-", "ownerReferences": [owner]}


def _workload(entry: Mapping[str, Any]) -> KnownKind:
    pods = [
        _pod_path(each, template=key == "templates") for key in ("templates", "specs") for each in entry.get(key, ())
    ]
    scheduler, counted = entry.get("scheduler"), entry.get("counted")
    return KnownKind(
        entry["source"],
        tuple(pods),
        _paths(entry, "objects"),
        _paths(entry, "counts"),
        _paths(entry, "texts"),
        tuple((*parse_path(merged["at"]), field) for merged in entry.get("merged", ()) for field in merged["fields"]),
        scheduler=None if scheduler is None else parse_path(scheduler["at"]),
        absent_scheduler="" if scheduler is None else scheduler["absent"],
        counted=None if counted is None else Counted(counted["by"], tuple(counted["names"]), parse_path(counted["at"])),
    )


def _pod_path(entry: str | Mapping[str, Any], *, template: bool) -> PodPath:
    """Read an entry; a text is the path alone."""
    if isinstance(entry, str):
        return PodPath(parse_path(entry), template=template)
    defaults = entry.get("defaults")
    return PodPath(
        template=template,
        containers=_paths(entry, "containers"),
        resources=_paths(entry, "resources"),
        fields=tuple(entry["fields"]) if "fields" in entry else None,
        defaults=None if defaults is None else parse_path(defaults["at"]),
        defaulted=() if defaults is None else tuple(defaults["fields"]),
        below=_paths(entry, "below"),
        container=entry.get("container", ""),
        **{key: parse_path(entry[key]) for key in ("at", "metadata", "volumes", "patch", "patched") if key in entry},
    )


def _paths(entry: Mapping[str, Any], key: str) -> tuple[Pattern, ...]:
    return tuple(map(parse_path, entry.get(key, ())))
