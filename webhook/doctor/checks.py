"""All checks of an installation, in the order of the output: a name, its section, and the function that asks."""

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Final, TypeAlias

from webhook.doctor import certificates, claims, cluster, nodes, pods, registration
from webhook.doctor.reading import ClusterReader, tried
from webhook.doctor.result import Check, Level, Result, UnansweredError, unanswered

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
    Check("bundle", "certificates", certificates.bundle),
    Check("certificates", "certificates", certificates.age),
    Check("namespaces", "pods", pods.namespaces),
    Check("untouched", "pods", pods.untreated_pods),
    Check("dry-run", "pods", pods.dry_run),
    Check("sharing", "nodes", nodes.sharing),
    Check("largest", "nodes", nodes.largest),
    Check("systems", "nodes", nodes.systems),
    Check("claims", "nodes", claims.claims),
    Check("drivers", "nodes", claims.drivers),
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
