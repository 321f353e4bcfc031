"""A decision depends on its arguments only, although outcomes are remembered."""

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from msgspec import structs

from tests.generators.admissions import all_containers, decision_on
from tests.generators.pods import pods, sound_pods
from tests.generators.policies import Configured, contexts, policies
from tests.strict_patch import apply_strictly
from webhook.admission import Context
from webhook.reasons import ReasonKind

pytestmark = pytest.mark.usefixtures("remembers_at_once")

Twin = Callable[[dict[str, Any], Context], object]
"""Changes a pod in one respect, or returns another context."""


def everywhere(change: Callable[[dict[str, Any]], object]) -> Twin:
    """The same change of every container."""
    return lambda pod, _: [change(container) for container in all_containers(pod)]


CARD_BY_AFFINITY = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [
                {"matchExpressions": [{"key": "nvidia.com/gpu.product", "operator": "In", "values": ["A100"]}]}
            ]
        }
    }
}
TWINS: dict[str, Twin] = {
    "namespace": lambda _, context: structs.replace(context, namespace=replace(context.namespace, name="elsewhere")),
    "no annotations": lambda _, context: structs.replace(context, namespace=replace(context.namespace, annotations={})),
    "user": lambda _, context: structs.replace(context, user="scheduler"),
    "level": lambda _, context: structs.replace(context, pod_security_default="privileged"),
    "warn": lambda _, context: structs.replace(
        context,
        namespace=replace(context.namespace, labels={**context.namespace.labels, "vgpu-webhook.io/mode": "warn"}),
    ),
    "privileged": everywhere(lambda container: container.update(securityContext={"privileged": True})),
    "env": everywhere(lambda container: container.update(env=[{"name": "LD_LIBRARY_PATH", "value": "/x"}])),
    "no env": everywhere(lambda container: container.pop("env", None)),
    "empty env": everywhere(lambda container: container.update(env=[])),
    "limit": everywhere(lambda container: container.update(env=[{"name": "CUDA_DEVICE_MEMORY_LIMIT", "value": "1m"}])),
    "switch": everywhere(lambda container: container.update(env=[{"name": "CUDA_DISABLE_CONTROL", "value": "1"}])),
    "env from": everywhere(lambda container: container.update(envFrom=[{"secretRef": {"name": "s"}}])),
    "mount": everywhere(lambda container: container.update(volumeMounts=[{"name": "v", "mountPath": "/tmp/vgpulock"}])),
    "our mount": everywhere(
        lambda container: container.update(volumeMounts=[{"name": "vgpu-shim", "mountPath": "/x"}])
    ),
    "node": lambda pod, _: pod["spec"].update(nodeName="n"),
    "card": lambda pod, _: pod["spec"].update(nodeSelector={"nvidia.com/gpu.product": "T4"}),
    "other device": lambda pod, _: pod["spec"].update(nodeSelector={"nvidia.com/gpu.product": "A100"}),
    "card by affinity": lambda pod, _: pod["spec"].update(affinity=CARD_BY_AFFINITY),
    "scheduler": lambda pod, _: pod["spec"].update(schedulerName="mine"),
    "volume": lambda pod, _: pod["spec"].update(volumes=[{"name": "vgpu-shim", "emptyDir": {}}]),
    "empty volumes": lambda pod, _: pod["spec"].update(volumes=[]),
    "labels": lambda pod, _: pod["metadata"].update(labels={"app": "x"}),
    "count": lambda pod, _: pod["metadata"].update(labels={"aliyun.com/gpu-count": "2"}),
    "hint": lambda pod, _: pod["metadata"].update(annotations={"nvidia.com/use-gputype": "A10"}),
    "mark": lambda pod, _: pod["metadata"].update(annotations={"hami.io/vgpu-node": "n"}),
    "status": lambda pod, _: pod["metadata"].update(annotations={"vgpu-webhook.io/status": "x"}),
    "no metadata": lambda pod, _: pod["metadata"].clear(),
    "moved": lambda pod, _: pod["spec"]["containers"].reverse(),
    "requests": everywhere(lambda container: (container.get("resources") or {}).pop("requests", None)),
    "empty requests": everywhere(lambda container: (container.get("resources") or {}).update(requests={})),
}


@given(sound_pods(), contexts(), policies())
def test_what_was_seen_before_changes_nothing(pod: dict[str, Any], context: Context, configured: Configured) -> None:
    """Outcomes are remembered; of pods that are nearly alike each gets the decision that it would get alone."""
    policy = configured.policy
    for name, twin in TWINS.items():
        other = copy.deepcopy(pod)
        changed = twin(other, context)
        elsewhere = changed if isinstance(changed, Context) else context
        policy.memo.clear()
        alone = decision_on(other, elsewhere, policy)
        policy.memo.clear()
        decision_on(pod, context, policy)
        remembered = decision_on(other, elsewhere, policy)
        assert remembered == alone, name
        apply_strictly(other, remembered.patch)


@given(pods(), contexts(), policies())
def test_same_pod_same_decision(pod: dict[str, Any], context: Context, configured: Configured) -> None:
    """A decision depends on its arguments only, whether they were seen before or not; and it says something of everything."""
    policy = configured.policy
    policy.memo.clear()
    first = decision_on(pod, context, policy)
    second = decision_on(pod, context, policy)
    policy.memo.clear()
    assert first == second == decision_on(pod, context, policy)
    assert first.allowed == (first.denial is None)
    assert first.allowed or (first.reason.kind is ReasonKind.DENIAL and not first.patch)
    for finding in (*first.warnings, *([first.denial] if first.denial else [])):
        assert finding.text.startswith(finding.reason.code)
        assert "\n" not in finding.text
