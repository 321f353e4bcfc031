"""Any input ends in bounded time: reviews up to the 7 MiB that the server takes, made to be slow."""

import json
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from webhook.admission import Context, Namespace, decide
from webhook.mapping import memo
from webhook.mapping.load import build_policy
from webhook.mapping.memo import MAX_RESULTS
from webhook.mapping.policy import Policy
from webhook.mapping.strict_yaml import Document
from webhook.pod import decode_pod

LARGEST = 7 * 1024 * 1024
GENEROUS = 5.0
"""Seconds; honest machines need a tenth of one. What grows with the square of the input needs minutes."""

OPTED_IN = Namespace("team", {"vgpu-webhook.io/inject": "enabled", "pod-security.kubernetes.io/enforce": "privileged"})
SHARE = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3k"}


def container(number: int = 0, resources: Any = None, **members: Any) -> dict[str, Any]:
    """One container, by default with a share."""
    side = SHARE if resources is None else resources
    return {"name": f"c{number}", "resources": {"limits": side, "requests": side}, **members}


def pod(*containers: Any, metadata: Any = None, **spec: Any) -> dict[str, Any]:
    """A pod of these containers."""
    return {"metadata": {"name": "p", **(metadata or {})}, "spec": {"containers": list(containers), **spec}}


def keys(prefix: str, count: int) -> dict[str, str]:
    """Many keys that begin alike."""
    return {f"{prefix}{number}": "1" for number in range(count)}


def nested(depth: int) -> Any:
    """A list in a list in a list."""
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


PODS: dict[str, Callable[[], dict[str, Any]]] = {
    "containers that ask": lambda: pod(*map(container, range(20_000))),
    "containers of whole cards": lambda: pod(*(container(n, {"tencent.com/vcuda-core": "100"}) for n in range(20_000))),
    "as many as may ask": lambda: pod(*map(container, range(128))),
    "containers without": lambda: pod(container(), *(container(n + 1, {}) for n in range(40_000))),
    "containers near a word": lambda: pod(*(container(n, {"nvidia.com/gpu-": "1"}) for n in range(40_000))),
    "containers of one name": lambda: pod(*(container(0) for _ in range(100))),
    "names near a word": lambda: pod(container(0, keys("nvidia.com/gp", 100_000))),
    "names begun by a word": lambda: pod(container(0, keys("aliyun.com/gpu-mem", 100_000))),
    "names below a prefix": lambda: pod(container(0, keys("tencent.com/vcuda-memor", 90_000))),
    "labels": lambda: pod(container(), metadata={"labels": keys("aliyun.com/gpu-coun", 200_000)}),
    "annotations": lambda: pod(container(), metadata={"annotations": keys("nvidia.com/gpume", 200_000)}),
    "owned annotations": lambda: pod(
        container(), metadata={"annotations": keys("gpushare.alibabacloud.com/", 100_000) | keys("hami.io/x", 50_000)}
    ),
    "long owned annotation": lambda: pod(
        container(), metadata={"annotations": {"hami.io/" + "-devices-to-" * 500_000: "1"}}
    ),
    "hints": lambda: pod(container(), metadata={"annotations": keys("hami.io/use-MR-V100-uui", 150_000)}),
    "env": lambda: pod(container(env=[{"name": f"CUDA_{n}", "value": "$(A)"} for n in range(150_000)])),
    "guarded env": lambda: pod(container(env=[{"name": f"CUDA_DEVICE_MEMORY_LIMI{n}"} for n in range(150_000)])),
    "search paths": lambda: pod(container(env=[{"name": "LD_LIBRARY_PATH", "value": ":/a"}] * 100_000)),
    "search paths from elsewhere": lambda: pod(
        container(env=[{"name": "LD_LIBRARY_PATH", "valueFrom": {"x": {}}}] * 100_000)
    ),
    "taken names": lambda: pod(
        container(
            env=[
                *({"name": f"VGPU_WEBHOOK_LD_LIBRARY_PATH_{n}"} for n in range(100_000)),
                {"name": "LD_LIBRARY_PATH", "valueFrom": {"x": {}}},
            ]
        )
    ),
    "long search path": lambda: pod(container(env=[{"name": "LD_LIBRARY_PATH", "value": ":;" * (LARGEST // 2)}])),
    "long preload": lambda: pod(container(env=[{"name": "LD_PRELOAD", "value": " :" * (LARGEST // 2)}])),
    "long variable name": lambda: pod(container(env=[{"name": "CUDA_DEVICE_MEMORY_LIMIT" + "_" * LARGEST}])),
    "long quantity": lambda: pod(container(0, {"nvidia.com/gpumem": "9" * (LARGEST // 2)})),
    "long resource name": lambda: pod(container(0, {"nvidia.com/gpumem" + "m" * (LARGEST // 2): "1", **SHARE})),
    "long name of slashes": lambda: pod(container(0, {"nvidia.com/" * 300_000: "1", **SHARE})),
    "long annotation": lambda: pod(container(), metadata={"annotations": {"vgpu-webhook.io/target": "a" * LARGEST}}),
    "long count": lambda: pod(
        container(0, {"aliyun.com/gpu-mem": "8"}), metadata={"labels": {"aliyun.com/gpu-count": "1" * LARGEST}}
    ),
    "long container name": lambda: pod({**container(), "name": "c" * LARGEST}),
    "long scheduler": lambda: pod(container(), schedulerName="s" * LARGEST),
    "long owner": lambda: pod(
        container(), metadata={"ownerReferences": [{"kind": "ReplicaSet", "name": "-a" * (LARGEST // 2)}]}
    ),
    "volumes": lambda: pod(container(), volumes=[{"name": f"v{n}", "emptyDir": {}} for n in range(150_000)]),
    "mounts": lambda: pod(container(volumeMounts=[{"name": "v", "mountPath": f"//m/../{n}"} for n in range(120_000)])),
    "long mount": lambda: pod(container(volumeMounts=[{"name": "v", "mountPath": "/.." * (LARGEST // 3)}])),
    "tolerations": lambda: pod(container(), tolerations=[{"key": f"k{n}"} for n in range(200_000)]),
    "affinity terms": lambda: pod(
        container(),
        nodeName="n",
        affinity={
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchFields": [{}]} for _ in range(200_000)]
                }
            }
        },
    ),
    "unknown fields": lambda: pod(container(future=[{"a": n} for n in range(300_000)])),
    "deep unknown fields": lambda: pod(container(future=nested(500))),
}


@pytest.fixture(scope="module")
def policy() -> Policy:
    """The built-in policy, with the setting that rewrites affinities."""
    return build_policy([], Document("settings", {"nodeName": "affinity"}, {}))


@pytest.mark.parametrize("name", PODS)
def test_ends_in_time(name: str, policy: Policy) -> None:
    """7: decided long before the API server stops waiting."""
    body = json.dumps(PODS[name]()).encode()
    assert len(body) <= LARGEST + 1000
    started = time.process_time()
    decide(decode_pod(body), Context(OPTED_IN), policy)
    assert time.process_time() - started < GENEROUS


@pytest.mark.parametrize("name", ["as many as may ask", "owned annotations", "hints", "labels"])
def test_ends_in_time_translated(name: str, policy: Policy) -> None:
    """7: neither does a translation take longer."""
    body = json.dumps(PODS[name]()).encode()
    namespace = Namespace("team", OPTED_IN.labels, {"vgpu-webhook.io/target": "aliyun"})
    started = time.process_time()
    decide(decode_pod(body), Context(namespace), policy)
    assert time.process_time() - started < GENEROUS


def test_deep_nesting_is_no_crash(policy: Policy) -> None:
    """Deeper than the decoder goes is told as such, not as a crash."""
    body = json.dumps(pod(container(future="here"))).encode().replace(b'"here"', b"[" * 100_000 + b"]" * 100_000)
    with pytest.raises(RecursionError):
        decide(decode_pod(body), Context(OPTED_IN), policy)


def test_remembered_results_are_bounded(policy: Policy) -> None:
    """Pods that are all different do not fill the memory of a replica."""
    for number in range(5000):
        sent = pod(container(0, {"nvidia.com/gpumem": str(number + 1)}))
        decide(decode_pod(json.dumps(sent).encode()), Context(OPTED_IN), policy)
    assert len(policy.memo) <= MAX_RESULTS


def test_remembered_results_are_bounded_in_bytes(policy: Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor do a few of the largest that are remembered: the estimates hold."""
    most = 4 * 1024 * 1024
    monkeypatch.setattr(memo, "MAX_BYTES", most)
    policy.memo.clear()
    context = Context(Namespace(OPTED_IN.name, OPTED_IN.labels, {"vgpu-webhook.io/target": "nvidia"}))
    asked = {"iluvatar.ai/vgpu": 1, "iluvatar.ai/vcuda-core": 50}
    kept, held = [], []
    tracemalloc.start(1)
    try:
        for number in range(40):
            sent = pod(
                *(
                    {**container(one, {**asked, "iluvatar.ai/vcuda-memory": 64 + number}), "name": f"{one}-{'x' * 100}"}
                    for one in range(32)
                )
            )
            decide(decode_pod(json.dumps(sent).encode()), context, policy).answer_tail  # noqa: B018  (made when it is sent)
            kept.append(len(policy.memo))
            held.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert max(kept) > 4
    assert kept != sorted(kept)
    assert 0.5 * most < max(held) < 1.25 * most
