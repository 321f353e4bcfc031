"""The pods of `shapes.yaml`, and what their users are promised of a node's devices."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

TABLE = Path(__file__).with_name("shapes.yaml")
DEVICES: Final = 4
DEVICE_MIB: Final = 81_559
"""Memory of each device of a node: a number that divides badly shows rounding."""
IMAGE = "registry.invalid/image"


@dataclass(frozen=True, slots=True)
class Share:
    """What one container has of each of some devices.

    Attributes:
        devices: how many.
        memory_mib: of each.
        cores: percent of each; None without a limit.
    """

    devices: int
    memory_mib: int
    cores: int | None = None

    def __str__(self) -> str:
        return f"{self.devices} x {self.memory_mib} MiB{'' if self.cores is None else f', {self.cores} %'}"

    def keeps(self, promise: "Share") -> bool:
        """Whether it is what was promised: no less memory, and at most a hundredth of a device more.

        All memory of a device is the whole device, with a limit of cores or without.
        """
        more = self.memory_mib - promise.memory_mib
        whole = promise.memory_mib == self.memory_mib == DEVICE_MIB and {promise.cores, self.cores} <= {100, None}
        return (
            self.devices == promise.devices
            and -1 <= more <= DEVICE_MIB // 100 + 1
            and (whole or self.cores == promise.cores)
        )


@dataclass(frozen=True, slots=True)
class Shape:
    """One pod.

    Attributes:
        name: of the shape and of the pod.
        pod: its manifest, without a namespace.
        promise: the share of each container that requests one.
        room: whether a node has as much.
        elsewhere: the promise where a target owns the keys to which its system gives another meaning.
    """

    name: str
    pod: dict[str, Any]
    promise: dict[str, Share]
    room: bool
    elsewhere: dict[str, dict[str, Share]]

    def promised(self, target: str) -> dict[str, Share]:
        """The share of each container that requests one, where a mapping is the target."""
        return self.elsewhere.get(target, self.promise)


@cache
def shapes() -> tuple[Shape, ...]:
    """All of them."""
    return tuple(_shape(name, row) for name, row in yaml.safe_load(TABLE.read_text()).items())


def _shape(name: str, row: dict[str, Any]) -> Shape:
    limits = row.get("containers") or {"main": row.get("limits", {})}
    spec: dict[str, Any] = {"containers": [_container(each, limits[each]) for each in limits]}
    if "init" in row:
        spec["initContainers"] = [_container("init", row["init"])]
    metadata = {"name": name, "labels": row.get("labels", {}), "annotations": row.get("annotations", {})}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    elsewhere = {target: _promise(promise) for target, promise in row.get("elsewhere", {}).items()}
    return Shape(name, pod, _promise(row.get("promise", {})), row.get("room", True), elsewhere)


def _promise(row: dict[str, Any]) -> dict[str, Share]:
    return {container: _share(**share) for container, share in row.items()}


def _container(name: str, limits: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "image": IMAGE, "resources": {"limits": {key: str(amount) for key, amount in limits.items()}}}


def _share(devices: int, memory: int | str, cores: int | None = None) -> Share:
    mib = memory if isinstance(memory, int) else DEVICE_MIB * int(memory.removesuffix("%")) // 100
    return Share(devices, mib, cores)
