"""A pod that is edited, and the RFC 6902 operations that lead from the object in the review to it.

Steps mutate nothing that was sent: they note what comes in the place of it. The operations are in an order that applies: no
``add`` below a missing parent, no ``replace`` or ``remove`` of a missing key, no ``add`` over an existing list. Changes inside
a list go from its end to its beginning, so that indexes remain valid.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from operator import attrgetter
from typing import Any, Final, Literal, TypeAlias

import msgspec

from webhook.pod import (
    ABSENT,
    ENV,
    ENV_FROM,
    Container,
    EnvFrom,
    EnvVar,
    Placed,
    Pod,
    VolumeMount,
    entries,
    placed_in,
    present,
)
from webhook.request import Number, number_in

Operation: TypeAlias = dict[str, Any]
"""One RFC 6902 operation: ``op``, ``path`` and, except for ``remove``, ``value``."""

Entry: TypeAlias = Mapping[str, Any]

Edits: TypeAlias = dict[int, tuple[Any, ...]]
"""What comes in the place of entries of a list, by their indexes: others, or nothing."""

Listed: TypeAlias = Literal["env", "env_from"]
_NAMES: Final[Mapping[Listed, str]] = {"env": "env", "env_from": "envFrom"}


@lru_cache(maxsize=256)
def escape(key: str) -> str:
    """Escape a key as a token of a JSON pointer (RFC 6901 §3): ``nvidia.com/gpu`` becomes ``nvidia.com~1gpu``."""
    return key.replace("~", "~0").replace("/", "~1")


class Slot(msgspec.Struct, eq=False, dict=True):
    """A container, its place in the pod, and what becomes of it."""

    kind: Literal["initContainers", "containers"]
    position: int  # its index in the list of its kind
    container: Container
    name: str
    path: str  # its JSON pointer
    # numbers for limits and requests, where a quantity of the same value keeps its spelling; None removes
    resources: dict[str, Number | None] = {}
    claims: list[Entry] = []  # entries to add
    env_added: list[Entry] = []
    mounts_added: list[Entry] = []
    sent: dict[Listed, list[Any]] = {}  # the decoded lists of the container, by field
    edits: dict[Listed, Edits] = {}  # what becomes of their entries
    removed: list[Placed] = []  # what goes of that which the kubelet puts at paths

    @cached_property
    def env(self) -> list[EnvVar]:
        """The variables that it keeps."""
        return self.sent.setdefault("env", entries(self.container.env, ENV))

    @cached_property
    def env_from(self) -> list[EnvFrom]:
        """The sources of variables that it keeps."""
        return self.sent.setdefault("env_from", entries(self.container.env_from, ENV_FROM))

    @cached_property
    def placed(self) -> list[Placed]:
        """What the kubelet puts at paths that the pod chooses, as far as it stays."""
        return placed_in(self.container)

    @property
    def mounts(self) -> list[VolumeMount]:
        """The mounts that it keeps."""
        return [each.mount for each in self.placed if each.mount is not None]

    def remove(self, gone: list[Placed]) -> None:
        """Leave out what is put at paths."""
        self.removed += gone
        self.placed = [each for each in self.placed if each not in gone]

    def change(self, field: Listed, changed: Mapping[int, Sequence[Any]]) -> None:
        """Put others, or none, in the place of entries of a list, by the identity of these."""
        if changed:
            edits = self.edits.setdefault(field, {})
            setattr(self, field, change(self.sent[field], edits, changed))

    def drop(self, field: Listed, gone: Sequence[Any]) -> None:
        """Leave entries of a list out."""
        self.change(field, {id(each): () for each in gone})

    @property
    def ends_first(self) -> bool:
        """Whether it is an init container that ends, and no sidecar."""
        return self.kind == "initContainers" and not self.sidecar

    @property
    def sidecar(self) -> bool:
        """Whether it is a native sidecar."""
        return self.kind == "initContainers" and bytes(self.container.restart_policy) == b'"Always"'

    def write(self, operations: list[Operation]) -> None:
        """Add the operations for this container."""
        container, path = self.container, self.path
        if self.resources:
            self._write_resources(f"{path}/resources", operations)
        if self.claims:
            self._write_claims(f"{path}/resources", operations)
        for each in sorted(self.removed, key=attrgetter("position"), reverse=True) if self.removed else ():
            place = "" if each.field == "terminationMessagePath" else f"/{each.position}"
            operations.append({"op": "remove", "path": f"{path}/{each.field}{place}"})
        for field, edits in self.edits.items():
            write_list(f"{path}/{_NAMES[field]}", self.sent[field], edits, operations)
        if self.env_added:
            append(f"{path}/env", self.env_added, operations, missing=not present(container.env))
        if self.mounts_added:
            append(f"{path}/volumeMounts", self.mounts_added, operations, missing=not present(container.volume_mounts))

    def _write_resources(self, path: str, operations: list[Operation]) -> None:
        resources = self.container.resources
        texts = {name: str(number) for name, number in self.resources.items() if number is not None}
        if resources is None:
            if texts:
                operations.append({"op": "add", "path": path, "value": {"limits": texts, "requests": texts}})
            return
        for side, before in (("limits", resources.limits), ("requests", resources.requests)):
            after = {name: text for name, text in (before or {}).items() if name not in self.resources}
            for name, text in texts.items():
                own = (before or {}).get(name)
                after[name] = text if own is None or number_in(own) != self.resources[name] else own
            write_map(f"{path}/{side}", before, after, operations)

    def _write_claims(self, path: str, operations: list[Operation]) -> None:
        resources = self.container.resources
        if resources is None and not any(number is not None for number in self.resources.values()):
            operations.append({"op": "add", "path": path, "value": {"claims": self.claims}})
        else:
            missing = resources is None or resources.claims is None
            append(f"{path}/claims", self.claims, operations, missing=missing)


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


def append(path: str, entries: Sequence[Entry], operations: list[Operation], *, missing: bool) -> None:
    """Add the operations that put entries at the end of a list, which may be missing."""
    if missing and entries:
        operations.append({"op": "add", "path": path, "value": entries})
    else:
        end = f"{path}/-"
        operations.extend([{"op": "add", "path": end, "value": entry} for entry in entries])


def write_map(
    path: str, before: Mapping[str, Any] | None, after: Mapping[str, Any], operations: list[Operation]
) -> None:
    """Add the operations that make one map of another, which may be missing."""
    if before is None:
        if after:
            operations.append({"op": "add", "path": path, "value": after})
        return
    if before == after:
        return
    operations.extend([{"op": "remove", "path": f"{path}/{escape(key)}"} for key in before if key not in after])
    for key, value in after.items():
        if key not in before or before[key] != value:
            op = "replace" if key in before else "add"
            operations.append({"op": op, "path": f"{path}/{escape(key)}", "value": value})


def change(sent: Sequence[Any], edits: Edits, changed: Mapping[int, Sequence[Any]]) -> list[Any]:
    """Note what comes in the place of entries of a list, by the identity of these; return the list as it will be."""
    kept: list[Any] = []
    for index, entry in enumerate(sent):
        now = edits.get(index, (entry,))
        if not changed.keys().isdisjoint(map(id, now)):
            now = edits[index] = tuple([new for each in now for new in changed.get(id(each), (each,))])
        kept += now
    return kept


def write_list(path: str, sent: Sequence[Any], edits: Edits, operations: list[Operation]) -> None:
    """Add the operations for what becomes of the entries of a list: one is edited in place, others are put in after it."""
    for index in sorted(edits, reverse=True):
        first, *further = edits[index] or (None,)
        operations.extend([{"op": "add", "path": f"{path}/{index + 1}", "value": each} for each in reversed(further)])
        if first is None:
            operations.append({"op": "remove", "path": f"{path}/{index}"})
            continue
        old = sent[index]
        for field, name in zip(old.__struct_fields__, old.__struct_encode_fields__, strict=True):
            value, where = getattr(first, field), f"{path}/{index}/{name}"
            if value in (None, ABSENT) and getattr(old, field) not in (None, ABSENT):
                operations.append({"op": "remove", "path": where})
            elif value != getattr(old, field):
                operations.append({"op": "add", "path": where, "value": value})
