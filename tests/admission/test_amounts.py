"""Fractions of amounts, and that what is advised instead is accepted; other edges are in `told/amounts.yaml`."""

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
CONTEXT = Context(Namespace("team", {"vgpu-webhook.io/inject": "enabled"}), pod_security_default="privileged")
TARGET = "vgpu-webhook.io/target"
Json = dict[str, Any]


def decided(resources: Json, annotations: Json | None = None) -> Decision:
    """The decision on a pod whose one container has these resources, where the namespace has opted in."""
    pod = {
        "metadata": {"annotations": annotations or {}},
        "spec": {"containers": [{"name": "main", "resources": resources}]},
    }
    return decide(decode_pod(json.dumps(pod).encode()), CONTEXT, POLICY)


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
    for side in ("limits", "requests"):
        assert decided({side: {"nvidia.com/gpu": "1", key: text}}, annotations).reason is Reason.NOT_WHOLE


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
    denial = decided({"limits": {key: fraction, **beside}}).denial
    assert denial is not None
    assert denial.message.partition(": write ")[2].partition(", or ")[0] == offered, denial.message
    number = offered.partition(",")[0].removeprefix("at most ")
    assert decided({"limits": {key: number, **beside}}).denial is None


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
    denial = decided({"limits": {key: "0.5"}}).denial
    assert denial is not None
    number, _, keys = denial.message.partition(": write ")[2].partition(", with ")
    shares = dict(pair.split(": ") for pair in keys.partition(" for ")[0].split(" and ") if pair)
    written = decided({"limits": {key: number, **shares}}).denial
    assert written is None or written.reason not in {
        Reason.NOT_WHOLE,
        Reason.NOT_LEGAL,
        Reason.UNSUPPORTED_BY_VENDOR,
    }, vendor
