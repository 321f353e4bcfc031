"""Translated pods on a real scheduler: each finds a place where only the target's resources are; as it was, none does."""

import itertools
import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.decisions.any_to_any import SOURCES, policy_for, taken, translated
from webhook.mapping.model.vendor import Vendor

from .client import Object
from .objects import namespace
from .plane import ControlPlane

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(1200)]

PODS = 30
SEED = "placement"
NAMESPACE = "placement"
TARGET = "placement.example/target"
PLENTY = "1000000000000000"


@dataclass(frozen=True, slots=True)
class Sample:
    """One request, as its vendor's users write it and as it is stored."""

    number: int
    target: str
    before: Object
    after: Object

    @property
    def advertised(self) -> set[str]:
        """The resources that a node has to have for it."""
        return names_in(self.after)


def names_in(pod: Object) -> set[str]:
    """The resource names in the limits of a pod."""
    return {
        name
        for container in pod["spec"]["containers"]
        for name in (container.get("resources") or {}).get("limits") or {}
    }


def in_resources(vendor: Vendor) -> bool:
    """Whether a vendor's scheduler goes by resource names."""
    return any(key.place == "resource" for key in vendor.keys.values())


def samples() -> Iterator[Sample]:
    """Pairs of vendors in a random order, one request of each that can be translated and shares no name with it."""
    policy = policy_for()
    pairs = [
        (source, target)
        for source, target in itertools.permutations(SOURCES, 2)
        if in_resources(policy.vendors[target]) and not policy.vendors[target].inactive
        if in_resources(policy.vendors[source]) and not policy.vendors[source].inactive
    ]
    random.Random(SEED).shuffle(pairs)
    numbers = itertools.count()
    for source, target in pairs:
        for pod in itertools.islice(taken(source, policy, random.Random(f"{SEED} {source} {target}")), 4):
            stored, decision = translated(pod, target, policy)
            if decision.denial is None and names_in(stored) and names_in(pod) - names_in(stored):
                yield Sample(next(numbers), target, pod, stored)
                break


def manifest(pod: Object, name: str, target: str) -> Object:
    """A pod of a sample for the nodes of its target; nothing else of it is changed."""
    spec: dict[str, Any] = {**pod["spec"], "nodeSelector": {**pod["spec"].get("nodeSelector", {}), TARGET: target}}
    spec["containers"] = [{"image": "registry.example/main:1", **container} for container in spec["containers"]]
    metadata = {**pod["metadata"], "name": name}
    metadata.pop("namespace", None)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


@pytest.fixture
def nodes(scheduler: ControlPlane) -> Iterator[dict[str, list[Sample]]]:
    """For each target one node that has its resources, and no others; the samples by target."""
    client = scheduler.client
    scheduler.create_namespace(namespace(NAMESPACE))
    by_target: dict[str, list[Sample]] = defaultdict(list)
    for sample in itertools.islice(samples(), PODS):
        by_target[sample.target].append(sample)
    for target, found in by_target.items():
        labels = {TARGET: target}
        for sample in found:
            labels |= sample.after["spec"].get("nodeSelector", {})
        client.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"has-{target}", "labels": labels}})
        names = set().union(*(sample.advertised for sample in found))
        capacity = {"pods": "1000", "cpu": "64", "memory": "1Ti", **dict.fromkeys(names, PLENTY)}
        ready = [{"type": "Ready", "status": "True"}]
        status = {"status": {"capacity": capacity, "allocatable": capacity, "conditions": ready}}
        client.patch("v1", "nodes", f"has-{target}/status", status).accepted()
    yield by_target
    for target in by_target:
        client.delete("v1", "nodes", f"has-{target}")
    for pod in client.list("v1", "pods", NAMESPACE):
        client.delete("v1", "pods", pod["metadata"]["name"], NAMESPACE)


def test_a_sample_finds_its_place(scheduler: ControlPlane, nodes: dict[str, list[Sample]]) -> None:
    """Translated pods are bound to the node of their target, by its scheduler; none of the untranslated is."""
    client = scheduler.client
    wanted: dict[str, str | None] = {}
    for sample in itertools.chain.from_iterable(nodes.values()):
        for kind, pod in (("before", sample.before), ("after", sample.after)):
            name = f"{kind}-{sample.number}"
            client.create(manifest(pod, name, sample.target), NAMESPACE).accepted()
            wanted[name] = f"has-{sample.target}" if kind == "after" else None
    assert len(wanted) == 2 * PODS
    assert len(nodes) > 10

    def decided() -> dict[str, str | None] | None:
        pods = client.list("v1", "pods", NAMESPACE)
        undecided = [pod for pod in pods if not pod["status"].get("conditions")]
        found = {pod["metadata"]["name"]: pod["spec"].get("nodeName") for pod in pods}
        # A pod may have been refused before its node was known, and is tried again then.
        waiting = [name for name, node in wanted.items() if node is not None and found.get(name) is None]
        return None if undecided or waiting else found

    assert scheduler.wait_until(decided, "every pod was scheduled or refused", 120) == wanted
