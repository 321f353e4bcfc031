"""Amounts at their edges: fractions, counts beyond any node, counts of 0, and what the status says of a rounded request."""

import json
from typing import Any

import pytest

from tests.naming import each_of
from webhook.admission import Context, Decision, Namespace, decide
from webhook.mapping.document.strict_yaml import parse
from webhook.mapping.load import build_policy
from webhook.pod import decode_pod
from webhook.reasons import Reason

POLICY = build_policy([], parse("{}\n", "settings")[0])
HUGE_CARDS = build_policy([], parse("largestCard: 6Ei\n", "settings")[0])
TARGET = "vgpu-webhook.io/target"
COUNTS = "vke.volcengine.com/container-multiple-gpu"
Json = dict[str, Any]


def asking(
    limits: Json, annotations: Json | None = None, labels: Json | None = None, requests: Json | None = None
) -> Json:
    """A pod whose one container has these limits."""
    resources = {"limits": limits, **({} if requests is None else {"requests": requests})}
    env = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "none"}]
    return {
        "metadata": {"name": "p", "annotations": annotations or {}, "labels": labels or {}},
        "spec": {"containers": [{"name": "main", "resources": resources, "env": env}]},
    }


def decided(pod: Json, namespace: Json | None = None, policy: Any = POLICY) -> Decision:
    """The decision where the namespace has opted in."""
    team = Namespace("team", {"vgpu-webhook.io/inject": "enabled"}, namespace or {})
    return decide(decode_pod(json.dumps(pod).encode()), Context(team, pod_security_default="privileged"), policy)


FRACTIONS = [
    "3000000001n",
    "3.0000001",
    "3.0000000001",
    "2999999999n",
    "1000000500m",
    "0.5",
    "1e-20",
    "0.001u",
    "1048576001m",
]


@each_of("text", FRACTIONS)
@each_of("target", [None, "volcano"])
@each_of("key", ["nvidia.com/gpu", "nvidia.com/gpumem", "nvidia.com/gpucores", "nvidia.com/priority"])
def test_no_fraction_is_rounded_before_it_is_read(text: str, target: str | None, key: str) -> None:
    """However many digits it has, wherever it stands, whatever the key says."""
    annotations = {} if target is None else {TARGET: target}
    for pod in (
        asking({"nvidia.com/gpu": "1", key: text}, annotations),
        asking({}, annotations, requests={"nvidia.com/gpu": "1", key: text}),
    ):
        assert decided(pod).reason is Reason.NOT_WHOLE


@each_of("text", ["3000000001n", "2999999999n", "3.0000000001", "4"])
def test_limits_and_requests_are_compared_to_the_last_digit(text: str) -> None:
    """A billionth more is another number."""
    assert decided(asking({"nvidia.com/gpu": "3"}, requests={"nvidia.com/gpu": text})).reason is Reason.LIMIT_DIFFERS


@each_of("text", ["3000000000n", "3.", "3000m", "2.9999999999", "0.3e1"])
def test_what_the_api_server_stores_as_a_whole_number(text: str) -> None:
    """It rounds to billionths, away from 0; so it is read where no API server has done so."""
    decision = decided(asking({"nvidia.com/gpu": text}, {TARGET: "volcano"}, requests={"nvidia.com/gpu": "3"}))
    assert decision.denial is None
    assert decision.status["containers"]["main"]["written"]["volcano.sh/vgpu-number"] == "3"


@pytest.mark.parametrize(
    "annotation, kind",
    [
        ("gpu-fraction", "a decimal number: write one such as 0.5"),
        ("gpu-memory", "a whole number: write digits only"),
    ],
)
def test_amount_in_an_annotation_that_is_none(annotation: str, kind: str) -> None:
    """The denial says what the key counts in."""
    denial = decided(asking({}, {annotation: "half"})).denial
    assert denial is not None
    assert denial.reason is Reason.BAD_QUANTITY
    assert denial.message == f"{annotation}: 'half' is not {kind}"


@pytest.mark.parametrize("text", ["1500m", "1073741824.5", "1073741824000000001n"])
def test_fraction_in_an_annotation(text: str) -> None:
    """An annotation that is a quantity counts whole bytes, too."""
    pod = asking({}, {"nvidia.com/container.main.gpu-memory.limit": text})
    assert decided(pod).reason is Reason.NOT_WHOLE


@each_of(
    "limits",
    [
        {"elasticgpu.io/gpu-core": "8Gi"},
        {"elasticgpu.io/gpu-core": "409700"},
        {"tencent.com/vcuda-core": "8G"},
        {"tke.cloud.tencent.com/qgpu-core": "8G"},
        {"tke.cloud.tencent.com/qgpu-core": "8Gi", "tke.cloud.tencent.com/qgpu-memory": "8Gi"},
        {"koordinator.sh/gpu": "800M"},
        {"vke.volcengine.com/mgpu-core": "1G"},
        {"tencent.com/vcuda-core": "8Gi"},
        {"vke.volcengine.com/mgpu-core": "8Gi", "vke.volcengine.com/mgpu-memory": "8Gi"},
        {"koordinator.sh/gpu-memory-ratio": "8Gi"},
        {"tke.cloud.tencent.com/qgpu-core": "409601"},
        {"aws.amazon.com/neuroncore": "8193"},
        {"nvidia.com/gpu": "4097"},
        {"nvidia.com/mig-1g.10gb": "8Gi"},
        {"nvidia.com/mig-1g.10gb": "8Gi", "nvidia.com/mig-3g.40gb": "1"},
        {"enflame.com/drs-gcu": "8Gi"},
    ],
)
@each_of("target", [None, "koordinator"])
def test_no_count_is_beyond_any_node(limits: Json, target: str | None) -> None:
    """Said, or derived from cores of whole cards: a size that was written for a number."""
    assert decided(asking(limits, {} if target is None else {TARGET: target})).reason is Reason.TOO_LARGE


@pytest.mark.parametrize("limits", [{"elasticgpu.io/gpu-core": "409600"}, {"nvidia.com/gpu": "4096"}], ids=str)
def test_as_many_devices_as_a_node_may_have(limits: Json) -> None:
    """The bound itself is a count like any other."""
    assert decided(asking(limits)).reason is not Reason.TOO_LARGE


@pytest.mark.parametrize("name", ["elasticgpu.io/gpu-core", "aws.amazon.com/neuroncore"])
def test_amounts_of_0_alone(name: str) -> None:
    """The message says what makes no request, where nothing but amounts of 0 is specified."""
    decision = decided(asking({name: "0"}))
    assert decision.reason is Reason.NO_FORM
    assert decision.denial is not None
    assert decision.denial.message.startswith("amounts of 0: no valid combination of keys")


@pytest.mark.parametrize("count, reason", [("4096", None), ("4097", Reason.TOO_LARGE), ("100000000", Reason.TOO_LARGE)])
def test_count_in_a_label_is_bounded(count: str, reason: Reason | None) -> None:
    """A total divides by it, however large both are."""
    decision = decided(
        asking({"aliyun.com/gpu-mem": str(16 * int(count))}, {TARGET: "koordinator"}, {"aliyun.com/gpu-count": count})
    )
    assert (decision.denial.reason if decision.denial else None) is reason


def test_total_that_no_resource_can_hold() -> None:
    """Memory of each device is legal, and its total over all devices would be refused by the API server."""
    pod = asking({"nvidia.com/gpu": "4096", "nvidia.com/gpumem": str(2**42)}, {TARGET: "koordinator"})
    decision = decided(pod, policy=HUGE_CARDS)
    assert decision.reason is Reason.NO_EQUIVALENT
    assert "koordinator.sh/gpu-memory would be 18889465931478580854784" in decision.denial.message  # type: ignore[union-attr]


def test_default_count_is_bounded() -> None:
    """A namespace's default of more devices than any node has is passed over, like any that cannot be read."""
    decision = decided(asking({"nvidia.com/gpumem": "3000"}), {"vgpu-webhook.io/default-devices": "4097"})
    assert decision.denial is None
    assert Reason.NAMESPACE_DEFAULT_INVALID in {finding.reason for finding in decision.warnings}
    assert decision.status["containers"]["main"]["request"]["devices"] == 1


def test_default_that_fills_nothing() -> None:
    """It is valid, and the pod gets what it would get without it."""
    pod = asking({"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000"})
    decision = decided(pod, {"vgpu-webhook.io/default-cores": "unlimited"})
    assert (decision.patch, decision.warnings) == (decided(pod).patch, decided(pod).warnings)


VKE = {"vke.volcengine.com/mgpu-memory": "4096", "vke.volcengine.com/mgpu-core": "30"}


@each_of("count", ["0", "00"])
@each_of("target", [None, "nvidia"])
@each_of(
    "limits",
    [VKE, {"vke.volcengine.com/mgpu-memory": "4096"}, {"vke.volcengine.com/mgpu-core": "200"}],
)
def test_zero_in_a_list_contradicts_the_rest(limits: Json, target: str | None, count: str) -> None:
    """A container whose entry is 0 requests nothing, and so cannot request a part of a device."""
    annotations = {COUNTS: count, **({} if target is None else {TARGET: target})}
    decision = decided(asking(limits, annotations))
    assert decision.reason is Reason.ZERO_DEVICES
    assert decision.denial is not None
    assert decision.denial.field == COUNTS


def test_zero_in_a_list_for_who_asks_for_nothing() -> None:
    """Containers that request nothing may be 0 in the list."""
    pod = asking(VKE, {COUNTS: "1,0"})
    pod["spec"]["containers"].append({"name": "idle"})
    decision = decided(pod)
    assert decision.denial is None
    assert decision.status == {} or list(decision.status["containers"]) == ["main"]


@each_of(
    "limits, annotations, labels, reason",
    [
        ({"nvidia.com/gpu": "0", "nvidia.com/gpumem": "3000"}, {}, {}, Reason.ZERO_DEVICES),
        ({"volcano.sh/vgpu-number": "0", "volcano.sh/vgpu-cores": "30"}, {}, {}, Reason.ZERO_DEVICES),
        ({"aliyun.com/gpu-mem": "4"}, {}, {"aliyun.com/gpu-count": "0"}, Reason.BAD_COUNT),
        ({}, {"gpu-fraction": "0.5", "gpu-fraction-num-devices": "0"}, {}, Reason.BAD_COUNT),
        ({}, {"tensor-fusion.ai/vram-limit": "1Gi", "tensor-fusion.ai/gpu-count": "0"}, {}, Reason.BAD_COUNT),
    ],
)
def test_zero_anywhere_contradicts_the_rest(limits: Json, annotations: Json, labels: Json, reason: Reason) -> None:
    """Wherever a vendor keeps its count; in an init container as in others."""
    pod = asking(limits, annotations, labels)
    assert decided(pod).reason is reason
    if limits:
        spec = pod["spec"]
        pod = {**pod, "spec": {"initContainers": spec["containers"], "containers": [{"name": "other"}]}}
        assert decided(pod).reason is reason


def status(pod: Json, namespace: Json | None = None) -> Json:
    """What the status says of the one container."""
    decision = decided(pod, namespace)
    assert decision.denial is None, decision.denial
    container: Json = decision.status["containers"]["main"]
    return container


def test_amounts_of_a_status_are_exact() -> None:
    """Bytes that are no whole MiB keep all their digits."""
    found = status(asking({"koordinator.sh/gpu.shared": "1", "koordinator.sh/gpu-memory": "10G"}, {TARGET: "nvidia"}))
    assert found["request"]["memory"] == "9536.7431640625Mi"
    assert found["allocation"]["memory"] == "9537Mi"


@each_of(
    "limits, end",
    [
        (
            {"nvidia.com/gpu": "1", "nvidia.com/gpucores": "0.3"},
            "gpucores: 0.3 is not a whole number: write 30 for 30 %",
        ),
        (
            {"nvidia.com/gpu": "1", "nvidia.com/gpucores": "300m"},
            "gpucores: 0.3 is not a whole number: write 30 for 30 %",
        ),
        ({"nvidia.com/gpu": "1", "nvidia.com/gpumem-percentage": "0.125"}, "write 13 for 13 %"),
        ({"nvidia.com/gpu": "1", "nvidia.com/gpucores": "1.5"}, ": write 2"),
        ({"nvidia.com/gpu": "1", "nvidia.com/gpucores": "0.001"}, ": write 1"),
        ({"tencent.com/vcuda-core": "0.5"}, "write 50 for 50 %"),
        ({"mthreads.com/sgpu-core": "0.5"}, "write 8 for 50 %"),
        ({"gpu.intel.com/millicores": "0.5"}, "write 500 for 50 %"),
        ({"aws.amazon.com/neuroncore": "0.5"}, ": write 1"),
        (
            {"nvidia.com/gpu": "0.5"},
            " of devices: write 1, with nvidia.com/gpumem-percentage: 50 and nvidia.com/gpucores: 50 for 50 % of one",
        ),
        ({"nvidia.com/gpu": "1.5"}, ": write 2"),
        ({"metax-tech.com/sgpu": "0.25"}, "write 1, with metax-tech.com/vcore: 25 for 25 % of one"),
        ({"huawei.com/Ascend910A": "0.5"}, "0.5 is not a whole number: write 1"),
        ({"enflame.com/drs-gcu": "0.5"}, "0.5 is not a whole number: write 1"),
        ({"nvidia.com/mig-1g.5gb": "0.5"}, ": write 1"),
        ({"nvidia.com/gpumem": "8.5"}, ": write 9, or, if GiB were meant, 8704 (8704 means 8704 MiB)"),
        ({"nvidia.com/gpumem": "0.5"}, ": write 1, or, if GiB were meant, 512 (512 means 512 MiB)"),
        ({"aliyun.com/gpu-mem": "0.5"}, ": write 1"),
        (
            {"nvidia.com/gpumem": "40000000"},
            "; if KiB were meant, write 39063 (39063 means 39063 MiB); if bytes were meant, write 39 (39 means 39 MiB)",
        ),
        ({"nvidia.com/gpumem": "40Mi"}, "; if bytes were meant, write 40 (40 means 40 MiB)"),
        ({"nvidia.com/gpumem": "4000000000"}, "; if bytes were meant, write 3815 (3815 means 3815 MiB)"),
        ({"aliyun.com/gpu-mem": "2000000"}, "; if KiB were meant, write 2 (2 means 2 GiB)"),
    ],
)
def test_advice_is_what_was_probably_meant(limits: Json, end: str) -> None:
    """A fraction of one is a share of a GPU, and a size beyond any was counted in another unit."""
    denial = decided(asking(limits)).denial
    assert denial is not None
    meant, _, _ = denial.message.partition("; if the device plugin")  # what `differs` adds
    assert meant.endswith(end), denial.message


@pytest.mark.parametrize(
    "key, fraction, offered, beside",
    [
        ("tke.cloud.tencent.com/qgpu-core", "1.5", "5", {"tke.cloud.tencent.com/qgpu-memory": "4"}),
        ("tke.cloud.tencent.com/qgpu-core", "100.5", "101", {"tke.cloud.tencent.com/qgpu-memory": "4"}),
        ("tke.cloud.tencent.com/qgpu-core", "5000.5", "5001", {"tke.cloud.tencent.com/qgpu-memory": "400"}),
        ("vke.volcengine.com/mgpu-core", "100.5", "200", {}),
        ("vke.volcengine.com/mgpu-memory", "1.5", "256", {"vke.volcengine.com/mgpu-core": "50"}),
        ("volcano.sh/gpu-core.percentage", "7.5", "10", {"volcano.sh/gpu-mem.128Mi": "8"}),
        ("enflame.com/vgcu", "1.5", "at most 1", {}),
        ("kunlunxin.com/xpu", "2.5", "4", {}),
        ("aws.amazon.com/neuroncore", "2.5", "4", {}),
        ("koordinator.sh/gpu", "100.5", "200", {}),
        ("nvidia.com/gpucores", "99.5", "100", {}),
        ("nvidia.com/gpucores", "100.5", "at most 100", {}),
        (
            "volcano.sh/vgpu-number",
            "0.5",
            "1, with volcano.sh/vgpu-cores: 50 for 50 % of one",
            {"volcano.sh/vgpu-cores": "50"},
        ),
    ],
)
def test_the_number_that_is_offered_is_accepted(key: str, fraction: str, offered: str, beside: Json) -> None:
    """Instead of a fraction: a number that the forms of the vendor take, and keys that nodes report."""
    denial = decided(asking({key: fraction, **beside})).denial
    assert denial is not None
    assert denial.message.partition(": write ")[2].partition(", or,")[0] == offered, denial.message
    number = offered.partition(",")[0].removeprefix("at most ")
    assert decided(asking({key: number, **beside})).denial is None


def _whole_devices() -> list[tuple[str, str]]:
    """Every resource that counts devices, of the vendors in force, by one of its names."""
    return [
        (vendor.name, name)
        for vendor in POLICY.in_force
        for key in vendor.keys.values()
        if key.place == "resource" and key.dimensions == ("devices",)
        for name, _ in list(key.spellings[0].names(vendor.document.variables))[:1]
    ]


@each_of("vendor, key", _whole_devices())
def test_a_share_that_is_advised_is_accepted(vendor: str, key: str) -> None:
    """Whoever writes what the denial of half a device says is not denied again for that."""
    denial = decided(asking({key: "0.5"})).denial
    assert denial is not None
    number, _, keys = denial.message.partition(": write ")[2].partition(", with ")
    shares = dict(pair.split(": ") for pair in keys.partition(" for ")[0].split(" and ") if pair)
    written = decided(asking({key: number, **shares})).denial
    assert written is None or written.reason not in {
        Reason.NOT_WHOLE,
        Reason.NOT_LEGAL,
        Reason.UNSUPPORTED_BY_VENDOR,
    }, vendor
