"""Assembles a server, and runs it from the first socket to the end of the process."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, TypeAlias

from structlog.typing import FilteringBoundLogger

from webhook.admission.decision import PodSecurityLevel
from webhook.replica.certificates import Certificates
from webhook.server.limits import InFlight, Lifecycle, Limits
from webhook.server.listener import Endpoint, listening, raise_descriptors, within
from webhook.server.logs import ReviewLines, error_fields
from webhook.server.metrics import Metrics, connection_metrics, log_metric, ready_metric, settle_memory
from webhook.server.mutate import Current, Decide, Mutate, NamespaceSource
from webhook.server.routes import MUTATE, ReadyCheck, dispatcher, failures, mutate_routes, plain_routes
from webhook.server.watchdog import Watchdog

if TYPE_CHECKING:
    from webhook.replica.in_cluster import InCluster

DRAIN_GRACE: Final = 10.0
"""Seconds for which a stopping replica still answers: endpoint changes need that long to reach every node."""

SWITCH_INTERVAL: Final = 0.0005
"""Seconds after which a thread that compiles mappings yields to the loop, a tenth of Python's default: a review waits for
several of these intervals (``benchmarks/compiling.py``)."""


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a server."""

    listen: Endpoint
    plain_listen: Endpoint
    drain_grace: float = DRAIN_GRACE
    reuse_port: bool = False
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, slots=True)
class Service:
    """The parts of a server: the engine and its input, certificates, and the log."""

    decide: Decide
    current: Current
    namespaces: NamespaceSource
    pod_security_default: PodSecurityLevel
    certificates: Certificates
    log: FilteringBoundLogger
    lifecycle: Lifecycle = field(default_factory=Lifecycle)
    in_flight: InFlight = field(default_factory=InFlight)
    cluster: "InCluster | None" = None


@dataclass(frozen=True, slots=True)
class Addresses:
    """The endpoints of a server."""

    mutate: Endpoint
    plain: Endpoint

    def __str__(self) -> str:
        return f"https://{self.mutate}{MUTATE}, http://{self.plain}"


Announce: TypeAlias = Callable[[Addresses, str], None]
"""Called once reviews are answered, with the addresses and the place of the CAs that clients have to trust."""


@asynccontextmanager
async def running(service: Service, options: Options) -> AsyncIterator[Addresses]:
    """Run a listening server, without signals or drain: for `serve`, and for tests.

    Raises:
        OSError: an endpoint is not available.
    """
    metrics = Metrics(service.in_flight)
    certificates = service.certificates
    metrics.also(certificates.metrics)
    limits = options.limits
    mutate = Mutate(
        decide=service.decide,
        current=service.current,
        namespaces=service.namespaces,
        pod_security_default=service.pod_security_default,
        lifecycle=service.lifecycle,
        limits=limits,
        in_flight=service.in_flight,
        metrics=metrics,
        log=service.log,
        lines=ReviewLines(service.log),
        peers=service.cluster,
    )
    checks: dict[str, ReadyCheck] = {"certificate": certificates.failure}
    details = [certificates.lines]
    if service.cluster is not None:
        checks["cluster"] = service.cluster.closed
        details.insert(0, service.cluster.lines)
        metrics.also(service.cluster.metrics)

    metrics.also(lambda: ready_metric(ready=not failures(service.lifecycle, checks)))

    def verbose() -> list[str]:
        return [line for each in details for line in each()]

    reviews = dispatcher(mutate_routes(mutate), limits)
    plain = dispatcher(plain_routes(service.lifecycle, metrics, checks, verbose), limits)
    callers = {"reviews": Watchdog(limits, limits.connections), "plain": Watchdog(limits, limits.plain_connections)}
    metrics.also(lambda: connection_metrics(callers))
    metrics.also(log_metric)
    # Reviews first: once the plain port is open, the other one is open, too.
    async with (
        listening(
            reviews,
            options.listen,
            callers["reviews"],
            service.log,
            certificates.tls.context,
            reuse_port=options.reuse_port,
        ) as mutate_endpoint,
        listening(plain, options.plain_listen, callers["plain"], service.log) as plain_endpoint,
    ):
        yield Addresses(mutate_endpoint, plain_endpoint)


async def serve_until_stopped(service: Service, options: Options, announce: Callable[[Addresses], None]) -> None:
    """Serve until SIGTERM or SIGINT, then drain.

    SIGTERM comes from a kubelet: other replicas take over within the grace period. SIGINT comes from a keyboard, where
    no replica takes over and a person waits: it skips the grace period, and so does any second signal.

    Raises:
        OSError: an endpoint is not available.
    """
    loop = asyncio.get_running_loop()
    sys.setswitchinterval(SWITCH_INTERVAL)
    lifecycle = service.lifecycle
    options = replace(options, limits=within(options.limits, raise_descriptors()))
    async with running(service, options) as addresses:
        loop.add_signal_handler(signal.SIGTERM, lifecycle.stop)
        loop.add_signal_handler(signal.SIGINT, lambda: lifecycle.stop(hurry=True))
        async with _following(service):
            if await _ready(service):
                settle_memory()
                announce(addresses)
                service.log.info("ready", mutate=str(addresses.mutate), plain=str(addresses.plain))
            await lifecycle.wait()
            await lifecycle.drain(
                grace=options.drain_grace, in_flight=service.in_flight, limits=options.limits, log=service.log
            )
    service.log.info("stopped")


@asynccontextmanager
async def _following(service: Service) -> AsyncIterator[None]:
    """Follow the cluster and renew the certificate meanwhile; an unexpected error is logged, and ends the server."""

    def ended(task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            service.log.error("bug", **error_fields(error))
            service.lifecycle.stop()

    work = [service.certificates.run(), *([] if service.cluster is None else [service.cluster.run()])]
    tasks = [asyncio.create_task(coroutine) for coroutine in work]
    for task in tasks:
        task.add_done_callback(ended)
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _ready(service: Service) -> bool:
    """Return once reviews can be answered, or (False) once the server is to end."""

    async def answered() -> None:
        await service.certificates.served()
        if service.cluster is not None:
            await service.cluster.synced()

    synced, stopped = asyncio.create_task(answered()), asyncio.create_task(service.lifecycle.wait())
    done, pending = await asyncio.wait((synced, stopped), return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    await asyncio.gather(*pending, return_exceptions=True)
    return synced in done
