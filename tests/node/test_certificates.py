"""Each source of the serving certificate, with a real kubelet that mounts it into the replicas."""

import base64
import datetime as dt
import subprocess
from collections.abc import Iterator

import pytest

from certs.x509 import Pair, issue, make_ca
from tests.controlplane.client import Object, definition
from tests.controlplane.objects import namespace
from tests.deploy.charts import RELEASE
from tests.waiting import PATIENCE

from .cluster import Cluster
from .releases import NAMESPACE, TEAM, Release, touched

pytestmark = [pytest.mark.node, pytest.mark.long, pytest.mark.once("rotation")]

CA = make_ca("company", dt.datetime.now(dt.UTC))


@pytest.fixture
def absent(any_release: Release) -> Iterator[Release]:
    """The release where it is not installed; it is removed again at the end."""
    any_release.remove()
    any_release.plane.wait_until(lambda: not any_release.replicas(), "replicas gone", 120)
    if any_release.plane.client.get("v1", "namespaces", NAMESPACE).status == 404:
        any_release.plane.create_namespace(namespace(NAMESPACE))
    yield any_release
    for name in ("our-certificate", f"{RELEASE}-tls"):
        any_release.plane.client.delete("v1", "secrets", name, NAMESPACE)
    any_release.remove()


def secret(name: str, pair: Pair) -> Object:
    """Return a Secret as cert-manager writes it."""
    data = {"tls.crt": pair.certificate_pem, "tls.key": pair.key_pem, "ca.crt": CA.certificate_pem}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/tls",
        "metadata": {"name": name},
        "data": {key: base64.b64encode(value).decode() for key, value in data.items()},
    }


def issued(names: list[str]) -> Pair:
    """Return a new certificate for these names."""
    return issue(CA, names, dt.datetime.now(dt.UTC))


def served(cluster: Cluster) -> bytes:
    """Return what a replica serves, as the API server sees it through the Service."""
    address = cluster.client.get("v1", "services", RELEASE, NAMESPACE).accepted()["spec"]["clusterIP"]
    script = f"import ssl; print(ssl.get_server_certificate(('{address}', 443)))"
    enter = ["nsenter", f"--target={cluster.pid}", "--net"]
    done = subprocess.run(
        [*enter, "python3", "-c", script], capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    return done.stdout.strip().encode()


def wait_served(release: Release, pair: Pair) -> None:
    """Wait until a certificate is served; a kubelet takes a minute or two to bring a changed Secret to its volumes."""
    wanted = pair.certificate_pem.strip()
    release.plane.wait_until(lambda: served(release.plane) == wanted, "certificate served", 300)


def treated(release: Release) -> None:
    """Wait until it is rolled out, and pods are treated."""
    release.settled()
    release.serving(TEAM)
    assert touched(release.create(TEAM, dry_run=True))


def renewed(release: Release, name: str, names: list[str]) -> None:
    """Put another certificate into the Secret: the kubelet brings it to the replicas, which serve it without a restart."""
    again = issued(names)
    release.plane.client.patch("v1", "secrets", name, {"data": secret(name, again)["data"]}, NAMESPACE).accepted()
    before = release.ready()
    wait_served(release, again)
    assert sorted(release.ready()) == sorted(before)
    treated(release)


def test_from_a_secret(absent: Release) -> None:
    """It is there before the release is installed, and renewed later."""
    names = [f"{RELEASE}.{NAMESPACE}.svc"]
    pair = issued(names)
    absent.plane.client.create(secret("our-certificate", pair), NAMESPACE).accepted()
    options = ("--set", "certificates.mode=secret,certificates.secretName=our-certificate")
    absent.run("install", *absent.options, *options)
    treated(absent)
    wait_served(absent, pair)
    renewed(absent, "our-certificate", names)


@pytest.fixture
def cert_manager(cluster: Cluster) -> Iterator[None]:
    """The kinds of cert-manager; the test does its work."""
    for kind in ("Issuer", "Certificate"):
        cluster.client.create(definition("cert-manager.io/v1", kind)).accepted()
        path = f"/apis/cert-manager.io/v1/{kind.lower()}s"
        cluster.wait_until(lambda path=path: cluster.client.call("GET", path).status == 200, f"{kind} served")  # type: ignore[misc]
    yield
    for plural in ("issuers", "certificates"):
        name = f"{plural}.cert-manager.io"
        cluster.client.delete("apiextensions.k8s.io/v1", "customresourcedefinitions", name).accepted()


def test_from_cert_manager(absent: Release, cert_manager: None) -> None:
    """The pods wait until what the chart has requested is there; what they serve then is for the names of the request."""
    client = absent.plane.client
    absent.run("install", *absent.options, "--set", "certificates.mode=certManager")
    requests = client.list("cert-manager.io/v1", "certificates", NAMESPACE)
    [wanted] = [each["spec"] for each in requests if not each["spec"].get("isCA")]
    pair = issued(wanted["dnsNames"])
    client.create(secret(wanted["secretName"], pair), NAMESPACE).accepted()
    treated(absent)
    wait_served(absent, pair)
    renewed(absent, wanted["secretName"], wanted["dnsNames"])
