"""Checks of nodes: their resources, the scheduler, one shim rather than two, variables that other systems write.

Variables that other systems are configured to write into every container, and whether the guard denies them.

The guard lists define where such a configuration is found. If another system's webhook is called between two calls of
ours, the second call would deny the pod.
"""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec
import yaml

from webhook.admission.decision import Namespace
from webhook.admission.eligibility import opted_in
from webhook.admission.overrides import Overrides, target_of
from webhook.cluster.client.api import Api, list_objects
from webhook.cluster.client.metadata import ObjectMetadata
from webhook.doctor.facts import (
    NOT_TRIED,
    ClusterFacts,
    DaemonSet,
    ForeignVariable,
    Level,
    Missing,
    Node,
    Result,
    Scheduler,
    counted,
    error,
    listed,
    ok,
    unread,
    warning,
)
from webhook.finding import Denied
from webhook.mapping.document.extends import ListChoice, guard_lists
from webhook.mapping.document.schema import Unrenamed
from webhook.mapping.model.names import index
from webhook.mapping.model.policy import Policy
from webhook.mapping.model.shim import Shim
from webhook.mapping.model.vendor import Vendor
from webhook.mapping.notation import expression
from webhook.reasons import Reason


def targets(policy: Policy, nodes: Iterable[Node] | Missing) -> list[Vendor]:
    """The vendors whose keys pods of this cluster get: the setting ``target``, else those of the nodes' resources."""
    if policy.settings.target is not None:
        return [policy.vendors[policy.settings.target]]
    if isinstance(nodes, Missing):
        return []
    names = {name for node in nodes for name in node.resources}
    found = {owner.vendor for name in names for owner in policy.resources.owners(name)}
    written = (_target(policy.vendors[name], policy) for name in sorted(found))
    return list({vendor.name: vendor for vendor in written if vendor is not None}.values())


def resources_of(vendor: Vendor, names: Iterable[str]) -> Iterator[str]:
    """Those of the resource names that are keys of a vendor."""
    keys = index([vendor], "resource")
    return (name for name in names if keys.owners(name))


def opted_in_namespaces(facts: ClusterFacts) -> list[Namespace] | Missing:
    """The namespaces that have opted in."""
    if isinstance(facts.namespaces, Missing):
        return facts.namespaces
    return opted_in_among(facts.namespaces, facts.policy, facts.release)


def opted_in_among(namespaces: Iterable[Namespace], policy: Policy, release: str) -> list[Namespace]:
    """The namespaces that have opted in, except for the cluster's, the webhook's, and those that the settings exempt."""
    spared = policy.never_touched | {release}
    return [namespace for namespace in namespaces if opted_in(namespace, policy) and namespace.name not in spared]


def _target(vendor: Vendor, policy: Policy) -> Vendor | None:
    try:
        return target_of(vendor, Overrides(), policy)[0]
    except Denied:
        return None


DEVICE_PLUGINS: Final = "/var/lib/kubelet/device-plugins"
"""The folder of the kubelet's socket for device plugins: a DaemonSet that mounts it is one."""

LIBRARY_FOLDERS: Final = ("/usr/", "/opt/")
"""Folders for libraries on nodes. A device plugin that mounts such a folder may mount a library into containers."""

LEASE_SECONDS: Final = 60.0
"""A leader that has not renewed its Lease for so long is gone: a Lease usually lasts 15 s."""

DEFAULT_SCHEDULER: Final = "default-scheduler"


def resources(facts: ClusterFacts) -> Result:
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


def sharing(facts: ClusterFacts) -> Result:
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


def scheduler(facts: ClusterFacts) -> Result:
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


def shim(facts: ClusterFacts) -> Result:
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


def _injecting(facts: ClusterFacts) -> list[Shim]:
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


class ConfigMapObject(msgspec.Struct):
    """A ConfigMap."""

    metadata: ObjectMetadata
    data: dict[str, str] | None = None


async def choices(api: Api, policy: Policy, nodes: Iterable[Node] | Missing) -> list[ForeignVariable]:
    """Read the configured variables of the guard lists that this cluster's mappings name.

    Raises:
        ApiError: the ConfigMaps cannot be listed.
    """
    names = {entry.named for vendor in _vendors(policy, nodes) for entry in vendor.document.guard if entry.named}
    places = [place for name in sorted(names) for place in guard_lists()[name].chosen]
    found = await asyncio.gather(*(_chosen_at(api, place) for place in places))
    return [choice for some in found for choice in some]


async def _chosen_at(api: Api, place: ListChoice) -> list[ForeignVariable]:
    maps = await list_objects(api, "/api/v1/configmaps", ConfigMapObject, {"labelSelector": place.config_maps})
    found = []
    for config_map in maps:
        value = await asyncio.to_thread(_value, (config_map.data or {}).get(place.key, ""), place.path)
        if value is not None:
            found.append(
                ForeignVariable(
                    f"configmap {config_map.metadata.namespace}/{config_map.metadata.name}", place.env, value
                )
            )
    return found


def _value(text: str, path: Iterable[str]) -> str | None:
    """The text at a path of a YAML document; None if there is none, or the document is not YAML."""
    try:
        node = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        return None
    for key in path:
        node = node.get(key) if isinstance(node, dict) else None
    return node if isinstance(node, str) else None


def variables(facts: ClusterFacts) -> Result:
    """Whether the guard denies a variable that another system writes into every container."""
    if isinstance(facts.choices, Missing):
        return unread("the ConfigMaps of other systems", facts.choices, "list configmaps in all namespaces")
    clashing = [choice for choice in facts.choices if any(_denied(choice, facts))]
    if not clashing:
        return ok(
            f"the guard denies no variable that another system writes ({counted(len(facts.choices), 'setting')} found)"
        )
    values: dict[str, list[str]] = {}
    for choice in clashing:
        values.setdefault(choice.env, []).append(choice.value)
    exceptions = ", ".join(f"{env}: [{', '.join(dict.fromkeys(some))}]" for env, some in values.items())
    return error(
        f"another webhook writes variables that the guard denies ({Reason.GUARDED.code})",
        *(f"{choice.source}: {choice.env}={choice.value}" for choice in clashing),
        hint=f"to allow them, add guardExceptions: {{{exceptions}}} to the settings",
    )


def _denied(choice: ForeignVariable, facts: ClusterFacts) -> Iterator[bool]:
    excepted = facts.policy.settings.guard_exceptions.get(choice.env, ())
    for vendor in _vendors(facts.policy, facts.nodes):
        rule = vendor.guard.catch(choice.env, choice.value)
        yield rule is not None and rule.action not in {"allow", "warn"} and choice.value not in excepted


def _vendors(policy: Policy, nodes: Iterable[Node] | Missing) -> list[Vendor]:
    """The vendors of this cluster's pods, or all target vendors if none is known."""
    return targets(policy, nodes) or [vendor for vendor in policy.in_force if vendor.target]
