"""Quotas count what is stored: the target's keys, and what was filled in."""

import copy

import pytest

from .client import Object
from .cluster import SELECTED, Cluster
from .examples import example
from .objects import namespace
from .plane import ControlPlane

pytestmark = pytest.mark.controlplane

PLACE = "with-a-quota"
HARD = {"requests.nvidia.com/gpumem": "12k", "requests.iluvatar.ai/vcuda-memory": "1"}


def test_defaults_and_translations_count(cluster: Cluster, controllers: ControlPlane) -> None:
    """A quota on memory stops the pod whose default is too much; one on a source's name stops nothing that is translated."""
    labels = {"vgpu-webhook.io/inject": "enabled", "pod-security.kubernetes.io/enforce": "privileged", **SELECTED}
    target = {"vgpu-webhook.io/target": "nvidia", "vgpu-webhook.io/default-memory": "5000Mi"}
    controllers.create_namespace(namespace(PLACE, labels, annotations=target))
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "cards"}, "spec": {"hard": HARD}}
    client = controllers.client
    client.create(quota, PLACE).accepted()
    controllers.wait_until(
        lambda: client.get("v1", "resourcequotas", "cards", PLACE).accepted().get("status", {}).get("hard"),
        "a quota in force",
        timeout=180,
    )
    for name in ("first", "second"):
        client.create(named(example("01").pod, name), PLACE).accepted()
    used = client.get("v1", "resourcequotas", "cards", PLACE).accepted()["status"]["used"]
    assert used["requests.nvidia.com/gpumem"] == "10k"
    third = client.create(named(example("01").pod, "third"), PLACE)
    assert third.status == 403
    assert "requests.nvidia.com/gpumem=5k, used: requests.nvidia.com/gpumem=10k" in third.message
    translated = client.create(named(example("05").pod, "translated"), PLACE)
    assert "requests.nvidia.com/gpumem=16384" in translated.message
    assert "iluvatar" not in translated.message


def named(pod: Object, name: str) -> Object:
    """Give the pod with a name of its own, and no namespace."""
    own = copy.deepcopy(pod)
    own["metadata"]["name"] = name
    own["metadata"].pop("namespace", None)
    return own
