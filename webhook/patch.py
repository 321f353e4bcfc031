"""A pod that is edited, and the RFC 6902 operations that lead from the object in the review to it.

Steps replace what they change and mutate nothing that was sent, so the patch is the difference of two values: what is the same
object was not touched. The operations are in an order that applies: no ``add`` below a missing parent, no ``replace`` or
``remove`` of a missing key, no ``add`` over an existing list. Changes inside a list go from its end to its beginning, so that
indexes remain valid.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, Literal, TypeAlias, TypeVar

import msgspec

from webhook.pod import (
    ABSENT,
    Container,
    EnvFrom,
    EnvVar,
    Placed,
    Pod,
    QuantityText,
    VolumeDevice,
    VolumeMount,
    decode_devices,
    decode_env,
    decode_env_from,
    decode_mounts,
    decode_text,
    present,
)
from webhook.quantity import Number, QuantityError, parse_quantity

Operation: TypeAlias = dict[str, Any]
"""One RFC 6902 operation: ``op``, ``path`` and, except for ``remove``, ``value``."""

Patch: TypeAlias = tuple[Operation, ...]
"""A JSON Patch."""

Entry: TypeAlias = Mapping[str, Any]

_T = TypeVar("_T")
_LISTS: Final[Mapping[str, Callable[[msgspec.Raw], list[Any]]]] = {
    "env": decode_env,
    "envFrom": decode_env_from,
    "volumeMounts": decode_mounts,
    "volumeDevices": decode_devices,
}


@lru_cache(maxsize=256)
def escape(key: str) -> str:
    """Escape a key as a token of a JSON pointer (RFC 6901 §3): ``nvidia.com/gpu`` becomes ``nvidia.com~1gpu``."""
    return key.replace("~", "~0").replace("/", "~1")


class Slot(msgspec.Struct, eq=False):
    """A container, its place in the pod, and what becomes of it.

    Attributes:
        position: its index in the list of its kind.
        path: its JSON pointer.
        resources: numbers for limits and requests, where a quantity of the same value keeps its spelling; None removes.
        claims, env_added, mounts_added: entries to add.
        sent: the decoded lists of the container, by field.
        lists: the same as they will be, but for what is added.
        message_path_removed: whether the path of the termination message goes.
    """

    kind: Literal["initContainers", "containers"]
    position: int
    container: Container
    name: str
    path: str
    resources: dict[str, Number | None] = {}
    claims: list[Entry] = []
    env_added: list[Entry] = []
    mounts_added: list[Entry] = []
    sent: dict[str, list[Any]] = {}
    lists: dict[str, list[Any]] = {}
    message_path_removed: bool = False

    def _list(self, field: str, raw: msgspec.Raw) -> list[Any]:
        found = self.lists.get(field)
        if found is None:
            found = self.lists[field] = self.sent[field] = _LISTS[field](raw)
        return found

    @property
    def env(self) -> list[EnvVar]:
        """The variables that it keeps."""
        return self._list("env", self.container.env)

    @property
    def env_sent(self) -> list[EnvVar]:
        """The variables that it was sent with."""
        return self.sent.get("env", self.env)

    @property
    def env_from(self) -> list[EnvFrom]:
        """The sources of variables that it keeps."""
        return self._list("envFrom", self.container.env_from)

    @property
    def mounts(self) -> list[VolumeMount]:
        """The mounts that it keeps."""
        return self._list("volumeMounts", self.container.volume_mounts)

    @property
    def devices(self) -> list[VolumeDevice]:
        """The block volumes that it keeps."""
        return self._list("volumeDevices", self.container.volume_devices)

    @property
    def placed(self) -> list[Placed]:
        """What the kubelet puts at paths that the pod chooses, in the order in which each covers those before it.

        The file of the termination message comes after all mounts (``makeMounts`` in the kubelet's ``kuberuntime``).
        """
        message = "" if self.message_path_removed else decode_text(self.container.termination_message_path)
        found = [Placed("volumeMounts", each, each.mount_path) for each in self.mounts]
        found += [Placed("volumeDevices", each, each.device_path) for each in self.devices]
        return [*found, Placed("terminationMessagePath", message, message)] if message else found

    def drop(self, field: str, gone: Sequence[Any]) -> None:
        """Leave entries of a list out."""
        if field == "terminationMessagePath":
            self.message_path_removed = self.message_path_removed or bool(gone)
        elif gone:
            known = {*map(id, gone)}
            self.lists[field] = [each for each in self.lists[field] if id(each) not in known]

    def change_env(self, changed: Mapping[int, list[EnvVar]]) -> None:
        """Put others in the place of variables, by the identity of these."""
        if changed:
            self.lists["env"] = [each for entry in self.env for each in changed.get(id(entry), (entry,))]

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
        for field, after in self.lists.items():
            write_list(f"{path}/{field}", self.sent[field], after, operations)
        if self.env_added:
            append(f"{path}/env", self.env_added, operations, missing=not present(container.env))
        if self.mounts_added:
            append(f"{path}/volumeMounts", self.mounts_added, operations, missing=not present(container.volume_mounts))
        if self.message_path_removed:
            operations.append({"op": "remove", "path": f"{path}/terminationMessagePath"})

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
                after[name] = text if own is None or not _equals(own, self.resources[name]) else own
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
        operations.extend([{"op": "add", "path": f"{path}/-", "value": entry} for entry in entries])


def write_map(
    path: str, before: Mapping[str, Any] | None, after: Mapping[str, Any], operations: list[Operation]
) -> None:
    """Add the operations that make one map of another, which may be missing."""
    if before is None:
        if after:
            operations.append({"op": "add", "path": path, "value": after})
        return
    operations.extend({"op": "remove", "path": f"{path}/{escape(key)}"} for key in before if key not in after)
    for key, value in after.items():
        if key not in before:
            operations.append({"op": "add", "path": f"{path}/{escape(key)}", "value": value})
        elif before[key] != value:
            operations.append({"op": "replace", "path": f"{path}/{escape(key)}", "value": value})


def changed_entries(before: Sequence[_T], after: Sequence[_T]) -> Iterator[tuple[int, _T | None, _T | None]]:
    """Yield what differs in two lists, from their end: the index, and the entry before and after; None: there is none.

    What is the same object stands in both. Between two such, entries were edited in place if there are not fewer than before,
    else those of the names that are left.
    """
    kept, own = {*map(id, after)}, {*map(id, before)}
    index, later = len(before), len(after)
    while index or later:
        if index and later and before[index - 1] is after[later - 1]:
            index, later = index - 1, later - 1
            continue
        old = new = 0
        while old < index and id(before[index - old - 1]) not in kept:
            old += 1
        while new < later and id(after[later - new - 1]) not in own:
            new += 1
        index, later = index - old, later - new
        own_run, run = before[index : index + old], after[later : later + new]
        edited = range(old) if old <= new else _of_their_names(own_run, run)
        becomes = dict(zip(edited, run, strict=False))
        put_in = [(index + len(edited), None, each) for each in reversed(run[len(edited) :])]
        others = [(index + i, own_run[i], becomes.get(i)) for i in reversed(range(old))]
        yield from (*put_in, *others) if edited else (*others, *put_in)


def _of_their_names(before: Sequence[_T], after: Sequence[_T]) -> Sequence[int]:
    """Where entries of the same names stand, in the same order; none if some have none."""
    names = [getattr(each, "name", None) for each in after]
    own = [(place, name) for place, each in enumerate(before) if (name := getattr(each, "name", None)) in names]
    last = own[len(own) - len(names) :] if len(own) >= len(names) else []
    return [place for place, _ in last] if [name for _, name in last] == names else []


def write_list(
    path: str, before: Sequence[msgspec.Struct], after: Sequence[msgspec.Struct], operations: list[Operation]
) -> None:
    """Add the operations that make one list of another, of whose entries some were left out, replaced or put in."""
    for index, old, new in changed_entries(before, after) if after is not before else ():
        where = f"{path}/{index}"
        if new is None:
            operations.append({"op": "remove", "path": where})
        elif old is None:
            operations.append({"op": "add", "path": where, "value": new})
        else:
            for field, name in zip(old.__struct_fields__, old.__struct_encode_fields__, strict=True):
                value = getattr(new, field)
                if value in (None, ABSENT) and getattr(old, field) not in (None, ABSENT):
                    operations.append({"op": "remove", "path": f"{where}/{name}"})
                elif value != getattr(old, field):
                    operations.append({"op": "add", "path": f"{where}/{name}", "value": value})


def _equals(text: QuantityText, number: Number | None) -> bool:
    try:
        return parse_quantity(str(text)) == number
    except QuantityError:
        return False
