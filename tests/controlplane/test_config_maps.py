"""Mapping and settings ConfigMaps: an invalid one is denied at `kubectl apply`, with its line."""

from collections.abc import Iterator

import pytest

from webhook.cluster.policy.documents import SETTINGS_NAME

from .client import Answer, Object
from .in_cluster import calls, installed, set_settings
from .objects import config_map, mapping, namespace
from .plane import ControlPlane

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(1200)]

OWN = "documents-own"
OTHER = "documents-other"
WEBHOOK = "configmaps.validate.vgpu-webhook.io"
DENIED = f'admission webhook "{WEBHOOK}" denied the request: VGW327: '
ON = "optInLabel: documents.example/gpu\n"
OFF = f"{ON}validation: []\n"


@pytest.fixture(scope="module")
def plane(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A cluster with the webhook, whose check is off, and another namespace."""
    control_plane.create_namespace(namespace(OTHER))
    with installed(control_plane, tmp_path_factory.mktemp("documents"), OWN, OFF):
        yield control_plane


def create(plane: ControlPlane, config_map: Object, where: str = OWN) -> Answer:
    """What the API server says to it, as a dry run."""
    return plane.client.create(config_map, where, dry_run=True)


OF_HELM = {"app.kubernetes.io/managed-by": "Helm"}
BAD = mapping("nvidia", "extends: nvidia\ndeflauts: {memory: 1Gi}\n")
PROBLEM = "configmap/nvidia/mapping.yaml:2: deflauts: unknown key 'deflauts' (did you mean `defaults`?)"


def test_documents(plane: ControlPlane) -> None:
    """Accepted with the check off; with it on denied with path, line and hint, whether it is new or changed."""
    assert create(plane, BAD).status == 201
    set_settings(plane, OWN, ON).accepted()
    refused = plane.wait_until(lambda: denied(create(plane, BAD)), "denied")
    assert refused.status == 422
    assert refused.message == f"{DENIED}{PROBLEM}"
    # An upgrade by Helm may bring what only the next version reads.
    of_helm = create(plane, mapping("nvidia", BAD["data"]["mapping.yaml"], OF_HELM))
    assert of_helm.status == 201
    assert any(PROBLEM in warning for warning in of_helm.warnings)

    # So may other tools, with the version that only it knows; a version that is none is a mistake.
    for version, status in (("vgpu-webhook.io/v1beta1", 201), ("vgpu-webhook.io/beta", 422), ("other.example/v1", 422)):
        text = f"apiVersion: {version}\nextends: nvidia\nnewKey: 1\n"
        answer = create(plane, mapping("nvidia", text))
        assert answer.status == status
        assert status != 201 or any("not in force: " in warning for warning in answer.warnings)

    created = plane.client.create(mapping("nvidia", "extends: nvidia\ndefaults: {memory: 1Gi}\n"), OWN)
    assert (created.status, created.warnings) == (201, ())
    changed = plane.client.patch("v1", "configmaps", "nvidia", {"data": BAD["data"]}, OWN)
    assert changed.message == f"{DENIED}{PROBLEM}"

    wrong = set_settings(plane, OWN, "largestNode: 3\n  x: 1\n")
    assert wrong.message.startswith(f"{DENIED}configmap/{SETTINGS_NAME}/settings.yaml:")
    plane.client.delete("v1", "configmaps", "nvidia", OWN).accepted()


def test_labels_of_a_stored_document(plane: ControlPlane) -> None:
    """They are no change of it, so one that is invalid by now can have others; the label of a mapping is a change."""
    set_settings(plane, OWN, OFF).accepted()
    plane.wait_until(lambda: plane.client.create(BAD, OWN).status in {201, 409} or None, "stored")
    plain = config_map("plain-document", BAD["data"])
    plane.client.create(plain, OWN).accepted()
    set_settings(plane, OWN, ON).accepted()
    plane.wait_until(lambda: denied(create(plane, mapping("other", BAD["data"]["mapping.yaml"]))), "denied")
    labelled = plane.client.patch("v1", "configmaps", "nvidia", {"metadata": {"labels": {"team": "a"}}}, OWN)
    assert labelled.status == 200, labelled.message
    marked = {"metadata": {"labels": {"vgpu-webhook.io/mapping": "true"}}}
    refused = plane.client.patch("v1", "configmaps", "plain-document", marked, OWN)
    assert refused.message == f"{DENIED}{PROBLEM.replace('configmap/nvidia', 'configmap/plain-document')}"
    for name in ("nvidia", "plain-document"):
        plane.client.delete("v1", "configmaps", name, OWN).accepted()


def test_documents_that_contradict_others(plane: ControlPlane) -> None:
    """Only a warning: the next ConfigMap of the same `kubectl apply` may bring what is missing."""
    answer = set_settings(plane, OWN, f"{ON}target: acme\n")
    assert answer.status == 200
    (warning,) = answer.warnings
    assert warning.startswith(f"VGW118: not in force: configmap/{SETTINGS_NAME}/settings.yaml:2: target: ")
    set_settings(plane, OWN, ON).accepted()


def test_documents_in_another_namespace(plane: ControlPlane) -> None:
    """Nobody reads them there, valid or not."""
    answer = create(plane, BAD, OTHER)
    assert answer.status == 201
    (warning,) = answer.warnings
    assert warning == (
        "VGW118: configmap/nvidia has the label vgpu-webhook.io/mapping, but mappings are read only in the namespace "
        f"{OWN}: create it there, or remove the label in {OTHER}"
    )


def test_other_config_maps(plane: ControlPlane) -> None:
    """They are not sent at all, and an update of other fields of a document is not either."""
    before = calls(plane, WEBHOOK)
    assert create(plane, config_map("plain", {"a": "b"})).warnings == ()
    plane.client.patch("v1", "configmaps", SETTINGS_NAME, {"metadata": {"annotations": {"a": "b"}}}, OWN).accepted()
    assert calls(plane, WEBHOOK) == before


def denied(answer: Answer) -> Answer | None:
    """The answer if it is a denial."""
    return answer if DENIED in answer.message else None
