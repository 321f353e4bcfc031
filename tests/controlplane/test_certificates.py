"""Certificates in a cluster: stored in a Secret, published in the webhook configuration, renewed while pods are created."""

import base64
import re
import ssl
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from cryptography import x509

from certs.rotation import State, decode
from certs.x509 import UnusablePairError
from tests.faults.stream import Fate, Stream
from tests.waiting import PATIENCE
from webhook.cluster.registration.wanted import VALIDATING
from webhook.labels import ROTATE

from .client import Answer
from .in_cluster import serve_command, stop_validating, unregister
from .objects import namespace, pod
from .plane import ControlPlane
from .processes import Process, free_ports

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(1200), pytest.mark.once("rotation")]

OWN = "certificates-own"
TEAM = "certificates-team"
SECRET = "vgpu-webhook-certificates"
GROUP = "admissionregistration.k8s.io/v1"
KIND = "mutatingwebhookconfigurations"
NAME = "00-vgpu-webhook"
PODS = 40


class Site:
    """One address, that several replicas may share, and the cluster around it."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self.plane = plane
        self.folder = folder
        [self.port] = free_ports(1)
        self._number = 0

    @contextmanager
    def replica(self, *arguments: str, ready: bool = True) -> Iterator["Replica"]:
        """The webhook outside a pod, ready when this begins."""
        self._number += 1
        [plain] = free_ports(1)
        options = ("--release-namespace", OWN, "--reuse-port", "--ca-settle", "1", "--drain-grace", "0", *arguments)
        log = self.folder / f"webhook-{self._number}.log"
        with Process(serve_command(self.plane, self.port, *options, plain=plain), log) as process:
            replica = Replica(self, process, plain)
            if ready:
                self.plane.wait_until(replica.ready, "webhook ready")
            yield replica
            process.check()
            assert process.stop() == 0
            assert "PRIVATE" not in log.read_text()

    @property
    def stored_state(self) -> State | None:
        answer = self.plane.client.get("v1", "secrets", SECRET, OWN)
        data = answer.body.get("data") or {} if answer.status == 200 else {}
        try:
            return decode({name: base64.b64decode(encoded) for name, encoded in data.items()})
        except UnusablePairError:
            return None

    def change(self, **data: bytes | None) -> None:
        encoded = {
            name.replace("_", "."): None if content is None else base64.b64encode(content).decode()
            for name, content in data.items()
        }
        self.plane.client.patch("v1", "secrets", SECRET, {"data": encoded}, OWN).accepted()

    def ask(self, what: str) -> None:
        change = {"metadata": {"annotations": {ROTATE: what}}}
        self.plane.client.patch("v1", "secrets", SECRET, change, OWN).accepted()

    def registered(self) -> set[x509.Certificate] | None:
        answer = self.plane.client.get(GROUP, KIND, NAME)
        if answer.status != 200:
            return None
        bundles = [webhook["clientConfig"].get("caBundle", "") for webhook in answer.body["webhooks"]]
        found = [
            set(x509.load_pem_x509_certificates(base64.b64decode(bundle))) if bundle else set() for bundle in bundles
        ]
        return set.intersection(*found)

    def served(self) -> x509.Certificate:
        return x509.load_pem_x509_certificate(ssl.get_server_certificate(("127.0.0.1", self.port)).encode())

    def create(self) -> Answer:
        return self.plane.client.create(pod("p", {"nvidia.com/gpumem": "3000"}), TEAM, dry_run=True)

    def treated(self) -> bool:
        answer = self.create()
        return answer.status == 201 and answer.body["spec"]["schedulerName"] == "hami-scheduler"


class Replica:
    """A webhook that runs."""

    def __init__(self, site: Site, process: Process, plain: int) -> None:
        self.site = site
        self.process = process
        self._plain = plain

    def ready(self) -> bool:
        self.process.check()
        return "ready:" in self.process.log.read_text()

    def get(self, path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self._plain}{path}", timeout=PATIENCE) as response:
            text: str = response.read().decode()
            return text

    def metric(self, name: str) -> float:
        found = re.search(rf"^{re.escape(name)} (\S+)$", self.get("/metrics"), re.MULTILINE)
        assert found is not None, name
        return float(found[1])

    def has_told(self, text: str) -> bool:
        return text in self.process.log.read_text()


@pytest.fixture(scope="module")
def places(control_plane: ControlPlane) -> ControlPlane:
    """The control plane with the webhook's own namespace and one that has opted in; another module may have made them."""
    control_plane.create_namespace(namespace(OWN))
    control_plane.create_namespace(namespace(TEAM, {"vgpu-webhook.io/inject": "enabled"}))
    return control_plane


@pytest.fixture
def site(places: ControlPlane, tmp_path: Path) -> Iterator[Site]:
    """A cluster without webhook configuration and Secret, before and after."""

    def clean() -> None:
        unregister(places)
        stop_validating(places)
        places.client.delete("v1", "secrets", SECRET, OWN)

    clean()
    yield Site(places, tmp_path)
    clean()


def test_kept_in_a_secret_renewed_and_repaired(site: Site) -> None:
    """Serving certificate and CA are renewed on request, damage and deletion repaired, and no pod notices."""
    plane, stream = site.plane, Stream(site.plane.client, TEAM)
    with site.replica() as other:
        plane.wait_until(site.treated, "treated")
        with stream.running():
            with site.replica("--drain-grace", "1") as first:
                stored = site.stored_state
                assert stored is not None
                assert stored.pair is not None
                leaf = stored.pair.certificate
                assert site.served() == leaf
                assert site.registered() == {*stored.cas}

                site.ask("certificate")
                plane.wait_until(lambda: site.served() != leaf, "another serving certificate")
                assert site.registered() == {*stored.cas}

                site.ask("ca")
                plane.wait_until(lambda: len(site.registered() or ()) == 2, "another CA published")
                both = 'vgpu_webhook_certificate_rotations_total{kind="ca"}'
                plane.wait_until(lambda: first.metric(both) == other.metric(both) == 1, "under the new CA")
                new = site.stored_state
                assert new is not None
                assert new.pair is not None
                assert new.cas[:-1] == stored.cas
                assert new.issuer == new.cas[-1]
            # Connections of the API server keep the certificate with which they began: those to that replica are made anew.
            called = len(stream.fates)
            plane.wait_until(lambda: len(stream.fates) > called + PODS, f"{PODS} more pods")

            before = site.served()
            site.change(tls_crt=b"garbage")
            plane.wait_until(lambda: other.has_told('"invalid"'), "told")
            plane.wait_until(lambda: site.stored_state, "repaired")
            assert site.served() == before

            plane.client.delete("v1", "secrets", SECRET, OWN).accepted()
            plane.wait_until(lambda: site.stored_state, "written again")
            again = site.stored_state
            assert again is not None
            assert again.cas == new.cas
            assert site.served() == before
    fates = stream.begun()
    assert {fate for fate, begun in fates.items() if begun} == {Fate.TREATED}, stream.last_message


def test_static_registration_that_does_not_hold_the_ca(site: Site) -> None:
    """Nothing is served, and it is reported why; put in by hand it is served."""
    with site.replica() as first:
        site.plane.wait_until(site.treated, "treated")
        assert first.ready()
        validating = partial(site.plane.client.get, GROUP, VALIDATING.plural, NAME)
        site.plane.wait_until(lambda: validating().body.get("webhooks"), "validating")
    configuration = site.plane.client.get(GROUP, KIND, NAME).accepted()
    site.plane.client.delete("v1", "secrets", SECRET, OWN)
    with site.replica("--registration", "static", ready=False) as replica:
        site.plane.wait_until(lambda: replica.has_told("does not contain that CA yet"), "told")
        stored = site.stored_state
        assert stored is not None
        assert not replica.ready()
        for each in (configuration, validating().accepted()):
            for webhook in each["webhooks"]:
                webhook["clientConfig"]["caBundle"] = base64.b64encode(stored.bundle).decode()
            path = f"/apis/{GROUP}/{each['kind'].lower()}s/{NAME}"
            site.plane.client.call("PUT", path, each).accepted()
        site.plane.wait_until(replica.ready, "ready")
        site.plane.wait_until(site.treated, "treated")
