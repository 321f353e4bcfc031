"""Deliveries of the shim that bring the library themselves: what is recognized as ours, and what is not."""

import copy
import json
from typing import Any

import pytest

from tests.decisions.test_cases import CASES, context_in, policy_in
from tests.naming import each_of
from tests.strict_patch import apply_strictly
from tests.yaml_text import load_yaml
from webhook.admission import Context, Decision, Namespace, decide
from webhook.labels import GUARD
from webhook.mapping.model.policy import Policy
from webhook.pod import decode_pod
from webhook.reasons import Finding, Reason

COPIED = CASES / "shim-init-container"
TOKEN = {"name": "kube-api-access-x7", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": True}


@pytest.fixture(scope="module")
def policy() -> Policy:
    """With a shim that an init container copies."""
    return policy_in(COPIED)


def decided(pod: Any, policy: Policy) -> Decision:
    """In a namespace with the level `restricted`."""
    return decide(decode_pod(json.dumps(pod).encode()), context_in(COPIED), policy)


def stored(policy: Policy) -> Any:
    """The pod of the case as the API server passes it to the second call: with its defaults and the token."""
    sent = load_yaml((COPIED / "pod.yaml").read_text())
    pod = apply_strictly(sent, decided(sent, policy).patch)
    for container in (*pod["spec"]["initContainers"], *pod["spec"]["containers"]):
        container.setdefault("volumeMounts", []).append(TOKEN)
        container["terminationMessagePath"] = "/dev/termination-log"
        container["terminationMessagePolicy"] = "File"
    for volume in pod["spec"]["volumes"]:
        if volume["name"] == "vgpu-shim":
            volume["emptyDir"]["sizeLimit"] = "16384Ki"
    pod["spec"]["volumes"].append({"name": TOKEN["name"], "projected": {"sources": []}})
    return pod


def test_a_second_call_changes_nothing(policy: Policy) -> None:
    """With what the API server, a LimitRange and a sidecar injector have added meanwhile."""
    pod = stored(policy)
    first = pod["spec"]["initContainers"][0]
    first["resources"]["limits"]["ephemeral-storage"] = "1Gi"
    first["env"] = [{"name": "HTTP_PROXY", "value": "http://proxy.example"}]
    pod["spec"]["initContainers"].insert(0, {"name": "proxy", "image": "proxy", "restartPolicy": "Always"})
    decision = decided(pod, policy)
    assert (decision.reason, decision.patch) == (Reason.ALREADY_RIGHT, ())


MOUNT = {"name": "mine", "mountPath": "/copy"}


@each_of(
    "change, difference",
    [
        ({"image": "mine"}, "another image"),
        ({"command": ["/copy", "/mine", "/usr/local/vgpu-shim"]}, "another command"),
        ({"command": None}, "another command"),
        ({"args": ["/mine"]}, "another command"),
        ({"args": ["/mine", *["x"] * 20_000]}, "another command"),
        ({"restartPolicy": "Always"}, "a restartPolicy"),
        ({"env": [{"name": "LD_PRELOAD", "value": "/mine/libc.so"}]}, "variables that decide what it runs"),
        ({"env": [{"name": "PATH", "value": "/mine"}]}, "variables that decide what it runs"),
        ({"envFrom": [{"configMapRef": {"name": "mine"}}]}, "variables that decide what it runs"),
        ({"volumeMounts": [MOUNT]}, f"a mount at {MOUNT['mountPath']}"),
        ({"volumeDevices": [{"name": "mine", "devicePath": "/copy"}]}, "a device at /copy"),
        (
            {"terminationMessagePath": "/usr/local/vgpu-shim/libvgpu.so"},
            "a file of the termination message at /usr/local/vgpu-shim/libvgpu.so",
        ),
        ({"volumeMounts": []}, "other mounts"),
        (
            {"volumeMounts": [{"name": "vgpu-shim", "mountPath": "/usr/local/vgpu-shim"}, MOUNT]},
            f"a mount at {MOUNT['mountPath']}",
        ),
        (
            {"volumeMounts": [{"name": "vgpu-shim", "mountPath": "/usr/local/vgpu-shim", "subPath": "a"}]},
            "other mounts",
        ),
        ({"volumeMounts": [{"name": "vgpu-shim", "mountPath": "/elsewhere"}]}, "other mounts"),
        ({"volumeMounts": [{"name": "vgpu-shim", "mountPath": "/usr/local/vgpu-shim"}] * 2}, "other mounts"),
    ],
)
def test_a_container_of_its_name_that_brings_something_else(
    policy: Policy, change: dict[str, Any], difference: str
) -> None:
    """Whoever writes it would choose the library, or none: a share without a limit; the denial says by what."""
    pod = stored(policy)
    pod["spec"]["initContainers"][0] |= change
    decision = decided(pod, policy)
    assert decision.reason is Reason.COLLISION
    assert decision.denial is not None
    assert (decision.denial.container, decision.denial.field) == ("vgpu-shim", "name")
    message = f"container vgpu-shim is not the enforcing library's: it has {difference}; rename the pod's own"
    assert decision.denial.message == message


def test_a_container_of_its_name_that_is_no_init_container(policy: Policy) -> None:
    """The API server would deny two containers of one name without saying whose the other is."""
    pod = load_yaml((COPIED / "pod.yaml").read_text())
    pod["spec"]["containers"].append({"name": "vgpu-shim", "image": "mine"})
    denial = decided(pod, policy).denial
    assert denial is not None
    assert (denial.reason, denial.container, denial.field) == (Reason.COLLISION, "vgpu-shim", "name")
    assert denial.message == "container vgpu-shim is not the enforcing library's; rename the pod's own"


def test_a_share_before_its_library(policy: Policy) -> None:
    """An init container that another webhook puts first would start without the library."""
    pod = stored(policy)
    containers = pod["spec"]["initContainers"]
    containers.append(containers.pop(0))
    decision = decided(pod, policy)
    assert decision.reason is Reason.COLLISION
    assert decision.denial is not None
    assert (decision.denial.container, decision.denial.field) == ("metrics", "initContainers")
    message = "it needs the library that the init container vgpu-shim brings: put it after that one"
    assert decision.denial.message == message


def test_another_container_cannot_write_to_it(policy: Policy) -> None:
    """A mount of the volume that is not read-only would let a container replace the library of the others."""
    pod = stored(policy)
    pod["spec"]["initContainers"][1]["volumeMounts"] = [{"name": "vgpu-shim", "mountPath": "/mine"}]
    denial = decided(pod, policy).denial
    assert denial is not None
    assert (denial.reason, denial.container) == (Reason.COLLISION, "download")
    assert denial.field == "volumeMounts[vgpu-shim]"
    message = "the mount of the enforcing library's volume vgpu-shim is writable: remove it, or set readOnly: true"
    assert denial.message == message


PRELOADED = CASES / "shim-preload-file"
OWN_FILE = {"name": "vgpu-shim", "mountPath": "/etc/ld.so.preload", "subPath": "mine", "readOnly": True}


def preloaded(container: int = 0) -> Any:
    """The pod whose shim is mounted over `/etc/ld.so.preload`, and the mounts of a container."""
    pod = load_yaml((PRELOADED / "expected.yaml").read_text())
    return pod, pod["spec"]["containers"][container].setdefault("volumeMounts", [])


def again(pod: Any) -> Decision:
    """Decided under the mapping of that case."""
    return decide(decode_pod(json.dumps(pod).encode()), context_in(PRELOADED), policy_in(PRELOADED))


def test_its_own_file_passes_the_guard() -> None:
    """Another file of its volume does not, nor another volume, nor its own where no shim is injected."""
    pod, mounts = preloaded()
    assert (again(pod).reason, again(pod).patch) == (Reason.ALREADY_RIGHT, ())
    [position] = [i for i, mount in enumerate(mounts) if mount["mountPath"] == "/etc/ld.so.preload"]
    own, mounts[position] = mounts[position], OWN_FILE
    assert again(pod).reason is Reason.COLLISION
    mounts[position] = {**own, "name": "vgpu-shim-state"}
    assert again(pod).reason is Reason.GUARDED
    mounts[position] = own
    limits = pod["spec"]["containers"][0]["resources"]["limits"]
    limits["nvidia.com/gpumem-percentage"] = "50"
    del limits["nvidia.com/gpumem"]
    pod["spec"]["containers"][0]["resources"]["requests"] = limits
    pod["spec"]["containers"][0]["env"] = []
    assert again(pod).reason is Reason.GUARDED


@pytest.mark.parametrize("source", ["value", "valueFrom"])
def test_no_other_library_audits(source: str) -> None:
    """One behind the shim's could undo what the shim answers: the guard denies it, and without its rule the shim does."""
    folder = CASES / "shim-own-variable"
    shims = "/usr/local/vgpu-shim/audit.so:/usr/local/vgpu-shim/second.so"
    entry = {"value": f"{shims}:/mine/audit.so", "valueFrom": {"configMapKeyRef": {"name": "mine", "key": "audit"}}}
    pod = load_yaml((folder / "pod.yaml").read_text())
    pod["spec"]["containers"][0]["env"] = [{"name": "LD_AUDIT", source: entry[source]}]
    for action, reason in (("deny", Reason.GUARDED), ("allow", Reason.COLLISION), ("strip", Reason.CHANGED)):
        namespace = Namespace("team", {"vgpu-webhook.io/inject": "enabled"}, {GUARD: action})
        decision = decide(decode_pod(json.dumps(pod).encode()), Context(namespace, "privileged"), policy_in(folder))
        assert decision.reason is reason
    pod["spec"]["containers"][0]["env"] = [{"name": "LD_AUDIT", "value": shims}]
    decision = decide(decode_pod(json.dumps(pod).encode()), context_in(folder), policy_in(folder))
    assert decision.reason is Reason.CHANGED


def test_more_devices_than_variables() -> None:
    """The pod's size bounds what is written for it."""
    folder = CASES / "shim-limit-per-device"
    pod = load_yaml((folder / "pod.yaml").read_text())
    message = "the enforcing library needs variables for each of 65 devices: request at most 64"
    for count, denial in ((64, None), (65, Finding(Reason.TOO_MANY, message, "main"))):
        for side in pod["spec"]["containers"][0]["resources"].values():
            side["nvidia.com/gpu"] = str(count)
        decision = decide(decode_pod(json.dumps(pod).encode()), context_in(folder), policy_in(folder))
        assert decision.denial == denial


@pytest.mark.parametrize("folder", ["shim-image-volume", "shim-csi", "shim-init-container-by-namespace"])
def test_a_volume_of_its_name_with_other_content(folder: str) -> None:
    """Of each kind: the library of somebody else."""
    pod = load_yaml((CASES / folder / "expected.yaml").read_text())
    policy, context = policy_in(CASES / folder), context_in(CASES / folder)
    again = decide(decode_pod(json.dumps(pod).encode()), context, policy)
    assert (again.reason, again.patch) == (Reason.ALREADY_RIGHT, ())
    [volume] = [volume for volume in pod["spec"]["volumes"] if volume["name"] == "vgpu-shim"]
    [(kind, source)] = [(key, value) for key, value in volume.items() if key != "name"]
    others: list[dict[str, Any]] = [
        {kind: {**source, "reference": "mine", "driver": "mine", "medium": "Memory"}},
        {"secret": {}},
    ]
    for other in others:
        changed = copy.deepcopy(pod)
        changed["spec"]["volumes"][0] = {"name": "vgpu-shim", **other}
        assert decide(decode_pod(json.dumps(changed).encode()), context, policy).reason is Reason.COLLISION
