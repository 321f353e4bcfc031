"""Policies for any pair of vendors, and pods in the keys of one on order for the other."""

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.decided import decided
from tests.generators.requests import Json
from tests.mapping.vendors import unprobed
from tests.strict_patch import apply_strictly
from webhook.admission import Decision
from webhook.mapping.document import parse
from webhook.mapping.load import documents_in
from webhook.mapping.model.policy import Policy
from webhook.mapping.model.vendor import Vendor

DOCUMENTS = documents_in(Path(__file__).parents[1] / "mapping" / "documents")
CONFIGURED = "extends: cambricon\nkeys: {vmemory: {unit: 256Mi}}\n"
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


def resource_names(vendor: Vendor) -> Iterator[tuple[str, object]]:
    """The resource names that can be listed."""
    for key in vendor.keys.values():
        if key.place == "resource":
            for template in key.spellings:
                yield from template.names(vendor.variables)


def translated(pod: Json, target: str, policy: Policy) -> tuple[Json, Decision]:
    """The pod on order for a target, and what is stored."""
    ordered = json.loads(json.dumps(pod))
    ordered["metadata"]["annotations"][TARGET] = target
    decision = decided(ordered, policy)
    return apply_strictly(ordered, decision.patch), decision
