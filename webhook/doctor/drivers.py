"""Checks of resource claims: what drivers offer, whether the API server keeps capacities, which claims no device allows."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

from webhook.admission.claims import own_claims
from webhook.cluster.client.api import Object
from webhook.cluster.registration.match_conditions import carries_name, matched_names_of
from webhook.doctor.devices import Demand, ResourceSlice, obstacle, offers
from webhook.doctor.facts import ClusterFacts, each_at, found_at
from webhook.doctor.nodes import targets
from webhook.doctor.pods import all_pods, decision_again, opted_in_of, require_pods
from webhook.doctor.result import Missing, Result, counted, error, first_of, known, listed, ok, warning
from webhook.labels import TARGET
from webhook.mapping.model.vendor import COUNT, Vendor
from webhook.mapping.requests.templates import REQUEST, ClaimRead, DeviceRequest, claim_text, read_template, template_of
from webhook.mapping.requests.values import KeyValue
from webhook.request import CLAIM_API, CLAIM_PREFIX, ClaimTemplate, template_name

GATE: Final = "the feature gate DRAConsumableCapacity"
NEEDS: Final = "docs/dra.md: what a cluster needs for claims"


def claiming(facts: ClusterFacts) -> list[Vendor]:
    """Return the vendors with claims that pods of this cluster get, also by annotations of pods and their namespaces."""
    spaces = () if isinstance(facts.opted_in, Missing) else facts.opted_in
    annotated = [space.annotations for space in spaces]
    annotated += [pod.metadata.annotations or {} for _, pod in all_pods(facts)]
    named = (facts.policy.vendor_called(name) for each in annotated if (name := each.get(TARGET)) is not None)
    found = {
        vendor.name: vendor for vendor in (*targets(facts), *named) if vendor is not None and vendor.claim is not None
    }
    return list(found.values())


def drivers(facts: ClusterFacts) -> Result:
    """Can the drivers of the target's resource claims give shares?"""
    classes = {each.metadata.name for each in known(facts.device_classes, "the DeviceClasses", "list deviceclasses")}
    slices = known(facts.resource_slices, "the ResourceSlices", "list resourceslices")
    chosen = claiming(facts)
    if not chosen:
        return ok("the target writes no resource claims")
    lines = [line for vendor in chosen for line in _lacking(vendor, classes, slices)]
    if lines:
        return error("pods of the target would stay Pending", *lines, hint=NEEDS)
    of_partitions = [line for vendor in chosen for line in _without_partitions(vendor, facts, classes)]
    if of_partitions:
        return warning("pods that request partitions would stay Pending", *of_partitions, hint=NEEDS)
    return ok(f"devices for claims of {listed([vendor.name for vendor in chosen])} are there, and may be shared")


def _lacking(vendor: Vendor, classes: Collection[str], slices: Iterable[ResourceSlice]) -> Iterator[str]:
    """What a vendor's claims need and the cluster lacks; of its devices, the first thing only."""
    claim = vendor.claim
    assert claim is not None  # noqa: S101  (by the caller)
    for name in dict.fromkeys(filter(None, (claim.device_class, claim.whole_class))):
        if name not in classes:
            yield f"there is no DeviceClass {name}"
    devices = [each.device for each in offers(slices, claim.driver)]
    shared = [device for device in devices if device.allow_multiple_allocations]
    needed = {key.document.claim for key in vendor.keys.values() if key.capacity}
    if not devices:
        yield f"the driver {claim.driver} offers no device: is it running?"
    elif needed and not shared:  # whole devices and slices have one owner
        yield (
            f"no device of {claim.driver} may be shared: switch sharing on in the driver, and on Kubernetes 1.34 and 1.35 "
            f"{GATE}"
        )
    elif needed and not any(needed <= (device.capacity or {}).keys() for device in shared):
        yield f"no shared device of {claim.driver} has the capacities {listed(sorted(map(str, needed)))}"


def _without_partitions(vendor: Vendor, facts: ClusterFacts, classes: Collection[str]) -> Iterator[str]:
    """The class of the vendor's partitions, if it is not there: only some requests need it."""
    partitions = None if vendor.claim is None else facts.policy.vendors.get(vendor.claim.partitions or "")
    if partitions is not None and partitions.claim is not None and partitions.claim.device_class not in classes:
        yield f"there is no DeviceClass {partitions.claim.device_class}, for {partitions.name}"


def trial_template(vendors: Iterable[Vendor]) -> tuple[str, ClaimTemplate] | None:
    """Return the first vendor whose claims have capacities, and the template of its smallest request; None without one."""
    for vendor in vendors:
        keys = [key for key in vendor.keys.values() if key.capacity or key.document.claim == COUNT]
        if any(key.capacity for key in keys):
            entries = tuple(KeyValue(key.name, key.spellings[0].text, claim_text(key, 1), 1) for key in keys)
            return vendor.name, template_of(vendor, {REQUEST: DeviceRequest(entries, whole=False)})
    return None


def trial_manifest(template: ClaimTemplate) -> Object:
    """Return the object for a dry run: under a name of its own, and without our label."""
    metadata = {"generateName": "vgpu-webhook-check-"}
    return {"apiVersion": CLAIM_API, "kind": "ResourceClaimTemplate", "metadata": metadata, "spec": template.spec}


def feature_gate(facts: ClusterFacts) -> Result:
    """Does the API server keep the capacities of a resource claim, tried by a dry run?"""
    trial = facts.template_dry_run
    if trial is None:
        return ok(
            "the target's resource claims need no capacities"
            if claiming(facts)
            else "the target writes no resource claims"
        )
    needs = f"create resourceclaimtemplates in {facts.release}"
    trial = known(trial, "what becomes of a resource claim", needs)
    hint = f"switch on {GATE} in API server, scheduler and kubelets, or upgrade to Kubernetes 1.36, where it is on"
    if trial.spec is not None:
        if template_name(trial.spec) == trial.sent.name:
            return ok(f"the API server keeps the capacities of {trial.vendor}'s resource claims (dry run)")
        return error(
            "the API server drops the capacities of resource claims: a share would be a whole device",
            f"it lacks {GATE}",
            hint=hint,
        )
    if (
        trial.status == HTTPStatus.UNPROCESSABLE_ENTITY
    ):  # it drops the attribute of the constraint, too, and then lacks it
        return error(
            "the API server refuses what resource claims need", trial.message, f"it may lack {GATE}", hint=hint
        )
    return warning("no resource claim could be tried", trial.message, hint=f"needed for this check: {needs}")


def devices(facts: ClusterFacts) -> Result:
    """Does some device allow what the resource claims of each namespace need, regardless of what is free now?"""
    classes = known(facts.device_classes, "the DeviceClasses", "list deviceclasses")
    slices = known(facts.resource_slices, "the ResourceSlices", "list resourceslices")
    if not claiming(facts):
        return ok("the target writes no resource claims")
    expressions = {
        each.metadata.name: [
            found_at(selector, str, "cel", "expression") or "" for selector in each_at(each.spec, "selectors")
        ]
        for each in classes
    }
    needed, waiting = _needed(facts)
    vendors = [vendor for vendor in facts.policy.vendors.values() if vendor.claim is not None]
    offered = {
        name: offers(slices, name) for name in {vendor.claim.driver for vendor in vendors if vendor.claim is not None}
    }
    why: dict[str, str | None] = {}
    for name, spec in {name: spec for (_, name), spec in needed.items()}.items():
        read = read_template(spec, vendors)
        if read is None:  # of an earlier mapping
            continue
        claim = read.vendor.claim
        assert claim is not None  # noqa: S101  (it was read)
        why[name] = obstacle(_demands(spec, read), claim.driver, claim.distinct, offered[claim.driver], expressions)
    lines = [
        f"{namespace}: {counted(waiting[namespace, name], 'pod')} of {name}: {reason}"
        for namespace, name in sorted(needed)
        if (reason := why.get(name))
    ]
    if lines:
        return warning(
            f"{counted(len(lines), 'resource claim')} that no device allows: pods would stay Pending",
            *first_of(lines),
            hint="request less, or add devices; a node group of size 0 shows none",
        )
    require_pods(facts)
    known(facts.templates, "the ResourceClaimTemplates", "list resourceclaimtemplates")
    return ok(f"some device allows what resource claims need ({counted(len(why), 'kind')} of claims)")


def _needed(facts: ClusterFacts) -> tuple[dict[tuple[str, str], Mapping[str, Any]], Counter[tuple[str, str]]]:
    """The templates that there are, and those that pods need, by namespace and name; and the pods of each."""
    spaces = {space.name: space for space in opted_in_of(facts)}
    templates = () if isinstance(facts.templates, Missing) else facts.templates
    needed: dict[tuple[str, str], Mapping[str, Any]] = {
        (each.metadata.namespace, each.metadata.name): each.spec
        for each in templates
        if each.metadata.namespace in spaces
    }
    pods: Counter[tuple[str, str]] = Counter()
    let_through = matched_names_of(facts.policy)
    for namespace, pod in all_pods(facts):
        if namespace not in spaces:
            continue
        claims = [each.resource_claim_template_name or "" for each in pod.spec.resource_claims or ()]
        if any(name.startswith(CLAIM_PREFIX) for name in claims):
            found = [claim.template for claim in own_claims(pod, facts.policy).values()]
            names = {name for name in claims if name.startswith(CLAIM_PREFIX)}
        elif carries_name(pod, let_through):
            found = list(decision_again(pod, spaces[namespace], facts.policy).objects)
            names = {each.name for each in found}
        else:
            continue
        for template in found:
            needed.setdefault((namespace, template.name), template.spec)
        pods.update((namespace, name) for name in names)
    return needed, pods


def _demands(spec: Mapping[str, Any], read: ClaimRead) -> Sequence[Demand]:
    """The requests of a claim; `read` has what its selectors say."""
    demands = []
    for request in spec["spec"]["devices"]["requests"]:
        exactly = request["exactly"]
        texts = [
            (read.vendor.keys[entry.key_name], entry.text)
            for entry in read.requests[request["name"]]
            if read.vendor.keys[entry.key_name].kind == "text"
        ]
        capacities = {name: str(text) for name, text in exactly.get("capacity", {}).get("requests", {}).items()}
        demands.append(Demand(exactly["deviceClassName"], exactly.get("count", 1), capacities, texts))
    return demands
