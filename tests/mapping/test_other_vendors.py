"""Vendors of which no two are built alike, read and translated into each other; four with what a cluster configures."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from tests.naming import each_of
from tests.strict_patch import apply_strictly
from webhook.admission import Context, Decision, Namespace, decide
from webhook.mapping.document.strict_yaml import parse
from webhook.mapping.load import build_policy, documents_in, load_policy
from webhook.pod import decode_pod
from webhook.quantity import parse_quantity
from webhook.reasons import Reason

POLICY = build_policy(documents_in(Path(__file__).with_name("documents")))
CONTEXT = Context(Namespace("team", {"vgpu-webhook.io/inject": "enabled"}), pod_security_default="privileged")
TARGET = "vgpu-webhook.io/target"
CONTAINER = "nvidia.com/container.main.gpu-memory"
OURS = "vgpu-webhook.io/container.main"
NEUTRAL = {TARGET: "nvidia"}

Meaning = tuple[int, str, str]

DOMAINS = {"vke": "vke.volcengine.com", "mig": "nvidia.com"}


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


@each_of("vendor, sides, annotations, expected", SEVERAL)
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


def test_one_container_only_beside_a_request_that_is_shared() -> None:
    """A count of the pod for all containers of a system permits no second one to another system."""
    pod = pod_of("mig", {}, {"tensor-fusion.ai/vram-limit": "1Gi", "tensor-fusion.ai/inject-container": "c0,c1"})
    side = {"mthreads.com/vgpu": "1", "mthreads.com/sgpu-memory": "4"}
    pod["spec"]["containers"] = [{"name": f"c{n}", "resources": {"limits": side if n > 1 else {}}} for n in range(4)]
    denial = decided(pod).denial
    assert denial is not None
    assert denial.reason is Reason.ONE_CONTAINER_ONLY
    assert "mthreads serves one container of a pod, but c2, c3" in denial.message


def test_a_request_for_all_containers_of_which_one_is_served_is_translated() -> None:
    """Even beside a container that requests in the target's own keys."""
    pod = pod_of("mig", {}, {"tensor-fusion.ai/vram-limit": "1Gi", "tensor-fusion.ai/inject-container": "c0"})
    share = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "4096"}
    pod["spec"]["containers"] = [{"name": "c0"}, {"name": "c1", "resources": {"limits": share}}]
    _, decision = translated(pod, "nvidia")
    assert decision.denial is None
    assert [meant(decision, name)[1] for name in ("c0", "c1")] == ["1024Mi", "4096Mi"]


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
    text = "{extends: kai, keys: {fraction: {values: 0.001..0.999, step: '0.001'}}}"
    policy = build_policy([*documents_in(Path(__file__).with_name("documents")), *parse(text, "kai.yaml")])
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
