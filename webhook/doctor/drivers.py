"""Checks of resource claims: what drivers offer, and whether the API server keeps capacities."""

from collections.abc import Collection, Iterable, Iterator
from http import HTTPStatus
from typing import Final

from webhook.cluster.client import Object
from webhook.doctor.facts import ClusterFacts, Device, ResourceSlice
from webhook.doctor.nodes import targets
from webhook.doctor.pods import all_pods
from webhook.doctor.result import Missing, Result, error, known, listed, ok, warning
from webhook.labels import TARGET
from webhook.mapping.model.keys import COUNT
from webhook.mapping.model.vendor import Vendor
from webhook.mapping.requests.templates import REQUEST, DeviceRequest, claim_text, template_of
from webhook.mapping.requests.values import KeyValue
from webhook.request import CLAIM_API, ClaimTemplate, template_name

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
    devices = _offered(slices, claim.driver)
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


def _offered(slices: Iterable[ResourceSlice], driver: str) -> list[Device]:
    """The devices of a driver: those of a pool's newest generation, the only one that the scheduler looks at."""
    own = [each.spec for each in slices if each.spec.driver == driver]
    newest: dict[str, int] = {}
    for spec in own:
        newest[spec.pool.name] = max(spec.pool.generation, newest.get(spec.pool.name, 0))
    return [device for spec in own if spec.pool.generation == newest[spec.pool.name] for device in spec.devices or ()]


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
