"""Mapping and settings ConfigMaps: an invalid one is denied at `kubectl apply`, with its line."""

from collections.abc import Iterator
from typing import Any

import pytest

from webhook.cluster.registration.desired import API_VERSION, NAME

from .client import Answer
from .in_cluster import serving
from .plane import ControlPlane
from .processes import Process

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(1200)]

Json = dict[str, Any]
OWN = "documents-own"
OTHER = "documents-other"
LABELED = {"vgpu-webhook.io/mapping": "true"}
SETTINGS = "vgpu-webhook-settings"
HEAD = "apiVersion: vgpu-webhook.io/v1alpha1\nkind: Settings\n"
DENIED = 'admission webhook "configmaps.validate.vgpu-webhook.io" denied the request: VGW327: '


@pytest.fixture(scope="module")
def plane(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """A cluster with the webhook's namespace and another one, and settings that switch the check off."""
    for name in (OWN, OTHER):
        control_plane.create_namespace({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    control_plane.client.create(settings("optInLabel: documents.example/gpu\nvalidation: []\n")).accepted()
    yield control_plane
    control_plane.client.delete(API_VERSION, "mutatingwebhookconfigurations", NAME)


@pytest.fixture(scope="module")
def webhook(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """The webhook; the check is off."""
    folder = tmp_path_factory.mktemp("documents")
    options = ("--release-namespace", OWN, "--state-dir", str(folder / "state"), "--ca-settle", "1")
    with serving(plane, folder, *options) as process:
        yield process


def settings(text: str) -> Json:
    """The settings ConfigMap."""
    return document(SETTINGS, "settings.yaml", HEAD + text, labels={})


def document(name: str, key: str, text: str, *, namespace: str = OWN, labels: dict[str, str] = LABELED) -> Json:
    """A ConfigMap."""
    metadata = {"name": name, "namespace": namespace, "labels": labels}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {key: text}}


def create(plane: ControlPlane, config_map: Json) -> Answer:
    """What the API server says to it, as a dry run."""
    return plane.client.create(config_map, dry_run=True)


OF_HELM = {"app.kubernetes.io/managed-by": "Helm"}
BAD = document("nvidia", "mapping.yaml", "extends: nvidia\ndeflauts: {memory: 1Gi}\n")
PROBLEM = "configmap/nvidia/mapping.yaml:2: deflauts: unknown key 'deflauts' (did you mean `defaults`?)"


def test_documents(plane: ControlPlane, webhook: Process) -> None:
    """Accepted with the check off; with it on denied with path, line and hint, whether it is new or changed."""
    assert create(plane, BAD).status == 201
    on = settings("optInLabel: documents.example/gpu\n")["data"]
    plane.client.patch("v1", "configmaps", SETTINGS, {"data": on}, OWN).accepted()
    refused = plane.wait_until(lambda: denied(create(plane, BAD)), "denied", 60)
    assert refused.status == 422
    assert refused.message == f"{DENIED}{PROBLEM}"
    # An upgrade by Helm may bring what only the next version reads.
    of_helm = create(plane, {**BAD, "metadata": {**BAD["metadata"], "labels": {**LABELED, **OF_HELM}}})
    assert of_helm.status == 201
    assert any(PROBLEM in warning for warning in of_helm.warnings)

    # So may other tools, with the version that only it knows; a version that is none is a mistake.
    for version, status in (("vgpu-webhook.io/v1beta1", 201), ("vgpu-webhook.io/beta", 422), ("other.example/v1", 422)):
        text = f"apiVersion: {version}\nextends: nvidia\nnewKey: 1\n"
        answer = create(plane, document("nvidia", "mapping.yaml", text))
        assert answer.status == status
        assert status != 201 or any("not in force: " in warning for warning in answer.warnings)

    good = document("nvidia", "mapping.yaml", "extends: nvidia\ndefaults: {memory: 1Gi}\n")
    created = plane.client.create(good)
    assert (created.status, created.warnings) == (201, ())
    changed = plane.client.patch("v1", "configmaps", "nvidia", {"data": BAD["data"]}, OWN)
    assert changed.message == f"{DENIED}{PROBLEM}"

    wrong = plane.client.patch(
        "v1", "configmaps", SETTINGS, {"data": settings("largestCard: 3\n  x: 1\n")["data"]}, OWN
    )
    assert wrong.message.startswith(f"{DENIED}configmap/{SETTINGS}/settings.yaml:")
    plane.client.delete("v1", "configmaps", "nvidia", OWN).accepted()


def test_documents_that_contradict_others(plane: ControlPlane, webhook: Process) -> None:
    """Only a warning: the next ConfigMap of the same `kubectl apply` may bring what is missing."""
    answer = plane.client.patch(
        "v1",
        "configmaps",
        f"{SETTINGS}",
        {"data": settings("optInLabel: documents.example/gpu\ntarget: acme\n")["data"]},
        OWN,
    )
    assert answer.status == 200
    (warning,) = answer.warnings
    assert warning.startswith(f"VGW118: not in force: configmap/{SETTINGS}/settings.yaml:4: target: ")
    back = settings("optInLabel: documents.example/gpu\n")["data"]
    plane.client.patch("v1", "configmaps", SETTINGS, {"data": back}, OWN).accepted()


def test_documents_in_another_namespace(plane: ControlPlane, webhook: Process) -> None:
    """Nobody reads them there, valid or not."""
    answer = create(plane, {**BAD, "metadata": {**BAD["metadata"], "namespace": OTHER}})
    assert answer.status == 201
    (warning,) = answer.warnings
    assert warning == (
        "VGW118: configmap/nvidia has the label vgpu-webhook.io/mapping, but mappings are read only in the namespace "
        f"{OWN}: create it there, or remove the label in {OTHER}"
    )


def test_other_config_maps(plane: ControlPlane, webhook: Process) -> None:
    """They are not sent at all, and an update of other fields of a document is not either."""
    before = calls(plane)
    assert create(plane, document("plain", "a", "b", labels={})).warnings == ()
    plane.client.patch("v1", "configmaps", SETTINGS, {"metadata": {"annotations": {"a": "b"}}}, OWN).accepted()
    assert calls(plane) == before


def denied(answer: Answer) -> Answer | None:
    """The answer if it is a denial."""
    return answer if DENIED in answer.message else None


def calls(plane: ControlPlane) -> int:
    """How often the API server has called for ConfigMaps, as it counts itself."""
    text = plane.client.call("GET", "/metrics").body["text"]
    name, metric = "configmaps.validate.vgpu-webhook.io", "apiserver_admission_webhook_request_total{"
    found = [line for line in text.splitlines() if line.startswith(metric) and name in line]
    return sum(int(float(line.rpartition(" ")[2])) for line in found)
