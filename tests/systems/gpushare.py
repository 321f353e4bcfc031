"""gpushare: an extender of Kubernetes' own scheduler under its own name; it has no webhook."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from tests.controlplane.client import Object
from tests.controlplane.processes import free_ports

from .place import Place, Running, System
from .shapes import DEVICE_MIB, DEVICES, Share

MEMORY = "aliyun.com/gpu-mem"
DEVICE_GIB = DEVICE_MIB // 1024
PREFIX = "ALIYUN_COM_GPU_MEM_"
EXTENDER: Final = {"managedResources": [{"name": MEMORY, "ignoredByScheduler": False}]}


@contextmanager
def start(place: Place) -> Iterator[Running]:
    """Run it as its installation does; a Node has what its device plugin reports, in whole GiB."""
    [port] = free_ports(1)
    program: list[str | Path] = [place.programs / "gpushare-sche-extender"]
    environment = {**os.environ, "KUBECONFIG": str(place.plane.kubeconfig), "PORT": str(port)}
    url = f"http://127.0.0.1:{port}/gpushare-scheduler"
    with ExitStack() as running:
        running.enter_context(place.node({MEMORY: DEVICE_GIB * DEVICES, "aliyun.com/gpu-count": DEVICES}, {}))
        running.enter_context(place.run(program, environment))
        running.enter_context(place.kube_scheduler("default-scheduler", {**EXTENDER, "urlPrefix": url}))
        yield Running(given, serves=MEMORY)


def given(pod: Object) -> dict[str, Share]:
    """What its extender allocated: one device for the pod, and of that to each container what it requests.

    It counts the containers' requests, not those of init containers.
    """
    annotations = pod["metadata"].get("annotations", {})
    if f"{PREFIX}IDX" not in annotations:
        return {}
    limits = {each["name"]: each["resources"].get("limits", {}) for each in pod["spec"]["containers"]}
    sizes = {name: int(found[MEMORY]) for name, found in limits.items() if MEMORY in found}
    assert sum(sizes.values()) == int(annotations[f"{PREFIX}POD"]) <= int(annotations[f"{PREFIX}DEV"])
    return {name: Share(1, 1024 * size) for name, size in sizes.items()}


# Its name for memory is also that of another system, which owns it unless the settings say otherwise.
GPUSHARE = System("gpushare", "gpushare", start, settings={"owners": {MEMORY: "gpushare"}})
