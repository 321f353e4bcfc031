"""What a reviewer found, each as a test: mistakes and tricks that must not come back."""

import json
from typing import Any

import pytest

from webhook.admission import Context, Decision, Namespace, decide
from webhook.mapping.document.problem import MappingError
from webhook.mapping.document.strict_yaml import Document, parse
from webhook.mapping.load import build_policy, load_policy
from webhook.mapping.model.policy import Policy
from webhook.pod import decode_pod
from webhook.reasons import Reason

POLICY = load_policy()
PRIVILEGED = {"vgpu-webhook.io/inject": "enabled", "pod-security.kubernetes.io/enforce": "privileged"}


def decided(container: dict[str, Any], policy: Policy = POLICY, *, spec: Any = None, namespace: Any = None) -> Decision:
    """The decision on a pod with one container."""
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "a", **container}], **(spec or {})}}
    context = Context(Namespace("team", PRIVILEGED, namespace or {}))
    return decide(decode_pod(json.dumps(pod).encode()), context, policy)


def share(**more: Any) -> dict[str, Any]:
    """A container that asks for a share."""
    return {"resources": {"limits": {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000"}}, **more}


def limits(resources: dict[str, str]) -> dict[str, Any]:
    """A pod with these limits."""
    return {"spec": {"containers": [{"name": "a", "resources": {"limits": resources}}]}}


def test_our_volume_mounted_by_an_expression_is_not_ours() -> None:
    """A mount with `subPathExpr` shows another folder than the library's: a share would run without a limit."""
    mount = {"name": "vgpu-shim", "mountPath": "/usr/local/vgpu-shim", "readOnly": True, "subPathExpr": "$(D)"}
    volume = {"name": "vgpu-shim", "hostPath": {"path": "/usr/local/vgpu-shim", "type": "Directory"}}
    decision = decided(share(volumeMounts=[mount], env=[{"name": "D", "value": "x"}]), spec={"volumes": [volume]})
    assert decision.reason is Reason.COLLISION


@pytest.mark.parametrize(
    "text,message",
    [
        ("defaults: {memory: 8000}", "a bare number is ambiguous"),
        ("defaults: {memory: 100m}", "less than 1Mi"),
        ("defaults: {memory: free}", "not a Kubernetes quantity"),
        ("defaults: {memory: 2Ti}", "no device has 2 TiB"),
        ("defaults: {devices: 5000}", "no node has 5000 devices"),
        ("keys: {gpumem: {resource: nvidia.com/gpu}}", "is the key 'gpu' already"),
        ('place: {scheduler: ""}', "at least 1 character"),
    ],
)
def test_documents_that_would_deny_or_starve_every_pod_are_refused(text: str, message: str) -> None:
    """A mistake in a mapping is told when it is loaded, not to every pod."""
    with pytest.raises(MappingError, match=message):
        build_policy(parse(f"extends: nvidia\n{text}\n", "nvidia.yaml"))


def test_translate_to_other_hardware_is_told() -> None:
    """Whoever orders it, the image must be built for that hardware."""
    policy = build_policy(parse("extends: nvidia\ntranslateTo: iluvatar\n", "nvidia.yaml"))
    decision = decided(share(), policy)
    assert Reason.OTHER_FAMILY in [finding.reason for finding in decision.warnings]


@pytest.mark.parametrize(
    "order,reason", [("allow", Reason.CHANGED), ("strip", Reason.CHANGED), ("deny", Reason.GUARDED)]
)
def test_namespace_says_what_becomes_of_guarded_variables(order: str, reason: Reason) -> None:
    """The annotation beats the mapping's action."""
    container = share(env=[{"name": "CUDA_DISABLE_CONTROL", "value": "true"}])
    decision = decided(container, namespace={"vgpu-webhook.io/guard": order})
    assert decision.reason is reason
    stripped = any(operation["op"] == "remove" and "/env/" in operation["path"] for operation in decision.patch)
    assert stripped is (order == "strip")


def test_unknown_order_for_the_guard_is_passed_over() -> None:
    """A namespace's mistake is told, and the mapping's action holds."""
    container = share(env=[{"name": "CUDA_DISABLE_CONTROL", "value": "true"}])
    decision = decided(container, namespace={"vgpu-webhook.io/guard": "off"})
    assert decision.reason is Reason.GUARDED
    assert Reason.NAMESPACE_SETTING_UNREADABLE in [finding.reason for finding in decision.warnings]


def test_large_pods_are_not_remembered() -> None:
    """A few reviews cannot take all memory: what is remembered is bounded in bytes, too."""
    for marks, remembered in ((20, True), (200, False)):
        POLICY.memo.clear()
        pod = {
            "metadata": {"annotations": {f"ALIYUN_COM_GPU_MEM_{number}": "x" * 90 for number in range(marks)}},
            "spec": {"containers": [{"name": "a", "resources": {"limits": {"aliyun.com/gpu-mem": 4}}}]},
        }
        decide(decode_pod(json.dumps(pod).encode()), Context(Namespace("team", PRIVILEGED)), POLICY)
        assert bool(POLICY.memo) is remembered


@pytest.mark.parametrize(
    "pod",
    [
        {
            "metadata": {"annotations": {f"ALIYUN_COM_GPU_MEM_{number}": "" for number in range(300)}},
            "spec": {"containers": [{"name": "a", "resources": {"limits": {"aliyun.com/gpu-mem": 4}}}]},
        },
        {"spec": {"containers": [{"name": "a", **share(env=[{"name": "LD_LIBRARY_PATH", "value": ":"}] * 20)}]}},
        {"spec": {"containers": [{"name": f"c{number}"} for number in range(2000)]}},
        {"spec": {"containers": [{"name": f"c{number}", **share()} for number in range(129)]}},
        {
            "metadata": {"annotations": {f"vgpu-webhook.io/container.c{n}.memory": "1Gi" for n in range(129)}},
            "spec": {"containers": [{"name": f"c{number}"} for number in range(129)]},
        },
        {
            "metadata": {
                "annotations": {
                    "gpu-fraction": "1",
                    "gpu-fraction-container-name": ",".join(f"c{n}" for n in range(90)),
                }
            },
            "spec": {"containers": [{"name": f"c{n}", **(share() if n >= 90 else {})} for n in range(130)]},
        },
        {
            "metadata": {"annotations": {f"vgpu-webhook.io/container.x{n}.memory": "1Gi" for n in range(1025)}},
            "spec": {"containers": [{"name": "a"}]},
        },
        limits({f"nvidia.com/mig-1g.{n + 1}gb": "1" for n in range(1025)}),
        limits({f"nvidia.com/mig-1g.{'1' * 400}gb": "1"}),
        {"spec": {"containers": [{"name": "c" * 64, **share()}]}},
        {
            "metadata": {"annotations": {"tke.cloud.tencent.com/app-class": "a" * 10_000}},
            "spec": {"containers": [{"name": "a", "resources": {"limits": {"tencent.com/vcuda-core": "10"}}}]},
        },
    ],
    ids=[
        "marks",
        "variables",
        "containers",
        "asking",
        "asking by keys",
        "asking both ways",
        "keys",
        "resource names",
        "long name",
        "long container name",
        "long value",
    ],
)
def test_more_than_any_honest_pod_has_is_refused(pod: dict[str, Any]) -> None:
    """What would take long is not looked through."""
    decision = decide(decode_pod(json.dumps(pod).encode()), Context(Namespace("team", PRIVILEGED)), POLICY)
    assert decision.reason is Reason.TOO_MANY


def test_what_is_taken_away_is_bounded() -> None:
    """A namespace that strips variables is not made to write a patch of any length."""
    lifting = [{"name": f"CUDA_DEVICE_MEMORY_LIMIT_{number}", "value": "1"} for number in range(300)]
    decision = decided(share(env=lifting), namespace={"vgpu-webhook.io/guard": "strip"})
    assert decision.reason is Reason.TOO_MANY


@pytest.mark.parametrize(
    "volumes",
    [
        [{"name": "vgpu-shim-state", "emptyDir": {"sizeLimit": "64Mi"}}] * 2,
        [{"name": "vgpu-shim-state", "emptyDir": {"sizeLimit": "64Mi", **{f"k{n}": "" for n in range(200)}}}],
    ],
)
def test_volumes_that_need_a_long_look_are_not_the_shims(volumes: Any) -> None:
    """Neither one of two with its name, which no API server takes, nor one with members that nobody knows."""
    assert decided(share(), spec={"volumes": volumes}).reason is Reason.COLLISION


def test_a_long_affinity_is_not_rewritten() -> None:
    """Whatever it is long of."""
    policy = build_policy([], Document("settings", {"nodeName": "affinity"}, {}))
    spec = {"nodeName": "n", "affinity": {"podAffinity": {"x": "x" * 300_000}}}
    assert decided(share(), policy, spec=spec).reason is Reason.TOO_MANY


def test_hints_with_a_variable_are_told() -> None:
    """A key whose variable has an expression is looked for beside all other vendors' keys, too."""
    pod = {
        "metadata": {"annotations": {"hami.io/use-BI-V150-uuid": "u", "hami.io/use-X-uuid": "u"}},
        "spec": {"containers": [{"name": "a", "resources": {"limits": {"iluvatar.ai/vgpu": "1"}}}]},
    }
    namespace = Namespace("team", PRIVILEGED, {"vgpu-webhook.io/target": "volcano"})
    decision = decide(decode_pod(json.dumps(pod).encode()), Context(namespace), POLICY)
    told = [finding.field for finding in decision.warnings if finding.reason is Reason.HINT_NOT_CARRIED]
    assert told == ["hami.io/use-BI-V150-uuid"]


def test_hints_that_are_told_are_bounded() -> None:
    """The first of them, and each once."""
    hints = {f"nvidia.com/container.x{n}.gpu-compute.mode": "1" for n in range(300)}
    pod = {
        "metadata": {"annotations": {"nvidia.com/container.a.gpu-memory.limit": "1Gi", **hints}},
        "spec": {"containers": [{"name": "a"}]},
    }
    namespace = Namespace("team", PRIVILEGED, {"vgpu-webhook.io/target": "nvidia"})
    decision = decide(decode_pod(json.dumps(pod).encode()), Context(namespace), POLICY)
    told = [finding for finding in decision.warnings if finding.reason is Reason.HINT_NOT_CARRIED]
    assert decision.allowed
    assert 0 < len(set(told)) == len(told) < 100


def test_audit_annotations_are_bounded() -> None:
    """Names are not checked before us and may be megabytes long."""
    name = "x" * 100_000
    container = share(name=name, env=[{"name": "CUDA_DISABLE_CONTROL", "value": "1"}])
    for decision in (decided(container), decided(share(name=name))):
        assert sum(map(len, decision.audit.values())) < 20_000


@pytest.mark.parametrize(
    "limits, message",
    [
        (
            {"nvidia.com/vgpu-core": "30", "nvidia.com/vgpu-cores": "40", "nvidia.com/vgpu-number": "1"},
            "nvidia.com/vgpu-core: 30 and nvidia.com/vgpu-cores: 40 are two spellings of one key: keep one",
        ),
        (
            {"hygon.com/dcunum": "1", "hygon.com/hcunum": "1"},
            "hygon.com/dcunum: 1, hygon.com/hcunum: 1: the keys of one container must name the same",
        ),
        (
            {"iluvatar.ai/vgpu": "1", "iluvatar.ai/MR-V100-vgpu": "1"},
            "iluvatar.ai/MR-V100-vgpu: 1 and iluvatar.ai/vgpu: 1 are two spellings of one key: keep one",
        ),
        (
            {"iluvatar.ai/BI-V150-vgpu": "1", "iluvatar.ai/MR-V100-vgpu": "1"},
            "iluvatar.ai/BI-V150-vgpu: 1, iluvatar.ai/MR-V100-vgpu: 1: the keys of one container must name the same",
        ),
        (
            {"iluvatar.ai/BI-V150-vgpu": "1", "iluvatar.ai/MR-V100.vCore": "10"},
            "iluvatar.ai/BI-V150-vgpu: 1, iluvatar.ai/MR-V100.vCore: 10: the keys of one container must name the same",
        ),
    ],
)
def test_keys_that_clash_are_both_named(limits: dict[str, str], message: str) -> None:
    """The second spelling of a key is what is to be found and removed."""
    decision = decided({"resources": {"limits": limits}})
    assert decision.reason is Reason.SPELLINGS_DIFFER
    assert decision.denial is not None
    assert decision.denial.message == message


def test_several_sizes_that_have_to_be_translated_are_all_named() -> None:
    """In their own keys they are let be; for another vendor they are no request."""
    limits = {"nvidia.com/mig-1g.5gb": "1", "nvidia.com/mig-2g.10gb": "1"}
    decision = decided({"resources": {"limits": limits}}, namespace={"vgpu-webhook.io/target": "nvidia"})
    assert decision.reason is Reason.SPELLINGS_DIFFER
    assert decision.denial is not None
    assert decision.denial.message.startswith("nvidia.com/mig-1g.5gb: 1, nvidia.com/mig-2g.10gb: 1: the keys")
