"""Assembles a server, and runs it from the first socket to the end of the process; also without a cluster, from files.

Beside it: its certificate, with reports and metrics about it, and work that no error ends.
"""

import asyncio
import datetime as dt
import ipaddress
import re
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Iterable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from aiohttp import hdrs
from cryptography import x509
from msgspec import Struct, field
from msgspec.structs import replace
from prometheus_client.metrics_core import Metric
from structlog.typing import FilteringBoundLogger

from certs.rotation import BUNDLE, SETTLE, Rules, Trust
from certs.store import Directory, Serving, Store
from certs.upkeep import (
    COUNTED,
    FAILURES,
    Backoff,
    CertificateMatter,
    CertificateNotice,
    ProvidedPair,
    Rotator,
    Surroundings,
)
from certs.x509 import SERVING_LIFE, STATIC_CA_LIFE, CertificateError, by_der
from webhook.admission import decide
from webhook.admission.judge import judge_pod
from webhook.cluster.registration.wanted import MUTATE, VALIDATE
from webhook.mapping.model.policy import Policy
from webhook.server import logs
from webhook.server.http import Connections, Endpoint, Handler, dispatcher, listening
from webhook.server.limits import InFlight, Lifecycle, Limits, raise_descriptors, within
from webhook.server.logs import ReviewLines
from webhook.server.metrics import (
    Metrics,
    ReadyCheck,
    connection_metrics,
    counter,
    failures,
    gauge,
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
    Reviews,
    Validation,
)
from webhook.text import error_fields

if TYPE_CHECKING:
    from webhook.replica.in_cluster import InCluster

Upkeep: TypeAlias = Rotator | ProvidedPair
"""What renews the certificate."""


class Certificates:
    """The certificates of a server.

    If `watched`, the webhook configuration shows what callers trust; else they trust the published CAs.

    Attributes:
        upkeep: what renews the certificate; None if the pair never changes.
        bundle: the CAs that were published last, PEM.
        published: set once there are any, or something else is known to distribute them.
        republished: called with the CAs whenever they change.
        troubled: called with notices that an operator should see.
    """

    def __init__(self, tls: Serving, log: FilteringBoundLogger, *, settle: float = 0.0, watched: bool = False) -> None:
        self.tls = tls
        self.upkeep: Upkeep | None = None
        self.bundle = b""
        self.published = asyncio.Event()
        self.republished: Callable[[bytes], None] = lambda _: None
        self.troubled: Callable[[CertificateNotice], None] = lambda _: None
        self._log = log
        self._trust = Trust(settle)
        self._watched = watched
        self._rotations = {"serving": 0, "ca": 0}
        self._failures = dict.fromkeys(COUNTED, 0)
        self._trouble = ""
        self._served_before = False
        self._ca: x509.Certificate | None = None
        self._around = Surroundings(tls, lambda: self._trust, self._publish, self._tell)

    def keep(self, store: Store, rules: Rules) -> None:
        self.upkeep = Rotator(store, rules, self._around)

    def follow(self, directory: Directory, names: Collection[str]) -> None:
        """Serve a provided pair in a directory; at once, where nobody shows what callers trust."""
        if not self._watched:
            self._trust = Trust(0.0)
        self.upkeep = ProvidedPair(directory, names, self._around)

    def observe(self, bundles: Iterable[Collection[bytes]] | None) -> None:
        """Note the CAs (DER) of each webhook of the webhook configuration; None if there is no configuration."""
        before, self._trust = self._trust, self._trust.observed(bundles, time.monotonic())
        if self.upkeep is not None and before != self._trust:
            self.upkeep.check()

    async def run(self) -> None:
        if self.upkeep is not None:
            await self.upkeep.run()

    async def served(self) -> None:
        if self.upkeep is not None:
            await self.upkeep.served.wait()

    async def is_current(self) -> bool:
        """Whether other replicas can be using no other CAs than those published last."""
        return self.upkeep is None or await self.upkeep.is_current()

    def failure(self) -> str | None:
        """Why no caller can be served now; None if callers can be."""
        found = self.tls.failure(_now())
        return found if found is None or not self._trouble else f"{found}; {self._trouble}"

    def metrics(self) -> Iterator[Metric]:
        shown = list(self._shown())
        ends = ((kind, certificate.not_valid_after_utc.timestamp()) for kind, certificate in shown)
        what = "Until when a certificate is valid, as Unix time."
        yield gauge("vgpu_webhook_certificate_not_after_seconds", what, ("kind",), ends)
        begins = ((kind, certificate.not_valid_before_utc.timestamp()) for kind, certificate in shown)
        what = "From when on a certificate is valid, as Unix time."
        yield gauge("vgpu_webhook_certificate_not_before_seconds", what, ("kind",), begins)
        what = "How often another certificate was served than before, and how often under another CA."
        yield counter("vgpu_webhook_certificate_rotations", what, ("kind",), self._rotations.items())
        failures = sorted((kind.value, count) for kind, count in self._failures.items())
        what = "Invalid pairs, and stores that could not be read or written, or were deleted."
        yield counter("vgpu_webhook_certificate_failures", what, ("reason",), failures)

    def _shown(self) -> Iterator[tuple[str, x509.Certificate]]:
        if self.tls.certificate is not None:
            yield "serving", self.tls.certificate
        if self.upkeep is not None and self.upkeep.ca is not None:
            yield "ca", self.upkeep.ca

    def _publish(self, bundle: bytes) -> None:
        if not self._watched:
            self.observe([frozenset(by_der(bundle))])
        if bundle != self.bundle or not self.published.is_set():
            self.bundle = bundle
            self.published.set()
            self.republished(bundle)

    def _tell(self, notice: CertificateNotice) -> None:
        if notice.matter is CertificateMatter.SERVED:
            ca = None if self.upkeep is None else self.upkeep.ca
            if self._served_before:
                self._rotations["serving"] += 1
                self._rotations["ca"] += self._ca not in {None, ca}
            self._served_before, self._ca, self._trouble = True, ca, ""
        elif notice.matter is CertificateMatter.RECOVERED:
            self._trouble = ""
        elif notice.matter in FAILURES or notice.matter is CertificateMatter.WAITING:
            self._trouble = notice.message
        counted = notice.matter in COUNTED
        log = self._log.error if notice.matter in FAILURES else self._log.warning if counted else self._log.info
        log("certificates", kind=notice.matter.value, message=notice.message)
        if counted:
            self._failures[notice.matter] += 1
            self.troubled(notice)


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


PAUSES: Final = (1.0, 60.0)
"""Seconds until work that has failed starts again: after the first failure, and at most."""


class Background(Struct, eq=False):
    """Starts work again that has ended by an unforeseen error, which is logged, with its places in the code, and counted."""

    _log: FilteringBoundLogger
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    bugs: int = 0

    async def keep(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        """Run work until it is done, or cancelled; pauses grow while it fails, until it has lasted for longer than any."""
        backoff = Backoff(*PAUSES)
        while True:
            since = self.clock()
            try:
                return await work()
            except Exception as error:  # noqa: BLE001  (the others go on, and so does this)
                if self.clock() - since > PAUSES[1]:
                    backoff.reset()
                self.bugs += 1
                self._log.error("bug", task=name, **error_fields(error))
            await self.sleep(backoff.failed())


LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")


class StartError(Exception):
    """Invalid options, files that cannot be used, or an endpoint that is not available."""


_HOST_NAME: Final = re.compile(r"(?!-)[a-z0-9-]{1,63}(?<!-)(\.(?!-)[a-z0-9-]{1,63}(?<!-))*", re.IGNORECASE)


class CertificateOptions(Struct, frozen=True):
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


class Options(Struct, frozen=True):
    """The options of a server."""

    listen: Endpoint
    plain_listen: Endpoint
    drain_grace: float = DRAIN_GRACE
    reuse_port: bool = False
    limits: Limits = Limits()


class Service(Struct, frozen=True):
    """The parts of a server: the engine and its input, certificates, and the log."""

    decide: Decide
    known: Knowledge
    certificates: Certificates
    log: FilteringBoundLogger
    lifecycle: Lifecycle = field(default_factory=Lifecycle)
    in_flight: InFlight = field(default_factory=InFlight)
    cluster: "InCluster | None" = None


class Addresses(Struct, frozen=True):
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
    judging = log.bind(path=VALIDATE)
    mutation = Mutation(service.known, service.decide, Journal(log, ReviewLines(log), metrics))
    validation = Validation(service.known, judge_pod, Journal(judging, ReviewLines(judging)))

    def handler(kind: Mutation | Validation, count: Count, log: FilteringBoundLogger) -> tuple[str, Handler]:
        return hdrs.METH_POST, Reviews(kind, lifecycle, limits, in_flight, metrics, count, log).handle

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
        service = Service(decide, Knowledge(Current(policy), namespaces, "privileged"), certificates, log)
        await serve_until_stopped(service, options, lambda addresses: announce(addresses, str(directory.path / BUNDLE)))

    run_to_end(work())
