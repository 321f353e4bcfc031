"""What the chart renders, applied to the real API server by server-side dry run: it is valid, and nothing warns."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from tests.controlplane.client import Answer, Object, definition
from tests.controlplane.objects import namespace
from tests.controlplane.plane import ControlPlane

from .charts import NAMESPACE, VALUES, Chart, pod_of

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(1800)]

FOREIGN = {
    ("cert-manager.io", "v1"): ("Issuer", "Certificate"),
    ("monitoring.coreos.com", "v1"): ("ServiceMonitor", "PrometheusRule"),
}
"""Kinds of others that the chart makes; the least definition of each is put into the cluster."""

RESTRICTED = "gpu-restricted"


def served(plane: ControlPlane, path: str) -> bool:
    """Return whether the API server knows a kind."""
    return plane.client.call("GET", path).status == 200


@pytest.fixture(scope="module")
def plane(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """The control plane with the namespaces of the release, and the definitions of others' kinds."""
    client = control_plane.client
    enforced = {"pod-security.kubernetes.io/enforce": "restricted", "pod-security.kubernetes.io/warn": "restricted"}
    for name, labels in ((NAMESPACE, {}), (RESTRICTED, enforced)):
        control_plane.create_namespace(namespace(name, labels))
    made = [definition(f"{group}/{version}", kind) for (group, version), kinds in FOREIGN.items() for kind in kinds]
    for each in made:
        client.create(each).accepted()
    for (group, version), kinds in FOREIGN.items():
        for kind in kinds:
            path = f"/apis/{group}/{version}/{kind.lower()}s"
            control_plane.wait_until(partial(served, control_plane, path), f"{kind} is served")
    yield control_plane
    for each in made:
        client.delete("apiextensions.k8s.io/v1", "customresourcedefinitions", each["metadata"]["name"]).accepted()


def dry_run(plane: ControlPlane, manifest: Object) -> Answer:
    """Create an object by dry run, with unknown and double fields refused."""
    return plane.client.create(manifest, dry_run=True, strict=True)


@contextmanager
def accounts(plane: ControlPlane, manifests: list[Object]) -> Iterator[None]:
    """Create the service accounts for good, until the end: a pod whose status is not there is refused."""
    made = [each for each in manifests if each["kind"] == "ServiceAccount"]
    for manifest in made:
        answer = plane.client.create(manifest, strict=True)
        answer.accepted()
        assert not answer.warnings
    try:
        yield
    finally:
        for manifest in made:
            name, namespace = manifest["metadata"]["name"], manifest["metadata"]["namespace"]
            plane.client.delete("v1", "serviceaccounts", name, namespace).accepted()


@pytest.mark.parametrize("name", VALUES)
def test_every_object_is_accepted_without_a_warning(helm: Chart, plane: ControlPlane, name: str) -> None:
    """The API server takes each object, knows each field, and has nothing to say."""
    manifests = helm.render(VALUES[name])
    warnings = []
    with accounts(plane, manifests):
        for manifest in manifests:
            if manifest["kind"] == "ServiceAccount":
                continue
            answer = dry_run(plane, manifest)
            where = f"{manifest['kind']}/{manifest['metadata']['name']}"
            if answer.status != 201:
                warnings.append(f"{where}: {answer.status} {answer.message}")
            warnings.extend(f"{where}: warning: {warning}" for warning in answer.warnings)
    assert not warnings


def pods(manifests: list[Object]) -> Iterator[Object]:
    """Give a pod for each workload, as its controller would make it; those of the installer have no place here."""
    for manifest in manifests:
        if manifest["kind"] not in {"Deployment", "Pod"}:
            continue
        spec = copy.deepcopy(pod_of(manifest))
        # Its priority class is the API server's to know, its service account has to be there.
        spec["serviceAccountName"] = "default"
        name = manifest["metadata"]["name"]
        yield {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": RESTRICTED}, "spec": spec}


@pytest.mark.parametrize("name", [name for name in VALUES if name != "private-api-server"])
def test_pods_pass_pod_security_restricted(helm: Chart, plane: ControlPlane, name: str) -> None:
    """The API server's own admission lets the webhook's pods into a namespace that enforces it."""
    made = list(pods(helm.render(VALUES[name])))
    assert len(made) == 2
    for pod in made:
        answer = dry_run(plane, pod)
        assert (answer.status, answer.message, answer.warnings) == (201, "", ())


def test_pod_security_is_really_enforced(helm: Chart, plane: ControlPlane) -> None:
    """The same pods without their security context, or on the node's network, are refused there."""
    for changed in ({"securityContext": {"capabilities": None}}, {"hostNetwork": True}):
        pod = next(pods(helm.render(changed)))
        answer = dry_run(plane, pod)
        assert answer.status == 403
        assert "violates PodSecurity" in answer.message


def test_installer_needs_a_privileged_namespace_of_its_own(helm: Chart, plane: ControlPlane) -> None:
    """The installer, alone, needs a hostPath, and nothing else that *baseline* forbids."""
    [daemon_set] = [each for each in helm.render({}) if each["kind"] == "DaemonSet"]
    spec = copy.deepcopy(pod_of(daemon_set)) | {"serviceAccountName": "default"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "installer", "namespace": RESTRICTED}, "spec": spec}
    refused = dry_run(plane, pod)
    assert refused.status == 403
    assert "hostPath" in refused.message
    for warnings in ("allowPrivilegeEscalation", "unrestricted capabilities", "seccompProfile", "hostNetwork"):
        assert warnings not in refused.message
