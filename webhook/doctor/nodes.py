"""Checks of nodes: their resources, the scheduler, and one shim rather than two."""

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
"""The folder of the kubelet's socket for device plugins: a DaemonSet that mounts it is one."""

LIBRARY_FOLDERS: Final = ("/usr/", "/opt/")
"""Folders for libraries on nodes. A device plugin that mounts such a folder may mount a library into containers."""

LEASE_SECONDS: Final = 60.0
"""A leader that has not renewed its Lease for so long is gone: a Lease usually lasts 15 s."""

DEFAULT_SCHEDULER: Final = "default-scheduler"


def resources(facts: Facts) -> Result:
    """Whether some node has the resources that pods will request."""
    if isinstance(facts.nodes, Missing):
        return unread("the nodes", facts.nodes, "list nodes")
    chosen = targets(facts.policy, facts.nodes)
    if not chosen:
        return warning(
            f"no node has any resource of the policy ({counted(len(facts.nodes), 'node')})",
            hint="kubectl describe nodes: is the device plugin running? (node groups of size 0 show no resources)",
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
            hint="kubectl describe nodes: is its device plugin running? (node groups of size 0 show no resources)",
        )
    return ok("; ".join(found) or "the target uses labels and annotations only: nodes need no resources for it")


def sharing(facts: Facts) -> Result:
    """Whether a key has another vendor's meaning on some node: GPUs that are shared under their ordinary name."""
    if isinstance(facts.nodes, Missing):
        return unread("the nodes", facts.nodes, "list nodes")
    found: dict[str, str] = {}
    for vendor in facts.policy.vendors.values():
        for sign in vendor.document.unrenamed:
            owners = facts.policy.resources.owners(sign.resource)
            having = [node.name for node in facts.nodes if sign.resource in node.resources and _is_shown_by(sign, node)]
            if having and owners and owners[0].vendor != vendor.name:
                line = f"{listed(having)}: {sign.resource} is {vendor.name}'s there, and read as {owners[0].vendor}'s"
                found[line] = sign.instead
    if found:
        hint = "; ".join(dict.fromkeys(found.values()))
        return warning("nodes share GPUs under a name that has another meaning in the policy", *found, hint=hint)
    return ok("no node's labels show GPUs shared under a name that has another meaning in the policy")


def scheduler(facts: Facts) -> Result:
    """Whether the schedulers of the targets, and those that pods wait for, show signs of working.

    The absence of signs is no proof of the opposite.
    """
    chosen = targets(facts.policy, facts.nodes)
    names = schedulers_of(chosen)
    awaited = [] if isinstance(facts.awaited, Missing) else [name for name in facts.awaited if name not in names]
    seen = {name: facts.schedulers.get(name, NOT_TRIED) for name in (*awaited, *names)}
    judged = {name: _seen_of(name, scheduler) for name, scheduler in seen.items()}
    late = [name for name in awaited if judged[name][0] is not Level.OK and _waited_for(seen[name])]
    names = [*late, *names]
    ends = [judged[name] for name in names]
    if isinstance(facts.nodes, Missing) and not names:
        return unread("the nodes", facts.nodes, "list nodes")
    if not chosen and not names:
        return warning(
            "not checked: no node has a resource of the policy, so it is unknown which scheduler pods will need",
            hint="set `target` in the settings, or check again when a node has GPUs",
        )
    if not names:
        return ok("only the cluster's default scheduler is needed")
    working, doubtful, stuck = ([text for level, text in ends if level is wanted] for wanted in Level)
    if stuck:
        return error(
            "pods wait for a scheduler that does not seem to be running",
            *stuck,
            *doubtful,
            "install it, or change place.scheduler in the mapping",
            hint=_pods_of(names),
        )
    if doubtful:
        return warning(
            "the target's scheduler shows no sign of running",
            *doubtful,
            "fine as long as no pod has used it; else install it, or change place.scheduler in the mapping",
            hint=_pods_of(names),
        )
    return ok("; ".join(working))


def shim(facts: Facts) -> Result:
    """Whether exactly one of the webhook and the device plugin brings the shim into containers."""
    injecting = _injecting(facts)
    if isinstance(facts.daemon_sets, Missing):
        return unread("the DaemonSets", facts.daemon_sets, "list daemonsets.apps")
    installers = [daemon_set for daemon_set in facts.daemon_sets if daemon_set.installer]
    if not injecting:
        if installers:
            return warning(
                "an installer installs the shim on nodes, but no mapping injects it",
                *(daemon_set.name for daemon_set in installers),
                hint="set shim.mode: inject in the mapping, or remove the installer",
            )
        return ok("no shim is injected: if there is one, the device plugin mounts it")
    plugins = [daemon_set for daemon_set in facts.daemon_sets if not daemon_set.installer]
    twice = [
        line for daemon_set in plugins if _mounts_it(daemon_set, injecting) for line in _meeting(daemon_set, installers)
    ]
    if twice:
        return error(
            "the shim is injected where a device plugin mounts the same library: two copies in one process",
            *twice,
            hint="set shim.mode: plugin in the mapping (--set shim.mode=plugin of the chart)",
        )
    others = [daemon_set for daemon_set in plugins if _brings_libraries(daemon_set, injecting)]
    conflicts = [line for daemon_set in others for line in _meeting(daemon_set, installers)]
    if conflicts:
        return warning(
            "the shim is injected where a device plugin may mount one of its own",
            *conflicts,
            hint="if it does: set shim.mode: plugin in the mapping, or run the plugin on other nodes (node selector)",
        )
    late = [
        f"{daemon_set.name}: on {daemon_set.ready} of {counted(daemon_set.wanted, 'node')}"
        for daemon_set in installers
        if daemon_set.ready < daemon_set.wanted
    ]
    if late:
        return warning("the shim is not on every node yet", *late, hint="kubectl rollout status daemonset …")
    if not installers:
        paths = sorted(_paths(injecting))
        return warning(
            f"the shim may be missing on nodes: there is no installer, and pods need {listed(paths)}",
            hint="install the chart with shim.mode: inject, or add the shim to the node image",
        )
    ready = sum(daemon_set.ready for daemon_set in installers)
    return ok(f"the shim is on {counted(ready, 'node')}, and no device plugin mounts another")


def schedulers_of(vendors: Iterable[Vendor]) -> list[str]:
    """The schedulers of these vendors' pods, except for the cluster's default."""
    names = (vendor.place.scheduler for vendor in vendors)
    return list(dict.fromkeys(name for name in names if name not in {None, DEFAULT_SCHEDULER} and name is not None))


def _is_shown_by(sign: Unrenamed, node: Node) -> bool:
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
    if _leads(seen):
        return Level.OK, f"{name} holds its Lease"
    if seen.considered:
        return Level.OK, f"{name} runs, and has no node for {counted(seen.considered, 'pod')} yet"
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
    """The shims that are injected from a folder of the node: of the targets, or of all vendors if none is known."""
    chosen = targets(facts.policy, facts.nodes) or [vendor for vendor in facts.policy.in_force if vendor.target]
    shims = [vendor.shim for vendor in chosen if vendor.shim is not None]
    return [shim for shim in shims if shim.mode == "inject" and _paths([shim])]


def _paths(shims: Iterable[Shim]) -> set[str]:
    """The folders of the node that hold shims."""
    volumes = (volume for shim in shims for delivery in shim.deliveries for volume in delivery.volumes)
    return {str(volume["hostPath"]["path"]) for volume in volumes if "hostPath" in volume}


def _mounts_it(daemon_set: DaemonSet, injecting: Iterable[Shim]) -> bool:
    """Whether a mapping names it as a device plugin that mounts the same library."""
    labels = daemon_set.labels.items()
    return any(shim.mounted_by is not None and shim.mounted_by in labels for shim in injecting)


def _brings_libraries(daemon_set: DaemonSet, injecting: Iterable[Shim]) -> bool:
    if not any(path.rstrip("/").startswith(DEVICE_PLUGINS) for path in daemon_set.host_paths):
        return False
    ours = _paths(injecting)
    return any(path.startswith(LIBRARY_FOLDERS) or path in ours for path in daemon_set.host_paths)


def _meeting(plugin: DaemonSet, installers: Sequence[DaemonSet]) -> list[str]:
    """The nodes of a device plugin with an installer; without installers, all of its nodes, for pods get the shim there."""
    folders = ", ".join(path for path in plugin.host_paths if path.startswith(LIBRARY_FOLDERS)) or "its library"
    if isinstance(plugin.nodes, Missing):
        return [f"{plugin.name} mounts {folders}; its nodes could not be read: {plugin.nodes.why}"]
    nodes = set(plugin.nodes)
    known = [daemon_set.nodes for daemon_set in installers if not isinstance(daemon_set.nodes, Missing)]
    if known and len(known) == len(installers):
        nodes &= set().union(*known)
    return [f"{plugin.name} mounts {folders}, on {listed(sorted(nodes))}"] if nodes else []
