"""What is more than any honest pod has is refused, and what is reported or written of a pod has an end."""

import json
from typing import Any

import pytest

from tests.admission.scene import pod
from tests.generators.admissions import decision_on
from webhook.admission import Context, Decision, Namespace, decide
from webhook.admission.container_request import MAX_REQUESTING
from webhook.admission.survey import MAX_UNKNOWN
from webhook.mapping.document.strict_yaml import Document
from webhook.mapping.load import build_policy, load_policy
from webhook.mapping.model.policy import Policy
from webhook.pod import decode_pod
from webhook.reasons import Reason

pytestmark = pytest.mark.usefixtures("remembers_at_once")

POLICY = load_policy()
PRIVILEGED = {"vgpu-webhook.io/inject": "enabled", "pod-security.kubernetes.io/enforce": "privileged"}
ENFORCING = Context(Namespace("team", PRIVILEGED))


def decided(container: dict[str, Any], policy: Policy = POLICY, *, spec: Any = None, namespace: Any = None) -> Decision:
    """The decision on a pod with one container."""
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "a", **container}], **(spec or {})}}
    context = Context(Namespace("team", PRIVILEGED, namespace or {}))
    return decide(decode_pod(json.dumps(pod).encode()), context, policy)


def share(**more: Any) -> dict[str, Any]:
    """A container that requests a share."""
    return {"resources": {"limits": {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000"}}, **more}


def limits(resources: dict[str, str]) -> dict[str, Any]:
    """A pod with these limits."""
    return {"spec": {"containers": [{"name": "a", "resources": {"limits": resources}}]}}


def container(name: str, *resources: str, **more: str) -> dict[str, Any]:
    """A container with 1 of each of these resources, and others with their number."""
    numbers = {**dict.fromkeys(resources, "1"), **more}
    return {"name": name, "resources": {"limits": numbers, "requests": dict(numbers)}}


def asking(count: int) -> Decision:
    """The decision on a pod of which so many containers ask."""
    return decision_on(pod(*[container(f"c{n}", "nvidia.com/gpu") for n in range(count)]), ENFORCING, POLICY)


def test_as_many_containers_as_permitted_may_ask() -> None:
    """A pod at the limit is treated like any other."""
    assert asking(MAX_REQUESTING).denial is None


def test_more_containers_than_permitted_are_refused() -> None:
    """A pod with one asking container too many is refused with VGW318."""
    denial = asking(MAX_REQUESTING + 1).denial
    assert denial is not None
    assert denial.reason is Reason.TOO_MANY
    assert denial.reason.code == "VGW318"
    assert str(MAX_REQUESTING) in denial.message


@pytest.mark.parametrize("honest, is_reported", [(MAX_UNKNOWN - 1, True), (MAX_UNKNOWN, False)])
def test_unknown_names_are_looked_at_up_to_a_limit(honest: int, *, is_reported: bool) -> None:
    """A near miss is found among as many unknown names as are looked at, and none behind them."""
    strangers = [f"example.com/thing-{n}" for n in range(honest)]
    decision = decision_on(pod(container("a", *strangers), container("b", "nvidia.com/gpumemm")), ENFORCING, POLICY)
    reasons = {finding.reason for finding in (*decision.warnings, *([decision.denial] if decision.denial else []))}
    assert bool(reasons & {Reason.NEAR_MISS, Reason.UNKNOWN_KEY}) is is_reported


@pytest.mark.parametrize(
    "pod",
    [
        {
            "metadata": {"annotations": {f"ALIYUN_COM_GPU_MEM_{number}": "" for number in range(300)}},
            "spec": {"containers": [{"name": "a", "resources": {"limits": {"aliyun.com/gpu-mem": 4}}}]},
        },
        {"spec": {"containers": [{"name": "a", **share(env=[{"name": "LD_LIBRARY_PATH", "value": ":"}] * 20)}]}},
        {"spec": {"containers": [{"name": "a", **share(env=[{"name": "LD_LIBRARY_PATH", "value": "/a:" * 50_000}])}]}},
        {
            "spec": {
                "containers": [{"name": "a", **share(env=[{"name": "LD_LIBRARY_PATH", "value": "$(E):" * 20_000}])}]
            }
        },
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
        "long variable",
        "variable that becomes long",
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


def test_what_is_taken_away_is_bounded() -> None:
    """A namespace that strips variables is not made to write a patch of any length."""
    lifting = [{"name": f"CUDA_DEVICE_MEMORY_LIMIT_{number}", "value": "1"} for number in range(300)]
    decision = decided(share(env=lifting), namespace={"vgpu-webhook.io/guard": "strip"})
    assert decision.reason is Reason.TOO_MANY


def test_a_long_affinity_is_not_rewritten() -> None:
    """Whatever it is long of."""
    policy = build_policy([], Document("settings", {"nodeName": "affinity"}, {}))
    spec = {"nodeName": "n", "affinity": {"podAffinity": {"x": "x" * 300_000}}}
    assert decided(share(), policy, spec=spec).reason is Reason.TOO_MANY


def test_hints_that_are_told_are_bounded() -> None:
    """The first of them, and each once."""
    hints = {f"nvidia.com/container.x{n}.gpu-compute.mode": "1" for n in range(300)}
    pod = {
        "metadata": {"annotations": {"nvidia.com/container.a.gpu-memory.limit": "1Gi", **hints}},
        "spec": {"containers": [{"name": "a"}]},
    }
    namespace = Namespace("team", PRIVILEGED, {"vgpu-webhook.io/target": "nvidia"})
    decision = decide(decode_pod(json.dumps(pod).encode()), Context(namespace), POLICY)
    reported = [finding for finding in decision.warnings if finding.reason is Reason.HINT_NOT_CARRIED]
    assert decision.allowed
    assert 0 < len(set(reported)) == len(reported) < 100


def test_audit_annotations_are_bounded() -> None:
    """Names are not checked before us and may be megabytes long."""
    name = "x" * 100_000
    container = share(name=name, env=[{"name": "CUDA_DISABLE_CONTROL", "value": "1"}])
    for decision in (decided(container), decided(share(name=name))):
        assert sum(map(len, decision.audit.values())) < 20_000
