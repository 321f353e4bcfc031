"""The chart's values that fit a cluster, from what its nodes offer and which schedulers run; later, whether `served` does."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import yaml

from webhook.admission.overrides import Overrides, override_source
from webhook.doctor.facts import ClusterFacts
from webhook.doctor.nodes import LIBRARY_FOLDERS, is_running, mounts_library
from webhook.doctor.result import Missing, Result, counted, known, listed, ok, warning
from webhook.mapping.model.names import index
from webhook.mapping.model.vendor import Vendor

_BARE: Final = (
    "whole devices, as pods that request only a count mean them; `share` cuts each to the mapping's default: see what "
    "becomes of your workloads with `vgpu-webhook preview -A --set bareDevices=share`"
)


@dataclass(frozen=True, slots=True)
class ProposedValue:
    """One value of the chart.

    Attributes:
        path: its keys, from the root of the values.
        value: the value, as data of YAML.
        why: a sentence without a period.
    """

    path: tuple[str, ...]
    value: Any
    why: str


def proposed(facts: ClusterFacts) -> tuple[ProposedValue, ...]:
    """Propose `target`, `served`, `owners`, `bareDevices` and `shim.mode`.

    Args:
        facts: nodes, device plugins and schedulers, under the built-in policy.

    Raises:
        UnansweredError: the nodes could not be read.
    """
    systems = sharing_systems(facts)
    target = next(iter(systems), None)
    values = [*_of_systems(systems, facts), ProposedValue(("settings", "bareDevices"), "whole", _BARE)]
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
        if offered - _plain(vendor) or (runs and (offered or not _has_resources(vendor))):
            seen = [f"{listed(sorted(offered))} on {counted(len(having), 'node')}"] if offered else []
            seen += [f"{scheduler} is running"] if runs else []
            signs.append((len(having), vendor.name, ", ".join(seen)))
    return {name: sign for _, name, sign in sorted(signs, key=lambda each: (-each[0], each[1]))}


def systems(facts: ClusterFacts) -> Result:
    """Does the cluster serve keys that the setting `target` translates away?

    That is meant in a migration, and not where two systems are to stay.
    """
    policy = facts.policy
    seen = sharing_systems(facts)
    moved = [
        name
        for name in seen
        if name != policy.settings.target and override_source(policy.vendors[name], Overrides(), policy) == "settings"
    ]
    if not moved:
        return ok("no request in keys that the cluster serves is translated by the setting `target`")
    return warning(
        f"requests in keys that the cluster serves are translated to {policy.settings.target}",
        *(f"{name}: {seen[name]}" for name in moved),
        hint=f"if they are to stay as they are, set served: [{', '.join([*policy.settings.served, *moved])}]",
    )


def values_text(values: tuple[ProposedValue, ...]) -> str:
    """Format values as a file for ``helm install --values``, each with a comment that says why."""
    lines: list[str] = []
    before: tuple[str, ...] = ()
    for each in sorted(values, key=lambda each: each.path[:1]):
        for depth, key in enumerate(each.path[:-1]):
            if each.path[: depth + 1] != before[: depth + 1]:
                lines.append(f"{'  ' * depth}{key}:")
        indent = "  " * (len(each.path) - 1)
        text = yaml.safe_dump(each.value, default_flow_style=True, width=2**31 - 1).removesuffix("\n...\n").strip()
        lines += [f"{indent}# {each.why}", f"{indent}{each.path[-1]}: {text}"]
        before = each.path
    return "\n".join(lines) + "\n"


def _of_systems(systems: Mapping[str, str], facts: ClusterFacts) -> Iterator[ProposedValue]:
    if systems:
        target, *others = systems
        family = facts.policy.vendors[target].family
        yield ProposedValue(("settings", "target"), target, systems[target])
        served = [name for name in others if facts.policy.vendors[name].family == family]
        if served:
            why = "; ".join(f"{name}: {systems[name]}" for name in served)
            yield ProposedValue(("settings", "served"), served, f"requests in their keys stay as they are: {why}")
        return
    nodes = known(facts.nodes, "the nodes", "list nodes")
    offered = {name for node in nodes for name in node.resources}
    for vendor in facts.policy.vendors.values():
        names = offered & _plain(vendor)
        if vendor.inactive and names and vendor.place.scheduler is None:
            why = "only a plain device plugin serves it: no sharing system was found, so a share would be denied"
            yield ProposedValue(("settings", "owners"), dict.fromkeys(sorted(names), vendor.name), why)
            return


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


def _has_resources(vendor: Vendor) -> bool:
    return any(key.place == "resource" for key in vendor.keys.values())
