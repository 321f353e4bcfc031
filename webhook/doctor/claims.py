"""Checks of resource claims: whose names they have, and what drivers offer."""

from collections.abc import Callable, Collection, Iterator, Sequence
from http import HTTPStatus
from typing import Final, NamedTuple

from webhook.cluster.client import Object, StatusError, each_at, found_at, object_pages
from webhook.doctor.nodes import targets
from webhook.doctor.reading import ClusterReader, Item, T, read_or, reads, remembered
from webhook.doctor.result import Result, counted, error, listed, ok, warning
from webhook.labels import TARGET
from webhook.mapping.model.policy import Policy
from webhook.mapping.model.vendor import Claiming, Vendor

VERSIONS: Final = ("v1", "v1beta2", "v1beta1")
"""Versions of ``resource.k8s.io`` with DeviceClasses as they are today, the newest first."""

GATE: Final = "the feature gate DRAConsumableCapacity"
NEEDS: Final = "docs/dra.md: what a cluster needs for claims"


async def _newest(seen: ClusterReader, resource: str, take: Callable[[Item], T]) -> list[T]:
    """Something of all objects of a kind, in the newest version that is served: API servers before 1.32 serve none."""
    for version in VERSIONS:
        try:
            every = object_pages(seen.api, f"/apis/resource.k8s.io/{version}/{resource}", Item)
            return [take(each) async for page in every for each in page]
        except StatusError as problem:
            if problem.status != HTTPStatus.NOT_FOUND:
                raise
    return []


@reads("the DeviceClasses", "list deviceclasses.resource.k8s.io")
async def _classes(seen: ClusterReader) -> list[tuple[str, str]]:
    """Every DeviceClass, with the resource name that it serves."""
    take = "extendedResourceName"
    return await _newest(seen, "deviceclasses", lambda each: (each.name, found_at(each.spec, str, take) or ""))


class Slice(NamedTuple):
    """A ResourceSlice; of its devices the capacities of those that may be shared, and for others None."""

    driver: str
    pool: str
    generation: int
    devices: tuple[frozenset[str] | None, ...]


def _slice(found: Item) -> Slice:
    spec = found.spec
    name, at = found_at(spec, str, "pool", "name") or "", found_at(spec, int, "pool", "generation") or 0
    return Slice(found_at(spec, str, "driver") or "", name, at, tuple(map(_capacities, each_at(spec, "devices"))))


def _capacities(device: Object) -> frozenset[str] | None:
    shared = device.get("allowMultipleAllocations") is True
    return frozenset(found_at(device, dict, "capacity") or ()) if shared else None


@reads("the ResourceSlices", "list resourceslices.resource.k8s.io")
async def _slices(seen: ClusterReader) -> list[Slice]:
    return await _newest(seen, "resourceslices", _slice)


async def claims(seen: ClusterReader) -> Result:
    """Does a DeviceClass serve a key of the policy?"""
    classes, in_force = await _classes(seen), await seen.policy()
    every = await read_or([], seen.nodes())
    taken = [line for name, key in classes for line in _taken(name, key, in_force, every)]
    if taken:
        hint = "change the DeviceClass's extendedResourceName, or make the mapping inactive"
        message = f"a DeviceClass serves a key of the policy ({len(taken)} of {len(classes)}): one name, two systems"
        return warning(message, *taken, hint=hint)
    return ok(f"no DeviceClass serves a key of the policy ({counted(len(classes), 'DeviceClass', 'DeviceClasses')})")


def _taken(device_class: str, key: str, policy: Policy, nodes: Collection[Item]) -> Iterator[str]:
    """What a DeviceClass does to a vendor whose key its resource name is."""
    for owner in policy.resources.owners(key)[:1]:
        having = sum(key in node.resources for node in nodes)
        plugins = f"; {having} of {counted(len(nodes), 'node')} have it from a device plugin" if having else ""
        yield f"{device_class} serves {key}, which is read as a key of {owner.vendor}{plugins}"


@remembered
async def claiming(seen: ClusterReader) -> list[tuple[Vendor, Claiming]]:
    """The vendors with claims that pods of this cluster get, also by annotations of pods and their namespaces."""
    in_force = await seen.policy()
    annotated = [space.annotations for space in await read_or([], seen.chosen_namespaces())]
    annotated += [pod.metadata.annotations or {} for _, pod in (await seen.pods())[0]]
    named = (in_force.vendor_called(each[TARGET]) for each in annotated if TARGET in each)
    found = {vendor.name: vendor for vendor in (*await targets(seen), *named) if vendor is not None}
    return [(vendor, vendor.claim) for vendor in found.values() if vendor.claim is not None]


async def drivers(seen: ClusterReader) -> Result:
    """Can the drivers of the target's resource claims give shares?"""
    classes, chosen = {name for name, _ in await _classes(seen)}, await claiming(seen)
    if not chosen:
        return ok("the target writes no resource claims")
    slices, vendors = await _slices(seen), (await seen.policy()).vendors
    lines = list[str]()
    for vendor, claim in chosen:
        required = dict.fromkeys(filter(None, (claim.device_class, claim.whole_class)))
        lines += (f"there is no DeviceClass {name}" for name in required if name not in classes)
        lines += _lacking(vendor, claim.driver, _offered(slices, claim.driver))
    if lines:
        return error("pods of the target would stay Pending", *lines, hint=NEEDS)
    partitions = filter(None, (vendors.get(claim.partitions or "") for _, claim in chosen))
    needed = [(each.name, each.claim.device_class) for each in partitions if each.claim is not None]
    if absent := [f"there is no DeviceClass {name}, for {vendor}" for vendor, name in needed if name not in classes]:
        return warning("pods that request partitions would stay Pending", *absent, hint=NEEDS)
    return ok(f"devices for claims of {listed([vendor.name for vendor, _ in chosen])} are there, and may be shared")


def _lacking(vendor: Vendor, driver: str, devices: Sequence[frozenset[str] | None]) -> Iterator[str]:
    """The first thing that a vendor's claims need and the devices of its driver lack."""
    needed = {str(key.claim) for key in vendor.keys.values() if key.capacity}
    shared = [capacities for capacities in devices if capacities is not None]
    if not devices:
        yield f"the driver {driver} offers no device: is it running?"
    elif needed and not shared:  # whole devices and slices have one owner
        yield f"no device of {driver} may be shared: switch sharing on in the driver, and on Kubernetes 1.34 and 1.35 {GATE}"
    elif needed and not any(needed <= capacities for capacities in shared):
        yield f"no shared device of {driver} has the capacities {listed(sorted(needed))}"


def _offered(slices: Sequence[Slice], driver: str) -> list[frozenset[str] | None]:
    """The devices of a driver: those of a pool's newest generation, the only one that the scheduler looks at."""
    own = sorted((each for each in slices if each.driver == driver), key=lambda each: each.generation)
    newest = {each.pool: each.generation for each in own}
    return [device for each in own if each.generation == newest[each.pool] for device in each.devices]
