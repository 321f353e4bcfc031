"""Defaults of a namespace, of every kind, for every vendor's requests: they fill in, and never change what is specified."""

import json

import pytest

from tests.decisions.test_any_to_any import TARGET, policy_for
from tests.generators.requests import Json
from tests.naming import each_of
from tests.strict_patch import apply_strictly
from webhook.admission import Context, Decision, Namespace, decide
from webhook.mapping.model.policy import Policy
from webhook.pod import decode_pod
from webhook.reasons import Reason

PREFIX = "vgpu-webhook.io/default-"


def decided(pod: Json, policy: Policy, annotations: dict[str, str]) -> Decision:
    """The decision in a namespace with these annotations."""
    namespace = Namespace("team", {"vgpu-webhook.io/inject": "enabled"}, annotations)
    return decide(decode_pod(json.dumps(pod).encode()), Context(namespace, pod_security_default="privileged"), policy)


def check_second_pass(pod: Json, decision: Decision, policy: Policy, annotations: dict[str, str]) -> Json:
    """Property 1: what is stored, sent again to the same namespace, is allowed and needs nothing. Returns what is stored."""
    stored: Json = apply_strictly(pod, decision.patch)
    again = decided(stored, policy, annotations)
    assert (again.denial, again.patch) == (None, ())
    return stored


QGPU, VCUDA, KOORDINATOR = "tke.cloud.tencent.com/qgpu-", "tencent.com/vcuda-", "koordinator.sh/"
CASES: list[tuple[dict[str, str], str | None, dict[str, str], str]] = [
    # Cores of a whole device would make another form, in which the memory is ignored.
    ({f"{VCUDA}memory": "16"}, "nvidia", {"devices": "4", "cores": "100"}, f"a share needs both {VCUDA}core"),
    ({f"{VCUDA}memory": "16"}, None, {"cores": "100"}, f"a share needs both {VCUDA}core"),
    ({f"{VCUDA}memory": "16"}, "nvidia", {"devices": "4", "cores": "30"}, "1 x 4096Mi 30%"),
    ({f"{QGPU}memory": "16"}, "nvidia", {"devices": "4", "cores": "100"}, f"a share is {QGPU}core"),
    ({f"{QGPU}memory": "16"}, "nvidia", {"devices": "4", "cores": "35"}, "1 x 16384Mi 35%"),
    ({f"{QGPU}core": "250"}, "nvidia", {"devices": "4", "memory": "4Gi"}, "3 x 4096Mi 83%"),
    ({f"{KOORDINATOR}gpu-core": "200"}, "nvidia", {"devices": "4", "memory": "all"}, "gpu.shared need"),
    ({f"{KOORDINATOR}gpu-core": "200"}, None, {"devices": "4", "memory": "all"}, "gpu.shared need"),
    (
        {f"{KOORDINATOR}gpu-core": "200"},
        None,
        {"devices": "4", "memory": "4Gi"},
        f"{KOORDINATOR}gpu-core and {KOORDINATOR}gpu.shared need",
    ),
    ({f"{KOORDINATOR}gpu-core": "50"}, None, {"devices": "4", "memory": "4Gi"}, "1 x 4096Mi 50%"),
    ({f"{KOORDINATOR}gpu.shared": "2"}, None, {"devices": "4", "memory": "4Gi", "cores": "25"}, "2 x 4096Mi 25%"),
    ({"iluvatar.ai/vcuda-memory": "64"}, None, {"devices": "4"}, "add iluvatar.ai/vgpu: 1"),
    ({"iluvatar.ai/vcuda-memory": "64"}, None, {"devices": "1", "cores": "25"}, "1 x 16384Mi 25%"),
    # Rounding up for the target is not to change it either: over several devices Iluvatar shares none.
    ({"nvidia.com/gpucores": "66"}, "iluvatar", {"devices": "8", "memory": "all"}, "1 x 100% 66%"),
    (
        {"nvidia.com/gpucores": "66", "nvidia.com/gpumem-percentage": "100"},
        "iluvatar",
        {"devices": "8", "memory": "100Gi"},
        "leave nvidia.com/gpucores out",
    ),
    # No key of the target says that cores are not limited, and its second pass would fill in the default.
    (
        {f"{QGPU}core-greedy": "60", f"{QGPU}memory": "5"},
        "nvidia",
        {"cores": "25"},
        "add tke.cloud.tencent.com/qgpu-core",
    ),
    ({f"{QGPU}core-greedy": "60", f"{QGPU}memory": "5"}, "nvidia", {"memory": "all"}, "1 x 5120Mi unlimited"),
    # One default is passed over, the others are filled in; the mapping's own takes its place.
    ({"nvidia.com/gpu": "1"}, "aliyun", {"memory": "25%", "cores": "35"}, "1 x 5120Mi 35%"),
    # The namespace chose whole devices for counts alone: never less, even where the pod names a target of sizes.
    ({"nvidia.com/gpu": "1"}, "aliyun", {"memory": "all"}, "aliyun cannot express nvidia.com/gpu: 1"),
    ({"nvidia.com/gpu": "2"}, "aliyun", {"memory": "4Gi", "cores": "30"}, "2 x 4096Mi unlimited"),
]


def pod_with(*sides: dict[str, str], target: str | None = None) -> Json:
    """A pod with a container for each of these requests."""
    return {
        "metadata": {"name": "p", "labels": {}, "annotations": {TARGET: target} if target else {}},
        "spec": {
            "containers": [
                {"name": f"c{number}", "resources": {"limits": side, "requests": dict(side)}}
                for number, side in enumerate(sides)
            ]
        },
    }


@each_of("side, target, filling, reported", CASES)
def test_defaults(side: dict[str, str], target: str | None, filling: dict[str, str], reported: str) -> None:
    """What the container holds in the end, or why it is denied."""
    policy = policy_for()
    annotations = {f"{PREFIX}{dimension}": text for dimension, text in filling.items()}
    pod = pod_with(side, target=target)
    decision = decided(pod, policy, annotations)
    if decision.denial is not None:
        assert reported in decision.denial.message
        return
    account = decision.status["containers"]["c0"]
    request = account.get("allocation", account["request"])
    assert f"{request['devices']} x {request['memory']} {request['cores']}" == reported
    check_second_pass(pod, decision, policy, annotations)


def test_passed_over_for_one_container_only() -> None:
    """Of two containers one cannot have a default: the other has it, and the warning names which container, and what."""
    policy = policy_for()
    annotations = {f"{PREFIX}devices": "8", f"{PREFIX}memory": "all"}
    pod = pod_with({"nvidia.com/gpucores": "66"}, {"nvidia.com/gpucores": "100"}, target="iluvatar")
    decision = decided(pod, policy, annotations)
    assert decision.denial is None
    assert {name: container["defaults"] for name, container in decision.status["containers"].items()} == {
        "c0": {"devices": "mapping", "memory": "namespace"},
        "c1": {"devices": "namespace"},
    }
    (reported,) = (finding for finding in decision.warnings if finding.reason is Reason.DEFAULT_NOT_APPLIED)
    assert (reported.container, reported.field) == ("c0", f"{PREFIX}devices")
    assert "default-devices: 8 was not applied: cores would become 100 % instead of 66 %" in reported.message
    check_second_pass(pod, decision, policy, annotations)


def test_passed_over_where_the_pod_can_carry_one_value() -> None:
    """A default that would stand in a label of the pod, where another container needs another value, is passed over alone."""
    policy = policy_for()
    annotations = {f"{PREFIX}devices": "2", f"{PREFIX}memory": "4Gi"}
    pod = pod_with({"nvidia.com/gpu": "1"}, {"nvidia.com/gpumem": "2048"}, target="aliyun")
    decision = decided(pod, policy, annotations)
    assert decision.denial is None
    containers = decision.status["containers"]
    assert {name: container["request"]["devices"] for name, container in containers.items()} == {"c0": 1, "c1": 1}
    assert containers["c0"]["defaults"] == {"memory": "namespace"}
    (reported,) = (finding for finding in decision.warnings if finding.reason is Reason.DEFAULT_NOT_APPLIED)
    assert (reported.container, reported.field) == ("c1", f"{PREFIX}devices")
    check_second_pass(pod, decision, policy, annotations)


@pytest.mark.parametrize("key", ["gpu.intel.com/memory.max", "gpu.intel.com/millicores"])
def test_no_key_whose_variable_nothing_says(key: str) -> None:
    """A key does not tell which driver's devices a default would count, and the denial names what is missing."""
    policy = policy_for()
    decision = decided(pod_with({key: "500"}), policy, {f"{PREFIX}devices": "2"})
    assert decision.reason is Reason.UNSUPPORTED_BY_VENDOR
    assert decision.denial is not None
    assert decision.denial.message == "gpu.intel.com/i915 or gpu.intel.com/xe is missing"
    assert decision.denial.instead == ()
