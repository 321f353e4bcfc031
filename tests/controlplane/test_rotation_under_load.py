"""Certificates that change while pods are created through the real API server: nobody notices."""

import asyncio
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
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from certs.state import RotationRequest, State, decode
from tests.controlplane.beside import beside
from tests.controlplane.client import Answer
from tests.controlplane.in_cluster import serve_command, stop_validating, wait_ready
from tests.controlplane.plane import ControlPlane
from tests.controlplane.processes import Process, free_ports
from tests.controlplane.product import PROGRAM
from webhook.cli.commands.certs import ClusterLocation, request_new
from webhook.cluster.secret import NAME as SECRET

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(1200)]

log = logging.getLogger(__name__)

OWN = "vgpu-webhook-certs"
TEAM = "certs-team"
GROUP = "admissionregistration.k8s.io/v1"
KIND = "mutatingwebhookconfigurations"
REGISTRATION = "00-vgpu-webhook"
SETTLE = 1
PODS = 40
"""Created under each serving certificate and under each CA before the next one is requested, however long a machine takes."""
RESTART_EVERY = 2.0
RESTARTS = 3
"""After the first of them a replica is started that has seen the new CA only, after the third both are."""


SERVING_CERTIFICATES = 20
"""How many are requested, one after the other."""

ROTATED = frozenset({4, 9, 14})
"""After these a new CA is requested."""

SPOILED, DELETED = 7, 11
"""After these the Secret is."""


@dataclass(frozen=True, slots=True)
class Place:
    """An installation without anything in it."""

    plane: ControlPlane
    folder: Path
    port: int
    numbers: "itertools.count[int]" = field(default_factory=itertools.count)

    def replica(self) -> Process:
        """A new process of the webhook on the same port; the kernel gives each connection to one of them."""
        options = ("--release-namespace", OWN, "--reuse-port", "--ca-settle", str(SETTLE), "--drain-grace", "1")
        return Process(
            serve_command(self.plane, self.port, *options), self.folder / f"replica-{next(self.numbers)}.log"
        )

    def stored_state(self) -> State | None:
        """What the Secret holds, if it can be used whole."""
        answer = self.plane.client.get("v1", "secrets", SECRET, OWN)
        data = answer.body.get("data") or {} if answer.status == 200 else {}
        found = decode({name: base64.b64decode(text) for name, text in data.items()})
        return None if found.problems else found.state

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
        """The bundles of the webhook configuration."""
        answer = self.plane.client.get(GROUP, KIND, REGISTRATION)
        webhooks = answer.body.get("webhooks", []) if answer.status == 200 else []
        return [base64.b64decode(webhook["clientConfig"].get("caBundle", "")) for webhook in webhooks]

    def create(self, name: str) -> Answer:
        """Create a pod that requests a GPU."""
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
    stop_validating(control_plane)
    client.delete("v1", "secrets", SECRET, OWN)


@contextmanager
def ended(processes: list[Process]) -> Iterator[None]:
    """All of them are stopped at once afterwards."""
    try:
        yield
    finally:
        with ExitStack() as stack:
            for process in processes:
                stack.enter_context(process)


@dataclass(slots=True)
class Load:
    """Pods that are created, and what became of them."""

    place: Place
    created: int = 0
    failed: list[str] = field(default_factory=list)
    untouched: list[str] = field(default_factory=list)
    _numbers: "itertools.count[int]" = field(default_factory=itertools.count)

    def run(self, over: threading.Event) -> None:
        """Create one after the other, with a pause: in two threads never more than thirty a second."""
        while not over.wait(1 / 15):
            name = f"pod-{next(self._numbers)}"
            answer = self.place.create(name)
            if answer.status != 201:
                self.failed.append(f"{name}: {answer.status} {answer.message}")
            elif "nvidia.com/gpumem" not in answer.body["spec"]["containers"][0]["resources"]["limits"]:
                self.untouched.append(name)
            self.created += 1

    def more(self) -> None:
        """Wait for PODS more of them."""
        wanted = self.created + PODS
        wait(lambda: self.created >= wanted, f"{PODS} more pods", 300)


@dataclass(slots=True)
class Seen:
    """What a client has seen of what is served."""

    place: Place
    leaves: set[bytes] = field(default_factory=set)
    authorities: set[bytes] = field(default_factory=set)

    def run(self, over: threading.Event) -> None:
        """Look all the time, as the API server does."""
        while not over.wait(0.05):
            try:
                leaf = self.place.leaf()
            except OSError:
                continue
            self.leaves.add(leaf.public_bytes(serialization.Encoding.DER))
            issuer = leaf.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value.key_identifier
            self.authorities.add(issuer or b"")


@dataclass(slots=True)
class Restarts:
    """How often one of two replicas was started again, and how those before it ended."""

    place: Place
    processes: list[Process]
    count: int = 0
    statuses: list[int] = field(default_factory=list)

    def run(self, over: threading.Event) -> None:
        """Every few seconds one of them ends gracefully and starts again, in turn."""
        for turn in itertools.cycle((0, 1)):
            if over.wait(RESTART_EVERY):
                return
            self.statuses.append(self.processes[turn].stop(grace=60))
            new = self.place.replica()
            # The process that is ended at last is always the one that runs.
            self.processes[turn] = new
            wait_ready(self.place.plane, new)
            self.count += 1

    def both(self) -> None:
        """Wait until both were started again, so that every connection of the API server is a new one."""
        wanted = self.count + RESTARTS
        wait(lambda: self.count >= wanted, f"{RESTARTS} more restarts", 300)


@pytest.mark.deep
def test_nobody_notices(place: Place) -> None:
    """Leaves and CAs rotate, the Secret is spoilt and deleted, replicas restart, and pods are created all the time.

    Connections of the API server keep the certificate with which they began, so after each CA all of them are made anew.
    """
    cluster = ClusterLocation(place.plane.kubeconfig, OWN)
    processes = [place.replica(), place.replica()]
    with ended(processes):
        for process in processes:
            wait_ready(place.plane, process)
        place.plane.wait_until(
            lambda: "gpumem" in json.dumps(place.create(f"first-{next(place.numbers)}").body), "called", 30
        )
        began = time.monotonic()
        restarts, seen, load = Restarts(place, processes), Seen(place), Load(place)
        # The thread that started a process has to outlive it, so the restarts begin first and end last.
        with beside(restarts.run), beside(seen.run), beside(load.run, threads=2):
            for number in range(SERVING_CERTIFICATES):
                before = len(seen.leaves)
                asyncio.run(request_new(cluster, RotationRequest.SERVING_CERTIFICATE))
                wait(lambda before=before: len(seen.leaves) > before, f"leaf {number}")
                load.more()
                if number in ROTATED:
                    rotate_authority(place, cluster, seen)
                    restarts.both()
                    load.more()
                if number == SPOILED:
                    spoil(place)
                if number == DELETED:
                    place.plane.client.delete("v1", "secrets", SECRET, OWN).accepted()
                    wait(lambda: place.stored_state() is not None, "the Secret is back")
            check_shown(place, authorities := len(ROTATED))
        seconds = time.monotonic() - began
        log.info(
            "%d pods (%.1f a second), %d leaves, %d CAs, %d restarts in %.0f s",
            load.created,
            load.created / seconds,
            len(seen.leaves),
            len(seen.authorities),
            restarts.count,
            seconds,
        )
        assert load.failed == []
        assert load.untouched == []
        assert load.created >= PODS * (SERVING_CERTIFICATES + authorities)
        assert len(seen.leaves) >= SERVING_CERTIFICATES + authorities
        assert len(seen.authorities) == 1 + authorities
        assert restarts.count >= RESTARTS * authorities
        assert set(restarts.statuses) == {0}


def rotate_authority(place: Place, cluster: ClusterLocation, seen: Seen) -> None:
    """Ask as a person would; wait until a certificate under the new CA is seen and the old one is still trusted."""
    before, old = len(seen.authorities), place.stored_state()
    assert old is not None
    assert old.ca is not None
    command = [*PROGRAM, "certs", "rotate", "--ca", "--release-namespace", OWN]
    done = subprocess.run(
        [*command, "--kubeconfig", str(cluster.kubeconfig)], check=True, capture_output=True, text=True
    )
    assert "requested a new CA" in done.stdout
    wait(lambda: len(seen.authorities) > before, "a serving certificate under a new CA", 60)
    stored = place.stored_state()
    assert stored is not None
    assert old.ca.certificate in stored.cas
    assert all(old.ca.certificate_pem.strip() in bundle for bundle in place.bundles())


def check_shown(place: Place, authorities: int) -> None:
    """What `certs show` says of all that: what is served, and who trusts what."""
    command = [*PROGRAM, "certs", "show", "--kubeconfig", str(place.plane.kubeconfig), "--release-namespace", OWN]
    shown = subprocess.run([*command, "-o", "json"], check=True, capture_output=True, text=True)
    printed = json.loads(shown.stdout)
    assert printed["served"]["address"] == f"127.0.0.1:{place.port}"
    assert printed["served"].get("stored") is True, printed["served"]
    states = [each["state"] for each in printed["cas"]]
    assert (states.count("current"), states.count("retired")) == (1, authorities)
    both = ["audit.vgpu-webhook.io", "enforce.vgpu-webhook.io"]
    assert all(each["trustedBy"] == both for each in printed["cas"])
    assert "PRIVATE KEY" not in shown.stdout


def spoil(place: Place) -> None:
    """Put a key beside the serving certificate that is not its own: it is refused, and repaired."""
    key = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    data = {"data": {"tls.key": base64.b64encode(key).decode()}}
    place.plane.client.patch("v1", "secrets", SECRET, data, OWN).accepted()
    wait(lambda: place.stored_state() is not None, "the serving certificate is repaired")
    logs = "".join(log.read_text() for log in place.folder.glob("replica-*.log"))
    assert re.search(r"the serving certificate has a key that belongs to another certificate", logs)
    assert "PRIVATE KEY" not in logs


def wait(probe: Callable[..., Any], what: str, seconds: float = 60.0) -> None:
    """Wait until something holds; unlike the plane's own it looks often."""
    until = time.monotonic() + seconds
    while not probe():
        assert time.monotonic() < until, f"not within {seconds:g} s: {what}"
        time.sleep(0.02)
