"""The chart installed on a real control plane, its pods really run: registered by Service, and pods are treated."""

import base64

import pytest

from .releases import NAMESPACE, TEAM, Release, namespace, touched

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(1800)]

PLAIN = "plain"


def test_two_replicas_are_ready_and_registered_by_service(release: Release) -> None:
    """As in a cluster: the API server dials the Service's cluster IP, and verifies the Service's name."""
    assert len(release.ready()) == 2
    registration = release.registration()
    assert registration is not None
    for webhook in registration["webhooks"]:
        service = {"namespace": NAMESPACE, "name": "vgpu-webhook", "path": "/mutate", "port": 443}
        assert webhook["clientConfig"]["service"] == service
        assert b"BEGIN CERTIFICATE" in base64.b64decode(webhook["clientConfig"]["caBundle"])


def test_pods_of_opted_in_namespaces_are_treated_and_no_others(release: Release) -> None:
    """A pod with a GPU share is changed where the namespace has opted in, and left alone elsewhere."""
    namespace(release.plane, PLAIN, {})
    release.serving(TEAM)
    answer = release.create(TEAM)
    answer.accepted()
    assert touched(answer)
    assert answer.body["spec"]["schedulerName"] == "hami-scheduler"
    answer = release.create(PLAIN)
    answer.accepted()
    assert not touched(answer)


def test_helm_test_passes(release: Release) -> None:
    """The doctor, run from its own pod with its own rights, finds nothing broken."""
    release.serving(TEAM)
    said = release.run("test")
    assert "Phase:          Succeeded" in said
    told = release.plane.log("vgpu-webhook-check")
    for check in ("api-server", "registration", "bundle", "served"):
        assert f"✓ {check}" in told
