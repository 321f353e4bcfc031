"""vgpu-manager: an extender and a webhook, and a scheduler of Kubernetes under its name."""

import datetime as dt
import json
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from tests.controlplane.client import Object
from tests.controlplane.processes import free_ports

from .place import MODEL, UUIDS, Place, Running, System, pods_webhook
from .shapes import DEVICE_MIB, DEVICES, Share

HEARTBEAT = "nvidia.com/node-device-heartbeat"
EXTENDER: Final = {
    "preemptVerb": "preempt",
    "weight": 1,
    "httpTimeout": "30s",
    # Nodes report the first alone.
    "managedResources": [
        {"name": f"nvidia.com/vgpu-{name}", "ignoredByScheduler": name != "number"}
        for name in ("number", "cores", "memory")
    ],
}


@contextmanager
def start(place: Place) -> Iterator[Running]:
    """Run it as its manifests do, with the runtime class that its pods need."""
    webhook = pods_webhook("vgpu-manager-webhook-mutate", "mutatepod.vgpu-manager.io", ["v1beta1"])
    port, webhook_port = free_ports(2)
    register = [
        {
            "id": index,
            "type": MODEL,
            "uuid": uuid,
            "core": 100,
            "memory": DEVICE_MIB,
            "number": 10,
            "numa": 0,
            "mig": False,
            "busId": f"0000:0{index}:00.0",
            "capability": 8.0,
            "healthy": True,
        }
        for index, uuid in enumerate(UUIDS)
    ]
    # Cores and memory only with feature gates of its device plugin: the extender keeps account of them.
    resources = {"nvidia.com/vgpu-number": 10 * DEVICES}
    annotations = {
        "nvidia.com/node-device-register": json.dumps(register),
        "nvidia.com/device-memory-factor": "1",
        HEARTBEAT: _now(),
    }
    with ExitStack() as running:
        running.enter_context(place.node(resources, {"annotations": annotations}))
        kubeconfig = f"--kubeconfig={place.plane.kubeconfig}"
        running.enter_context(place.run([place.programs / "scheduler", kubeconfig, f"--server-bind-port={port}"]))
        running.enter_context(
            place.run(
                [
                    place.programs / "webhook",
                    "--scheduler-name=vgpu-scheduler",
                    f"--server-bind-port={webhook_port}",
                    f"--cert-dir={place.certificate.certificate.parent}",
                    "--default-runtime-class=nvidia",
                ]
            )
        )
        running.enter_context(
            place.kube_scheduler("vgpu-scheduler", {**EXTENDER, "urlPrefix": f"http://127.0.0.1:{port}/scheduler"})
        )
        url = f"https://127.0.0.1:{webhook_port}/pods/mutate"
        yield Running(given, webhook, url, lambda: place.annotate_node({HEARTBEAT: _now()}))


def given(pod: Object) -> dict[str, Share]:
    """What its scheduler allocated: `container[ID_UUID_CORES_MIB,…];…`."""
    found: dict[str, Share] = {}
    for name, devices in re.findall(
        r"([^;\[]+)\[([^\]]*)\]", pod["metadata"]["annotations"].get("nvidia.com/pre-allocated", "")
    ):
        sizes = [each.split("_")[2:] for each in devices.split(",") if each]
        if sizes:
            [(cores, memory)] = {(int(cores) or None, int(memory)) for cores, memory in sizes}
            found[name] = Share(len(sizes), memory, cores)
    return found


def _now() -> str:
    return f"{dt.datetime.now(dt.UTC):%Y-%m-%dT%H:%M:%S.%fZ}"


VGPU_MANAGER = System("vgpu-manager", "vgpu-manager", start)
