"""Certificates that change while pods are created through the real API server: nobody notices."""

import base64
import itertools
import json
import logging
import re
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from certs.kept import Asked, Kept, decode
from tests.controlplane.client import Answer
from tests.controlplane.plane import ControlPlane
from tests.controlplane.processes import Process, free_ports
from tests.controlplane.product import PROGRAM
from webhook.cli.certs_kept import Cluster, ask
from webhook.cluster.secret import NAME as SECRET

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(1200)]

log = logging.getLogger(__name__)

OWN = "vgpu-webhook-certs"
TEAM = "certs-team"
GROUP = "admissionregistration.k8s.io/v1"
KIND = "mutatingwebhookconfigurations"
REGISTRATION = "00-vgpu-webhook"
SETTLE = 1
SECONDS = 60
PODS = 20 * SECONDS
LEAVES = 20
AUTHORITIES = 3
RESTART_EVERY = 4.0


@dataclass(frozen=True, slots=True)
class Place:
    """An installation without anything in it."""

    plane: ControlPlane
    folder: Path
    port: int
    numbers: "itertools.count[int]" = field(default_factory=itertools.count)

    def replica(self) -> Process:
        """A new process of the webhook on the same port; the kernel gives each connection to one of them."""
        (plain,) = free_ports(1)
        command = [
            *PROGRAM,
            "serve",
            *("--kubeconfig", str(self.plane.kubeconfig), "--release-namespace", OWN),
            *("--url", f"https://127.0.0.1:{self.port}/mutate"),
            *("--reuse-port", "--listen", f"127.0.0.1:{self.port}", "--plain-listen", f"127.0.0.1:{plain}"),
            *("--ca-settle", str(SETTLE), "--drain-grace", "1"),
        ]
        return Process(command, self.folder / f"replica-{next(self.numbers)}.log")

    def ready(self, process: Process) -> None:
        """Wait until it serves."""

        def serves() -> bool:
            process.check()
            return "ready:" in process.log.read_text()

        self.plane.wait_until(serves, "ready", 60)

    def kept(self) -> Kept | None:
        """What the Secret holds, if it can be used whole."""
        answer = self.plane.client.get("v1", "secrets", SECRET, OWN)
        data = answer.body.get("data") or {} if answer.status == 200 else {}
        found = decode({name: base64.b64decode(text) for name, text in data.items()})
        return None if found.problems else found.kept

    def leaf(self) -> x509.Certificate:
        """What a client is shown."""
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        with (
            socket.create_connection(("127.0.0.1", self.port), timeout=10) as plain,
            context.wrap_socket(plain) as connection,
        ):
            return x509.load_der_x509_certificate(connection.getpeercert(binary_form=True) or b"")

    def bundles(self) -> list[bytes]:
        """The bundles of the registration."""
        answer = self.plane.client.get(GROUP, KIND, REGISTRATION)
        webhooks = answer.body.get("webhooks", []) if answer.status == 200 else []
        return [base64.b64decode(one["clientConfig"].get("caBundle", "")) for one in webhooks]

    def create(self, name: str) -> Answer:
        """Create a pod that asks for a GPU."""
        container = {
            "name": "main",
            "image": "registry.example/main:1",
            "resources": {"limits": {"nvidia.com/gpu": "1"}},
        }
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container]}}
        return self.plane.client.create(pod, TEAM)


@pytest.fixture
def place(control_plane: ControlPlane, tmp_path: Path) -> Iterator[Place]:
    """An installation of one test; afterwards nothing of it is left."""
    client = control_plane.client
    for name, labels in ((OWN, {}), (TEAM, {"vgpu-webhook.io/inject": "enabled"})):
        if client.get("v1", "namespaces", name).status == 404:
            control_plane.create_namespace(
                {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
            )
    yield Place(control_plane, tmp_path, free_ports(1)[0])
    client.delete(GROUP, KIND, REGISTRATION)
    client.delete("v1", "secrets", SECRET, OWN)


@contextmanager
def ended(processes: list[Process]) -> Iterator[None]:
    """All of them are asked to end afterwards, at once."""
    try:
        yield
    finally:
        with ExitStack() as stack:
            for process in processes:
                stack.enter_context(process)


class Load:
    """Threads that create pods, faster than twenty a second if the machine lets them."""

    THREADS = 2
    PACE = 1 / 15

    def __init__(self, place: Place) -> None:
        self.created = 0
        self.failed: list[str] = []
        self.untouched: list[str] = []
        self._place = place
        self._numbers = itertools.count()
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(self.THREADS)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join(60)

    def _run(self) -> None:
        while not self._ended.is_set():
            name = f"pod-{next(self._numbers)}"
            answer = self._place.create(name)
            if answer.status != 201:
                self.failed.append(f"{name}: {answer.status} {answer.message}")
            elif "nvidia.com/gpumem" not in answer.body["spec"]["containers"][0]["resources"]["limits"]:
                self.untouched.append(name)
            self.created += 1
            self._ended.wait(self.PACE)


class Watcher:
    """A client that looks at what is served all the time, as the API server does, and remembers."""

    def __init__(self, place: Place) -> None:
        self.leaves: set[bytes] = set()
        self.authorities: set[bytes] = set()
        self.current: x509.Certificate | None = None
        self._place = place
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(60)

    def _run(self) -> None:
        while not self._ended.wait(0.05):
            try:
                leaf = self._place.leaf()
            except OSError:
                continue
            self.current = leaf
            self.leaves.add(leaf.public_bytes(serialization.Encoding.DER))
            issuer = leaf.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value.key_identifier
            self.authorities.add(issuer or b"")


class Restarts:
    """One of two replicas ends gracefully and starts again, every few seconds, in turn."""

    def __init__(self, place: Place, processes: list[Process]) -> None:
        self.count = 0
        self.statuses: list[int] = []
        self._place = place
        self._processes = processes
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(120)

    def _run(self) -> None:
        for turn in itertools.cycle((0, 1)):
            if self._ended.wait(RESTART_EVERY):
                return
            self.statuses.append(self._processes[turn].stop(grace=60))
            new = self._place.replica()
            # The process that a fixture ends is always the one that runs.
            self._processes[turn] = new
            self._place.ready(new)
            self.count += 1


def test_nobody_notices(place: Place) -> None:
    """A minute of pods while leaves and authorities rotate, the Secret is spoilt and deleted, and replicas restart."""
    cluster = Cluster(place.plane.kubeconfig, OWN)
    processes = [place.replica(), place.replica()]
    with ended(processes):
        for process in processes:
            place.ready(process)
        place.plane.wait_until(
            lambda: "gpumem" in json.dumps(place.create(f"first-{next(place.numbers)}").body), "called", 30
        )
        began = time.monotonic()
        # The thread that started a process has to outlive it: this one does, so `Restarts` is entered first.
        with Restarts(place, processes) as restarts, Watcher(place) as seen, Load(place) as load:
            for number in range(LEAVES):
                before = len(seen.leaves)
                ask(cluster, Asked.LEAF)
                wait(lambda before=before: len(seen.leaves) > before, f"leaf {number}")
                if number in {4, 9, 14}:
                    rotate_authority(place, cluster, seen)
                if number == 7:
                    spoil(place)
                if number == 11:
                    place.plane.client.delete("v1", "secrets", SECRET, OWN).accepted()
                    wait(lambda: place.kept() is not None, "the Secret is back")
            wait(lambda: time.monotonic() - began > SECONDS and load.created >= PODS, "a minute of pods", 600)
            check_shown(place)
        log.info(
            "%d pods, %d leaves, %d authorities, %d restarts in %.0f s",
            load.created,
            len(seen.leaves),
            len(seen.authorities),
            restarts.count,
            time.monotonic() - began,
        )
        assert load.failed == []
        assert load.untouched == []
        assert len(seen.leaves) >= LEAVES
        assert len(seen.authorities) > AUTHORITIES
        assert restarts.count >= 2
        assert set(restarts.statuses) == {0}


def rotate_authority(place: Place, cluster: Cluster, seen: Watcher) -> None:
    """Ask as a person would, and wait until a leaf under the new authority is seen and the old one is still trusted."""
    before, old = len(seen.authorities), place.kept()
    assert old is not None
    assert old.authority is not None
    command = [*PROGRAM, "certs", "rotate", "--authority", "--release-namespace", OWN]
    asked = subprocess.run(
        [*command, "--kubeconfig", str(cluster.kubeconfig)], check=True, capture_output=True, text=True
    )
    assert "asked for a new authority" in asked.stdout
    wait(lambda: len(seen.authorities) > before, "a leaf under a new authority", 60)
    kept = place.kept()
    assert kept is not None
    assert old.authority.certificate in kept.authorities
    assert all(old.authority.certificate_pem.strip() in bundle for bundle in place.bundles())


def check_shown(place: Place) -> None:
    """What `certs show` says of all that: what is served, and who trusts what."""
    command = [*PROGRAM, "certs", "show", "--kubeconfig", str(place.plane.kubeconfig), "--release-namespace", OWN]
    shown = subprocess.run([*command, "-o", "json"], check=True, capture_output=True, text=True)
    told = json.loads(shown.stdout)
    assert told["served"]["address"] == f"127.0.0.1:{place.port}"
    assert told["served"].get("stored") is True, told["served"]
    states = [one["state"] for one in told["authorities"]]
    assert (states.count("current"), states.count("retired")) == (1, AUTHORITIES)
    both = ["enforce.vgpu-webhook.io", "tell.vgpu-webhook.io"]
    assert all(one["trustedBy"] == both for one in told["authorities"])
    assert "PRIVATE KEY" not in shown.stdout


def spoil(place: Place) -> None:
    """Put a key beside the leaf that is not its own: it is refused, and repaired."""
    key = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    data = {"data": {"tls.key": base64.b64encode(key).decode()}}
    place.plane.client.patch("v1", "secrets", SECRET, data, OWN).accepted()
    wait(lambda: place.kept() is not None, "the leaf is repaired")
    logs = "".join(log.read_text() for log in place.folder.glob("replica-*.log"))
    assert re.search(r"the leaf has a key that belongs to another certificate", logs)
    assert "PRIVATE KEY" not in logs


def wait(probe: Callable[..., Any], what: str, seconds: float = 60.0) -> None:
    """Wait until something holds; unlike the plane's own it looks often."""
    until = time.monotonic() + seconds
    while not probe():
        assert time.monotonic() < until, f"not within {seconds:g} s: {what}"
        time.sleep(0.02)
