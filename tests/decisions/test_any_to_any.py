"""What `vendors --matrix` says of a pair of vendors is what becomes of pods with the probes, and the policies for any pair.

That what is written is never less than what was requested, and the least that is enough, is what `tests/fuzz` looks for.
"""

import itertools
import json
import random
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.depth import few_or_all, partners
from tests.generators.requests import PATTERNED, Json, requesting_pods
from tests.mapping.vendors import unprobed
from tests.strict_patch import apply_strictly
from webhook.admission import Context, Decision, Namespace, decide
from webhook.admission.collect import ContainerRequest
from webhook.admission.overrides import defaults_for
from webhook.cli.matrix import pairs, probes
from webhook.mapping.document.strict_yaml import parse
from webhook.mapping.load import documents_in
from webhook.mapping.model.policy import Policy
from webhook.mapping.model.vendor import Vendor
from webhook.pod import decode_pod
from webhook.reasons import Reason

DOCUMENTS = documents_in(Path(__file__).parents[1] / "mapping" / "documents")
CONFIGURED = "extends: cambricon\nkeys: {vmemory: {unit: 256Mi}}\n"
NAMESPACE = Namespace("team", {"vgpu-webhook.io/inject": "enabled"})
CONTEXT = Context(NAMESPACE, pod_security_default="privileged")
TARGET = "vgpu-webhook.io/target"
STANDBY = {
    "gpushare": "aliyun.com/gpu-mem",
    "mig-single": "nvidia.com/gpu",
    "mps": "nvidia.com/gpu.shared",
    "whole": "nvidia.com/gpu",
}
"""Vendors that are inactive unless they own this name."""


def policy_for(vendor: str = "", changes: str = "") -> Policy:
    """Everything configured that can be a source or a target, and the vendor in force that would are inactive.

    Args:
        vendor: who has to be in force.
        changes: a document in place of the one that configures the same vendor.
    """
    return _policy_for(vendor if vendor in STANDBY else "", changes)


@cache
def _policy_for(vendor: str, changes: str) -> Policy:
    settings = f"owners: {{{STANDBY[vendor]}: {vendor}}}\n" if vendor else "{}\n"
    own = parse(changes, "changes")
    changed = {document.data["extends"] for document in own}
    documents = [each for each in (*DOCUMENTS, *parse(CONFIGURED, "configured")) if each.data["extends"] not in changed]
    return unprobed([*documents, *own], parse(settings, "settings")[0])


POLICY = policy_for()
VENDORS = sorted(POLICY.vendors)
SOURCES = [name for name in VENDORS if POLICY.vendors[name].claim is None]
"""Those in whose keys pods are written; the others are targets only."""

ALWAYS = {"mig": "dra-nvidia-mig", "nvidia": "kunlun"}
"""A target that writes a request by the name that its keys have, and one that the source's defaults decide about."""


@cache
def policy_between(source: str, target: str) -> Policy:
    """Source and target active; the source alone, where the two share a name."""
    names = {vendor: {name for name, _ in resource_names(POLICY.vendors[vendor])} for vendor in (source, target)}
    if target not in STANDBY or STANDBY[target] in names[source]:
        return policy_for(source)
    if source not in STANDBY:
        return policy_for(target)
    owners = {STANDBY[source]: source, STANDBY[target]: target}
    documents = [*DOCUMENTS, *parse(CONFIGURED, "configured")]
    return unprobed(documents, parse(json.dumps({"owners": owners}), "settings")[0])


def taken(source: str, policy: Policy, random_: random.Random) -> Iterator[Json]:
    """Pods in the keys of a vendor that it takes."""
    for pod in itertools.islice(requesting_pods(policy.vendors[source], random_), 200):
        decision = decide(decode_pod(json.dumps(pod).encode()), CONTEXT, policy)
        if decision.denial is None and decision.reason is not Reason.NO_GPU_KEYS:
            yield pod


def resource_names(vendor: Vendor) -> Iterator[tuple[str, object]]:
    """The resource names that can be listed."""
    for key in vendor.keys.values():
        if key.place == "resource":
            for template in key.spellings:
                yield from template.names(vendor.document.variables)


def translated(pod: Json, target: str, policy: Policy) -> tuple[Json, Decision]:
    """The pod on order for a target, and what is stored."""
    ordered = json.loads(json.dumps(pod))
    ordered["metadata"]["annotations"][TARGET] = target
    decision = decide(decode_pod(json.dumps(ordered).encode()), CONTEXT, policy)
    return apply_strictly(ordered, decision.patch), decision


@pytest.mark.timeout(3600)
@few_or_all
@pytest.mark.parametrize("source", SOURCES)
def test_the_matrix_says_what_becomes_of_pods(source: str, most: int) -> None:
    """Written where all probes are written as pods for the target, denied where all are denied; else it depends."""
    table = {pair.target: pair.outcome for pair in pairs(POLICY, source)}
    assert table.keys() == {name for name in VENDORS if POLICY.vendors[name].target} - {source}
    for target in table.keys() & {*partners(source, VENDORS, most), ALWAYS.get(source)}:
        policy = policy_between(source, target)
        vendors = policy.vendors[source], policy.vendors[target]
        tried = [container for container, _ in probes(vendors[0], defaults_for(*vendors, {})[0], policy.largest_card)]
        written = {translated(pod_with(container), target, policy)[1].allowed for container in tried}
        names = [{name for name, _ in resource_names(vendor)} for vendor in vendors]
        if names[0] & names[1]:
            assert table[target] == "only one is active"
        elif len(written) > 1:
            assert table[target] == "depends on the amount", target
        else:
            assert table[target] == ("written" if True in written else "denied"), target


def pod_with(container: ContainerRequest) -> Json:
    """A pod in the keys of a probe, with the texts by which a name of another vendor is read."""
    side: dict[str, str] = {}
    found: dict[str, dict[str, str]] = {"resource": side, "borrowed": side, "label": {}, "annotation": {}}
    keys = container.vendor.keys
    for entry in container.key_values.values():
        for other, text in keys[entry.key_name].in_pods.items():
            found[keys[other].place][keys[other].spelled({})] = text
        name = re.sub(r"\{(\w+)\}", lambda found: PATTERNED[found[1]], entry.key)
        found[keys[entry.key_name].place][name] = entry.text
    main = {"name": container.name, "resources": {"limits": side, "requests": dict(side)}}
    metadata = {"name": "p", "labels": found["label"], "annotations": found["annotation"]}
    return {"metadata": metadata, "spec": {"containers": [main]}}
