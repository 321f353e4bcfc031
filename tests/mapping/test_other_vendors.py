"""Vendors of which no two are built alike, read and translated into each other; four with what a cluster configures."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.strict_patch import apply_strictly
from tests.unprobed import unprobed_policy
from webhook.admission import Context, Decision, Namespace, decide
from webhook.mapping.document.strict_yaml import parse
from webhook.mapping.load import documents_in, load_policy
from webhook.pod import decode_pod
from webhook.quantity import parse_quantity
from webhook.reasons import Reason, ReasonKind

POLICY = unprobed_policy(documents_in(Path(__file__).with_name("documents")))
CONTEXT = Context(Namespace("team", {"vgpu-webhook.io/inject": "enabled"}), pod_security_default="privileged")
TARGET = "vgpu-webhook.io/target"
CONTAINER = "nvidia.com/container.main.gpu-memory"
OURS = "vgpu-webhook.io/container.main"
NEUTRAL = {TARGET: "nvidia"}

READ_OTHERWISE = {"mig-single"}
"""Vendors inactive whose keys mean something else to the owner of their names, whatever is asked."""

Meaning = tuple[int, str, str]
Sample = tuple[str, dict[str, str], dict[str, str], Meaning]
"""Vendor, resources, annotations (and labels), and what is meant: devices, memory and cores of each."""

SAMPLES: list[Sample] = [
    ("kai", {}, {"gpu-fraction": "0.25"}, (1, "25%", "unlimited")),
    ("kai", {}, {"gpu-fraction": "0.12345"}, (1, "12.345%", "unlimited")),
    ("kai", {}, {"gpu-fraction": ".5", "gpu-fraction-num-devices": "2"}, (2, "50%", "unlimited")),
    ("kai", {}, {"gpu-memory": "4096", "gpu-fraction-num-devices": "2"}, (2, "4096Mi", "unlimited")),
    ("kai", {}, {"gpu-memory": "4096", "gpu-fraction-container-name": "main"}, (1, "4096Mi", "unlimited")),
    ("koordinator", {"gpu.shared": "2", "gpu-core": "60", "gpu-memory": "8Gi"}, {}, (2, "4096Mi", "30%")),
    ("koordinator", {"gpu-memory": "4Gi"}, {}, (1, "4096Mi", "unlimited")),
    ("koordinator", {"gpu-memory-ratio": "50", "gpu-core": "20"}, {}, (1, "50%", "20%")),
    ("koordinator", {"gpu-memory-ratio": "200"}, {}, (2, "100%", "100%")),
    ("koordinator", {"gpu": "50"}, {}, (1, "50%", "50%")),
    ("koordinator", {"gpu": "200"}, {}, (2, "100%", "100%")),
    ("qgpu", {"qgpu-core": "50", "qgpu-memory": "4"}, {}, (1, "4096Mi", "50%")),
    ("qgpu", {"qgpu-core": "160", "qgpu-memory": "60"}, {}, (2, "30720Mi", "80%")),
    ("qgpu", {"qgpu-core": "121", "qgpu-memory": "31"}, {}, (2, "15360Mi", "60%")),
    ("qgpu", {"qgpu-core": "200", "qgpu-memory": "31"}, {}, (2, "100%", "100%")),
    ("vke", {"mgpu-core": "50", "mgpu-memory": "4096"}, {}, (1, "4096Mi", "50%")),
    (
        "vke",
        {"mgpu-core": "60", "mgpu-memory": "8192"},
        {"vke.volcengine.com/container-multiple-gpu": "2"},
        (2, "4096Mi", "30%"),
    ),
    ("vke", {"mgpu-core": "300"}, {}, (3, "100%", "100%")),
    ("mig", {"mig-1g.10gb": "1"}, {}, (1, "9984Mi", "14%")),
    ("mig", {"mig-3g.40gb": "1"}, {}, (1, "40448Mi", "42%")),
    ("baidu", {"a10_24g_cgpu": "1"}, {}, (1, "100%", "100%")),
    ("baidu", {"a10_24g_cgpu": "2", "a10_24g_cgpu_core": "50", "a10_24g_cgpu_memory": "10"}, {}, (2, "5120Mi", "25%")),
    ("baidu", {"t4_16g_cgpu": "1", "t4_16g_cgpu_memory_percent": "50"}, {}, (1, "50%", "unlimited")),
    ("mthreads", {"vgpu": "1", "sgpu-memory": "4", "sgpu-core": "8"}, {}, (1, "2048Mi", "50%")),
    ("mthreads", {"vgpu": "1"}, {}, (1, "100%", "100%")),
    ("mthreads", {"vgpu": "2", "sgpu-core": "8"}, {}, (2, "100%", "100%")),
    ("nvfractions", {}, {f"{CONTAINER}.limit": "7680Mi"}, (1, "7680Mi", "unlimited")),
    ("nvfractions", {}, {f"{CONTAINER}.request": "7680Mi", f"{CONTAINER}.limit": "7680Mi"}, (1, "7680Mi", "unlimited")),
    ("nvfractions", {}, {f"{CONTAINER}.limit": "4Gi", "gpu-fraction-num-devices": "2"}, (2, "4096Mi", "unlimited")),
    ("neutral", {}, {**NEUTRAL, f"{OURS}.profile": "small"}, (1, "4096Mi", "25%")),
    ("neutral", {}, {**NEUTRAL, f"{OURS}.profile": "whole", f"{OURS}.devices": "3"}, (3, "100%", "100%")),
    ("neutral", {}, {**NEUTRAL, f"{OURS}.memory": "5Gi", f"{OURS}.cores": "30"}, (1, "5120Mi", "30%")),
    ("elastic-gpu", {"gpu-core": "25", "gpu-memory": "1024"}, {}, (1, "1024Mi", "25%")),
    ("elastic-gpu", {"gpu-memory": "1024"}, {}, (1, "1024Mi", "unlimited")),
    ("elastic-gpu", {"gpu-core": "25"}, {}, (1, "unlimited", "25%")),
    ("elastic-gpu", {"gpu-core": "250"}, {}, (2, "100%", "100%")),
    ("ascend", {"Ascend910B2": "1", "Ascend910B2-memory": "16384"}, {}, (1, "16384Mi", "unlimited")),
    ("ascend", {"Ascend910B2": "1", "Ascend910B2-memory": "10000"}, {}, (1, "16384Mi", "unlimited")),
    ("ascend", {"Ascend910B2": "2"}, {}, (2, "100%", "100%")),
    ("timeslicing", {"gpu.shared": "1"}, {}, (1, "unlimited", "unlimited")),
    ("timeslicing", {"gpu.shared": "2"}, {}, (2, "unlimited", "unlimited")),
    (
        "ascend",
        {"Ascend910B2": "1", "Ascend910B2-memory": "10000", "Ascend910B2-core": "20"},
        {"huawei.com/vnpu-mode": "hami-core"},
        (1, "10000Mi", "20%"),
    ),
]
REFUSED: list[tuple[str, dict[str, str], dict[str, str], Reason]] = [
    ("kai", {}, {"gpu-fraction": "1.5"}, Reason.NOT_LEGAL),
    ("kai", {}, {"gpu-fraction": "0.5", "gpu-memory": "1"}, Reason.UNSUPPORTED_BY_VENDOR),
    ("kai", {}, {"gpu-fraction": "half"}, Reason.BAD_QUANTITY),
    ("kai", {}, {"gpu-memory": "4Gi"}, Reason.BAD_QUANTITY),
    ("kai", {}, {"gpu-memory": "0"}, Reason.NOT_LEGAL),
    ("kai", {}, {"gpu-fraction": "0.5", "gpu-fraction-container-name": "nobody"}, Reason.NO_SUCH_CONTAINER),
    ("kai", {}, {"gpu-fraction": "0.5", "gpu-fraction-num-devices": "0"}, Reason.BAD_COUNT),
    ("koordinator", {"gpu-core": "60"}, {}, Reason.UNSUPPORTED_BY_VENDOR),
    ("koordinator", {"gpu": "150"}, {}, Reason.UNSUPPORTED_BY_VENDOR),
    ("koordinator", {"gpu.shared": "0", "gpu-memory": "1Gi"}, {}, Reason.NOT_LEGAL),
    ("koordinator", {"gpu.shared": "2", "gpu-core": "61", "gpu-memory": "8Gi"}, {}, Reason.NOT_DIVISIBLE),
    ("qgpu", {"qgpu-core": "7", "qgpu-memory": "4"}, {}, Reason.UNSUPPORTED_BY_VENDOR),
    ("vke", {"mgpu-core": "50", "mgpu-memory": "100"}, {}, Reason.NOT_LEGAL),
    (
        "vke",
        {"mgpu-core": "50", "mgpu-memory": "4096"},
        {"vke.volcengine.com/container-multiple-gpu": "2,1"},
        Reason.BAD_COUNT,
    ),
    ("vke", {"mgpu-core": "100", "mgpu-memory": "4096"}, {}, Reason.UNSUPPORTED_BY_VENDOR),
    ("baidu", {"a10_24g_cgpu": "3", "a10_24g_cgpu_memory": "10"}, {}, Reason.NOT_DIVISIBLE),
    ("baidu", {"a10_24g_cgpu": "1", "t4_16g_cgpu_memory": "10"}, {}, Reason.SPELLINGS_DIFFER),
    ("mthreads", {"vgpu": "1", "sgpu-memory": "5"}, {}, Reason.NOT_LEGAL),
    ("nvfractions", {}, {f"{CONTAINER}.request": "0", f"{CONTAINER}.limit": "2Gi"}, Reason.TWINS_DIFFER),
    ("nvfractions", {}, {"nvidia.com/container.other.gpu-memory.limit": "2Gi"}, Reason.NO_SUCH_CONTAINER),
    ("neutral", {}, {f"{OURS}.memory": "5Gi"}, Reason.NOT_A_TARGET),
    ("neutral", {}, {**NEUTRAL, f"{OURS}.profile": "huge"}, Reason.SIZE_UNKNOWN),
    ("neutral", {}, {**NEUTRAL, f"{OURS}.profile": "huge", f"{OURS}.memory": "5Gi"}, Reason.SIZE_UNKNOWN),
    ("neutral", {}, {**NEUTRAL, "vgpu-webhook.io/container.nobody.profile": "small"}, Reason.NO_SUCH_CONTAINER),
    ("cambricon", {"vmlu": "1", "mlu.smlu.vmemory": "4"}, {}, Reason.UNIT_NOT_CONFIGURED),
    ("ascend", {"Ascend910B2": "1", "Ascend910B2-memory": "70000"}, {}, Reason.NOT_LEGAL),
    ("ascend", {"Ascend910B2": "1", "Ascend910B4-memory": "8192"}, {}, Reason.SPELLINGS_DIFFER),
]
DOMAINS = {
    "cambricon": "cambricon.com",
    "koordinator": "koordinator.sh",
    "qgpu": "tke.cloud.tencent.com",
    "vke": "vke.volcengine.com",
    "mig": "nvidia.com",
    "timeslicing": "nvidia.com",
    "baidu": "baidu.com",
    "mthreads": "mthreads.com",
    "elastic-gpu": "elasticgpu.io",
    "ascend": "huawei.com",
}


def pod_of(vendor: str, resources: dict[str, str], annotations: dict[str, str]) -> Any:
    """A pod with one container that requests in the vendor's keys."""
    side = {f"{DOMAINS[vendor]}/{name}": text for name, text in resources.items()}
    return {
        "metadata": {"name": "p", "labels": {"app": "a"}, "annotations": {"team.example/a": "b", **annotations}},
        "spec": {"containers": [{"name": "main", "resources": {"limits": side, "requests": dict(side)}}]},
    }


def decided(pod: Any) -> Decision:
    """What becomes of it."""
    return decide(decode_pod(json.dumps(pod).encode()), CONTEXT, POLICY)


def meant(decision: Decision, container: str = "main") -> Meaning:
    """What the status says that the container holds."""
    account = decision.status["containers"][container]
    request = account.get("allocation", account["request"])
    return request["devices"], request["memory"], request["cores"]


@pytest.mark.parametrize("vendor, resources, annotations, expected", SAMPLES, ids=str)
def test_read_by_the_vendors_rules(
    vendor: str, resources: dict[str, str], annotations: dict[str, str], expected: Meaning
) -> None:
    """Every way of writing a request that a document can describe is understood."""
    decision = decided(pod_of(vendor, resources, annotations))
    assert decision.denial is None
    assert decision.status["containers"]["main"]["vendor"] == vendor
    assert meant(decision) == expected


@pytest.mark.parametrize("vendor, resources, annotations, reason", REFUSED, ids=str)
def test_refused_by_the_vendors_rules(
    vendor: str, resources: dict[str, str], annotations: dict[str, str], reason: Reason
) -> None:
    """What the vendor would refuse or ignore on the node is refused here."""
    assert decided(pod_of(vendor, resources, annotations)).reason is reason


SEVERAL: list[tuple[str, list[dict[str, str]], dict[str, str], list[Meaning | None] | Reason]] = [
    (
        "vke",
        [{"mgpu-core": "60", "mgpu-memory": "8192"}, {"mgpu-core": "50", "mgpu-memory": "4096"}, {}],
        {"vke.volcengine.com/container-multiple-gpu": "2,1,0"},
        [(2, "4096Mi", "30%"), (1, "4096Mi", "50%"), None],
    ),
    ("kai", [{}, {}], {"gpu-fraction": "0.5"}, [(1, "50%", "unlimited"), None]),
    ("kai", [{}, {}], {"gpu-fraction": "0.5", "gpu-fraction-container-name": "c1"}, [None, (1, "50%", "unlimited")]),
    (
        "nvfractions",
        [{}, {}],
        {f"nvidia.com/container.c{n}.gpu-memory.limit": "1Gi" for n in range(2)},
        Reason.ONE_CONTAINER_ONLY,
    ),
    (
        "neutral",
        [{}, {}, {}],
        {
            TARGET: "nvidia",
            "vgpu-webhook.io/container.c2.profile": "small",
            "vgpu-webhook.io/container.c0.memory": "1Gi",
        },
        [(1, "1024Mi", "unlimited"), None, (1, "4096Mi", "25%")],
    ),
    ("mig", [{"mig-1g.10gb": "1"}, {"mig-3g.40gb": "1"}], {}, [(1, "9984Mi", "14%"), (1, "40448Mi", "42%")]),
    ("mig", [{"mig-1g.10gb": "1", "mig-3g.40gb": "1"}, {}], {}, [None, None]),
    ("mig", [{"mig-1g.10gb": "1", "mig-3g.40gb": "1"}], {TARGET: "nvidia"}, Reason.SPELLINGS_DIFFER),
]


@pytest.mark.parametrize("vendor, sides, annotations, expected", SEVERAL, ids=str)
def test_several_containers(
    vendor: str, sides: list[dict[str, str]], annotations: dict[str, str], expected: list[Meaning | None] | Reason
) -> None:
    """By position, by name in a key or a value, or one at most: each container gets what is meant for it."""
    pod = pod_of(vendor, {}, annotations)
    pod["spec"]["containers"] = [
        {**pod_of(vendor, side, {})["spec"]["containers"][0], "name": f"c{n}"} for n, side in enumerate(sides)
    ]
    decision = decided(pod)
    if isinstance(expected, Reason):
        assert decision.reason is expected
        return
    held = decision.status.get("containers", {})
    assert [meant(decision, f"c{n}") if f"c{n}" in held else None for n in range(len(sides))] == expected
    stored = apply_strictly(pod, decision.patch)
    assert decided(stored).patch == ()


def test_counts_are_written_by_position() -> None:
    """Who does not ask has a 0 in the list."""
    pod = pod_of("mig", {}, {TARGET: "vke"})
    share = {"nvidia.com/gpu": "2", "nvidia.com/gpumem": "4096", "nvidia.com/gpucores": "30"}
    pod["spec"]["containers"] = [
        {"name": "idle"},
        {"name": "main", "resources": {"limits": share, "requests": dict(share)}},
    ]
    stored = apply_strictly(pod, decided(pod).patch)
    assert stored["metadata"]["annotations"]["vke.volcengine.com/container-multiple-gpu"] == "0,2"
    assert stored["spec"]["containers"][1]["resources"]["limits"] == {
        "vke.volcengine.com/mgpu-memory": "8192",
        "vke.volcengine.com/mgpu-core": "60",
    }


@pytest.mark.parametrize("index", [0, 1])
def test_who_asks_is_named(index: int) -> None:
    """Annotations that hold for the first container name another one that requests."""
    pod = pod_of("mig", {}, {TARGET: "kai"})
    share = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "4096"}
    pod["spec"]["containers"] = [{"name": "c0"}, {"name": "c1"}]
    pod["spec"]["containers"][index]["resources"] = {"limits": share, "requests": dict(share)}
    stored, decision = translated(pod, "kai")
    assert decision.denial is None
    assert stored["metadata"]["annotations"].get("gpu-fraction-container-name") == (None, "c1")[index]
    assert meant(decided(stored), f"c{index}") == (1, "4096Mi", "unlimited")


def test_nearly_all_of_a_card_may_become_all_of_it() -> None:
    """Rounded up to all of a device, memory is a whole device's, and so are the cores that had no limit."""
    text = "{extends: kai, keys: {fraction: {values: 0.0001..0.9999}}}"
    policy = unprobed_policy([*documents_in(Path(__file__).with_name("documents")), *parse(text, "kai.yaml")])
    pod = pod_of("kai", {}, {"gpu-fraction": "0.995", TARGET: "nvidia"})
    decision = decide(decode_pod(json.dumps(pod).encode()), CONTEXT, policy)
    stored = apply_strictly(pod, decision.patch)
    assert stored["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpumem-percentage"] == "100"
    assert {Reason.ROUNDED, Reason.LIMIT_ADDED} <= {finding.reason for finding in decision.warnings}


def test_profiles_that_exist_are_listed() -> None:
    """So that the user can choose; and who defines them, where there are none."""
    denial = decided(pod_of("neutral", {}, {**NEUTRAL, f"{OURS}.profile": "huge"})).denial
    assert denial is not None
    assert "write one of small, whole" in denial.message
    pod = pod_of("neutral", {}, {**NEUTRAL, f"{OURS}.profile": "huge"})
    plain = decide(decode_pod(json.dumps(pod).encode()), CONTEXT, load_policy()).denial
    assert plain is not None
    assert "`extends: neutral`" in plain.message


def test_both_keys_of_a_pair_are_written() -> None:
    """A key with a twin says the same twice, and both are taken away with it."""
    pod = pod_of("mig", {}, {TARGET: "nvfractions"})
    share = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "4096"}
    pod["spec"]["containers"][0]["resources"] = {"limits": share, "requests": dict(share)}
    stored, _ = translated(pod, "nvfractions")
    written = {key: text for key, text in stored["metadata"]["annotations"].items() if key.startswith(CONTAINER)}
    assert {parse_quantity(text) for text in written.values()} == {4 * 1024**3}
    assert set(written) == {f"{CONTAINER}.limit", f"{CONTAINER}.request"}
    back, _ = translated(stored, "nvidia")
    assert not [key for key in back["metadata"]["annotations"] if key.startswith(CONTAINER)]


def translated(pod: Any, target: str) -> tuple[Any, Decision]:
    """The pod on order for the target, and what is stored."""
    ordered = copy.deepcopy(pod)
    ordered["metadata"]["annotations"][TARGET] = target
    decision = decided(ordered)
    return apply_strictly(ordered, decision.patch), decision


def check(pod: Any, requested: Meaning, target: str) -> Any | None:
    """The pod translated, if it can be, after checking what must hold; None where it is refused with a reason."""
    stored, decision = translated(pod, target)
    if decision.denial is not None:
        assert decision.reason.kind is ReasonKind.DENIAL
        return None
    got = meant(decision)
    assert got[0] == requested[0]
    added = any(finding.reason is Reason.LIMIT_ADDED for finding in decision.warnings)
    assert at_least(got[1], requested[1])
    assert at_least(got[2], requested[2]) or (added and requested[2] == "unlimited")
    again = decided(stored)
    assert (again.denial, again.patch, meant(again)) == (None, (), got)
    assert stored["metadata"]["labels"].items() >= {"app": "a"}.items()
    assert stored["metadata"]["annotations"]["team.example/a"] == "b"
    resources = stored["spec"]["containers"][0]["resources"]
    assert resources["limits"] == resources["requests"]
    return stored


def at_least(got: str, requested: str) -> bool:
    """Whether an amount of the status is not less than another; a size never becomes a part of a device but all of it."""
    if requested == "unlimited" or got == "unlimited":
        return got == requested
    if got == "100%":
        return True
    unit = "%" if requested.endswith("%") else "Mi"
    return got.endswith(unit) and parse_quantity(got.removesuffix(unit)) >= parse_quantity(requested.removesuffix(unit))


@pytest.mark.parametrize("target", sorted(POLICY.vendors))
def test_any_to_any(target: str) -> None:
    """Each sample is denied for each target with a reason, or written validly and not below the request."""
    done = 0
    for vendor, resources, annotations, requested in SAMPLES:
        done += check(pod_of(vendor, resources, annotations), requested, target) is not None
    if POLICY.vendors[target].target and target not in READ_OTHERWISE:
        assert done
    else:
        assert not done


TARGETS = sorted(name for name, vendor in POLICY.vendors.items() if vendor.target)


@given(
    st.fixed_dictionaries(
        {"nvidia.com/gpu": st.integers(1, 8).map(str)},
        optional={
            "nvidia.com/gpumem": st.integers(1, 80_000).map(str),
            "nvidia.com/gpumem-percentage": st.integers(1, 100).map(str),
            "nvidia.com/gpucores": st.integers(1, 100).map(str),
        },
    ),
    st.sampled_from(TARGETS),
    st.sampled_from(TARGETS),
)
def test_from_one_to_another_to_a_third(side: dict[str, str], first: str, second: str) -> None:
    """What was written for one vendor is a request in its keys, and can be moved on like any other."""
    pod = pod_of("mig", {}, {})
    pod["spec"]["containers"][0]["resources"] = {"limits": side, "requests": dict(side)}
    decision = decided(pod)
    stored = check(apply_strictly(pod, decision.patch), meant(decision), first)
    assume(stored is not None)
    away = decided(stored)
    check(stored, meant(away), second)
