"""What is more than any honest pod has is refused, and what is reported or written of a pod has an end."""

import json
import re
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.decided import POLICY, TEAM, decided, pod_with, view
from tests.naming import each_of
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


@each_of(
    "pod, told",
    [
        (
            {
                "metadata": {"annotations": {f"ALIYUN_COM_GPU_MEM_{number}": "" for number in range(300)}},
                "spec": {"containers": [{"name": "a", "resources": {"limits": {"aliyun.com/gpu-mem": 4}}}]},
            },
            ("300 annotations belong to schedulers: remove them from the manifest", None, "metadata.annotations"),
        ),
        (
            {"spec": {"containers": [{"name": "a", **share(env=[{"name": "LD_LIBRARY_PATH", "value": ":"}] * 20)}]}},
            ("env LD_LIBRARY_PATH is set more than 16 times: set it once", "a", "env[LD_LIBRARY_PATH]"),
        ),
        (
            {
                "spec": {
                    "containers": [{"name": "a", **share(env=[{"name": "LD_LIBRARY_PATH", "value": "/a:" * 50_000}])}]
                }
            },
            (
                "env LD_LIBRARY_PATH takes 150017 bytes; no program starts with one of more than 131072: shorten it",
                "a",
                "env[LD_LIBRARY_PATH]",
            ),
        ),
        (
            {
                "spec": {
                    "containers": [{"name": "a", **share(env=[{"name": "LD_LIBRARY_PATH", "value": "$(E):" * 20_000}])}]
                }
            },
            ("env LD_LIBRARY_PATH has 20000 references to variables: write at most 64", "a", "env[LD_LIBRARY_PATH]"),
        ),
        (
            {
                "metadata": {"annotations": {f"vgpu-webhook.io/container.c{n}.memory": "1Gi" for n in range(129)}},
                "spec": {"containers": [{"name": f"c{number}"} for number in range(129)]},
            },
            ("more than 128 containers request a GPU: split the pod", None, None),
        ),
        (
            {
                "metadata": {
                    "annotations": {
                        "gpu-fraction": "1",
                        "gpu-fraction-container-name": ",".join(f"c{n}" for n in range(90)),
                    }
                },
                "spec": {"containers": [{"name": f"c{n}", **(share() if n >= 90 else {})} for n in range(130)]},
            },
            ("more than 128 containers request a GPU: split the pod", None, None),
        ),
        (
            limits({f"nvidia.com/mig-1g.{n + 1}gb": "1" for n in range(1025)}),
            ("the pod has more than 1024 GPU keys: remove those that it does not need", None, None),
        ),
        (
            {"spec": {"containers": [{"name": "c" * 64, **share()}]}},
            ("the name of a container has 64 characters: write at most 63", None, "name"),
        ),
        (
            {
                "metadata": {"annotations": {"tke.cloud.tencent.com/app-class": "a" * 10_000}},
                "spec": {"containers": [{"name": "a", "resources": {"limits": {"tencent.com/vcuda-core": "10"}}}]},
            },
            (
                "the value 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'… of a GPU key has 10000 characters: write at most 8192",
                None,
                None,
            ),
        ),
    ],
)
def test_more_than_any_honest_pod_has_is_refused(pod: dict[str, Any], told: tuple[str | None, ...]) -> None:
    """What would take long is not looked through."""
    denial = decided(pod).denial
    assert denial is not None
    assert denial.reason is Reason.TOO_MANY
    assert (denial.message, denial.container, denial.field) == told


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
}
"""By what is limited: the limit, and a pod with so many of it."""

_KEY = f"a key of the pod has {MAX_KEY + 1} characters"
TOLD: dict[str, tuple[str, str | None]] = {
    "requests": ("more than 128 containers request a GPU: split the pod", None),
    "containers": (f"the pod has {MAX_CONTAINERS + 1} containers", "spec.containers"),
    "labels": ("the pod has 1025 labels", "metadata.labels"),
    "annotations": ("the pod has 1025 annotations", "metadata.annotations"),
    "node selector": ("the pod has 1025 node selector keys", "spec.nodeSelector"),
    "long label": (_KEY, "k" * 40),
    "long annotation": (_KEY, "k" * 40),
    "long selector": (_KEY, "k" * 40),
    "long resource": (_KEY, f"k/{'k' * 38}"),
    "resources": ("the pod has 4097 resources of containers", "resources"),
    "claims of containers": ("the pod has 1025 claims of containers", "claims"),
    "claims": ("the pod has 1025 resource claims", "spec.resourceClaims"),
    "node name": ("the pod has 254 characters of spec.nodeName", "spec.nodeName"),
    "tolerations": ("the pod has 262145 bytes of tolerations", "spec.tolerations"),
    "affinity": ("the pod has 262145 bytes of affinity", "spec.affinity"),
    "volumes": ("the pod has 8193 volumes and parts of them", "volumes"),
    "long volumes": ("the pod has 1048577 bytes of volumes", "volumes"),
    "mounts": ("the pod has 8193 mounts and parts of them", "mounts"),
    "long mounts": ("the pod has 1048577 bytes of mounts", "mounts"),
    "variables": ("the pod has 8193 variables in containers with one that matters to a share", "env"),
    "capabilities": (
        "capabilities take more than 1024 bytes: remove those that Linux has not",
        "securityContext.capabilities.add",
    ),
    "guarded mounts": (
        f"more than {MAX_MOUNTS} mounts, some of which may be guarded: split the container, or mount fewer",
        "volumeMounts",
    ),
    "mounts beside a folder of the node": (
        f"more than {MAX_MOUNTS} mounts, some of which may be guarded: split the container, or mount fewer",
        "volumeMounts",
    ),
    "paths": (
        "LD_LIBRARY_PATH and LD_PRELOAD of the pod have more than 262144 characters",
        "env[LD_LIBRARY_PATH]",
    ),
}
"""How the denial of one more begins, and the field that it names."""


@each_of("name", LIMITS)
def test_as_much_as_is_permitted_is_not_too_much(name: str) -> None:
    """What is at the limit is decided like anything else; what is one beyond it is denied, in every mode with its code."""
    most, made = LIMITS[name]

    def decision(number: int, mode: str) -> Decision:
        pod = {"spec": {"containers": [share()]}, **made(number)}
        pod["spec"] = {"containers": [share()], **pod["spec"]}
        pod["spec"]["containers"] = [{"name": f"c{i}", **each} for i, each in enumerate(pod["spec"]["containers"])]
        return decided(pod, context=Context(Namespace("team", {**TEAM.labels, MODE: mode}), "privileged"))

    assert decision(most, "enforce").reason is not Reason.TOO_MANY
    denial = decision(most + 1, "enforce").denial
    assert denial is not None
    begins, field = TOLD[name]
    assert re.split(", more than|: shorten", denial.message)[0] == begins
    assert denial.field == field
    for mode in ("enforce", "warn", "audit"):
        beyond = decision(most + 1, mode)
        assert beyond.reason is Reason.TOO_MANY
        assert beyond.allowed is (mode != "enforce")


@pytest.mark.parametrize("place", ["labels", "annotations"])
def test_maps_that_take_long_to_decode_are_not_decoded(place: str) -> None:
    """Nothing is known of such a pod."""
    spec = {"containers": [share()]}
    full = {"metadata": {"name": "p", "namespace": "team", place: named(MAX_TEXTS)}, "spec": spec}
    with pytest.raises(msgspec.DecodeError, match=f"more than {MAX_TEXTS} labels"):
        view(full)
    review = {"uid": "u", "kind": {"version": "v1", "kind": "Pod"}, "operation": "CREATE", "object": full}
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": review}
    with pytest.raises(UndecodableError, match=f"more than {MAX_TEXTS} labels"):
        decode_review(json.dumps(body).encode())


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
