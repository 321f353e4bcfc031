"""Property 1 over every pair of vendors: what comes out, sent in again, is not changed, wherever the pod wants to run."""

import itertools
import json
import random
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from tests.decisions.test_any_to_any import CONFIGURED, DOCUMENTS, POLICY, SOURCES, TARGET, VENDORS
from tests.depth import few_or_all, partners
from tests.generators.requests import requesting_pods
from tests.naming import each_of
from tests.strict_patch import apply_strictly
from webhook.admission import Context, Decision, Namespace, decide
from webhook.mapping.document.strict_yaml import parse
from webhook.mapping.load import build_policy
from webhook.mapping.model.policy import Policy
from webhook.pod import decode_pod

Json = dict[str, Any]
OPTED_IN = {"vgpu-webhook.io/inject": "enabled"}


@cache
def configured(changes: str, settings: str = "{}\n") -> Policy:
    """The policy of the other tests over all pairs, with documents of its own."""
    documents = [*DOCUMENTS, *parse(CONFIGURED, "configured"), *parse(changes, "changes")]
    return build_policy(documents, parse(settings, "settings")[0])


def schedulers(policy: Policy) -> list[str | None]:
    """Every scheduler that a mapping knows, one that none knows, and none."""
    places = [vendor.place for vendor in policy.vendors.values()]
    known = {name for place in places for name in (place.scheduler, *place.schedulers) if name}
    return [None, "of-the-user", *sorted(known)]


def pods_of(source: str, policy: Policy, most: int) -> Iterator[Json]:
    """So many pods in the keys of a vendor."""
    random_ = random.Random(f"second pass: {source}")
    yield from itertools.islice(requesting_pods(policy.vendors[source], random_), most)


def decided(pod: Json, context: Context, policy: Policy) -> Decision:
    """The decision on a pod."""
    return decide(decode_pod(json.dumps(pod).encode()), context, policy)


def with_target(pod: Json, target: str, scheduler: str | None, annotations: Json) -> Json:
    """The pod with the target's annotation, a scheduler and further annotations."""
    metadata = {**pod["metadata"], "annotations": {**pod["metadata"]["annotations"], **annotations, TARGET: target}}
    spec = {**pod["spec"], **({} if scheduler is None else {"schedulerName": scheduler})}
    return {**pod, "metadata": metadata, "spec": spec}


def assert_at_rest(pod: Json, context: Context, policy: Policy) -> bool:
    """A pod that is allowed is not changed by a second pass; whether it is allowed."""
    first = decided(pod, context, policy)
    if first.denial is not None:
        return False
    stored = apply_strictly(pod, first.patch)
    second = decided(stored, context, policy)
    assert (second.denial, second.patch) == (None, ()), f"{json.dumps(pod)}: {json.dumps(first.patch)}"
    return True


@few_or_all
@pytest.mark.parametrize("source", SOURCES)
def test_every_target_and_scheduler(source: str, most: int) -> None:
    """The scheduler that the pod names may belong to the source, the target, whoever reads the written keys, or nobody."""
    context = Context(Namespace("team", OPTED_IN), pod_security_default="privileged")
    targets = [source, *partners(source, VENDORS, most)]
    for target, pod in itertools.product(targets, pods_of(source, POLICY, 4)):
        for scheduler in schedulers(POLICY):
            if not assert_at_rest(with_target(pod, target, scheduler, {}), context, POLICY):
                break


HOME = """
extends: vcuda
translateTo: whole
environment: {VCUDA_CORE: vcuda-core}
---
extends: nvidia
defaults: {memory: 0}
environment: {CARDS: gpu, MEMORY_SIZE: null}
place: {conflict: override, runtimeClassName: nvidia}
guard: [{env: STRANGE, unless: [], action: strip}]
"""


@each_of("scheduler", schedulers(POLICY))
def test_inactive_target_of_a_mapping(scheduler: str | None) -> None:
    """The keys of an inactive target are read by their owner, who has no order to translate: one pass does what he would."""
    policy = configured(HOME)
    context = Context(Namespace("team", OPTED_IN), pod_security_default="privileged")
    pod: Json = {
        "metadata": {"name": "p", "annotations": {"hami.io/vgpu-node": "forged"}},
        "spec": {
            "containers": [
                {
                    "name": "main",
                    "resources": {"limits": {"tencent.com/vcuda-core": "200"}},
                    "env": [{"name": "STRANGE", "value": "1"}],
                }
            ],
            **({} if scheduler is None else {"schedulerName": scheduler}),
        },
    }
    assert assert_at_rest(pod, context, policy)
    assert apply_strictly(pod, decided(pod, context, policy).patch)["spec"]["schedulerName"] == "hami-scheduler"


def test_owner_of_the_written_keys_leaves_its_scheduler() -> None:
    """A percentage of all becomes a whole GPU of the plain device plugin, and its scheduler is what it is without another."""
    context = Context(Namespace("team", OPTED_IN), pod_security_default="privileged")
    pod: Json = {
        "metadata": {"name": "p", "annotations": {TARGET: "whole"}},
        "spec": {
            "schedulerName": "hami-scheduler",
            "containers": [{"name": "main", "resources": {"limits": {"nano-gpu/gpu-percent": "100"}}}],
        },
    }
    stored = apply_strictly(pod, decided(pod, context, POLICY).patch)
    assert stored["spec"]["schedulerName"] == "default-scheduler"
    assert_at_rest(pod, context, POLICY)
