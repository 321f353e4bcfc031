"""Cluster mode in figures: ``python -m benchmarks.cluster [NAMESPACES]``, on a real API server. About three minutes.

How soon a ConfigMap is in force, how long a start takes with 50 mappings and 10,000 namespaces and what memory then, what
the webhook adds to the creation of a pod, and how often the API server gets requests while nothing happens.
"""

import asyncio
import http.client
import json
import re
import ssl
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from benchmarks.namespaces import fill
from tests.controlplane.build import find
from tests.controlplane.plane import ControlPlane
from tests.controlplane.processes import Process, free_ports
from webhook.cluster.connection import connect

NAMESPACES: Final = 10_000
MAPPINGS: Final = 50
CHANGES: Final = 20
PODS: Final = 500
IDLE_SECONDS: Final = 60
OWN: Final = "vgpu-webhook"
TEAM: Final = "team"
SHARE: Final = {"nvidia.com/gpu": "1", "nvidia.com/gpucores": "30"}
"""Its memory is filled in."""


def connection(plane: ControlPlane) -> tuple[http.client.HTTPSConnection, dict[str, str]]:
    """A connection that stays open, and the headers of requests over it."""
    address = urlsplit(plane.client.server)
    context = ssl.create_default_context(cafile=plane.client.ca_file)
    opened = http.client.HTTPSConnection(address.hostname or "", address.port, context=context)
    return opened, {"Authorization": f"Bearer {plane.client.token}", "Content-Type": "application/json"}


class Creator:
    """Creates pods as dry runs over one connection, as a busy controller would."""

    def __init__(self, plane: ControlPlane) -> None:
        self._connection, self._headers = connection(plane)

    def create(self, namespace: str) -> tuple[float, dict[str, Any]]:
        """Seconds that one creation took, and what would be stored."""
        container = {"name": "main", "image": "registry.example/main:1", "resources": {"limits": SHARE}}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [container]}}
        begun = time.perf_counter()
        path = f"/api/v1/namespaces/{namespace}/pods?dryRun=All"
        self._connection.request("POST", path, json.dumps(pod), self._headers)
        answer = self._connection.getresponse()
        body = answer.read()
        took = time.perf_counter() - begun
        assert answer.status == 201, body[:300]
        return took, json.loads(body)


def config_map(name: str, text: str) -> dict[str, Any]:
    """A mapping ConfigMap."""
    labels = {"vgpu-webhook.io/mapping": "true"}
    metadata = {"name": name, "namespace": OWN, "labels": labels}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"mapping.yaml": text}}


def vendor(number: int) -> str:
    """A vendor of its own, in three keys."""
    keys = {
        "gpu": {"resource": f"v{number}.example/gpu", "is": "devices"},
        "memory-key": {"resource": f"v{number}.example/mem", "is": "memory", "unit": "1Mi"},
        "cores-key": {"resource": f"v{number}.example/cores", "is": "cores"},
    }
    forms = [{"name": "share", "absent": {"devices": 1, "memory": "all", "cores": "unlimited"}}]
    return json.dumps({"vendor": f"v{number}", "family": "example", "keys": keys, "forms": forms})


def memory_of(stored: dict[str, Any]) -> str:
    """The memory that a pod was given."""
    found: str = stored["spec"]["containers"][0]["resources"]["limits"].get("nvidia.com/gpumem", "none")
    return found


def until(what: Callable[[], bool]) -> float:
    """Seconds until something holds."""
    begun = time.perf_counter()
    while not what():
        pass
    return time.perf_counter() - begun


def requests_seen(plane: ControlPlane) -> float:
    """Requests for what the webhook reads and keeps, by the API server's own count."""
    text = plane.client.call("GET", "/metrics").body.get("text", "")
    kinds = r'resource="(?:namespaces|configmaps|mutatingwebhookconfigurations|events)"'
    pattern = rf"^apiserver_request_total\{{[^}}]*{kinds}[^}}]*\}} ([0-9.e+]+)$"
    return sum(float(count) for count in re.findall(pattern, text, re.MULTILINE))


def changes(plane: ControlPlane, creator: Creator) -> list[float]:
    """Seconds from the API server's answer to a changed ConfigMap to the first pod by the new rules."""
    plane.client.create(config_map("nvidia", "extends: nvidia\n")).accepted()
    found = []
    for number in range(CHANGES):
        size = 6000 + number
        text = f"extends: nvidia\ndefaults: {{memory: {size}Mi}}\n"
        plane.client.patch("v1", "configmaps", "nvidia", {"data": {"mapping.yaml": text}}, OWN).accepted()
        wanted = {str(size), f"{size // 1000}k" if size % 1000 == 0 else str(size)}
        found.append(until(lambda wanted=wanted: memory_of(creator.create(TEAM)[1]) in wanted))  # type: ignore[misc]
    return found


def medians(creator: Creator, *namespaces: str) -> list[float]:
    """Median milliseconds of a pod's creation in each namespace, taken in turn."""
    taken: dict[str, list[float]] = {namespace: [] for namespace in namespaces}
    for _ in range(PODS):
        for namespace, times in taken.items():
            times.append(creator.create(namespace)[0])
    return [1000 * statistics.median(times) for times in taken.values()]


def main() -> None:
    """Start a control plane, fill it, serve, and measure."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else NAMESPACES
    with tempfile.TemporaryDirectory() as folder, ControlPlane(find(), Path(folder)) as plane:
        asyncio.run(fill_all(plane, count))
        port, plain = free_ports(2)
        command = [
            *(sys.executable, "-m", "webhook", "serve", "--kubeconfig", str(plane.kubeconfig)),
            *("--url", f"https://127.0.0.1:{port}/mutate", "--state-dir", f"{folder}/state", "--drain-grace", "0"),
            *("--listen", f"127.0.0.1:{port}", "--plain-listen", f"127.0.0.1:{plain}"),
        ]
        begun = time.perf_counter()
        with Process(command, Path(folder) / "webhook.log") as process:
            until(lambda: "ready:" in process.tail())
            print(
                f"start to ready with {MAPPINGS} mappings and {count} namespaces: {time.perf_counter() - begun:.2f} s"
            )
            creator = Creator(plane)
            until(lambda: memory_of(creator.create(TEAM)[1]) != "none")
            resident = re.findall(r"VmRSS:\s+(\d+)", Path(f"/proc/{process.pid}/status").read_text())
            print(f"resident memory then: {int(resident[0]) / 1024:.1f} MiB")
            took = changes(plane, creator)
            print(
                f"ConfigMap to first pod: median {statistics.median(took) * 1000:.0f} ms, at most {max(took) * 1000:.0f}"
            )
            without, with_it = medians(creator, "elsewhere", TEAM)
            print(f"pod creation: {without:.2f} ms without, {with_it:.2f} ms with the webhook (medians)")
            print(f"added: {with_it - without:.2f} ms")
            before = requests_seen(plane)
            time.sleep(IDLE_SECONDS)
            idle = requests_seen(plane) - before
            print(f"API requests that ended in {IDLE_SECONDS} s when nothing happens: {idle:.0f}")
            process.stop()


async def fill_all(plane: ControlPlane, count: int) -> None:
    """The namespaces and the mappings."""
    for name, labels in ((OWN, {}), ("elsewhere", {}), (TEAM, {"vgpu-webhook.io/inject": "enabled"})):
        metadata = {"name": name, "labels": labels}
        plane.create_namespace({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    for number in range(MAPPINGS):
        plane.client.create(config_map(f"v{number}", vendor(number))).accepted()
    api = await connect(plane.kubeconfig)
    await fill(api, count)
    await api.close()


if __name__ == "__main__":
    main()
