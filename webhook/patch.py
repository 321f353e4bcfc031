"""Edits of a pod, and the RFC 6902 operations that apply them to the object in the review.

Steps collect edits in `PodEdits`; the operations are written once, at the end, in an order that applies: no ``add`` below a
missing parent, no ``replace`` or ``remove`` of a missing key, no ``add`` over an existing list. Changes inside a list go
from its end to its beginning, so that indexes remain valid.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Literal, TypeAlias

import msgspec

from webhook.pod import NO_METADATA, Container, PlacedBy, Pod, QuantityText, present
from webhook.quantity import Number, QuantityError, parse_quantity

Operation: TypeAlias = dict[str, Any]
"""One RFC 6902 operation: ``op``, ``path`` and, except for ``remove``, ``value``."""

Entry: TypeAlias = Mapping[str, Any]


@lru_cache(maxsize=256)
def escape(key: str) -> str:
    """Escape a key as a token of a JSON pointer (RFC 6901 §3): ``nvidia.com/gpu`` becomes ``nvidia.com~1gpu``."""
    return key.replace("~", "~0").replace("/", "~1")


Patch: TypeAlias = tuple[Operation, ...]
"""A JSON Patch."""


class Slot(msgspec.Struct, frozen=True):
    """A container and its place in the pod.

    Attributes:
        position: its index in the list of its kind.
        path: its JSON pointer.
    """

    kind: Literal["initContainers", "containers"]
    position: int
    container: Container
    name: str
    path: str


def slots(pod: Pod) -> tuple[Slot, ...]:
    """Return all containers that can have resources: init containers and native sidecars first, as the kubelet does."""
    all_slots = [
        Slot("containers", i, each, each.name, f"/spec/containers/{i}") for i, each in enumerate(pod.spec.containers)
    ]
    if pod.spec.init_containers:
        all_slots[:0] = [
            Slot("initContainers", i, each, each.name, f"/spec/initContainers/{i}")
            for i, each in enumerate(pod.spec.init_containers)
        ]
    return tuple(all_slots)


class ContainerEdits(msgspec.Struct):
    """The edits of one container.

    Attributes:
        resources: numbers for limits and requests, where a quantity of the same value keeps its spelling; None removes.
        claims: entries to add to the ``resources.claims`` of the container.
    """

    slot: Slot
    resources: dict[str, Number | None] = {}
    claims: list[Entry] = []
    env_values: dict[int, str] = {}
    env_names: dict[int, str] = {}
    env_removed: set[int] = set()
    env_inserted: dict[int, Entry] = {}
    env_appended: list[Entry] = []
    env_from_removed: set[int] = set()
    mounts: list[Entry] = []
    mounts_removed: set[int] = set()
    devices_removed: set[int] = set()
    message_path_removed: set[int] = set()

    def removed(self, field: PlacedBy) -> set[int]:
        """Return what is removed of a field by which the kubelet puts something at a path; to be added to."""
        match field:
            case "volumeMounts":
                return self.mounts_removed
            case "volumeDevices":
                return self.devices_removed
            case "terminationMessagePath":
                return self.message_path_removed

    def write(self, operations: list[Operation]) -> None:
        """Add the operations for this container."""
        container, path = self.slot.container, self.slot.path
        if self.resources:
            self._write_resources(f"{path}/resources", operations)
        if self.claims:
            self._write_claims(f"{path}/resources", operations)
        if self.env_values or self.env_names or self.env_removed or self.env_inserted:
            self._write_env(f"{path}/env", operations)
        if self.env_appended:
            _append(f"{path}/env", container.env, self.env_appended, operations)
        _remove(f"{path}/envFrom", self.env_from_removed, operations)
        _remove(f"{path}/volumeMounts", self.mounts_removed, operations)
        _remove(f"{path}/volumeDevices", self.devices_removed, operations)
        if self.message_path_removed:
            operations.append({"op": "remove", "path": f"{path}/terminationMessagePath"})
        if self.mounts:
            _append(f"{path}/volumeMounts", container.volume_mounts, self.mounts, operations)

    def _write_resources(self, path: str, operations: list[Operation]) -> None:
        resources = self.slot.container.resources
        texts = {name: str(number) for name, number in self.resources.items() if number is not None}
        tokens = {name: escape(name) for name in self.resources}
        if resources is None:
            if texts:
                operations.append({"op": "add", "path": path, "value": {"limits": texts, "requests": texts}})
            return
        for side, quantities in (("limits", resources.limits), ("requests", resources.requests)):
            if quantities is not None:
                for name, number in self.resources.items():
                    _write_quantity(f"{path}/{side}/{tokens[name]}", quantities.get(name), number, operations)
            elif texts:
                operations.append({"op": "add", "path": f"{path}/{side}", "value": texts})

    def _write_claims(self, path: str, operations: list[Operation]) -> None:
        resources = self.slot.container.resources
        if resources is None and not any(number is not None for number in self.resources.values()):
            operations.append({"op": "add", "path": path, "value": {"claims": self.claims}})
        elif resources is None or resources.claims is None:
            operations.append({"op": "add", "path": f"{path}/claims", "value": self.claims})
        else:
            operations.extend([{"op": "add", "path": f"{path}/claims/-", "value": entry} for entry in self.claims])

    def _write_env(self, path: str, operations: list[Operation]) -> None:
        touched = {*self.env_values, *self.env_names, *self.env_removed, *self.env_inserted}
        for index in sorted(touched, reverse=True):
            entry = f"{path}/{index}"
            if index in self.env_values:
                operations.append({"op": "add", "path": f"{entry}/value", "value": self.env_values[index]})
            if index in self.env_names:
                operations.append({"op": "replace", "path": f"{entry}/name", "value": self.env_names[index]})
            if index in self.env_removed:
                operations.append({"op": "remove", "path": entry})
            if index in self.env_inserted:
                operations.append({"op": "add", "path": entry, "value": self.env_inserted[index]})


class MapEdits(msgspec.Struct):
    """The edits of a map of texts: None removes a key."""

    path: str
    current: Mapping[str, str] | None
    values: dict[str, str | None] = {}

    @property
    def changes(self) -> bool:
        """Whether the edits change the map."""
        current = self.current or {}
        return any(current.get(key) != value for key, value in self.values.items())

    def write(self, operations: list[Operation]) -> None:
        """Add the operations for this map."""
        if self.current is None:
            added = {key: value for key, value in self.values.items() if value is not None}
            if added:
                operations.append({"op": "add", "path": self.path, "value": added})
            return
        for key, value in self.values.items():
            old = self.current.get(key)
            if value is None:
                if old is not None:
                    operations.append({"op": "remove", "path": f"{self.path}/{escape(key)}"})
            elif old != value:
                operation = "add" if old is None else "replace"
                operations.append({"op": operation, "path": f"{self.path}/{escape(key)}", "value": value})


class PodEdits:
    """The edits of a pod: collected by the steps, written once by `operations`.

    Args:
        pod: the view of the pod in the review; the operations apply to that object only.
    """

    __slots__ = (
        "_containers",
        "_pod",
        "annotations",
        "claims",
        "fields",
        "first_init_containers",
        "labels",
        "node_selector",
        "tolerations",
        "volumes",
        "volumes_removed",
    )

    def __init__(self, pod: Pod) -> None:
        self._pod = pod
        self._containers: dict[str, ContainerEdits] = {}
        self.labels = MapEdits("/metadata/labels", pod.metadata.labels)
        self.annotations = MapEdits("/metadata/annotations", pod.metadata.annotations)
        self.node_selector = MapEdits("/spec/nodeSelector", pod.spec.node_selector)
        self.tolerations: list[Entry] = []
        self.first_init_containers: list[Entry] = []
        """Init containers before those of the pod."""
        self.claims: list[Entry] = []
        """Entries of the pod's ``resourceClaims``."""
        self.volumes: list[Entry] = []
        self.volumes_removed: set[int] = set()
        self.fields: dict[str, Any] = {}
        """Other fields of the spec by name (``schedulerName``): a value to set, or None to remove a present one."""

    def container(self, slot: Slot) -> ContainerEdits:
        """Return the edits of one container."""
        edits = self._containers.get(slot.path)
        if edits is None:
            edits = self._containers[slot.path] = ContainerEdits(slot)
        return edits

    def operations(self, stamp: Callable[[], None] | None = None) -> Patch:
        """Return the JSON Patch for the pod in the review, in an order that applies; empty without changes.

        Args:
            stamp: adds the labels and annotations that are written only with other changes.
        """
        operations: list[Operation] = []
        for edits in self._containers.values():
            edits.write(operations)
        self._write_spec(operations)
        if stamp is not None and (operations or self.labels.changes or self.annotations.changes):
            stamp()
        if self.labels.values:
            self.labels.write(operations)
        if self.annotations.values:
            self.annotations.write(operations)
        if self._pod.metadata is NO_METADATA and any(
            operation["path"].startswith("/metadata/") for operation in operations
        ):
            operations.insert(0, {"op": "add", "path": "/metadata", "value": {}})
        return tuple(operations)

    def _write_spec(self, operations: list[Operation]) -> None:
        spec = self._pod.spec
        if self.first_init_containers:
            self._write_first_init_containers(operations)
        _remove("/spec/volumes", self.volumes_removed, operations)
        if self.volumes:
            _append("/spec/volumes", spec.volumes, self.volumes, operations)
        if self.claims and spec.resource_claims is not None:
            operations.extend(
                [{"op": "add", "path": "/spec/resourceClaims/-", "value": entry} for entry in self.claims]
            )
        elif self.claims:
            operations.append({"op": "add", "path": "/spec/resourceClaims", "value": self.claims})
        if self.tolerations:
            _append("/spec/tolerations", spec.tolerations, self.tolerations, operations)
        for name, value in self.fields.items():
            if value is None:
                operations.append({"op": "remove", "path": f"/spec/{name}"})
            else:
                operations.append({"op": "add", "path": f"/spec/{name}", "value": value})
        if self.node_selector.values:
            self.node_selector.write(operations)

    def _write_first_init_containers(self, operations: list[Operation]) -> None:
        # After the edits of the others, whose positions change.
        path = "/spec/initContainers"
        if self._pod.spec.init_containers is None:
            operations.append({"op": "add", "path": path, "value": self.first_init_containers})
        else:
            operations.extend(
                [{"op": "add", "path": f"{path}/0", "value": each} for each in reversed(self.first_init_containers)]
            )


def _append(path: str, current: msgspec.Raw, entries: list[Entry], operations: list[Operation]) -> None:
    if present(current):
        end = f"{path}/-"
        operations.extend([{"op": "add", "path": end, "value": entry} for entry in entries])
    else:
        operations.append({"op": "add", "path": path, "value": entries})


def _remove(path: str, indexes: set[int], operations: list[Operation]) -> None:
    if indexes:
        operations.extend([{"op": "remove", "path": f"{path}/{index}"} for index in sorted(indexes, reverse=True)])


def _write_quantity(
    path: str, current: QuantityText | None, number: Number | None, operations: list[Operation]
) -> None:
    if number is None:
        if current is not None:
            operations.append({"op": "remove", "path": path})
    elif current is None:
        operations.append({"op": "add", "path": path, "value": str(number)})
    elif not _equals(current, number):
        operations.append({"op": "replace", "path": path, "value": str(number)})


def _equals(text: QuantityText, number: Number) -> bool:
    try:
        return parse_quantity(str(text)) == number
    except QuantityError:
        return False
