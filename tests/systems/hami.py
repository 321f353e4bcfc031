"""HAMi: an extender and a webhook in one program, and a scheduler of Kubernetes under its name."""

import datetime as dt
import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from tests.controlplane.client import Object
from tests.controlplane.processes import free_ports

from .place import MODEL, Place, Running, System, configured, pods_webhook, shares
from .shapes import Share

LOCK = "hami.io/mutex.lock"
DEVICES: Final = configured("hami")
"""What its chart configures for NVIDIA's devices; the pods here name no others."""
EXTENDER: Final = {
    "enableHTTPS": True,
    "tlsConfig": {"insecure": True},
    "weight": 1,
    "httpTimeout": "30s",
    "managedResources": [
        {"name": name, "ignoredByScheduler": True} for key, name in DEVICES.items() if key.startswith("resource")
    ],
}


@contextmanager
def start(place: Place) -> Iterator[Running]:
    """Run it configured as by its chart."""
    device_config = place.folder / "device-config.yaml"
    device_config.write_text(json.dumps({"nvidia": DEVICES}))
    webhook = pods_webhook("hami-webhook", "vgpu.hami.io", ["v1beta1"])
    port, metrics = free_ports(2)
    program: list[str | Path] = [
        place.programs / "scheduler",
        f"--http_bind=127.0.0.1:{port}",
        f"--cert_file={place.certificate.certificate}",
        f"--key_file={place.certificate.key}",
        "--scheduler-name=hami-scheduler",
        f"--metrics-bind-address=127.0.0.1:{metrics}",
        f"--device-config-file={device_config}",
    ]
    register = [
        {
            "id": uuid,
            "index": index,
            "count": 10,
            "devmem": place.device_mib,
            "devcore": 100,
            "type": MODEL,
            "numa": 0,
            "mode": "hami-core",
            "health": True,
        }
        for index, uuid in enumerate(place.uuids)
    ]
    annotations = {
        "hami.io/node-handshake": f"Reported {dt.datetime.now(dt.UTC):%Y-%m-%d %H:%M:%S}",
        "hami.io/node-nvidia-register": json.dumps(register),
    }
    with ExitStack() as running:
        running.enter_context(
            place.node({"nvidia.com/gpu": 10 * len(place.uuids)}, {"labels": {"gpu": "on"}, "annotations": annotations})
        )
        running.enter_context(place.run(program, {**os.environ, "KUBECONFIG": str(place.plane.kubeconfig)}))
        running.enter_context(
            place.kube_scheduler("hami-scheduler", {**EXTENDER, "urlPrefix": f"https://127.0.0.1:{port}"})
        )
        yield Running(given, webhook, f"https://127.0.0.1:{port}/webhook", lambda: place.annotate_node({LOCK: None}))


def given(pod: Object) -> dict[str, Share]:
    """What its scheduler allocated: of init containers first."""
    text = pod["metadata"].get("annotations", {}).get("hami.io/vgpu-devices-allocated", "")
    return shares(text, pod)


HAMI = System("hami", "nvidia", start)
