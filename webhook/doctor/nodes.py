"""Checks of nodes: their resources, the scheduler, one shim rather than two.

Also the chart's values that fit a cluster, from what its nodes offer and which schedulers run.
"""

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import yaml

from webhook.admission.overrides import DEFAULT_SCHEDULER, Overrides, override_source, target_of
from webhook.doctor.facts import ClusterFacts, Node, Scheduler, Workload
from webhook.doctor.result import NOT_TRIED, Level, Missing, Result, counted, error, known, listed, ok, warning
from webhook.mapping.document.schema import SharedName
from webhook.mapping.model.names import Owner, index
from webhook.mapping.model.policy import Policy
from webhook.mapping.model.shim import Shim
from webhook.mapping.model.vendor import Vendor
from webhook.mapping.notation import expression
from webhook.quantity import MIB, bytes_text
from webhook.reasons import Denied


def targets(facts: ClusterFacts) -> list[Vendor]:
    """The vendors whose keys pods of this cluster get: the setting ``target``, else those of the nodes' resources."""
    policy = facts.policy
    if policy.settings.target is not None:
        return [policy.vendors[policy.settings.target]]
    if isinstance(facts.nodes, Missing):
        return []
    names = {name for node in facts.nodes for name in node.resources}
    found = {owner.vendor for name in names for owner in policy.resources.owners(name)}
    written = (_target(policy.vendors[name], policy) for name in sorted(found))
    return list({vendor.name: vendor for vendor in written if vendor is not None}.values())


def possible_targets(facts: ClusterFacts) -> list[Vendor]:
    """The vendors of this cluster's pods, or all target vendors if none is known."""
    return targets(facts) or [vendor for vendor in facts.policy.in_force if vendor.target]


def _target(vendor: Vendor, policy: Policy) -> Vendor | None:
    try:
        return target_of(vendor, Overrides(), policy)[0]
    except Denied:
        return None


def _nodes(facts: ClusterFacts) -> Sequence[Node]:
    return known(facts.nodes, "the nodes", "list nodes")


_WITHOUT_TARGET: Final = "set `target` in the settings, or check again when a node has GPUs"

LIBRARY_FOLDERS: Final = ("/usr/", "/opt/")
"""Folders for libraries on nodes. A device plugin that mounts such a folder may mount a library into containers."""

MAX_DIGITS: Final = 10
"""Digits of a number in a label; MiB of a device have at most seven."""

LEASE_SECONDS: Final = 60.0
"""A leader that has not renewed its Lease for so long is gone: a Lease usually lasts 15 s."""


def resources(facts: ClusterFacts) -> Result:
    """Do nodes have the resources that pods request?"""
    nodes, chosen = _nodes(facts), targets(facts)
    again = "(node groups of size 0 show no resources)"
    if not chosen:
        return warning(
            f"no node has any resource of the policy ({counted(len(nodes), 'node')})",
            hint=f"kubectl describe nodes: is the device plugin running? {again}",
        )
    found, absent, lacking = [], [], list[tuple[str, bool]]()
    for vendor in chosen:
        owners = index([vendor], "resource").owners
        reported = {entry if isinstance(entry, str) else entry.resource for entry in vendor.document.reports or ()}
        own = reported.__contains__ if vendor.annotation_keys else owners
        having = [names for node in nodes if (names := set(filter(own, node.resources)))]
        offered = set().union(*having)
        lacking += _missing(vendor, offered, owners)
        if having:
            found.append(f"{listed(sorted(offered))} on {len(having)} of {counted(len(nodes), 'node')}")
        elif not vendor.annotation_keys or reported:
            absent.append(vendor.name)
    lines = [line for line, _ in lacking]
    if absent:
        return warning(
            f"no node has a resource of the target {', '.join(absent)}",
            *lines,
            hint=f"kubectl describe nodes: is its device plugin running? {again}",
        )
    hint = "kubectl describe nodes: is the system installed completely?"
    if any(always for _, always in lacking):
        return error("no node has a resource that pods of the target get: they would stay Pending", *lines, hint=hint)
    if lacking:
        return warning("no node has a resource that some requests of the target need", *lines, hint=hint)
    return ok("; ".join(found) or "the target uses labels and annotations only: nodes need no resources for it")


def _missing(
    vendor: Vendor, offered: Collection[str], owners: Callable[[str], Sequence[Owner]]
) -> Iterator[tuple[str, bool]]:
    """The resources that the vendor's nodes should report and do not, with what that needs, and whether all requests do.

    One with variables is there if a name that it stands for is; one that an extending document replaced, if what it writes is.
    """
    writes = {name: variable.write for name, variable in vendor.document.variables.items()}
    chosen = {name: text if isinstance(text, str) else text[0] for name, text in writes.items() if text}
    for entry in vendor.document.reports or ():
        name = entry if isinstance(entry, str) else entry.resource
        keys = [key for key in vendor.keys.values() if name in {template.text for template in key.spellings}]
        spelled = {key.name for key in keys}
        bound = (owner for each in offered for owner in owners(each) if owner.binding)
        there = any(owner.key_name in spelled for owner in bound) if "{" in name else name in offered
        there = there or any(key.spelled(chosen) in offered for key in keys)
        if there or not (keys or vendor.annotation_keys):
            continue
        if isinstance(entry, str):
            yield f"{vendor.name}: {name}", True
        else:
            only = f", for {entry.requests}" if entry.requests else ""
            yield f"{vendor.name}: {name}{only}: {entry.needs}", not entry.requests


def sharing(facts: ClusterFacts) -> Result:
    """Do nodes serve a key of the policy with another meaning?

    GPUs may be shared under their ordinary name.
    """
    nodes, found = _nodes(facts), dict[str, str]()
    for vendor in facts.policy.vendors.values():
        for sign in vendor.document.shared_names:
            owners = facts.policy.resources.owners(sign.resource)
            having = [node.name for node in nodes if sign.resource in node.resources and _is_shown_by(sign, node)]
            if having and owners and owners[0].vendor != vendor.name:
                line = f"{listed(having)}: {sign.resource} is {vendor.name}'s there, and read as {owners[0].vendor}'s"
                found[line] = sign.instead
    if found:
        hint = "; ".join(dict.fromkeys(found.values()))
        return warning("nodes share GPUs under a name that has another meaning in the policy", *found, hint=hint)
    return ok("no node's labels show GPUs shared under a name that has another meaning in the policy")


def scheduler(facts: ClusterFacts) -> Result:
    """Are there signs of the target's scheduler, and of each that pods wait for?

    The absence of signs is no proof of the opposite.
    """
    chosen = targets(facts)
    names = schedulers_of(chosen)
    awaited = [] if isinstance(facts.awaited, Missing) else [name for name in facts.awaited if name not in names]
    seen = {name: facts.schedulers.get(name, NOT_TRIED) for name in (*awaited, *names)}
    judged = {name: _seen_of(name, scheduler) for name, scheduler in seen.items()}
    waited_for = {name for name, found in seen.items() if isinstance(found, Missing) or found.waiting}
    late = [name for name in awaited if judged[name][0] is not Level.OK and name in waited_for]
    names = [*late, *names]
    if not names:
        _nodes(facts)
        if chosen:
            return ok("only the cluster's default scheduler is needed")
        return warning(
            "not checked: no node has a resource of the policy, so it is unknown which scheduler pods will need",
            hint=_WITHOUT_TARGET,
        )
    ends = [judged[name] for name in names]
    working, doubtful, stuck = ([text for level, text in ends if level is wanted] for wanted in Level)
    install = "install it, or change place.scheduler in the mapping"
    hint = f"kubectl get pods --all-namespaces --field-selector spec.schedulerName={names[0]}"
    if stuck:
        message = "pods wait for a scheduler that does not seem to be running"
        return error(message, *stuck, *doubtful, install, hint=hint)
    if doubtful:
        fine = f"fine as long as no pod has used it; else {install}"
        return warning("the target's scheduler shows no sign of running", *doubtful, fine, hint=hint)
    return ok("; ".join(working))


def shim(facts: ClusterFacts) -> Result:
    """Is the shim on the nodes, and is no second one mounted by a device plugin?"""
    injecting = _injecting(facts)
    daemon_sets = known(facts.daemon_sets, "the DaemonSets", "list daemonsets.apps")
    installers = [each for each in daemon_sets if each.is_installer]
    if not injecting:
        if installers:
            return warning(
                "an installer installs the shim on nodes, but no mapping injects it",
                *(installer.name for installer in installers),
                hint="set shim.mode: inject in the mapping, or remove the installer",
            )
        return ok("no shim is injected by a mapping of this cluster")
    plugins = [each for each in daemon_sets if not each.is_installer]
    twice = [
        line for plugin in plugins if _mounts_it(plugin, injecting) for line in _meeting(plugin, installers, facts)
    ]
    if twice:
        return error(
            "the shim is injected where a device plugin mounts the same library: two copies in one process",
            *twice,
            hint="set shim.mode: plugin in the mapping (--set shim.mode=plugin of the chart)",
        )
    ours = _paths(injecting)
    others = [plugin for plugin in plugins if plugin.is_device_plugin and _brings_libraries(plugin, ours)]
    conflicts = [line for plugin in others for line in _meeting(plugin, installers, facts)]
    if conflicts:
        return warning(
            "the shim is injected where a device plugin may mount one of its own",
            *conflicts,
            hint="if it does: set shim.mode: plugin in the mapping, or run the plugin on other nodes (node selector)",
        )
    counts = {each.name: (each.ready, each.desired) for each in installers}
    late = [f"{name}: on {ready} of {counted(all_, 'node')}" for name, (ready, all_) in counts.items() if ready < all_]
    if late:
        return warning("the shim is not on every node yet", *late, hint="kubectl rollout status daemonset …")
    if not installers and not targets(facts):
        return warning(
            "not checked: no node has a resource of the policy, so it is unknown whether pods need the shim",
            hint=_WITHOUT_TARGET,
        )
    if not installers:
        return warning(
            f"the shim may be missing on nodes: there is no installer, and pods need {listed(sorted(ours))}",
            hint="install the chart with shim.mode: inject, or add the shim to the node image",
        )
    ready = sum(ready for ready, _ in counts.values())
    return ok(f"the shim is on {counted(ready, 'node')}, and no device plugin mounts another")


def schedulers_of(vendors: Iterable[Vendor]) -> list[str]:
    """The schedulers of these vendors' pods, except for the cluster's default."""
    names = (vendor.place.scheduler for vendor in vendors)
    return list(dict.fromkeys(name for name in names if name and name != DEFAULT_SCHEDULER))


def _is_shown_by(sign: SharedName, node: Node) -> bool:
    return any(
        expression(pattern).groups(node.labels[label]) is not None
        for label, pattern in sign.nodes.items()
        if label in node.labels
    )


def _seen_of(name: str, seen: Scheduler | Missing) -> tuple[Level, str]:
    """Judge one scheduler: it works, it shows no signs, or pods wait for it in vain."""
    if isinstance(seen, Missing):
        return Level.WARNING, f"{name}: {seen.why}"
    if seen.placed:
        return Level.OK, f"{name} has placed {counted(seen.placed, 'pod')}"
    if isinstance(seen.lease, float) and seen.lease < LEASE_SECONDS:
        return Level.OK, f"{name} holds its Lease"
    if seen.considered:
        return Level.OK, f"{name} runs, and has no node for {counted(seen.considered, 'pod')} yet"
    if seen.waiting and not isinstance(seen.lease, Missing):
        return Level.ERROR, f"{name}: {counted(seen.waiting, 'pod')} waiting, none placed, {_lease_text(seen)}"
    return Level.WARNING, f"{name}: no pod placed by it, {_lease_text(seen)}"


def is_running(seen: Scheduler | Missing | None) -> bool:
    """Return whether a scheduler shows signs of running."""
    return seen is not None and _seen_of("", seen)[0] is Level.OK


def mounts_library(plugin: Workload, shim: Shim) -> bool:
    """Return whether a device plugin mounts the library of a shim, or a folder of libraries."""
    return _mounts_it(plugin, [shim]) or _brings_libraries(plugin, _paths([shim]))


def _lease_text(seen: Scheduler) -> str:
    if isinstance(seen.lease, Missing):
        return f"Leases could not be read: {seen.lease.why}"
    return "no Lease" if seen.lease is None else f"its Lease is {seen.lease:.0f} s old"


def _injecting(facts: ClusterFacts) -> list[Shim]:
    """The shims that are injected from a folder of the node."""
    shims = [vendor.shim for vendor in possible_targets(facts) if vendor.shim is not None]
    return [shim for shim in shims if shim.document.mode == "inject" and _paths([shim])]


def _paths(shims: Iterable[Shim]) -> set[str]:
    """The folders of the node that hold shims."""
    volumes = (volume for shim in shims for delivery in shim.deliveries for volume in delivery.volumes)
    return {str(volume["hostPath"]["path"]) for volume in volumes if "hostPath" in volume}


def _mounts_it(plugin: Workload, injecting: Iterable[Shim]) -> bool:
    """Whether a mapping names it as a device plugin that mounts the same library."""
    return any(shim.mounted_by is not None and shim.mounted_by in plugin.labels.items() for shim in injecting)


def _brings_libraries(plugin: Workload, ours: Collection[str]) -> bool:
    return any(path.startswith(LIBRARY_FOLDERS) or path in ours for path in plugin.host_paths)


def _meeting(plugin: Workload, installers: Sequence[Workload], facts: ClusterFacts) -> list[str]:
    """The nodes of a device plugin with an installer; without installers, all of its nodes, for pods get the shim there."""
    folders = ", ".join(path for path in plugin.host_paths if path.startswith(LIBRARY_FOLDERS)) or "its library"
    nodes = facts.placed.get(plugin.name, NOT_TRIED)
    if isinstance(nodes, Missing):
        return [f"{plugin.name} mounts {folders}; its nodes could not be read: {nodes.why}"]
    installed = [facts.placed.get(installer.name, NOT_TRIED) for installer in installers]
    known_nodes = [placed for placed in installed if not isinstance(placed, Missing)]
    if known_nodes and len(known_nodes) == len(installers):
        nodes &= frozenset().union(*known_nodes)
    return [f"{plugin.name} mounts {folders}, on {listed(sorted(nodes))}"] if nodes else []


_BARE: Final = (
    "whole devices, as pods that request only a count mean them; `share` cuts each to the mapping's default: see what "
    "becomes of your workloads with `vgpu-webhook preview -A --set bareDevices=share`"
)


@dataclass(frozen=True, slots=True)
class ProposedValue:
    """One value of the chart.

    Attributes:
        path: its two keys.
        value: the value, as data of YAML.
        why: a sentence without a period.
    """

    path: tuple[str, str]
    value: Any
    why: str


def proposed(facts: ClusterFacts) -> tuple[ProposedValue, ...]:
    """Propose `target`, `served`, `owners`, `largestDevice`, `largestNode`, `bareDevices` and `shim.mode`.

    Args:
        facts: nodes, device plugins and schedulers, under the built-in policy.

    Raises:
        UnansweredError: the nodes could not be read.
    """
    values = [
        *_of_systems(sharing_systems(facts), facts),
        *_sizes(_largest(facts)),
        ProposedValue(("settings", "bareDevices"), "whole", _BARE),
    ]
    target = next((each.value for each in values if each.path == ("settings", "target")), None)
    return (*values, _shim_mode(None if target is None else facts.policy.vendors[target], facts))


def sharing_systems(facts: ClusterFacts) -> Mapping[str, str]:
    """Return the vendors that the cluster serves, each with the sign of it; that with the most nodes first.

    A name that a plain device plugin serves, too, is a sign only beside a running scheduler of the vendor.

    Raises:
        UnansweredError: the nodes could not be read.
    """
    nodes = known(facts.nodes, "the nodes", "list nodes")
    signs: list[tuple[int, str, str]] = []
    for vendor in facts.policy.in_force:
        if not vendor.target:
            continue
        names = index([vendor], "resource")
        having = [found for node in nodes if (found := {name for name in node.resources if names.owners(name)})]
        offered = set().union(*having)
        scheduler = vendor.place.scheduler
        runs = scheduler is not None and is_running(facts.schedulers.get(scheduler))
        if offered - _plain(vendor) or (
            runs and (offered or all(key.place != "resource" for key in vendor.keys.values()))
        ):
            seen = [f"{listed(sorted(offered))} on {counted(len(having), 'node')}"] if offered else []
            seen += [f"{scheduler} is running"] if runs else []
            signs.append((len(having), vendor.name, ", ".join(seen)))
    return {name: sign for _, name, sign in sorted(signs, key=lambda each: (-each[0], each[1]))}


@dataclass(frozen=True, slots=True)
class _Largest:
    """What nodes have at most, by their labels, with the node that has it.

    Attributes:
        memory: by hardware family, MiB of a device.
        devices: of a node; None if that is not known of every node with devices.
    """

    memory: Mapping[str, tuple[int, str]]
    devices: tuple[int, str] | None


def _largest(facts: ClusterFacts) -> _Largest:
    """Read the labels of nodes; what a node with devices of a family does not say is not known of any.

    Raises:
        UnansweredError: the nodes could not be read.
    """
    by_family: dict[str, list[Vendor]] = {}
    for vendor in facts.policy.vendors.values():
        by_family.setdefault(vendor.family, []).append(vendor)
    memory: dict[str, tuple[int, str]] = {}
    counts: list[tuple[int, str]] = []
    for family, vendors in by_family.items():
        labels = [vendor.document.node_labels for vendor in vendors]
        names = index(vendors, "resource")
        having = [node for node in _nodes(facts) if any(names.owners(name) for name in node.resources)]
        sizes = [(_number(node, [each.memory for each in labels]), node.name) for node in having]
        counts += [(_number(node, [each.devices for each in labels]), node.name) for node in having]
        if sizes and all(size for size, _ in sizes):
            memory[family] = max(sizes)
    return _Largest(memory, max(counts) if counts and all(count for count, _ in counts) else None)


def _number(node: Node, labels: Iterable[str | None]) -> int:
    """The number that a label of a node has; 0 without one."""
    texts = (node.labels.get(label or "", "") for label in labels)
    return max(
        (int(text) for text in texts if text.isascii() and text.isdecimal() and len(text) < MAX_DIGITS), default=0
    )


def largest(facts: ClusterFacts) -> Result:
    """Have nodes more than the settings `largestDevice` and `largestNode` say?"""
    settings, has = facts.policy.settings, _largest(facts)
    small = [
        f"{node}: {size} MiB per device, and largestDevice is {bytes_text(facts.policy.largest_devices[family])}"
        for family, (size, node) in has.memory.items()
        if size * MIB > facts.policy.largest_devices.get(family, size * MIB)
    ]
    if has.devices is not None and settings.largest_node is not None and has.devices[0] > settings.largest_node:
        small.append(f"{has.devices[1]}: {has.devices[0]} devices, and largestNode is {settings.largest_node}")
    if small:
        return warning("requests that nodes could serve are denied", *small, hint="raise the settings")
    if settings.largest_device is None and settings.largest_node is None:
        return ok("largestDevice and largestNode are not set: what no node has is only reported")
    return ok("nodes have, by their labels, no more than largestDevice and largestNode")


def systems(facts: ClusterFacts) -> Result:
    """Does the cluster serve keys that the settings translate away, or deny?

    Translating is meant in a migration, and not where two systems are to stay.
    """
    policy = facts.policy
    seen = sharing_systems(facts)
    origins = {name: override_source(policy.vendors[name], Overrides(), policy) for name in seen}
    moved = [
        name
        for name, origin in origins.items()
        if (origin == "settings" and name != policy.settings.target)
        or (origin == "itself" and policy.served and name not in policy.served)
    ]
    if not moved:
        return ok("the settings neither translate nor deny requests in keys that the cluster serves")
    denied = [name for name in moved if origins[name] == "itself" or _only_isolated(policy.vendors[name])]
    return warning(
        "requests in keys that the cluster serves are translated or denied by the settings",
        *(f"{name}, {'denied' if name in denied else 'translated'}: {seen[name]}" for name in moved),
        hint=f"if they are to stay as they are, set served: [{', '.join([*policy.settings.served, *moved])}]",
    )


def values_text(values: tuple[ProposedValue, ...]) -> str:
    """Format values as a file for ``helm install --values``, each with a comment that says why."""
    lines: list[str] = []
    for section, group in itertools.groupby(sorted(values, key=lambda each: each.path[0]), lambda each: each.path[0]):
        lines.append(f"{section}:")
        for each in group:
            text = yaml.safe_dump(each.value, default_flow_style=True, width=2**31 - 1).removesuffix("\n...\n").strip()
            lines += [f"  # {each.why}", f"  {each.path[1]}: {text}"]
    return "\n".join(lines) + "\n"


def _of_systems(systems: Mapping[str, str], facts: ClusterFacts) -> Iterator[ProposedValue]:
    vendors = facts.policy.vendors
    partitions = [name for name in systems if _only_isolated(vendors[name])]
    others = [name for name in systems if name not in partitions]
    if others:
        target = others.pop(0)
        yield ProposedValue(("settings", "target"), target, systems[target])
        # The same system serves other hardware without being named again.
        home = vendors[target]
        others = [each for each in others if vendors[each].family == home.family or vendors[each].system != home.system]
    else:
        yield from _of_plain(facts)
    served = [*others, *partitions]
    if served:
        why = "; ".join(f"{name}: {systems[name]}" for name in served)
        yield ProposedValue(("settings", "served"), served, f"requests in their keys stay as they are: {why}")


def _of_plain(facts: ClusterFacts) -> Iterator[ProposedValue]:
    """Whole devices, where a plain device plugin serves them and nothing shares them."""
    offered = {name for node in _nodes(facts) for name in node.resources}
    for vendor in facts.policy.vendors.values():
        names = sorted(offered & _plain(vendor))
        if vendor.inactive and names and vendor.place.scheduler is None:
            why = (
                f"only a plain device plugin serves {listed(names)}: no sharing system was found, so a share is denied"
            )
            yield ProposedValue(("settings", "target"), vendor.name, why)
            yield ProposedValue(("settings", "owners"), dict.fromkeys(names, vendor.name), "the same")
            return


def _only_isolated(vendor: Vendor) -> bool:
    """Whether all that a vendor serves is parts that the hardware isolates: shares of others are not written in its keys."""
    return all(form.document.isolated for form in vendor.forms if form.reads)


def _sizes(has: _Largest) -> Iterator[ProposedValue]:
    raised = "more is denied: raise it before larger nodes come"
    if has.memory:
        sizes = {family: f"{size}Mi" for family, (size, _) in sorted(has.memory.items())}
        nodes = listed([node for _, node in has.memory.values()])
        yield ProposedValue(("settings", "largestDevice"), sizes, f"by the labels of {nodes}; {raised}")
    if has.devices is not None:
        count, node = has.devices
        yield ProposedValue(("settings", "largestNode"), count, f"by the labels of {node}; {raised}")


def _shim_mode(target: Vendor | None, facts: ClusterFacts) -> ProposedValue:
    path = ("shim", "mode")
    if target is None or target.shim is None:
        return ProposedValue(path, "plugin", "no library of ours is needed")
    if isinstance(facts.daemon_sets, Missing):
        return ProposedValue(path, "plugin", f"assumed: DaemonSets could not be read ({facts.daemon_sets.why})")
    plugins = [each for each in facts.daemon_sets if each.is_device_plugin and not each.is_installer]
    mounting = [each for each in plugins if mounts_library(each, target.shim)]
    if mounting or not plugins:
        named = listed([each.name for each in mounting])
        why = f"{named} mounts the library" if mounting else "assumed: no device plugin was found"
        return ProposedValue(path, "plugin", why)
    why = f"no device plugin mounts a library from {' or '.join(LIBRARY_FOLDERS)}: {listed([each.name for each in plugins])}"
    return ProposedValue(path, "inject", why)


def _plain(vendor: Vendor) -> set[str]:
    return {template.text for key in vendor.keys.values() for template in key.plain}
