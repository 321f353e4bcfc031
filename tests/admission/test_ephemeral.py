"""Ephemeral containers: judged as a container with a share of the pod would be, however that is requested."""

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.mapping.vendors import policy
from tests.naming import each_of
from tests.strict_patch import apply_strictly
from webhook.admission import Context, Decision, Namespace, decide
from webhook.admission.ephemeral import MAX_DECISIONS, judge_ephemeral
from webhook.mapping.load import load_policy
from webhook.mapping.model.policy import Policy
from webhook.pod import MAX_TEXTS, Pod, decode_ephemeral, decode_pod

Json = dict[str, Any]
POLICY = load_policy()
OPTED_IN = {"vgpu-webhook.io/inject": "enabled"}
CONTEXT = Context(Namespace("team", OPTED_IN), "privileged")
SHARE = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000"}
OPT_OUT = {"vgpu-webhook.io/inject": "disabled"}


def with_settings(**settings: Any) -> Policy:
    """The built-in policy with other settings."""
    return replace(POLICY, settings=POLICY.settings.model_copy(update=settings))


HIDING = with_settings(hide_devices=True, target="nvidia")


def view(manifest: Json) -> Pod:
    """The pod."""
    return decode_pod(json.dumps(manifest).encode())


def bound(*containers: Json, policy: Policy = POLICY, target: str | None = None, **more: Any) -> Json:
    """A pod as it is stored after `decide`, and placed."""
    annotations = {} if target is None else {"vgpu-webhook.io/target": target}
    manifest: Json = {
        "metadata": {"name": "p", "annotations": annotations},
        "spec": {"containers": list(containers), **more},
    }
    decision = decide(view(manifest), CONTEXT, policy)
    assert decision.allowed, decision.denial
    made: Json = apply_strictly(manifest, decision.patch)
    made["spec"]["nodeName"] = "n"
    return made


def main(**resources: str) -> Json:
    """A container."""
    return {"name": "main", "image": "app", "resources": {"limits": resources, "requests": dict(resources)}}


def annotated(*keys: tuple[str, str]) -> Json:
    """A pod that requests by annotations, as another system has left it."""
    return {
        "metadata": {"annotations": dict(keys)},
        "spec": {"containers": [main()], "schedulerName": "x", "nodeName": "n"},
    }


def claiming(spec: Json, **resources: Any) -> Json:
    """A pod with claims of its own."""
    return {"spec": {"containers": [{"name": "main", "image": "app", "resources": resources}], **spec}}


def judged(pod: Json, *added: Json, policy: Policy = POLICY, context: Context = CONTEXT) -> Decision:
    """The judgement of containers that are added to a pod."""
    containers = decode_ephemeral(json.dumps({"spec": {"ephemeralContainers": list(added)}}).encode())
    return judge_ephemeral(view(pod), containers, context, policy)


def code(decision: Decision) -> str | None:
    """Why it is denied."""
    return None if decision.denial is None else decision.denial.reason.code


def env(name: str, value: str) -> Json:
    """A container with a variable."""
    return {"name": "shell", "image": "shell", "env": [{"name": name, "value": value}]}


PLAIN: Json = {"name": "shell", "image": "shell"}
WAYS: dict[str, tuple[Json, str | None]] = {
    "privileged": ({**PLAIN, "securityContext": {"privileged": True}}, "VGW506"),
    "no control": (env("CUDA_DISABLE_CONTROL", "true"), "VGW605"),
    "all devices": (env("NVIDIA_VISIBLE_DEVICES", "all"), "VGW605"),
    "a module": ({**PLAIN, "securityContext": {"capabilities": {"add": ["SYS_MODULE"]}}}, "VGW605"),
    "an audit library": (env("LD_AUDIT", "/opt/own.so"), "VGW605"),
    "harmless": (env("TERM", "xterm"), None),
    "no devices": (env("NVIDIA_VISIBLE_DEVICES", "void"), None),
}
TEMPLATE = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "own"}]}
PODS: dict[str, Json] = {
    "keys": bound(main(**SHARE)),
    "a sidecar": bound(main(), initContainers=[{**main(**SHARE), "name": "side", "restartPolicy": "Always"}]),
    "annotations": annotated(("gpu-memory", "2000")),
    "annotations of a fraction": annotated(("gpu-fraction", "0.5")),
    "claims of the webhook's": bound(main(**SHARE), target="dra-nvidia"),
    "claims": claiming(TEMPLATE, claims=[{"name": "gpu"}]),
    "a device class": claiming({}, limits={"deviceclass.resource.kubernetes.io/gpu.nvidia.com": "1"}),
    "the status alone": annotated(("vgpu-webhook.io/status", '{"policy":"x","containers":{"main":{}}}')),
    "keys that are denied by now": claiming({}, limits={"nvidia.com/gpu": "1", "volcano.sh/vgpu-number": "x"}),
}


@each_of("way", WAYS)
@each_of("pod", PODS)
def test_whatever_devices_are_requested_by(pod: str, way: str) -> None:
    """The same containers are denied, by their own name; harmless ones are added."""
    added, expected = WAYS[way]
    decision = judged(PODS[pod], added)
    assert code(decision) == expected
    assert decision.denial is None or decision.denial.container == "shell"


@each_of("way", WAYS)
def test_pods_without_devices(way: str) -> None:
    """Nobody's concern, unless devices are hidden."""
    added, expected = WAYS[way]
    pod = bound(main(cpu="1"))
    assert judged(pod, added).allowed
    hidden = bound(main(cpu="1"), policy=HIDING)
    needs = {"harmless": "VGW605"}
    assert code(judged(hidden, added, policy=HIDING)) == needs.get(way, expected)


@each_of("pod", PODS)
def test_hidden_devices(pod: str) -> None:
    """An ephemeral container requests none, and cannot be changed: the message says what to write."""
    decision = judged(PODS[pod], PLAIN, policy=HIDING)
    assert decision.denial is not None
    assert "kubectl debug by --env=NVIDIA_VISIBLE_DEVICES=void" in decision.denial.message
    assert decision.denial.container == "shell"
    assert judged(PODS[pod], WAYS["no devices"][0], policy=HIDING).allowed


def test_the_image_is_not_all_that_may_ask() -> None:
    """A reference may be to any value; of several entries the last counts."""
    field = {"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['a']"}}}
    pod = bound(main(cpu="1"), policy=HIDING)
    assert code(judged(pod, {**PLAIN, "env": [field]}, policy=HIDING)) == "VGW605"
    both = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": value} for value in ("void", "all")]
    assert code(judged(pod, {**PLAIN, "env": both}, policy=HIDING)) == "VGW605"


def mounting(*, read_only: bool | None = None, **volume: Any) -> tuple[Json, Json]:
    """A volume of the pod's, and an ephemeral container that mounts it."""
    mount = {"name": "own", "mountPath": "/own", **volume.pop("mount", {})}
    mount |= {} if read_only is None else {"readOnly": read_only}
    return {"name": "own", "hostPath": {"path": "/usr/local/vgpu-shim", **volume}}, {**PLAIN, "volumeMounts": [mount]}


FOLDERS: dict[str, tuple[Json, bool]] = {
    "itself": ({}, True),
    "spelled otherwise": ({"path": "//usr/./local/vgpu-shim/"}, True),
    "what is above": ({"path": "/usr/local"}, True),
    "what is in it": ({"path": "/usr/local/vgpu-shim/lib"}, True),
    "by subPath": ({"path": "/usr", "mount": {"subPath": "local/vgpu-shim"}}, True),
    "by subPathExpr": ({"path": "/usr", "mount": {"subPathExpr": "local/$(A)"}}, True),
    "beside it": ({"path": "/usr/local/vgpu-shimmer"}, False),
    "by another subPath": ({"path": "/usr", "mount": {"subPath": "share"}}, False),
}


@each_of("folder", FOLDERS)
@each_of("pod", ["keys", "claims", "annotations"])
def test_nobody_writes_to_the_library_of_all(pod: str, folder: str) -> None:
    """Root there would rewrite what all others load; who only reads may."""
    volume, writable = FOLDERS[folder]
    for read_only in (None, False, True):
        own, shell = mounting(read_only=read_only, **volume)
        made = {**PODS[pod], "spec": {**PODS[pod]["spec"]}}
        made["spec"]["volumes"] = [*made["spec"].get("volumes", []), own]
        assert code(judged(made, shell)) == ("VGW604" if writable and not read_only else None)


def test_the_volume_of_the_shim() -> None:
    """Which the webhook has added to the pod."""
    shell = {**PLAIN, "volumeMounts": [{"name": "vgpu-shim", "mountPath": "/x"}]}
    decision = judged(PODS["keys"], shell)
    assert code(decision) == "VGW604"
    assert decision.denial is not None
    assert "writable: remove it, or set readOnly: true" in decision.denial.message
    shell["volumeMounts"][0]["readOnly"] = True
    assert judged(PODS["keys"], shell).allowed


@pytest.mark.parametrize("where", ["containers", "initContainers"])
def test_no_other_container_writes_there_either(where: str) -> None:
    """Beside a share, or with one; by another volume of the same folder."""
    own, side = mounting()
    pod: Json = {"spec": {"containers": [main(**SHARE)], "volumes": [own]}}
    pod["spec"].setdefault(where, []).append({**side, "name": "side"})
    denied = decide(view(pod), CONTEXT, POLICY)
    assert code(denied) == "VGW604"
    assert denied.denial is not None
    assert denied.denial.container == "side"


@each_of("guard, expected", [(None, "VGW605"), ("strip", "VGW605"), ("audit", None), ("allow", None)])
def test_the_guard_of_the_namespace(guard: str | None, expected: str | None) -> None:
    """What would be removed from a new pod cannot be removed here."""
    annotations = {} if guard is None else {"vgpu-webhook.io/guard": guard}
    context = Context(Namespace("team", OPTED_IN, annotations), "privileged")
    decision = judged(PODS["keys"], WAYS["all devices"][0], context=context)
    assert code(decision) == expected
    assert decision.denial is None or " and was removed" not in decision.denial.message


def test_what_is_changed_later_hides_nothing() -> None:
    """Neither an opt-out, nor thousands of annotations; a pod of which too much is there to be read is denied."""
    added = WAYS["all devices"][0]
    for labels, number in ((OPT_OUT, 0), ({}, 2_000)):
        metadata = {**PODS["keys"]["metadata"], "labels": labels}
        metadata["annotations"] = metadata["annotations"] | {f"a.b/{each}": "" for each in range(number)}
        assert code(judged({**PODS["keys"], "metadata": metadata}, added)) == "VGW605"
    labels = {f"a{number}": "" for number in range(MAX_TEXTS)}
    assert code(judged({**PODS["keys"], "metadata": {"labels": labels}}, added)) == "VGW318"


def test_who_is_left_alone() -> None:
    """A pod that was created with an opt-out, and where nothing is enforced."""
    added = WAYS["all devices"][0]
    assert judged({**claiming({}, limits=SHARE), "metadata": {"labels": OPT_OUT}}, added).allowed
    for labels in ({}, {**OPTED_IN, "vgpu-webhook.io/mode": "audit"}, {**OPTED_IN, "vgpu-webhook.io/rollout": "0"}):
        assert judged(PODS["keys"], added, context=Context(Namespace("team", labels))).allowed


def test_many() -> None:
    """Every one is judged, and too many at once are denied."""
    harmless = [{**PLAIN, "name": f"d{number}"} for number in range(MAX_DECISIONS // 2)]
    assert judged(PODS["keys"], *harmless).allowed
    assert code(judged(PODS["keys"], *harmless[:-1], WAYS["all devices"][0])) == "VGW605"
    assert code(judged(PODS["keys"], *harmless, PLAIN)) == "VGW318"


def test_a_file_of_preloaded_libraries_is_ours_only_beside_a_share() -> None:
    """A volume of the user's under the library's name covers it, where the request is denied by now and nothing is put in."""
    preload = "{prefix: [/usr/local/vgpu-shim/libvgpu.so], file: ld.so.preload}"
    document = f"vendor: nvidia\nextends: nvidia\nshim: {{mode: inject, preload: {preload}}}\n"
    preloading = policy(document, settings="target: nvidia\n")
    path = "/etc/ld.so.preload"
    over = {"name": "vgpu-shim", "mountPath": path, "subPath": "ld.so.preload", "readOnly": True}
    added = {"name": "debug", "image": "app", "volumeMounts": [over]}
    for limits, told in ((SHARE, "vgpu-shim"), ({**SHARE, "nvidia.com/gpumem": "999999999"}, path)):
        pod = {"spec": {"containers": [main(**limits)], "volumes": [{"name": "vgpu-shim", "emptyDir": {}}]}}
        denial = judged(pod, added, policy=preloading).denial
        assert denial is not None
        assert told in denial.text
