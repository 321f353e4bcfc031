"""A cluster with two replicas behind a Service, and what can be done to them."""

import contextlib
import http.client
import itertools
import json
import os
import re
import signal
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from tests.controlplane.beside import together
from tests.controlplane.client import Client, Object
from tests.controlplane.objects import config_map, namespace
from tests.controlplane.own_plane import OwnPlane
from tests.controlplane.processes import Process, ProcessEndedError, free_ports
from tests.controlplane.product import PROGRAM, SETTINGS_PREFIX

from .service import Ways
from .stream import Stream, gpu_pod
from .witnesses import api_server_samples, samples, stale

OWN = "gpu-system"
TEAM = "fault-team"
LATE = "late-team"
"""A namespace that opts in while nobody hears of it."""

OPTED_IN = {"vgpu-webhook.io/inject": "enabled"}
GROUP = "admissionregistration.k8s.io/v1"
KIND = "mutatingwebhookconfigurations"
SETTINGS = "vgpu-webhook-settings"
OF_HELM = {"app.kubernetes.io/managed-by": "Helm"}
"""On documents: an invalid one is stored, as when an upgrade brings it."""
NAME = "00-vgpu-webhook"
SECRET = "vgpu-webhook-certificates"
LAST_GOOD = "vgpu-webhook-last-good"
LONG = 300.0
"""Seconds for thousands of pods to be deleted by one call."""


@dataclass(slots=True)
class Replica:
    """A process of the webhook, and its ports.

    Attributes:
        port: of reviews.
        plain: of probes and metrics.
    """

    number: int
    port: int
    plain: int
    process: Process


@dataclass(slots=True)
class Scene:
    """All of it; the main thread starts processes, for they end with the thread that started them.

    Attributes:
        fresh: whether replicas have nothing left from a fault; else they are started anew before the next one.
    """

    plane: OwnPlane
    ways: Ways
    stream: Stream
    folder: Path
    replicas: list[Replica] = field(default_factory=list)
    stack: ExitStack = field(default_factory=ExitStack)
    fresh: bool = True
    _numbers: "itertools.count[int]" = field(default_factory=itertools.count)

    @property
    def client(self) -> Client:
        return self.plane.client

    # Replicas.

    def begin(self) -> None:
        for name, labels in ((OWN, {}), (TEAM, OPTED_IN), (LATE, {})):
            self.plane.create_namespace(namespace(name, labels))
        self.settings()
        config = json.loads(self.plane.kubeconfig.read_text())
        config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{self.ways.relay_port}"
        self.kubeconfig.write_text(json.dumps(config))
        for _ in range(2):
            port, plain = free_ports(2)
            number = len(self.replicas)
            self.replicas.append(Replica(number, port, plain, self._process(number, port, plain)))
        self.ways.backs = [(each.port, each.plain) for each in self.replicas]

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "kubeconfig"

    def kill(self, *numbers: int) -> None:
        for number in numbers:
            os.killpg(self.replicas[number].process.pid, signal.SIGKILL)
            self.replicas[number].process.stop()

    def restart(self, *numbers: int, before: tuple[str, ...] = (), options: tuple[str, ...] = ()) -> None:
        """Start replicas as a kubelet does; those that run are ended first."""
        for number in numbers:
            replica = self.replicas[number]
            replica.process.stop(grace=30)
            replica.process = self._process(number, replica.port, replica.plain, *options, before=before)

    def signal(self, what: signal.Signals, *numbers: int) -> None:
        for number in numbers:
            os.killpg(self.replicas[number].process.pid, what)

    def extra(self, *options: str, home: str = OWN) -> Process:
        port, plain = free_ports(2)
        return self._process(next(self._numbers) + 100, port, plain, *options, home=home)

    def _process(
        self, number: int, port: int, plain: int, *options: str, before: tuple[str, ...] = (), home: str = OWN
    ) -> Process:
        command = [
            *before,
            *PROGRAM,
            "serve",
            *("--kubeconfig", str(self.kubeconfig), "--url", f"https://127.0.0.1:{self.ways.port}/mutate"),
            *("--listen", f"127.0.0.1:{port}", "--plain-listen", f"127.0.0.1:{plain}"),
            *("--release-namespace", home, "--ca-settle", "2", "--drain-grace", "5"),
            *options,
        ]
        environment = {name: value for name, value in os.environ.items() if not name.startswith(SETTINGS_PREFIX)}
        return self.stack.enter_context(Process(command, self.folder / f"replica-{number}.log", environment))

    # What is known of them.

    def ready(self) -> bool:
        return all(self.get(each, "/readyz")[0] == 200 for each in self.replicas)

    def get(self, replica: Replica, path: str) -> tuple[int, str]:
        """Ask the plain port; (0, "") where nobody answers."""
        connection = http.client.HTTPConnection("127.0.0.1", replica.plain, timeout=3)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read().decode()
        except (OSError, http.client.HTTPException):
            return 0, ""
        finally:
            connection.close()

    def scrape(self) -> dict[str, float]:
        """What Prometheus would read of replicas and API server, just after something was done to a namespace."""
        self._touch()
        found: dict[str, float] = {}
        # The API server may take seconds to answer, in which the replicas hear of nothing new.
        for each in self.replicas:
            text = self.get(each, "/metrics")[1]
            found |= samples(text, namespace=OWN, pod=f"replica-{each.number}")
        return found | api_server_samples(self.client)

    def steady(self) -> dict[str, float]:
        """The same, as soon as the replicas hear of everything: a watch that is late before a fault shows nothing of it."""

        def heard() -> dict[str, float] | None:
            found = self.scrape()
            return None if stale(found) else found

        return self.plane.wait_until(heard, "replicas hear of everything", 60)

    def _touch(self) -> None:
        """Do something to a namespace that every watch should bring; whether the API server answers or not."""

        def patch() -> None:
            annotations = {"faults.example/touched": str(time.monotonic_ns())}
            with contextlib.suppress(OSError):
                self.client.patch("v1", "namespaces", OWN, {"metadata": {"annotations": annotations}})

        thread = threading.Thread(target=patch, daemon=True)
        thread.start()
        thread.join(2)
        time.sleep(0.5)

    def check_command(self) -> list[str]:
        options = ["--kubeconfig", str(self.plane.kubeconfig), "--release-namespace", OWN, "-o", "json"]
        return [*PROGRAM, "check", *options]

    def treats(self) -> bool:
        try:
            answer = self.client.create(gpu_pod(f"probe-{time.monotonic_ns()}"), TEAM, dry_run=True)
        except OSError:
            return False
        return answer.status == 201 and "annotations" in answer.body["metadata"]

    def settle(self) -> None:
        if not self.fresh:
            self.restart(0, 1)
            self.fresh = True
        for each in self.replicas:
            try:
                each.process.check()
            except ProcessEndedError:  # the fault before this one says why
                self.restart(each.number)
        self.plane.wait_until(self.ready, "both replicas ready", 60)
        self.plane.wait_until(self.treats, "pods are treated", 60)
        self.steady()

    def clear(self) -> None:
        for place in (TEAM, LATE):
            query, path = {"gracePeriodSeconds": "0"}, f"/api/v1/namespaces/{place}/pods"
            self.client.call("DELETE", path, query=query, seconds=LONG).accepted()

    # What is done to the cluster.

    def configuration(self) -> Object | None:
        answer = self.client.get(GROUP, KIND, NAME)
        return answer.body if answer.status == 200 and answer.body.get("webhooks") else None

    def change_configuration(self, change: Callable[[Object], None]) -> None:
        """Change it by hand, as somebody with rights; whoever else writes."""
        for _ in range(20):
            found = self.configuration()
            if found is None:
                return
            change(found)
            answer = self.client.call("PUT", f"/apis/{GROUP}/{KIND}/{NAME}", found)
            if answer.status != 409:
                answer.accepted()
                return

    def config_map(self, name: str, data: dict[str, str], labels: dict[str, str] | None = None) -> None:
        """Write a ConfigMap of the webhook's namespace, whatever was there."""
        manifest = config_map(name, data, {**OF_HELM, **(labels or {})})
        if self.client.create(manifest, OWN).status == 409:
            self.client.call("PUT", f"/api/v1/namespaces/{OWN}/configmaps/{name}", manifest).accepted()

    def settings(self) -> None:
        self.config_map(SETTINGS, {"settings.yaml": "bareDevices: share\n"})

    def rejects(self) -> bool:
        """Whether all replicas have rejected a document, whichever."""
        rejection = re.compile(r"^vgpu_webhook_config_map_accepted\{.*\} 0.0$", re.MULTILINE)
        return all(rejection.search(self.get(each, "/metrics")[1]) for each in self.replicas)

    def rejected(self, name: str) -> bool:
        """Whether all replicas say that the document in a ConfigMap is not in force."""
        line = f'vgpu_webhook_config_map_accepted{{config_map="{name}"}} 0.0'
        return all(line in self.get(each, "/metrics")[1] for each in self.replicas)

    def mapping(self, name: str, document: Object) -> None:
        self.config_map(name, {"mapping.yaml": json.dumps(document)}, {"vgpu-webhook.io/mapping": "true"})

    def delete_config_map(self, name: str) -> None:
        """Delete one, if it is there."""
        self.client.delete("v1", "configmaps", name, OWN)

    def create_many(self, path: str, manifest: Callable[[int], Object], count: int) -> None:
        together(lambda number: self.client.call("POST", path, manifest(number)).accepted(), count)


def limited(limit: str) -> tuple[str, ...]:
    """What stands before a program to run it with a limit of the shell's `ulimit`."""
    return ("sh", "-c", f'ulimit {limit}; exec "$@"', "sh")
