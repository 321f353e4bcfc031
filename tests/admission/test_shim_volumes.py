"""Volumes and mounts that are in the shim's place without being the shim's: the pod is refused."""

from typing import Any

import pytest

from tests.admission.scene import SHIM, Held, Scene, pod, run, vendor
from tests.generators.admissions import decision_on
from tests.mapping.vendors import policy
from webhook.admission import Context, Decision, Namespace
from webhook.admission.shim import inject_shim
from webhook.reasons import Denied, Reason

BUILT_IN = policy()
OPTED_IN = {"vgpu-webhook.io/inject": "enabled", "pod-security.kubernetes.io/enforce": "privileged"}


def decided(*, spec: dict[str, Any], **more: Any) -> Decision:
    """The decision on a pod with one container that requests a share."""
    sent = pod({"name": "a", "resources": {"limits": {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000"}}, **more})
    sent["spec"] |= spec
    return decision_on(sent, Context(Namespace("team", OPTED_IN)), BUILT_IN)


@pytest.mark.parametrize("path, part", [("/tmp/lock", "lock"), ("/tmp/cache", "cache")])
def test_state_that_cannot_be_written_is_refused(path: str, part: str) -> None:
    """A read-only mount of the writable state in our place is not ours: the library could not work on it."""
    mount = {"name": "state", "mountPath": path, "subPath": part, "readOnly": True}
    with pytest.raises(Denied) as caught:
        run(inject_shim, pod({"name": "main", "volumeMounts": [mount]}), Scene([Held(vendor(shim=SHIM))]))
    assert caught.value.finding.reason is Reason.COLLISION
    assert caught.value.finding.container == "main"


@pytest.mark.parametrize("name, path", [("lib", "/opt/lib"), ("state", "/tmp/lock")])
def test_part_of_our_volume_that_a_variable_names_is_refused(name: str, path: str) -> None:
    """A mount with `subPathExpr` brings another folder than ours, whatever else it says."""
    mount: dict[str, Any] = {"name": name, "mountPath": path, "subPathExpr": "$(A)"}
    mount |= {"readOnly": True} if name == "lib" else {"subPath": "lock"}
    with pytest.raises(Denied) as caught:
        run(inject_shim, pod({"name": "main", "volumeMounts": [mount]}), Scene([Held(vendor(shim=SHIM))]))
    assert caught.value.finding.reason is Reason.COLLISION


def test_our_volume_mounted_by_an_expression_is_not_ours() -> None:
    """A mount with `subPathExpr` shows another folder than the library's: a share would run without a limit."""
    mount = {"name": "vgpu-shim", "mountPath": "/usr/local/vgpu-shim", "readOnly": True, "subPathExpr": "$(D)"}
    volume = {"name": "vgpu-shim", "hostPath": {"path": "/usr/local/vgpu-shim", "type": "Directory"}}
    decision = decided(spec={"volumes": [volume]}, volumeMounts=[mount], env=[{"name": "D", "value": "x"}])
    assert decision.reason is Reason.COLLISION


@pytest.mark.parametrize(
    "volumes",
    [
        [{"name": "vgpu-shim-state", "emptyDir": {"sizeLimit": "64Mi"}}] * 2,
        [{"name": "vgpu-shim-state", "emptyDir": {"sizeLimit": "64Mi", **{f"k{n}": "" for n in range(200)}}}],
    ],
)
def test_volumes_that_need_a_long_look_are_not_the_shims(volumes: Any) -> None:
    """Neither one of two with its name, which no API server takes, nor one with members that nobody knows."""
    assert decided(spec={"volumes": volumes}).reason is Reason.COLLISION
