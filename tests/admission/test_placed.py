"""Whatever the kubelet puts at a path of a container that the pod chooses is judged, by whichever field.

The fields are those of the API's own types: a new one fails here until it is judged, or named as harmless.
"""

import importlib
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, get_args

import pytest

from tests.decided import decided, pod_with
from tests.decisions.test_cases import CASES, context_in, policy_in
from tests.naming import each_of, naming
from tests.placed import FIELDS, ROUNDABOUT, put_at
from webhook.admission import Decision
from webhook.pod import PlacedBy
from webhook.reasons import Reason

HARMLESS: Final[Mapping[str, str]] = {
    "what runs, and with what": "args command env envFrom image imagePullPolicy lifecycle livenessProbe name ports "
    "readinessProbe resizePolicy resources restartPolicy restartPolicyRules startupProbe stdin stdinOnce tty "
    "targetContainerName terminationMessagePolicy securityContext",
    "a folder that is made where there is none": "workingDir",
    "files at paths that no pod chooses: /etc/hosts, /etc/hostname, /etc/resolv.conf, the token": "hostAliases hostname "
    "hostnameOverride setHostnameAsFQDN subdomain dnsConfig dnsPolicy automountServiceAccountToken serviceAccount "
    "serviceAccountName hostNetwork",
    "containers, whose fields are here too": "containers initContainers ephemeralContainers",
    "volumes, which reach a container by its mounts and devices": "volumes awsElasticBlockStore azureDisk azureFile cephfs "
    "cinder configMap csi downwardAPI emptyDir ephemeral fc flexVolume flocker gcePersistentDisk gitRepo glusterfs hostPath "
    "image iscsi nfs persistentVolumeClaim photonPersistentDisk portworxVolume projected quobyte rbd scaleIO secret storageos "
    "vsphereVolume",
    "what is mounted, and how": "subPath subPathExpr readOnly recursiveReadOnly mountPropagation bindMountOptions",
    "files inside a volume, or of the node": "path secretFile directory volumePath certificateChainPath credentialBundlePath "
    "keyPath localhostProfile seccompProfile appArmorProfile fileKeyRef",
    "what a field is called, or how folders of the runtime are mounted": "fieldPath procMount readOnlyRootFilesystem",
    "where and when the pod runs": "activeDeadlineSeconds affinity enableServiceLinks evictionResponders hostIPC hostPID "
    "hostUsers imagePullSecrets nodeName nodeSelector os overhead preemptionPolicy priority priorityClassName readinessGates "
    "resourceClaims runtimeClassName schedulerName schedulingGates schedulingGroup shareProcessNamespace "
    "terminationGracePeriodSeconds tolerations topologySpreadConstraints",
}
"""Fields that put nothing over a path, by why."""

JUDGED: Final = frozenset({*get_args(PlacedBy), "mountPath", "devicePath"})
EVERY_FIELD: Final = ("Container", "EphemeralContainer", "PodSpec", "Volume", "VolumeMount", "VolumeDevice")
"""The types all of whose fields are named here; of others, those whose name speaks of a path."""


def fields(kind: str, seen: set[str]) -> Iterator[str]:
    """The fields that could put something at a path, of a type of the API and of all in it."""
    model = getattr(importlib.import_module("kubernetes.client"), kind, None)
    if model is None or kind in seen:
        return
    seen.add(kind)
    for attribute, of in model.openapi_types.items():
        name = model.attribute_map[attribute]
        if kind.removeprefix("V1") in EVERY_FIELD or re.search("path|file|director|mount", name, re.IGNORECASE):
            yield name
        for inner in re.findall(r"V1\w+", of):
            yield from fields(inner, seen)


def test_every_field_of_the_api_is_judged_or_harmless() -> None:
    """And nothing is named that is not there."""
    harmless = " ".join(HARMLESS.values()).split()
    assert set(fields("V1PodSpec", set())) == {*harmless, *JUDGED}
    assert JUDGED.isdisjoint(harmless)
    assert set(FIELDS) == set(get_args(PlacedBy))


SHIM: Final = "/usr/local/vgpu-shim"
COVERED: Final = (
    f"{SHIM}/libvgpu.so",
    SHIM,
    f"{SHIM}//./libvgpu.so",
    f"{SHIM[1:]}/",
    "/tmp/vgpulock",
    "/tmp/vgpu-cache/main.cache",
)
SPELLED: Final = (*COVERED, *(f"{way}{SHIM}/libvgpu.so" for way in ROUNDABOUT))
SHARE: Final = {"resources": {"limits": {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000"}}}
KINDS: Final[Mapping[str, tuple[str, dict[str, Any]]]] = {
    "container": ("containers", {}),
    "init container": ("initContainers", {}),
    "sidecar": ("initContainers", {"restartPolicy": "Always"}),
}


def shared(kind: str, more: dict[str, Any]) -> Decision:
    """What becomes of a pod whose container of a kind has a share and something more."""
    where, parts = KINDS[kind]
    pod = pod_with({"name": "other"}, volumes=[{"name": "own", "emptyDir": {}}])
    pod["spec"][where] = [{"name": "main", **SHARE, **parts, **more}]
    return decided(pod)


@each_of("field", FIELDS)
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_covers_the_shim(field: str, kind: str) -> None:
    """However its path is written: the library, its folder, its accounts."""
    for path in SPELLED:
        with naming(path):
            denial = shared(kind, put_at(path)[field]).denial
            assert denial is not None
            assert denial.reason is Reason.COLLISION or "/../" in path or path.startswith(("/proc", "/dev"))
            assert denial.reason in {Reason.COLLISION, Reason.GUARDED}
            assert denial.container == "main"
            assert (denial.field or "").startswith(field)


@each_of("field", FIELDS)
def test_what_is_elsewhere_covers_nothing(field: str) -> None:
    """Nor does what is over a parent folder: runtimes mount what is deeper later."""
    for path in (
        "/usr/local",
        "/tmp",
        "/usr/local/vgpu-shims",
        "/dev/termination-log",
        "/proc/cpuinfo",
        "/data/../log",
    ):
        with naming(path):
            assert shared("container", put_at(path)[field]).allowed


@each_of("field", FIELDS)
def test_nothing_covers_the_library_that_an_init_container_brings(field: str) -> None:
    """A delivery of another kind: the library lies in a volume of the pod."""
    folder = CASES / "shim-init-container"
    pod = pod_with({"name": "main", **SHARE, **put_at(f"{SHIM}/libvgpu.so")[field]})
    denial = decided(pod, policy_in(folder), context_in(folder)).denial
    assert denial is not None
    assert denial.reason is Reason.COLLISION
