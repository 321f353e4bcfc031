"""All checks of an installation, in the order of the output, and the chart's values that fit a cluster."""

import asyncio
import itertools
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import yaml

from webhook.doctor import (
    Check,
    Level,
    Result,
    UnansweredError,
    cluster,
    listed,
    nodes,
    pods,
    registration,
    unanswered,
)
from webhook.doctor.nodes import (
    LIBRARY_FOLDERS,
    NodeSize,
    largest_of,
    mounts_library,
    only_isolated,
    plain_names,
    sharing_systems,
)
from webhook.doctor.reading import ClusterReader, Item, tried
from webhook.mapping.model.vendor import Vendor

ClusterCheck: TypeAlias = Check[Awaitable[Result]]

CHECKS: Final[tuple[ClusterCheck, ...]] = (
    # First: where no node offers what pods get, nothing else that works helps them.
    Check("resources", "target", nodes.resources),
    Check("api-server", "cluster", cluster.server),
    Check("replicas", "cluster", cluster.replicas),
    Check("mappings", "cluster", cluster.mappings),
    Check("events", "cluster", cluster.reported),
    Check("registration", "registration", registration.registered),
    Check("selectors", "registration", registration.selectors),
    Check("match-conditions", "registration", registration.matched_names),
    Check("validation", "registration", registration.validation),
    Check("order", "registration", registration.order),
    Check("bundle", "certificates", registration.bundle),
    Check("certificates", "certificates", registration.age),
    Check("namespaces", "pods", pods.namespaces),
    Check("untouched", "pods", pods.untreated_pods),
    Check("dry-run", "pods", pods.dry_run),
    Check("sharing", "nodes", nodes.sharing),
    Check("largest", "nodes", nodes.largest),
    Check("systems", "nodes", nodes.systems),
    Check("claims", "nodes", nodes.claims),
    Check("drivers", "nodes", nodes.drivers),
    Check("scheduler", "nodes", nodes.scheduler),
    Check("shim", "nodes", nodes.shim),
)


async def examine(seen: ClusterReader) -> list[tuple[ClusterCheck, Result]]:
    """Every check with its result; only one if the API server does not answer, or nothing is installed."""
    told = await tried(cluster.version(seen))
    silent = isinstance(told, UnansweredError) and told.result.level is Level.ERROR
    only = "api-server" if silent else "registration" if await registration.nothing_installed(seen) else None
    return await made([check for check in CHECKS if only in {None, check.name}], seen)


async def made(checks: Sequence[ClusterCheck], seen: ClusterReader) -> list[tuple[ClusterCheck, Result]]:
    """Make checks side by side; what one raises ends no other."""
    found = await asyncio.gather(*(check.answer(seen) for check in checks), return_exceptions=True)
    return [
        (check, each if isinstance(each, Result) else unanswered(each))
        for check, each in zip(checks, found, strict=True)
    ]


_BARE: Final = (
    "whole devices, as pods that request only a count mean them; `share` cuts each to the mapping's default: see what "
    "becomes of your workloads with `vgpu-webhook preview -A --set bareDevices=share`"
)


class ProposedValue(NamedTuple):
    """One value of the chart, as data of YAML, and a sentence without a period that says why."""

    section: str
    key: str
    value: Any
    why: str


async def proposed(seen: ClusterReader) -> str:
    """Propose a file for ``helm install --values``, each value with a comment that says why."""
    vendors = (await seen.policy()).vendors
    values = [*_of_systems(await sharing_systems(seen), vendors)]
    if not any(each.key == "target" for each in values):
        offered = {name for node in await seen.nodes() for name in node.resources}
        values = [*_of_plain(offered, vendors), *values]
    target = next((vendors[each.value] for each in values if each.key == "target"), None)
    values += _sizes(*await largest_of(seen))
    values.append(ProposedValue("settings", "bareDevices", "whole", _BARE))
    return _text([*values, _shim_mode(target, await tried(seen.daemon_sets()))])


def _text(values: Sequence[ProposedValue]) -> str:
    lines = list[str]()
    for section, group in itertools.groupby(values, lambda each: each.section):
        lines.append(f"{section}:")
        for each in group:
            text = yaml.safe_dump(each.value, default_flow_style=True, width=2**31 - 1).removesuffix("\n...\n").strip()
            lines += [f"  # {each.why}", f"  {each.key}: {text}"]
    return "\n".join(lines) + "\n"


def _of_systems(systems: Mapping[str, str], vendors: Mapping[str, Vendor]) -> Iterator[ProposedValue]:
    """The first system as the target; others, and partitions, as served beside it."""
    partitions = [vendors[name] for name in systems if only_isolated(vendors[name])]
    others = [vendors[name] for name in systems if vendors[name] not in partitions]
    for home in others[:1]:
        yield ProposedValue("settings", "target", home.name, systems[home.name])
        # The same system serves other hardware without being named again.
        others = [each for each in others[1:] if each.family == home.family or each.system != home.system]
    if served := [each.name for each in (*others, *partitions)]:
        why = "; ".join(f"{name}: {systems[name]}" for name in served)
        yield ProposedValue("settings", "served", served, f"requests in their keys stay as they are: {why}")


def _of_plain(offered: set[str], vendors: Mapping[str, Vendor]) -> Iterator[ProposedValue]:
    """Whole devices, where a plain device plugin serves them and nothing shares them."""
    for vendor in vendors.values():
        names = sorted(offered & plain_names(vendor))
        if names and vendor.place.scheduler is None:
            found = (
                f"only a plain device plugin serves {listed(names)}: no sharing system was found, so a share is denied"
            )
            yield ProposedValue("settings", "target", vendor.name, found)
            yield ProposedValue("settings", "owners", dict.fromkeys(names, vendor.name), "the same")
            return


def _sizes(memory: Mapping[str, NodeSize], devices: NodeSize | None) -> Iterator[ProposedValue]:
    raised = "more is denied: raise it before larger nodes come"
    if memory:
        sizes = {family: f"{size}Mi" for family, (size, _) in sorted(memory.items())}
        named = listed([node for _, node in memory.values()])
        yield ProposedValue("settings", "largestDevice", sizes, f"by the labels of {named}; {raised}")
    if devices is not None:
        count, node = devices
        yield ProposedValue("settings", "largestNode", count, f"by the labels of {node}; {raised}")


def _shim_mode(target: Vendor | None, found: Sequence[Item] | UnansweredError) -> ProposedValue:
    """`inject` only where a device plugin was seen, and none that mounts the library."""
    plugins = [] if isinstance(found, UnansweredError) else [each for each in found if not each.is_installer]
    mode, names = "plugin", listed([each.place for each in plugins])
    if target is None or target.shim is None:
        why = "no library of ours is needed"
    elif isinstance(found, UnansweredError):
        why = f"assumed: DaemonSets could not be read ({found.why})"
    elif not plugins:
        why = "assumed: no device plugin was found"
    elif mounting := [each.place for each in plugins if mounts_library(each, target.shim)]:
        why = f"{listed(mounting)} mounts the library"
    else:
        mode, why = "inject", f"no device plugin mounts a library from {' or '.join(LIBRARY_FOLDERS)}: {names}"
    return ProposedValue("shim", "mode", mode, why)
