"""What is more than any honest pod has is refused, and what is reported or written of a pod has an end."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from tests.decided import POLICY, TEAM, decided, pod_with, view
from tests.naming import naming
from tests.yaml_text import load_yaml
from webhook.admission import Context, Decision, Namespace
from webhook.admission.collect import MAX_REQUESTING
from webhook.admission.eligibility import (
    MAX_BYTES,
    MAX_CLAIMS,
    MAX_ENTRIES,
    MAX_LISTED,
    MAX_NODE_NAME,
    MAX_PLACEMENT,
    MAX_RESOURCES,
)
from webhook.admission.guard import MAX_CAPABILITIES, MAX_MOUNTS
from webhook.admission.shim import MAX_PATHS
from webhook.admission.survey import MAX_CONTAINERS, MAX_UNKNOWN
from webhook.labels import MODE
from webhook.mapping.notation import MAX_KEY
from webhook.pod import MAX_TEXTS
from webhook.reasons import Reason
from webhook.review import UndecodableError, decode_review

pytestmark = pytest.mark.usefixtures("remembers_at_once")


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


@pytest.mark.parametrize("honest, is_reported", [(MAX_UNKNOWN - 1, True), (MAX_UNKNOWN, False)])
def test_unknown_names_are_looked_at_up_to_a_limit(honest: int, *, is_reported: bool) -> None:
    """A near miss is found among as many unknown names as are looked at, and none behind them."""
    strangers = [f"example.com/thing-{n}" for n in range(honest)]
    decision = decided(pod_with(container("a", *strangers), container("b", "nvidia.com/gpumemm")))
    reasons = {finding.reason for finding in (*decision.warnings, *([decision.denial] if decision.denial else []))}
    assert bool(reasons & {Reason.NEAR_MISS, Reason.UNKNOWN_KEY}) is is_reported


def named(count: int, prefix: str = "k") -> dict[str, str]:
    """So many keys."""
    return {f"{prefix}{number}": "" for number in range(count)}


def many(count: int, **members: Any) -> list[dict[str, Any]]:
    """So many entries of a list, each with a name."""
    return [{"name": f"n{number}", **members} for number in range(count)]


def claims(count: int) -> dict[str, Any]:
    """A container with so many claims, in as few bytes as there can be."""
    return {"resources": {"limits": {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000"}, "claims": [{}] * count}}


def mounting(count: int, name: str = "") -> dict[str, Any]:
    """A share with so many mounts, of names near the shim's."""
    return share(volumeMounts=[{"name": f"n{number}{name}vgpu-shim"} for number in range(count)])


def split_paths(length: int) -> list[dict[str, Any]]:
    """Search paths of so many characters in all, in several containers."""
    return [
        share(env=[{"name": "LD_LIBRARY_PATH", "value": "/" * (length // 4 + (length % 4) * (number == 0))}])
        for number in range(4)
    ]


def searching(path: str, times: int = 1) -> dict[str, Any]:
    """A share with a search path, set so often."""
    return share(env=[{"name": "LD_LIBRARY_PATH", "value": path}] * times)


WRITTEN = "LD_LIBRARY_PATH=:/usr/local/vgpu-shim\0"
"""What is written around a search path of a share."""
LIMITS: dict[str, tuple[int, Callable[[int], Any]]] = {
    "requests": (MAX_REQUESTING, lambda n: {"spec": {"containers": [share()] * n}}),
    "containers": (
        MAX_CONTAINERS,
        lambda n: {"spec": {"initContainers": many(n // 2), "containers": [share(), *many(n - n // 2 - 1)]}},
    ),
    "labels": (MAX_ENTRIES, lambda n: {"metadata": {"labels": named(n)}}),
    "annotations": (MAX_ENTRIES, lambda n: {"metadata": {"annotations": named(n)}}),
    "node selector": (MAX_ENTRIES, lambda n: {"spec": {"nodeSelector": named(n)}}),
    "long label": (MAX_KEY, lambda n: {"metadata": {"labels": {"k" * n: ""}}}),
    "long annotation": (MAX_KEY, lambda n: {"metadata": {"annotations": {"k" * n: ""}}}),
    "long selector": (MAX_KEY, lambda n: {"spec": {"nodeSelector": {"k" * n: ""}}}),
    "long resource": (
        MAX_KEY,
        lambda n: {"spec": {"containers": [share(), {"resources": {"limits": {"k/" + "k" * (n - 2): "1"}}}]}},
    ),
    "resources": (
        MAX_RESOURCES,
        lambda n: {
            "spec": {
                "containers": [
                    share(),
                    {"resources": {"limits": named(n // 2 - 2, "a/"), "requests": named(n - n // 2, "a/")}},
                ]
            }
        },
    ),
    "claims of containers": (MAX_CLAIMS, lambda n: {"spec": {"containers": [claims(n)]}}),
    "claims": (MAX_CLAIMS, lambda n: {"spec": {"resourceClaims": [{}] * n}}),
    "node name": (MAX_NODE_NAME, lambda n: {"spec": {"nodeName": "n" * n}}),
    "tolerations": (MAX_PLACEMENT, lambda n: {"spec": {"tolerations": [{"key": "k" * (n - len('[{"key": ""}]'))}]}}),
    "affinity": (MAX_PLACEMENT, lambda n: {"spec": {"nodeName": "n", "affinity": {"x": "k" * (n - len('{"x": ""}'))}}}),
    "volumes": (MAX_LISTED, lambda n: {"spec": {"volumes": [*many(n - 2), {"name": "vgpu-shim-x", "emptyDir": {}}]}}),
    "long volumes": (
        MAX_BYTES,
        lambda n: {"spec": {"volumes": [{"name": "v" * (n - len('[{"name": "vgpu-shim"}]')) + "vgpu-shim"}]}},
    ),
    "mounts": (
        MAX_LISTED,
        lambda n: {"spec": {"containers": [mounting(n // 8 + (n % 8) * (number == 0)) for number in range(8)]}},
    ),
    "long mounts": (
        MAX_BYTES,
        lambda n: {"spec": {"containers": [mounting(1, "v" * (n - len('[{"name": "n0vgpu-shim"}]')))]}},
    ),
    "variables": (
        MAX_LISTED,
        lambda n: {
            "spec": {"containers": [share(env=[*many(n - 1), {"name": "NVIDIA_VISIBLE_DEVICES", "value": "none"}])]}
        },
    ),
    "capabilities": (
        MAX_CAPABILITIES,
        lambda n: {
            "spec": {"containers": [share(securityContext={"capabilities": {"add": ["c" * (n - len('[""]'))]}})]},
        },
    ),
    "guarded mounts": (
        MAX_MOUNTS,
        lambda n: {"spec": {"containers": [share(volumeMounts=[{"mountPath": "/etc/ld.so.preloaded"}, *many(n - 1)])]}},
    ),
    "mounts beside a folder of the node": (
        MAX_MOUNTS,
        lambda n: {
            "spec": {
                "containers": [share(volumeMounts=many(n, mountPath="/data"))],
                "volumes": [{"name": "n0", "hostPath": {"path": "/data"}}],
            }
        },
    ),
    "paths": (MAX_PATHS, lambda n: {"spec": {"containers": split_paths(n)}}),
    "path set again": (16, lambda n: {"spec": {"containers": [searching(":", n)]}}),
    "long path": (128 * 1024, lambda n: {"spec": {"containers": [searching("/" * (n - len(WRITTEN)))]}}),
    "references": (64, lambda n: {"spec": {"containers": [searching("$(E):" * n)]}}),
    "marks": (
        256,
        lambda n: {"metadata": {"annotations": named(n, "ALIYUN_COM_GPU_MEM_")}, **limits({"aliyun.com/gpu-mem": "4"})},
    ),
    "hints for containers": (
        MAX_REQUESTING,
        lambda n: {
            "metadata": {"annotations": {f"vgpu-webhook.io/container.c{at}.memory": "1Gi" for at in range(n)}},
            "spec": {"containers": [{}] * n},
        },
    ),
    "fractions and shares": (
        MAX_REQUESTING,
        lambda n: {
            "metadata": {
                "annotations": {
                    "gpu-fraction": "1",
                    "gpu-fraction-container-name": ",".join(f"c{at}" for at in range(90)),
                }
            },
            "spec": {"containers": [share() if at >= 90 else {} for at in range(n)]},
        },
    ),
    "keys": (1024, lambda n: limits({f"nvidia.com/mig-1g.{at + 1}gb": "1" for at in range(n)})),
    "name of a container": (63, lambda n: {"spec": {"containers": [share(name="c" * n)]}}),
    "value": (
        8192,
        lambda n: {
            **limits({"tencent.com/vcuda-core": "10"}),
            "metadata": {"annotations": {"tke.cloud.tencent.com/app-class": "a" * n}},
        },
    ),
}
"""By what is limited: the limit, and a pod with so many of it; containers without a name get one."""

TOLD = Path(__file__).with_name("bounds.yaml")


def test_as_much_as_is_permitted_is_not_too_much(*, update_golden: bool) -> None:
    """What is at the limit is decided like anything else; what is one beyond it is denied, as `bounds.yaml` has it."""
    told = {}
    for name, limit in LIMITS.items():
        with naming(name):
            told[name] = beyond(*limit)
    if update_golden:
        TOLD.write_text(yaml.safe_dump(told, sort_keys=False, allow_unicode=True, width=10_000))
    assert told == load_yaml(TOLD.read_text())


def beyond(most: int, made: Callable[[int], Any]) -> str:
    """What is told of one more than the limit, in every mode with its code."""

    def decision(number: int, mode: str) -> Decision:
        pod = {"spec": {"containers": [share()]}, **made(number)}
        pod["spec"] = {"containers": [share()], **pod["spec"]}
        pod["spec"]["containers"] = [{"name": f"c{i}", **each} for i, each in enumerate(pod["spec"]["containers"])]
        return decided(pod, context=Context(Namespace("team", {**TEAM.labels, MODE: mode}), "privileged"))

    assert decision(most, "enforce").reason is not Reason.TOO_MANY
    for mode in ("warn", "audit"):
        assert decision(most + 1, mode).reason is Reason.TOO_MANY
        assert decision(most + 1, mode).allowed
    denial = decision(most + 1, "enforce").denial
    assert denial is not None
    return f"{denial.text} [{denial.field}]"


MAPS = [
    {"metadata": {"labels": named(MAX_TEXTS)}},
    {"metadata": {"annotations": named(MAX_TEXTS)}},
    {"spec": {"containers": [{}], "nodeSelector": named(MAX_TEXTS)}},
    limits(named(MAX_TEXTS)),
    {"spec": {"containers": [], "initContainers": [{"resources": {"requests": named(MAX_TEXTS)}}]}},
]


@pytest.mark.parametrize("full", MAPS, ids=range(len(MAPS)))
def test_maps_that_take_long_to_decode_are_not_decoded(full: dict[str, Any]) -> None:
    """Nothing is known of such a pod."""
    with pytest.raises(msgspec.DecodeError, match=f"more than {MAX_TEXTS} labels"):
        view(full)
    review = {"uid": "u", "kind": {"version": "v1", "kind": "Pod"}, "operation": "CREATE", "object": full}
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": review}
    with pytest.raises(UndecodableError, match=f"more than {MAX_TEXTS} labels"):
        decode_review(json.dumps(body).encode())


def test_only_texts_of_maps_count() -> None:
    """Not the names of their fields: many containers with few resources are decoded."""
    cpu = {"resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}}
    assert view(pod_with(*[{"name": "a", **cpu}] * (MAX_TEXTS // 4))).spec.containers


def test_any_number_of_ordinary_variables_is_permitted() -> None:
    """They are searched as a whole, and not looked through."""
    decision = decided(pod_with({"name": "a", **share(env=many(40_000, value="1"))}))
    assert decision.denial is None
    assert decision.patch_json


def test_large_pods_are_not_remembered() -> None:
    """A few reviews cannot take all memory: what is remembered is bounded in bytes, too."""
    for marks, remembered in ((20, True), (200, False)):
        POLICY.memo.clear()
        pod = {
            "metadata": {"annotations": {f"ALIYUN_COM_GPU_MEM_{number}": "x" * 90 for number in range(marks)}},
            "spec": {"containers": [{"name": "a", "resources": {"limits": {"aliyun.com/gpu-mem": 4}}}]},
        }
        decided(pod)
        assert bool(POLICY.memo) is remembered


def test_what_is_taken_away_is_bounded() -> None:
    """A namespace that strips variables is not made to write a patch of any length."""
    lifting = [{"name": f"CUDA_DEVICE_MEMORY_LIMIT_{number}", "value": "1"} for number in range(300)]
    stripping = Context(Namespace("team", TEAM.labels, {"vgpu-webhook.io/guard": "strip"}), "privileged")
    decision = decided(pod_with({"name": "a", **share(env=lifting)}), context=stripping)
    assert decision.denial is not None
    assert decision.denial.reason is Reason.TOO_MANY
    message = "more than 256 variables, keys and mounts have to be removed: remove them from the manifest"
    assert decision.denial.message == message


def test_hints_that_are_told_are_bounded() -> None:
    """The first of them, and each once."""
    hints = {f"nvidia.com/container.x{n}.gpu-compute.mode": "1" for n in range(300)}
    pod = {
        "metadata": {"annotations": {"nvidia.com/container.a.gpu-memory.limit": "1Gi", **hints}},
        "spec": {"containers": [{"name": "a"}]},
    }
    namespace = Namespace("team", TEAM.labels, {"vgpu-webhook.io/target": "nvidia"})
    decision = decided(pod, context=Context(namespace, "privileged"))
    reported = [finding for finding in decision.warnings if finding.reason is Reason.HINT_NOT_CARRIED]
    assert decision.allowed
    assert 0 < len(set(reported)) == len(reported) < 100
