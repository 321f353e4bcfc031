"""Assembles a server, and runs it from the first socket to the end of the process; also without a cluster, from files."""

import asyncio
import datetime as dt
import ipaddress
import re
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from aiohttp import hdrs
from structlog.typing import FilteringBoundLogger

from certs.rotation import BUNDLE, SETTLE, Rules
from certs.serving import Serving
from certs.store import Directory
from certs.x509 import SERVING_LIFE, STATIC_CA_LIFE, CertificateError
from webhook.admission import decide
from webhook.admission.decision import PodSecurityLevel
from webhook.admission.judge import judge_pod
from webhook.mapping.model.policy import Policy
from webhook.replica.background import Background
from webhook.replica.certificates import Certificates
from webhook.server import logs
from webhook.server.http import Connections, Endpoint, Handler, dispatcher, listening
from webhook.server.limits import InFlight, Lifecycle, Limits, raise_descriptors, within
from webhook.server.logs import ReviewLines
from webhook.server.metrics import (
    Metrics,
    ReadyCheck,
    connection_metrics,
    failures,
    plain_routes,
    ready_metric,
    settle_memory,
)
from webhook.server.reviews import (
    Count,
    Current,
    Decide,
    Described,
    Journal,
    Knowledge,
    Mutation,
    NamespaceSource,
    Reviews,
    Validation,
)

if TYPE_CHECKING:
    from webhook.replica.in_cluster import InCluster

MUTATE: Final = "/mutate"
VALIDATE: Final = "/validate"

LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")


class StartError(Exception):
    """Invalid options, files that cannot be used, or an endpoint that is not available."""


_HOST_NAME: Final = re.compile(r"(?!-)[a-z0-9-]{1,63}(?<!-)(\.(?!-)[a-z0-9-]{1,63}(?<!-))*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class CertificateOptions:
    """The options about certificates: the server's own folder, or that of a provided pair, and how each is used.

    With `inject_ca_from` (``NAMESPACE/NAME``), cert-manager itself injects the CAs of its Certificate.
    """

    state_dir: Path | None = None
    certificate_dir: Path | None = None
    ca_settle: float = SETTLE
    certificate_days: int = SERVING_LIFE.days
    extra_names: tuple[str, ...] = ()
    client_ca_file: Path | None = None
    inject_ca_from: str | None = None

    def rules(self, ca: str, names: Iterable[str], ca_life: dt.timedelta) -> Rules:
        """Return the rules for the server's own certificates, under a CA of this name, which lives several times as long."""
        life = dt.timedelta(days=self.certificate_days)
        return Rules(ca, tuple(dict.fromkeys([*names, *self.extra_names])), life, max(ca_life, 4 * life))

    def check(self) -> None:
        """Check that the options are valid; raises a `StartError`."""
        if self.state_dir is not None and self.certificate_dir is not None:
            raise StartError("--state-dir and --certificate-dir exclude each other: use one of them")
        for name in self.extra_names:
            if not can_be_called(name):
                raise StartError(f"--extra-name {name}: must be a DNS name or an IP address, such as gpu.example.com")
        if self.inject_ca_from is not None and not all(self.inject_ca_from.partition("/")):
            raise StartError(f"--inject-ca-from {self.inject_ca_from}: write NAMESPACE/NAME of a Certificate")


def certificates_of(options: CertificateOptions, log: "FilteringBoundLogger", *, watched: bool = False) -> Certificates:
    """Make certificates without a source yet, except for client CAs; `watched` as for `Certificates`."""
    file = options.client_ca_file
    try:
        tls = Serving(None if file is None else file.read_bytes())
    except OSError as error:
        raise StartError(f"--client-ca-file {file}: {error.strerror}") from error
    except CertificateError as error:
        raise StartError(f"--client-ca-file {file}: {error}") from error
    return Certificates(tls, log, settle=options.ca_settle, watched=watched)


async def started(certificates: Certificates) -> None:
    """Read a directory for the first time, so that its problems end the program."""
    assert certificates.upkeep is not None  # noqa: S101  (set by the caller)
    try:
        await certificates.upkeep.start()
    except CertificateError as error:
        raise StartError(str(error)) from error


def logger(level: str) -> "FilteringBoundLogger":
    """Make a logger of JSON lines on stderr, for this program and its libraries."""
    log = logs.make_logger(level, sys.stderr.buffer)
    logs.take_over(log)
    return log


def run_to_end(work: Coroutine[Any, Any, None]) -> None:
    """Run until the work ends."""
    try:
        asyncio.run(work)
    except OSError as error:
        raise StartError(f"cannot listen: {error.strerror or error}") from error


def serving_names(listen: "Endpoint") -> list[str]:
    """The names by which clients can call a server on this machine."""
    names = [*LOOPBACK, socket.gethostname(), listen.host or ""]
    return list(dict.fromkeys(filter(can_be_called, names)))


def can_be_called(name: str) -> bool:
    """Whether a client can call a server by a name: a DNS name, or an address of one machine."""
    try:
        return not ipaddress.ip_address(name).is_unspecified
    except ValueError:
        return _HOST_NAME.fullmatch(name) is not None


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
async def running(service: Service, options: Options, background: Background | None = None) -> AsyncIterator[Addresses]:
    """Run a listening server, without signals or drain, for `serve` and for tests; errors of `background` are counted, too."""
    metrics, certificates, cluster, limits = Metrics(), service.certificates, service.cluster, options.limits
    lifecycle, in_flight, log = service.lifecycle, service.in_flight, service.log
    known = Knowledge(service.current, service.namespaces, service.pod_security_default, cluster)
    judging = log.bind(path=VALIDATE)
    mutation = Mutation(known, service.decide, Journal(log, ReviewLines(log), metrics))
    validation = Validation(known, judge_pod, Journal(judging, ReviewLines(judging)))

    def handler(kind: Mutation | Validation, count: Count, log: FilteringBoundLogger) -> tuple[str, Handler]:
        return hdrs.METH_POST, Reviews(kind, cluster, lifecycle, limits, in_flight, metrics, count, log).handle

    routes = {
        MUTATE: handler(mutation, metrics.review, log),
        VALIDATE: handler(validation, metrics.validation, judging),
    }
    checks: dict[str, ReadyCheck] = {"certificate": certificates.failure}
    listeners = {
        "reviews": Connections(limits, limits.connections),
        "plain": Connections(limits, limits.plain_connections),
    }
    metrics.also(certificates.metrics)
    if background is not None:
        metrics.also_bugs(lambda: background.bugs)
    if cluster is not None:
        checks["cluster"] = cluster.closed
        metrics.also(cluster.metrics)
        metrics.also_bugs(cluster.bugs)
    metrics.also(lambda: ready_metric(ready=not failures(lifecycle, checks)))
    metrics.also(lambda: connection_metrics(listeners, in_flight))
    reviews = dispatcher(routes, limits)
    plain = dispatcher(plain_routes(lifecycle, metrics, checks), limits)
    # Reviews first: once the plain port is open, the other one is open, too.
    async with (
        listening(
            reviews, options.listen, listeners["reviews"], log, certificates.tls.context, reuse_port=options.reuse_port
        ) as mutate_endpoint,
        listening(plain, options.plain_listen, listeners["plain"], log) as plain_endpoint,
    ):
        yield Addresses(mutate_endpoint, plain_endpoint)


async def serve_until_stopped(service: Service, options: Options, announce: Callable[[Addresses], None]) -> None:
    """Serve until SIGTERM or SIGINT, then drain.

    SIGTERM comes from a kubelet: other replicas take over within the grace period. SIGINT comes from a keyboard, where
    no replica takes over and a person waits: it skips the grace period, and so does any second signal.
    """
    sys.setswitchinterval(SWITCH_INTERVAL)
    loop, lifecycle, background = asyncio.get_running_loop(), service.lifecycle, Background(service.log)
    options = replace(options, limits=within(options.limits, raise_descriptors()))

    async def begin() -> None:
        await service.certificates.served()
        if service.cluster is not None:
            await service.cluster.synced()
        settle_memory()
        announce(addresses)
        service.log.info("ready", mutate=str(addresses.mutate), plain=str(addresses.plain))

    async with running(service, options, background) as addresses:
        loop.add_signal_handler(signal.SIGTERM, lifecycle.stop)
        loop.add_signal_handler(signal.SIGINT, lambda: lifecycle.stop(hurry=True))
        work = {"start": begin, "certificates": service.certificates.run}
        if service.cluster is not None:
            work["cluster"] = partial(service.cluster.run, background)
        tasks = [asyncio.create_task(background.keep(name, each)) for name, each in work.items()]
        try:
            await lifecycle.wait()
            await lifecycle.drain(
                grace=options.drain_grace, in_flight=service.in_flight, limits=options.limits, log=service.log
            )
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    service.log.info("stopped")


CA_NAME: Final = "vgpu-webhook standalone CA"
STATE_DIR: Final = ".vgpu-webhook"
"""The default folder of the CA and the certificate."""


def serve_standalone(
    options: Options,
    policy: Policy,
    namespaces: Described,
    certificate_options: CertificateOptions,
    log_level: str,
    *,
    announce: Announce,
) -> None:
    """Serve until the process is to end; announced once reviews are answered."""
    directory = Directory(certificate_options.certificate_dir or certificate_options.state_dir or Path(STATE_DIR))
    log = logger(log_level)
    certificates = certificates_of(certificate_options, log)

    async def work() -> None:
        if certificate_options.certificate_dir is not None:
            certificates.follow(directory, certificate_options.extra_names)
        else:
            certificates.keep(
                directory, certificate_options.rules(CA_NAME, serving_names(options.listen), STATIC_CA_LIFE)
            )
        await started(certificates)
        service = Service(
            decide=decide,
            current=Current(policy),
            namespaces=namespaces,
            pod_security_default="privileged",
            certificates=certificates,
            log=log,
        )
        await serve_until_stopped(service, options, lambda addresses: announce(addresses, str(directory.path / BUNDLE)))

    run_to_end(work())
