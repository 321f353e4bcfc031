"""Checks of what pods will find: resources on nodes, a scheduler, and one shim rather than two."""

from collections.abc import Iterable, Sequence
from typing import Final

from webhook.doctor.facts import NOT_TRIED, DaemonSet, Facts, Node, Scheduler
from webhook.doctor.result import Level, Missing, Result, counted, error, listed, ok, unread, warning
from webhook.doctor.targets import resources_of, targets
from webhook.mapping.document.schema import Unrenamed
from webhook.mapping.model.shim import Shim
from webhook.mapping.model.vendor import Vendor
from webhook.mapping.notation.pattern import expression

DEVICE_PLUGINS: Final = "/var/lib/kubelet/device-plugins"
"""Where the kubelet's socket for device plugins is: whoever mounts it is one."""

LIBRARY_FOLDERS: Final = ("/usr/", "/opt/")
"""Where libraries are put on nodes. A device plugin that mounts such a folder may well mount one into containers."""

LEASE_SECONDS: Final = 60.0
"""A leader that has not renewed its Lease for so long is gone: the usual Lease is good for 15 s."""

DEFAULT_SCHEDULER: Final = "default-scheduler"


def resources(facts: Facts) -> Result:
    """Whether some node has what pods will ask for."""
    if isinstance(facts.nodes, Missing):
        return unread("the nodes", facts.nodes, "list nodes")
    chosen = targets(facts.policy, facts.nodes)
    if not chosen:
        return warning(
            f"no node has any resource of the policy ({counted(len(facts.nodes), 'node')})",
            hint="kubectl describe nodes: is the device plugin running? Node groups of size 0 have nothing to show",
        )
    found, absent = [], []
    for vendor in chosen:
        having = [node for node in facts.nodes if any(resources_of(vendor, node.resources))]
        names = sorted({name for node in having for name in resources_of(vendor, node.resources)})
        if having:
            found.append(f"{listed(names)} on {len(having)} of {counted(len(facts.nodes), 'node')}")
        elif any(key.place == "resource" for key in vendor.keys.values()):
            absent.append(vendor.name)
    if absent:
        return warning(
            f"no node has a resource of the target {', '.join(absent)}",
            hint="kubectl describe nodes: is its device plugin running? Node groups of size 0 have nothing to show",
        )
    return ok("; ".join(found) or "the target asks by labels and annotations: no node has to show them")


def sharing(facts: Facts) -> Result:
    """Whether a key means on some node what another mapping says: GPUs that are shared under their ordinary name."""
    if isinstance(facts.nodes, Missing):
        return unread("the nodes", facts.nodes, "list nodes")
    found: dict[str, str] = {}
    for vendor in facts.policy.vendors.values():
        for sign in vendor.document.unrenamed:
            owners = facts.policy.resources.owners(sign.resource)
            having = [node.name for node in facts.nodes if sign.resource in node.resources and _tells(sign, node)]
            if having and owners and owners[0].vendor != vendor.name:
                line = f"{listed(having)}: {sign.resource} is {vendor.name}'s there, and read as {owners[0].vendor}'s"
                found[line] = sign.instead
    if found:
        hint = "; ".join(dict.fromkeys(found.values()))
        return warning("nodes share GPUs under a name that the policy reads otherwise", *found, hint=hint)
    return ok("no label of a node says that it shares GPUs under a name that the policy reads otherwise")


def scheduler(facts: Facts) -> Result:
    """Whether anything shows that the schedulers of the targets work, and those that pods wait for, whatever the target.

    None of it is proof that one does not.
    """
    chosen = targets(facts.policy, facts.nodes)
    names = schedulers_of(chosen)
    awaited = [] if isinstance(facts.awaited, Missing) else [name for name in facts.awaited if name not in names]
    seen = {name: facts.schedulers.get(name, NOT_TRIED) for name in (*awaited, *names)}
    judged = {name: _seen_of(name, one) for name, one in seen.items()}
    late = [name for name in awaited if judged[name][0] is not Level.OK and _waited_for(seen[name])]
    names = [*late, *names]
    ends = [judged[name] for name in names]
    if isinstance(facts.nodes, Missing) and not names:
        return unread("the nodes", facts.nodes, "list nodes")
    if not chosen and not names:
        return warning(
            "not looked at: no node has a resource of the policy, so nothing says which scheduler pods will need",
            hint="set `target` in the settings, or look again when a node has GPUs",
        )
    if not names:
        return ok("no scheduler but the cluster's own is needed")
    working, doubtful, stuck = ([text for level, text in ends if level is wanted] for wanted in Level)
    if stuck:
        return error(
            "pods wait for a scheduler that nothing shows to be there",
            *stuck,
            *doubtful,
            "install it, or write another place.scheduler into the mapping",
            hint=_pods_of(names),
        )
    if doubtful:
        return warning(
            "nothing shows that the target's scheduler is there",
            *doubtful,
            "in order while no pod has named it; else install it, or write another place.scheduler",
            hint=_pods_of(names),
        )
    return ok("; ".join(working))


def shim(facts: Facts) -> Result:
    """Whether the enforcing library comes to a container once: by us, or by the device plugin."""
    injecting = _injecting(facts)
    if isinstance(facts.daemon_sets, Missing):
        return unread("the DaemonSets", facts.daemon_sets, "list daemonsets.apps")
    installers = [one for one in facts.daemon_sets if one.installer]
    if not injecting:
        if installers:
            return warning(
                "an installer puts the shim on nodes, but no mapping injects it",
                *(one.name for one in installers),
                hint="set shim.mode: inject in the mapping, or remove the installer",
            )
        return ok("no shim is injected: the device plugin brings it where there is one")
    plugins = [one for one in facts.daemon_sets if not one.installer]
    twice = [line for one in plugins if _mounts_it(one, injecting) for line in _meeting(one, installers)]
    if twice:
        return error(
            "the shim is injected where a device plugin mounts the same library: two copies in one process",
            *twice,
            hint="set shim.mode: plugin in the mapping (--set shim.mode=plugin of the chart)",
        )
    others = [one for one in plugins if _brings_libraries(one, injecting)]
    both = [line for one in others for line in _meeting(one, installers)]
    if both:
        return warning(
            "the shim is injected where a device plugin may mount one of its own",
            *both,
            hint="if it does: set shim.mode: plugin in the mapping, or run it elsewhere (node selector)",
        )
    late = [
        f"{one.name}: on {one.ready} of {counted(one.wanted, 'node')}" for one in installers if one.ready < one.wanted
    ]
    if late:
        return warning("the shim is not on every node yet", *late, hint="kubectl rollout status daemonset …")
    if not installers:
        paths = sorted(_paths(injecting))
        return warning(
            f"nothing shows that the shim is on the nodes: no installer, and {listed(paths)} has to be there",
            hint="install the chart with shim.mode: inject, or put it into the node image",
        )
    return ok(
        f"the shim is on {counted(sum(one.ready for one in installers), 'node')}, and no device plugin mounts another"
    )


def schedulers_of(vendors: Iterable[Vendor]) -> list[str]:
    """The schedulers that pods of these vendors wait for, but for the cluster's own."""
    names = (vendor.place.scheduler for vendor in vendors)
    return list(dict.fromkeys(name for name in names if name not in {None, DEFAULT_SCHEDULER} and name is not None))


def _tells(sign: Unrenamed, node: Node) -> bool:
    return any(
        expression(pattern).groups(node.labels[label]) is not None
        for label, pattern in sign.nodes.items()
        if label in node.labels
    )


def _seen_of(name: str, seen: Scheduler | Missing) -> tuple[Level, str]:
    """What can be seen of one scheduler: that it works, nothing, or that pods wait for nobody."""
    if isinstance(seen, Missing):
        return Level.WARNING, f"{name}: {seen.why}"
    if seen.placed:
        return Level.OK, f"{name} has placed {counted(seen.placed, 'pod')}"
    if _leads(seen):
        return Level.OK, f"{name} holds its Lease"
    if seen.considered:
        return Level.OK, f"{name} has found no node yet for {counted(seen.considered, 'pod')}"
    if seen.waiting and not isinstance(seen.lease, Missing):
        return Level.ERROR, f"{name}: {counted(seen.waiting, 'pod')} waiting, none placed, {_lease_text(seen)}"
    return Level.WARNING, f"{name}: no pod placed by it, {_lease_text(seen)}"


def _waited_for(seen: Scheduler | Missing) -> bool:
    return isinstance(seen, Missing) or seen.waiting > 0


def _leads(seen: Scheduler) -> bool:
    return isinstance(seen.lease, float) and seen.lease < LEASE_SECONDS


def _lease_text(seen: Scheduler) -> str:
    if isinstance(seen.lease, Missing):
        return f"Leases could not be read: {seen.lease.why}"
    return "no Lease" if seen.lease is None else f"its Lease is {seen.lease:.0f} s old"


def _pods_of(names: Sequence[str]) -> str:
    return f"kubectl get pods --all-namespaces --field-selector spec.schedulerName={names[0]}"


def _injecting(facts: Facts) -> list[Shim]:
    """The shims that are injected by a volume of the node: of the targets, or of all vendors where none is known."""
    chosen = targets(facts.policy, facts.nodes) or [one for one in facts.policy.in_force if one.target]
    shims = [vendor.shim for vendor in chosen if vendor.shim is not None]
    return [one for one in shims if one.mode == "inject" and _paths([one])]


def _paths(shims: Iterable[Shim]) -> set[str]:
    """The folders of the node that shims are taken from."""
    volumes = (volume for one in shims for delivery in one.deliveries for volume in delivery.volumes)
    return {str(volume["hostPath"]["path"]) for volume in volumes if "hostPath" in volume}


def _mounts_it(one: DaemonSet, injecting: Iterable[Shim]) -> bool:
    """Whether a mapping knows it for a device plugin that brings the very library."""
    labels = one.labels.items()
    return any(shim.mounted_by is not None and shim.mounted_by in labels for shim in injecting)


def _brings_libraries(one: DaemonSet, injecting: Iterable[Shim]) -> bool:
    if not any(path.rstrip("/").startswith(DEVICE_PLUGINS) for path in one.host_paths):
        return False
    ours = _paths(injecting)
    return any(path.startswith(LIBRARY_FOLDERS) or path in ours for path in one.host_paths)


def _meeting(plugin: DaemonSet, installers: Sequence[DaemonSet]) -> list[str]:
    """Where it stands beside an installer; without one every node of it counts, for the mapping injects there."""
    folders = ", ".join(path for path in plugin.host_paths if path.startswith(LIBRARY_FOLDERS)) or "its library"
    if isinstance(plugin.nodes, Missing):
        return [f"{plugin.name} mounts {folders}; its nodes could not be read: {plugin.nodes.why}"]
    nodes = set(plugin.nodes)
    known = [one.nodes for one in installers if not isinstance(one.nodes, Missing)]
    if known and len(known) == len(installers):
        nodes &= set().union(*known)
    return [f"{plugin.name} mounts {folders}, on {listed(sorted(nodes))}"] if nodes else []
