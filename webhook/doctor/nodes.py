"""Checks of nodes: their resources, the scheduler, one shim rather than two, and what drivers offer for resource claims."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final, NamedTuple, TypeAlias

from webhook.admission.intent import DEFAULT_SCHEDULER, Overrides, override_source, target_of
from webhook.cluster.client import Object, StatusError, each_at, found_at, list_objects, object_pages
from webhook.doctor import Level, Result, UnansweredError, counted, error, listed, ok, warning
from webhook.doctor.reading import ClusterReader, Item, T, moment, read_or, reads, remembered, tried
from webhook.labels import TARGET
from webhook.mapping.model.keys import Key
from webhook.mapping.model.names import index
from webhook.mapping.model.policy import Policy
from webhook.mapping.model.shim import Shim
from webhook.mapping.model.vendor import Claiming, GatedName, SharedName, Vendor
from webhook.mapping.notation import expression
from webhook.pod import ENDED
from webhook.reasons import Denied
from webhook.request import MIB, bytes_text

WITHOUT_TARGET: Final = "set `target` in the settings, or check again when a node has GPUs"

LIBRARY_FOLDERS: Final = ("/usr/", "/opt/")
"""Folders for libraries on nodes. A device plugin that mounts such a folder may mount a library into containers."""

_NUMBER: Final = re.compile("[0-9]{1,9}")
"""Of a label; MiB of a device have at most seven digits."""

LEASE_SECONDS: Final = 60.0
"""A leader that has not renewed its Lease for so long is gone: a Lease usually lasts 15 s."""

PENDING_SECONDS: Final = 60.0
"""A younger pod may simply not have been scheduled yet."""


@remembered
async def targets(seen: ClusterReader) -> list[Vendor]:
    """The vendors whose keys pods of this cluster get: the setting ``target``, else those of the nodes' resources."""
    in_force = await seen.policy()
    if in_force.settings.target is not None:
        return [in_force.vendors[in_force.settings.target]]
    names = {name for node in await read_or([], seen.nodes()) for name in node.resources}
    found = {owner.vendor for name in names for owner in in_force.resources.owners(name)}
    written = (_target(in_force.vendors[name], in_force) for name in sorted(found))
    return [*{vendor.name: vendor for vendor in written if vendor is not None}.values()]


def _target(vendor: Vendor, policy: Policy) -> Vendor | None:
    try:
        return target_of(vendor, Overrides(), policy)
    except Denied:
        return None


async def resources(seen: ClusterReader) -> Result:
    """Do nodes have the resources that pods request?"""
    every, chosen = await seen.nodes(), await targets(seen)
    again = "(node groups of size 0 show no resources)"
    if not chosen:
        hint = f"kubectl describe nodes: is the device plugin running? {again}"
        return warning(f"no node has any resource of the policy ({counted(len(every), 'node')})", hint=hint)
    found, absent, lacking = list[str](), list[str](), list[tuple[str, bool]]()
    for vendor in chosen:
        reported = {_reported(entry) for entry in vendor.reports or ()}
        own = reported.__contains__ if vendor.annotation_keys else index([vendor], "resource").owners
        offered, having = _offered(own, every)
        lacking += _missing(vendor, offered)
        if having:
            found.append(f"{listed(sorted(offered))} on {having} of {counted(len(every), 'node')}")
        elif not vendor.annotation_keys or reported:
            absent.append(vendor.name)
    lines = [line for line, _ in lacking]
    if absent:
        hint = f"kubectl describe nodes: is its device plugin running? {again}"
        return warning(f"no node has a resource of the target {', '.join(absent)}", *lines, hint=hint)
    hint = "kubectl describe nodes: is the system installed completely?"
    if any(always for _, always in lacking):
        return error("no node has a resource that pods of the target get: they would stay Pending", *lines, hint=hint)
    if lacking:
        return warning("no node has a resource that some requests of the target need", *lines, hint=hint)
    return ok("; ".join(found) or "the target uses labels and annotations only: nodes need no resources for it")


def _offered(own: Callable[[str], Any], nodes: Iterable[Item]) -> tuple[set[str], int]:
    """The resources that nodes have of some, and the number of these nodes."""
    having = [names for node in nodes if (names := set(filter(own, node.resources)))]
    return set().union(*having), len(having)


def _reported(entry: str | GatedName) -> str:
    return entry if isinstance(entry, str) else entry.resource


def _missing(vendor: Vendor, offered: Collection[str]) -> Iterator[tuple[str, bool]]:
    """The resources that the vendor's nodes should report and do not, with what that needs, and whether all requests do."""
    for entry in vendor.reports or ():
        name = _reported(entry)
        keys = [key for key in vendor.keys.values() if name in {template.text for template in key.spellings}]
        if not (keys or vendor.annotation_keys) or _is_there(name, keys, vendor, offered):
            continue
        if isinstance(entry, str):
            yield f"{vendor.name}: {entry}", True
        else:
            only = f", for {entry.requests}" if entry.requests else ""
            yield f"{vendor.name}: {name}{only}: {entry.needs}", not entry.requests


def _is_there(name: str, keys: Sequence[Key], vendor: Vendor, offered: Collection[str]) -> bool:
    """Whether nodes offer a resource.

    One with variables is there if a name that it stands for is; one that an extending document replaced, if what it writes is.
    """
    # The variables as they are written; of several texts, the first.
    written = {name: variable.write[0] for name, variable in vendor.variables.items() if variable.write}
    if any(key.spelled(written) in offered for key in keys):
        return True
    if "{" not in name:
        return name in offered
    owners, spelled = index([vendor], "resource").owners, {key.name for key in keys}
    return any(owner.binding and owner.key_name in spelled for each in offered for owner in owners(each))


async def sharing(seen: ClusterReader) -> Result:
    """Do nodes serve a key of the policy with another meaning?

    GPUs may be shared under their ordinary name.
    """
    every, in_force, found = await seen.nodes(), await seen.policy(), dict[str, str]()
    for vendor in in_force.vendors.values():
        for sign in vendor.shared_names:
            owners = in_force.resources.owners(sign.resource)
            having = [node.name for node in every if _is_shown_by(sign, node)]
            if having and owners and owners[0].vendor != vendor.name:
                line = f"{listed(having)}: {sign.resource} is {vendor.name}'s there, and read as {owners[0].vendor}'s"
                found[line] = sign.instead
    if found:
        hint = "; ".join(dict.fromkeys(found.values()))
        return warning("nodes share GPUs under a name that has another meaning in the policy", *found, hint=hint)
    return ok("no node's labels show GPUs shared under a name that has another meaning in the policy")


def _is_shown_by(sign: SharedName, node: Item) -> bool:
    return sign.resource in node.resources and any(
        expression(pattern).groups(node.labels[label]) is not None
        for label, pattern in sign.nodes.items()
        if label in node.labels
    )


def schedulers_of(vendors: Iterable[Vendor]) -> list[str]:
    """The schedulers of these vendors' pods, except for the cluster's default."""
    names = (vendor.place.scheduler for vendor in vendors)
    return list(dict.fromkeys(name for name in names if name and name != DEFAULT_SCHEDULER))


@reads("pods", "list pods")
async def _waiting(seen: ClusterReader) -> dict[str, list[str]]:
    """The schedulers that pods have waited for for long, with what each wrote into these pods: nothing if it has not tried."""
    found = dict[str, list[str]]()
    async for page in object_pages(seen.api, "/api/v1/pods", Item, {"fieldSelector": "spec.nodeName="}):
        for pod in page:
            reason = str(pod.condition("PodScheduled").get("reason") or "")
            age = seen.now - (moment(pod.metadata.creation_timestamp) or seen.now)
            is_over = pod.status.get("phase") in ENDED or reason == "SchedulingGated"
            if age.total_seconds() > PENDING_SECONDS and not is_over:
                found.setdefault(found_at(pod.spec, str, "schedulerName") or "", []).append(reason)
    return found


@reads("pods", "list pods")
async def _has_placed(seen: ClusterReader, scheduler: str) -> bool:
    """Whether a pod that names a scheduler has a node; only the first page of them is read."""
    query = {"fieldSelector": f"spec.schedulerName={scheduler},spec.nodeName!="}
    async for page in object_pages(seen.api, "/api/v1/pods", Item, query):
        return bool(page)
    return False


@reads("Leases", "list leases.coordination.k8s.io")
async def _lease(seen: ClusterReader, scheduler: str) -> float | None:
    """Seconds since a Lease of a scheduler's name was last renewed, in any namespace."""
    query = {"fieldSelector": f"metadata.name={scheduler}"}
    leases = await list_objects(seen.api, "/apis/coordination.k8s.io/v1/leases", Item, query)
    renewed = (moment(found_at(lease.spec, str, "renewTime")) for lease in leases)
    return min(((seen.now - each).total_seconds() for each in renewed if each is not None), default=None)


@remembered
async def signs_of(seen: ClusterReader, scheduler: str) -> tuple[Level, str]:
    """Whether a scheduler works, shows no signs, or pods wait for it in vain: its name, and what is known of it."""
    try:
        placed, waiting = await _has_placed(seen, scheduler), (await _waiting(seen)).get(scheduler, [])
    except UnansweredError as unknown:
        return Level.WARNING, f"{scheduler}: {unknown.why}"
    if placed:
        return Level.OK, f"{scheduler} has placed pods"
    lease = await tried(_lease(seen, scheduler))
    if isinstance(lease, float) and lease < LEASE_SECONDS:
        return Level.OK, f"{scheduler} holds its Lease"
    if considered := waiting.count("Unschedulable"):
        return Level.OK, f"{scheduler} runs, and has no node for {counted(considered, 'pod')} yet"
    if isinstance(lease, UnansweredError):
        return Level.WARNING, f"{scheduler}: no pod placed by it, Leases could not be read: {lease.why}"
    age = "no Lease" if lease is None else f"its Lease is {lease:.0f} s old"
    if waiting:
        return Level.ERROR, f"{scheduler}: {counted(len(waiting), 'pod')} waiting, none placed, {age}"
    return Level.WARNING, f"{scheduler}: no pod placed by it, {age}"


async def scheduler(seen: ClusterReader) -> Result:
    """Are there signs of the target's scheduler, and of each that pods wait for?

    The absence of signs is no proof of the opposite.
    """
    chosen, vendors = await targets(seen), (await seen.policy()).vendors.values()
    waiting = await read_or({}, _waiting(seen))
    names = dict.fromkeys([*filter(waiting.__contains__, schedulers_of(vendors)), *schedulers_of(chosen)])
    signs = dict(zip(names, await asyncio.gather(*(signs_of(seen, name) for name in names)), strict=True))
    shown = {name: signs[name] for name in names if name in schedulers_of(chosen) or signs[name][0] is not Level.OK}
    if not shown:
        await seen.nodes()
        unknown = "no node has a resource of the policy, so it is unknown which scheduler pods will need"
        default = ok("only the cluster's default scheduler is needed")
        return default if chosen else warning(f"not checked: {unknown}", hint=WITHOUT_TARGET)
    working, doubtful, stuck = ([text for level, text in shown.values() if level is wanted] for wanted in Level)
    install = "install it, or change place.scheduler in the mapping"
    hint = f"kubectl get pods --all-namespaces --field-selector spec.schedulerName={next(iter(shown))}"
    if stuck:
        message = "pods wait for a scheduler that does not seem to be running"
        return error(message, *stuck, *doubtful, install, hint=hint)
    if doubtful:
        fine = f"fine as long as no pod has used it; else {install}"
        return warning("the target's scheduler shows no sign of running", *doubtful, fine, hint=hint)
    return ok("; ".join(working))


async def shim(seen: ClusterReader) -> Result:
    """Is the shim on the nodes, and is no second one mounted by a device plugin?"""
    injecting, found = await _injecting(seen), await seen.daemon_sets()
    installers, plugins = ([each for each in found if each.is_installer is wanted] for wanted in (True, False))
    if not injecting:
        return _needless(installers)
    if twice := await _meetings(seen, [each for each in plugins if _is_named(each, injecting)], installers):
        hint = "set shim.mode: plugin in the mapping (--set shim.mode=plugin of the chart)"
        message = "the shim is injected where a device plugin mounts the same library: two copies in one process"
        return error(message, *twice, hint=hint)
    ours = _paths(injecting)
    if conflicts := await _meetings(seen, [each for each in plugins if _brings_libraries(each, ours)], installers):
        hint = "if it does: set shim.mode: plugin in the mapping, or run the plugin on other nodes (node selector)"
        return warning("the shim is injected where a device plugin may mount one of its own", *conflicts, hint=hint)
    return _installed(installers) if installers else await _uninstalled(seen, ours)


async def _injecting(seen: ClusterReader) -> list[Shim]:
    """The shims that are injected from a folder of the node, of the targets, or of all vendors if none is known."""
    possible = await targets(seen) or [vendor for vendor in (await seen.policy()).in_force if vendor.target]
    shims = [vendor.shim for vendor in possible if vendor.shim is not None]
    return [shim for shim in shims if shim.mode == "inject" and _paths([shim])]


def _needless(installers: Sequence[Item]) -> Result:
    if not installers:
        return ok("no shim is injected by a mapping of this cluster")
    hint = "set shim.mode: inject in the mapping, or remove the installer"
    message = "an installer installs the shim on nodes, but no mapping injects it"
    return warning(message, *(installer.place for installer in installers), hint=hint)


def _installed(installers: Sequence[Item]) -> Result:
    ready, wanted = (
        {each.place: found_at(each.status, int, number) or 0 for each in installers}
        for number in ("numberReady", "desiredNumberScheduled")
    )
    if late := [
        f"{name}: on {ready[name]} of {counted(most, 'node')}" for name, most in wanted.items() if ready[name] < most
    ]:
        return warning("the shim is not on every node yet", *late, hint="kubectl rollout status daemonset …")
    return ok(f"the shim is on {counted(sum(ready.values()), 'node')}, and no device plugin mounts another")


async def _uninstalled(seen: ClusterReader, ours: Collection[str]) -> Result:
    if not await targets(seen):
        unknown = "no node has a resource of the policy, so it is unknown whether pods need the shim"
        return warning(f"not checked: {unknown}", hint=WITHOUT_TARGET)
    message = f"the shim may be missing on nodes: there is no installer, and pods need {listed(sorted(ours))}"
    return warning(message, hint="install the chart with shim.mode: inject, or add the shim to the node image")


def mounts_library(plugin: Item, shim: Shim) -> bool:
    """Whether a device plugin mounts the library of a shim, or a folder of libraries."""
    return _is_named(plugin, [shim]) or _brings_libraries(plugin, _paths([shim]))


def _paths(shims: Iterable[Shim]) -> set[str]:
    """The folders of the node that hold shims."""
    volumes = (volume for shim in shims for delivery in shim.deliveries for volume in delivery.volumes)
    return {str(volume["hostPath"]["path"]) for volume in volumes if "hostPath" in volume}


def _is_named(plugin: Item, injecting: Iterable[Shim]) -> bool:
    """Whether a mapping names it as a device plugin that mounts the same library."""
    return not {*map("=".join, plugin.labels.items())}.isdisjoint(each.mounted_by for each in injecting)


def _brings_libraries(plugin: Item, ours: Collection[str]) -> bool:
    return any(path.startswith(LIBRARY_FOLDERS) or path in ours for path in plugin.host_paths)


@reads("pods", "list pods")
async def _placed(seen: ClusterReader, namespace: str, labels: str) -> frozenset[str]:
    """The nodes of the pods with these labels."""
    query = {"labelSelector": labels}
    pods = await list_objects(seen.api, f"/api/v1/namespaces/{namespace}/pods", Item, query)
    return frozenset(filter(None, (found_at(pod.spec, str, "nodeName") for pod in pods)))


def _nodes_of(seen: ClusterReader, daemon_set: Item) -> Awaitable[frozenset[str]]:
    """The nodes of its pods; expressions in its selector are ignored, so that it may match more pods."""
    labels = (found_at(daemon_set.spec, dict, "selector", "matchLabels") or {}).items()
    return _placed(seen, daemon_set.metadata.namespace, ",".join(f"{key}={value}" for key, value in labels))


async def _meetings(seen: ClusterReader, plugins: Iterable[Item], installers: Sequence[Item]) -> list[str]:
    """The nodes of device plugins where pods get the shim: those of installers, and all where these are not known."""
    lines = list[str]()
    for plugin in plugins:
        folders = ", ".join(path for path in plugin.host_paths if path.startswith(LIBRARY_FOLDERS)) or "its library"
        nodes = await tried(_nodes_of(seen, plugin))
        if isinstance(nodes, UnansweredError):
            lines.append(f"{plugin.place} mounts {folders}; its nodes could not be read: {nodes.why}")
            continue
        with_shim = [await read_or(nodes, _nodes_of(seen, installer)) for installer in installers] or [nodes]
        if both := nodes & frozenset().union(*with_shim):
            lines.append(f"{plugin.place} mounts {folders}, on {listed(sorted(both))}")
    return lines


NodeSize: TypeAlias = tuple[int, str]
"""A number, and the node that has it."""


async def largest_of(seen: ClusterReader) -> tuple[Mapping[str, NodeSize], NodeSize | None]:
    """What nodes have at most, by their labels: by hardware family, MiB of a device; devices of a node.

    What a node with devices of a family does not say is not known of any.
    """
    every, by_family = await seen.nodes(), dict[str, list[Vendor]]()
    for vendor in (await seen.policy()).vendors.values():
        by_family.setdefault(vendor.family, []).append(vendor)
    found = {family: _measured(vendors, every) for family, vendors in by_family.items()}
    memory = {family: size for family, (sizes, _) in found.items() if (size := _most(sizes)) is not None}
    return memory, _most([count for _, counts in found.values() for count in counts])


def _measured(vendors: Sequence[Vendor], nodes: Iterable[Item]) -> tuple[list[NodeSize], list[NodeSize]]:
    """The memory and the number of the devices of each node with some of these vendors; 0 where that is not known."""
    labels, owners = [vendor.node_labels for vendor in vendors], index(vendors, "resource").owners
    having = [node for node in nodes if any(map(owners, node.resources))]
    memory = [(_number(node, [each.memory for each in labels]), node.name) for node in having]
    return memory, [(_number(node, [each.devices for each in labels]), node.name) for node in having]


def _most(found: Sequence[NodeSize]) -> NodeSize | None:
    return max(found) if found and all(number for number, _ in found) else None


def _number(node: Item, labels: Iterable[str | None]) -> int:
    """The number that a label of a node has; 0 without one."""
    texts = (node.labels.get(label or "", "") for label in labels)
    return max((int(text) for text in texts if _NUMBER.fullmatch(text)), default=0)


async def largest(seen: ClusterReader) -> Result:
    """Have nodes more than the settings `largestDevice` and `largestNode` say?"""
    in_force, (memory, devices) = await seen.policy(), await largest_of(seen)
    settings = in_force.settings
    small = [
        f"{node}: {size} MiB per device, and largestDevice is {bytes_text(in_force.largest_devices[family])}"
        for family, (size, node) in memory.items()
        if size * MIB > in_force.largest_devices.get(family, size * MIB)
    ]
    if devices is not None and settings.largest_node is not None and devices[0] > settings.largest_node:
        small.append(f"{devices[1]}: {devices[0]} devices, and largestNode is {settings.largest_node}")
    if small:
        return warning("requests that nodes could serve are denied", *small, hint="raise the settings")
    if settings.largest_device is None and settings.largest_node is None:
        return ok("largestDevice and largestNode are not set: what no node has is only reported")
    return ok("nodes have, by their labels, no more than largestDevice and largestNode")


async def sharing_systems(seen: ClusterReader) -> dict[str, str]:
    """The vendors that the cluster serves, each with the sign of it; that with the most nodes first."""
    every, in_force = await seen.nodes(), (await seen.policy()).in_force
    found = await asyncio.gather(*(_sign_of(vendor, every, seen) for vendor in in_force if vendor.target))
    signs = filter(None, found)
    return {name: sign for _, name, sign in sorted(signs, key=lambda each: (-each[0], each[1]))}


async def _sign_of(vendor: Vendor, nodes: Iterable[Item], seen: ClusterReader) -> tuple[int, str, str] | None:
    """The number of nodes that serve a vendor, its name, and the sign of it.

    A name that a plain device plugin serves, too, is a sign only beside a running scheduler of the vendor.
    """
    offered, having = _offered(index([vendor], "resource").owners, nodes)
    if not offered and any(key.place == "resource" for key in vendor.keys.values()):
        return None
    running = [name for name in schedulers_of([vendor]) if (await signs_of(seen, name))[0] is Level.OK]
    if not running and not offered - plain_names(vendor):
        return None
    sign = [f"{listed(sorted(offered))} on {counted(having, 'node')}"] if offered else []
    return having, vendor.name, ", ".join([*sign, *(f"{name} is running" for name in running)])


def plain_names(vendor: Vendor) -> set[str]:
    """The names of a vendor that a plain device plugin serves, too."""
    return {template.text for key in vendor.keys.values() for template in key.plain}


def only_isolated(vendor: Vendor) -> bool:
    """Whether all that a vendor serves is parts that the hardware isolates: shares of others are not written in its keys."""
    return all(form.isolated for form in vendor.forms if form.reads)


async def systems(seen: ClusterReader) -> Result:
    """Does the cluster serve keys that the settings translate away, or deny?

    Translating is meant in a migration, and not where two systems are to stay.
    """
    await seen.nodes()
    in_force = await seen.policy()
    served = await sharing_systems(seen) if in_force.served else {}
    moved = {name: how for name in served if (how := _moved(in_force.vendors[name], in_force)) is not None}
    if not moved:
        return ok("the settings neither translate nor deny requests in keys that the cluster serves")
    hint = f"if they are to stay as they are, set served: [{', '.join([*in_force.settings.served, *moved])}]"
    message = "requests in keys that the cluster serves are translated or denied by the settings"
    return warning(message, *(f"{name}, {how}: {served[name]}" for name, how in moved.items()), hint=hint)


def _moved(vendor: Vendor, policy: Policy) -> str | None:
    """What the settings make of requests in a vendor's keys; None if they stay."""
    origin = override_source(vendor, Overrides(), policy)
    if origin == "itself":
        return None if vendor.name in policy.served else "denied"
    if origin != "settings" or vendor.name == policy.settings.target:
        return None
    return "denied" if only_isolated(vendor) else "translated"


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
        lines += _lacking(vendor, claim.driver, _devices_of(slices, claim.driver))
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


def _devices_of(slices: Sequence[Slice], driver: str) -> list[frozenset[str] | None]:
    """The devices of a driver: those of a pool's newest generation, the only one that the scheduler looks at."""
    own = sorted((each for each in slices if each.driver == driver), key=lambda each: each.generation)
    newest = {each.pool: each.generation for each in own}
    return [device for each in own if each.generation == newest[each.pool] for device in each.devices]
