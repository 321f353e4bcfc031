"""Finds pods in Kubernetes objects: pods themselves, pod templates of workloads, items of lists."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from webhook.cli.manifests.read import Manifest
from webhook.mapping.document.problem import FieldPath

_TEMPLATE: Final[FieldPath] = ("spec", "template")
_WORKLOADS: Final[Mapping[tuple[str, str], FieldPath]] = {
    **{
        (group, kind): _TEMPLATE
        for group in ("apps", "extensions")
        for kind in ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet")
    },
    ("", "ReplicationController"): _TEMPLATE,
    ("batch", "Job"): _TEMPLATE,
    ("batch", "CronJob"): ("spec", "jobTemplate", "spec", "template"),
}
"""API group and kind → path of the pod template."""

_NAME_PARTS: Final = re.compile(r"(?:\\.|[^.\\])+")


@dataclass(frozen=True, slots=True)
class KubeObject:
    """One object of a manifest: the document itself, or an item of a list.

    Attributes:
        manifest: the document.
        path: the path of the object in it.
        data: the object.
        kind: its kind; that of the list for items of typed lists, which may omit it.
        group: API group, "" for the core.
    """

    manifest: Manifest
    path: FieldPath
    data: dict[str, Any]
    kind: str
    group: str

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Its metadata; empty if there is none."""
        metadata = self.data.get("metadata")
        return metadata if isinstance(metadata, dict) else {}

    @property
    def name(self) -> str:
        """Its name as far as it is known: ``demo``, or ``demo-*`` for a generated one."""
        name, prefix = self.metadata.get("name"), self.metadata.get("generateName")
        return str(name) if name else f"{prefix}*" if prefix else "?"

    @property
    def title(self) -> str:
        """Its name in messages: ``deployment/demo``."""
        return f"{self.kind.lower()}/{self.name}"


@dataclass(frozen=True, slots=True)
class PodOwner:
    """The owner that a controller would write into the pods that it creates.

    Attributes:
        kind: kind of the owner.
        name: its name.
    """

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class PodPlace:
    """A pod, or a pod template, in an object.

    Attributes:
        path: its path in the object; ``()`` for the object itself.
        owner: the owner of the pods of a template; None for a pod.
    """

    path: FieldPath
    owner: PodOwner | None


def kube_object(
    manifest: Manifest, data: object, path: FieldPath = (), kind: str = "", version: str = ""
) -> KubeObject:
    """Make an object of a manifest.

    Args:
        manifest: the document.
        data: the object.
        path: its path in the document.
        kind: its kind if it does not specify one.
        version: its apiVersion if it does not specify one.

    Raises:
        ManifestError: it is not a mapping, or its apiVersion or kind is missing.
    """
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
    group, slash, _ = identity["apiVersion"].rpartition("/")
    return KubeObject(manifest, path, data, identity["kind"], group if slash else "")


def list_items(obj: KubeObject) -> list[KubeObject] | None:
    """The items of a ``List`` or of a list of one kind (``PodList``); None if the object is not a list.

    Raises:
        ManifestError: an item is not an object.
    """
    items = obj.data.get("items")
    if not obj.kind.endswith("List") or not isinstance(items, list):
        return None
    kind = obj.kind.removesuffix("List")
    version = str(obj.data.get("apiVersion", "")) if kind else ""
    return [kube_object(obj.manifest, item, (*obj.path, "items", i), kind, version) for i, item in enumerate(items)]


def pod_places(obj: KubeObject, template_paths: Sequence[str]) -> list[PodPlace]:
    """Find the pods in an object: itself, the template of a workload, and those at `template_paths`.

    Args:
        obj: the object.
        template_paths: further paths, with `*` for any key or element: ``spec.pytorchReplicaSpecs.*.template``. Values
            without containers are skipped.

    Raises:
        ManifestError: a parent of the template is no mapping.
    """
    if (obj.group, obj.kind) == ("", "Pod"):
        return [PodPlace((), None)]
    known = _WORKLOADS.get((obj.group, obj.kind))
    if known is None:
        found = {path: None for each in template_paths for path in _matches(obj.data, parse_path(each), ())}
        return [PodPlace(path, PodOwner(obj.kind, obj.name)) for path in found]
    template: Any = obj.data
    for depth, part in enumerate(known):
        if template is None:
            break
        if not isinstance(template, dict):
            raise obj.manifest.error((*obj.path, *known[:depth]), "a mapping is expected here")
        template = template.get(part)
    return [] if template is None else [PodPlace(known, _owner(obj))]


def untreated_templates(obj: KubeObject) -> list[str]:
    """List the paths of what looks like a pod template in an object, in the notation of `pod_places`."""
    return list(dict.fromkeys(_written(path) for path in _templates(obj.data, ())))


def parse_path(text: str) -> tuple[str, ...]:
    """Split a dotted path; a dot inside a key is escaped by a backslash."""
    return tuple(part.replace("\\.", ".") for part in _NAME_PARTS.findall(text))


def pointer(path: FieldPath) -> str:
    """Format a path as a JSON pointer."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


def _owner(obj: KubeObject) -> PodOwner:
    """The owner as the controllers name it, with an arbitrary hash or time."""
    if obj.kind == "Deployment":
        return PodOwner("ReplicaSet", f"{obj.name}-5d4f8c7b9")
    if obj.kind == "CronJob":
        return PodOwner("Job", f"{obj.name}-28000000")
    return PodOwner(obj.kind, obj.name)


def _matches(value: Any, parts: tuple[str, ...], path: FieldPath) -> Iterator[FieldPath]:
    if not parts:
        if _holds_containers(value):
            yield path
        return
    for key, child in _children(value):
        if parts[0] in {"*", str(key)}:
            yield from _matches(child, parts[1:], (*path, key))


def _templates(value: Any, path: FieldPath) -> Iterator[FieldPath]:
    for key, child in _children(value):
        if isinstance(key, str) and key.lower().endswith("template") and _holds_containers(child):
            yield (*path, key)
        else:
            yield from _templates(child, (*path, key))


def _children(value: Any) -> Iterator[tuple[str | int, Any]]:
    if isinstance(value, dict):
        yield from value.items()
    elif isinstance(value, list):
        yield from enumerate(value)


def _holds_containers(value: Any) -> bool:
    spec = value.get("spec") if isinstance(value, dict) else None
    return isinstance(spec, dict) and isinstance(spec.get("containers"), list)


def _written(path: FieldPath) -> str:
    return ".".join("*" if isinstance(part, int) else part.replace(".", "\\.") for part in path)
