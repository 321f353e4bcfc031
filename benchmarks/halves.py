"""What each half of the webhook adds: ``python -m benchmarks.halves``, on a real API server. About two minutes.

The creation of a pod without the webhook, with the mutating half, and with both, each beside one without in the same minute,
and one with webhooks that decide nothing: the least that two calls cost on this machine;
and as many updates of pods a second as this machine makes, of no concern to anybody: nothing may be called for them.
"""

import base64
import copy
import json
import os
import re
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from benchmarks.cluster import OWN, SHARE, TEAM, Creator, connection, medians, memory_of, until
from benchmarks.cluster import PODS as CREATED
from benchmarks.figures import Figure, print_all
from benchmarks.processes import Server, started
from tests.controlplane.build import find
from tests.controlplane.plane import ControlPlane
from tests.controlplane.processes import Process, free_ports
from webhook.cluster.registration.wanted import (
    API_VERSION,
    MUTATING,
    NAME,
    NAMESPACE_NAME,
    PODS,
    UPDATES,
    VALIDATING,
    ConfigurationKind,
)

MOST_ADDED: Final = 2.0
"""Milliseconds that both halves may add at the median."""

MOST_MORE: Final = 0.3
"""Milliseconds more than webhooks may add that decide nothing."""

REPLAYED: Final = "replayed"
"""The namespace whose pods are sent to the webhooks that decide nothing."""

SECONDS: Final = 10.0
THREADS: Final = 8
SETTINGS: Final = "vgpu-webhook-settings"


def settings(validation: str) -> dict[str, Any]:
    """The settings ConfigMap."""
    metadata = {"name": SETTINGS, "namespace": OWN}
    data = {"settings.yaml": f"validation: [{validation}]\n"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def switch(plane: ControlPlane, validation: str, *names: str) -> None:
    """Change what is judged, and wait until it is registered and the API server knows."""
    plane.client.patch("v1", "configmaps", SETTINGS, {"data": settings(validation)["data"]}, OWN).accepted()

    def registered() -> bool:
        webhooks = plane.client.call("GET", f"{VALIDATING.collection}/{NAME}").body.get("webhooks") or []
        return {each["name"] for each in webhooks} == set(names)

    until(registered)
    time.sleep(2)


def calls(plane: ControlPlane) -> int:
    """Calls for updates, as the API server counts them."""
    text = plane.client.call("GET", "/metrics").body["text"]
    pattern = rf"^apiserver_admission_webhook_request_total\{{[^}}]*{re.escape(UPDATES)}[^}}]*\}} (\S+)$"
    return sum(int(float(count)) for count in re.findall(pattern, text, re.MULTILINE))


def replay(plane: ControlPlane, state: Path, kind: ConfigurationKind, stack: ExitStack) -> None:
    """Register, for a namespace of its own, a server that answers like the webhook without deciding."""
    found = plane.client.call("GET", f"{kind.collection}/{NAME}").body
    server = stack.enter_context(started("replay", "benchmarks.empty", str(state), "replay"))
    os.sched_setaffinity(server.pid or 0, range(os.cpu_count() or 1))  # as the replica may
    webhook = copy.deepcopy(found["webhooks"][0])
    webhook["name"] = f"replayed-{webhook['name']}"
    webhook["namespaceSelector"] = {"matchLabels": {NAMESPACE_NAME: REPLAYED}}
    webhook["clientConfig"] = {
        "url": f"https://127.0.0.1:{server.port}{kind.path}",
        "caBundle": base64.b64encode((state / "ca.crt").read_bytes()).decode(),
    }
    manifest = {"apiVersion": API_VERSION, "kind": kind.kind, "metadata": {"name": REPLAYED}, "webhooks": [webhook]}
    plane.client.create(manifest).accepted()


def update(plane: ControlPlane, name: str, until_then: float, done: list[int]) -> None:
    """Change an annotation of a pod over one connection, again and again."""
    opened, headers = connection(plane)
    headers = {**headers, "Content-Type": "application/merge-patch+json"}
    path, count = f"/api/v1/namespaces/{TEAM}/pods/{name}", 0
    while time.perf_counter() < until_then:
        change = {"metadata": {"annotations": {"example.com/step": str(count)}}}
        opened.request("PATCH", path, json.dumps(change), headers)
        answer = opened.getresponse()
        body = answer.read()
        assert answer.status == 200, body[:300]
        count += 1
    done.append(count)


def updates(plane: ControlPlane) -> tuple[float, int]:
    """Updates a second, and calls for them."""
    names = [f"pod-{number}" for number in range(THREADS)]
    for number, name in enumerate(names):
        limits = {**SHARE, "nvidia.com/gpumem": "3000"} if number % 2 else {"cpu": "1"}
        container = {"name": "main", "image": "registry.example/main:1", "resources": {"limits": limits}}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container]}}
        plane.client.create(pod, TEAM).accepted()
    before = calls(plane)
    done: list[int] = []
    end = time.perf_counter() + SECONDS
    threads = [threading.Thread(target=update, args=(plane, name, end, done)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(done) / SECONDS, calls(plane) - before


def main() -> None:
    """Start a control plane and one replica, and measure."""
    with tempfile.TemporaryDirectory() as folder, ControlPlane(find(), Path(folder)) as plane:
        for name, labels in (
            (OWN, {}),
            ("elsewhere", {}),
            (REPLAYED, {}),
            (TEAM, {"vgpu-webhook.io/inject": "enabled"}),
        ):
            metadata = {"name": name, "labels": labels}
            plane.create_namespace({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        plane.client.create(settings("")).accepted()
        port, plain = free_ports(2)
        command = [
            *(sys.executable, "-m", "webhook", "serve", "--kubeconfig", str(plane.kubeconfig)),
            *("--url", f"https://127.0.0.1:{port}/mutate", "--state-dir", f"{folder}/state", "--drain-grace", "0"),
            *("--listen", f"127.0.0.1:{port}", "--plain-listen", f"127.0.0.1:{plain}"),
        ]
        with Process(command, Path(folder) / "webhook.log") as process, ExitStack() as stack:
            replica = Server("webhook", process.pid, port)
            creator = Creator(plane)
            until(lambda: memory_of(creator.create(TEAM)[1]) != "none")
            until(lambda: plane.client.call("GET", f"{VALIDATING.collection}/{NAME}").status == 200)
            figures: list[Figure] = []
            for kind, what, validation, names in (
                (MUTATING, "the mutating half", "", ()),
                (VALIDATING, "both halves", "pods", (PODS,)),
            ):
                switch(plane, validation, *names)
                replay(plane, Path(folder) / "state", kind, stack)
                until(lambda: memory_of(creator.create(REPLAYED)[1]) != "none")
                cpu = replica.cpu
                without, replayed, with_it = medians(creator, "elsewhere", REPLAYED, TEAM)
                cpu = (replica.cpu - cpu) / CREATED * 1000
                print(f"creation: {without:.2f} ms without, {with_it:.2f} ms with {what} (medians)")
                print(
                    f"  {replayed:.2f} ms with webhooks that repeat one answer: which add {replayed - without:.2f} ms"
                )
                print(f"  CPU of the replica, TLS included: {cpu:.2f} ms")
                figures.append(Figure(f"added at the median by {what}", with_it - without, MOST_ADDED, "ms"))
                figures.append(Figure("more than without deciding", with_it - replayed, MOST_MORE, "ms"))
            switch(plane, "pods, updates", PODS, UPDATES)
            rate, called = updates(plane)
            print(f"updates of pods: {rate:.0f} a second")
            figures.append(Figure("calls for them", called, 0))
        print(f"load: {' '.join(f'{each:.1f}' for each in os.getloadavg())} on {os.cpu_count()} cores")
        sys.exit(0 if print_all(figures) else 1)


if __name__ == "__main__":
    main()
