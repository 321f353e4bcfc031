"""The metrics. Every label has few values, known beforehand; names never change."""

import bisect
import gc
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Final, TypeAlias

from aiohttp import hdrs, web
from msgspec import Struct
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from webhook.server.http import Connections, Routes
from webhook.server.limits import InFlight, Lifecycle, Phase
from webhook.server.logs import Lines

THRESHOLDS: Final = (50_000, 20, 50)
"""Allocations before a young collection, then how many of one generation before the next. Reviews hold no cycles, so
there is little to find; the default of 700 looks for it several times within one large review."""


def settle_memory() -> None:
    """Exclude everything made so far from garbage collection, and make collections rarer.

    Measured on reviews of 64 KiB: the slowest tenth went from 14.5 to 6 ms. The price is that cycles among the objects
    that exist now are never freed, so it is called once, when the policy is in force and the listeners are up. They are not
    freed before, either: of 176,000 objects 2,000 would be, for a fiftieth of the start.
    """
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)


SECONDS: Final = (0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5)
"""A usual review takes a tenth of a millisecond; more than 5 ms should not occur."""

BYTES: Final = (2**10, 2**12, 2**13, 2**14, 2**15, 2**16, 2**18, 2**20, 2**22, 2**23)
"""A usual review has 4 to 64 KiB; the limit is below the last bound."""

MAX_NAMESPACES: Final = 500
"""The most namespaces with counts of their own; the pods of all others are counted together."""

OTHERS: Final = "(others)"
"""What these are called: no namespace has such a name."""

Values: TypeAlias = Iterable[tuple[str | tuple[str, ...], float]]
"""Numbers by the values of their labels, or of their only label."""

Series: TypeAlias = tuple[str, str, str]
"""Outcome, reason and vendor of reviews that are counted together (`Decision.series`)."""


class _Distribution(Struct):
    bounds: Sequence[float]
    counts: list[int] = []
    total: float = 0

    def __post_init__(self) -> None:
        self.counts = [0] * (len(self.bounds) + 1)

    def add(self, value: float) -> None:
        self.counts[bisect.bisect_left(self.bounds, value)] += 1
        self.total += value

    def family(self, name: str, what: str) -> Metric:
        bounds = [*map(str, map(float, self.bounds)), "+Inf"]
        buckets = list(zip(bounds, itertools.accumulate(self.counts), strict=True))
        return HistogramMetricFamily(name, what, buckets=buckets, sum_value=self.total)


class Metrics(Collector):
    """The metrics of one server, in a registry of their own.

    They are plain numbers, converted to Prometheus' format on request. The library's counters take locks, and its
    histograms search bucket by bucket: together 4 µs of a review that takes 60, although everything runs in one thread.
    """

    def __init__(self) -> None:
        self._reviews: dict[Series, int] = {}
        self._validations: dict[tuple[str, str], int] = {}
        self._notes: dict[str, int] = {}
        self._in_namespaces: dict[Series, int] = {}
        self._namespaces: set[str] = set()
        self._seconds = _Distribution(SECONDS)
        self._bytes = _Distribution(BYTES)
        self._bugs = 0
        self._bugs_beside: list[Callable[[], int]] = []
        self._http_errors: dict[int, int] = {}
        self._others: list[Callable[[], Iterator[Metric]]] = []
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def review(self, series: Series, seconds: float, size: int) -> None:
        self._reviews[series] = self._reviews.get(series, 0) + 1
        self._seconds.add(seconds)
        self._bytes.add(size)

    def noted(self, reasons: Sequence[str]) -> None:
        for reason in reasons:
            self._notes[reason] = self._notes.get(reason, 0) + 1

    def in_namespace(self, series: Series) -> None:
        """Count a pod that requests devices, by its namespace, the outcome and the reason."""
        if series[0] not in self._namespaces:
            if len(self._namespaces) < MAX_NAMESPACES:
                self._namespaces.add(series[0])
            else:
                series = OTHERS, *series[1:]
        self._in_namespaces[series] = self._in_namespaces.get(series, 0) + 1

    def bug(self) -> None:
        self._bugs += 1

    def http_error(self, status: int) -> None:
        self._http_errors[status] = self._http_errors.get(status, 0) + 1

    def also(self, others: Callable[[], Iterator[Metric]]) -> None:
        self._others.append(others)

    def also_bugs(self, others: Callable[[], int]) -> None:
        self._bugs_beside.append(others)

    def validation(self, series: Series, _seconds: float, _size: int) -> None:
        """Count one validating review; bugs and HTTP errors are counted together with those of other reviews."""
        outcome, reason, _ = series
        key = outcome if outcome in {"denied", "failed"} else "allowed", reason
        self._validations[key] = self._validations.get(key, 0) + 1

    def text(self) -> bytes:
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        what = "Reviews by outcome, reason (docs/codes.md) and the vendor of the request."
        yield counter("vgpu_webhook_reviews", what, ("outcome", "reason", "vendor"), self._reviews.items())
        what = "Reviews of what is about to be stored, by outcome and reason (docs/codes.md)."
        yield counter("vgpu_webhook_validations", what, ("outcome", "reason"), self._validations.items())
        what = "Reviews of pods that request devices, by their namespace."
        labels = ("pod_namespace", "outcome", "reason")
        yield counter("vgpu_webhook_namespace_reviews", what, labels, self._in_namespaces.items())
        what = "Reviews with a note (docs/codes.md), by its reason."
        yield counter("vgpu_webhook_notes", what, ("reason",), self._notes.items())
        yield self._seconds.family("vgpu_webhook_review_seconds", "From the last byte of a review to its answer.")
        yield self._bytes.family("vgpu_webhook_body_bytes", "Sizes of reviews.")
        bugs = self._bugs + sum(count() for count in self._bugs_beside)
        yield CounterMetricFamily("vgpu_webhook_bugs", "Reviews and background work that failed by a bug.", value=bugs)
        errors = ((str(int(status)), count) for status, count in self._http_errors.items())
        yield counter(
            "vgpu_webhook_http_errors", "Requests that were answered with an HTTP error.", ("status",), errors
        )
        lost = "Log lines that could not be written: a full disk, a closed pipe."
        yield CounterMetricFamily("vgpu_webhook_log_lines_lost", lost, value=Lines.lost)
        for others in self._others:
            yield from others()


def counter(name: str, what: str, labels: Sequence[str], counts: Values) -> Metric:
    """Make a counter with labels."""
    return _filled(CounterMetricFamily(name, what, labels=labels), counts)


def gauge(name: str, what: str, labels: Sequence[str], values: Values) -> Metric:
    """Make a gauge with labels."""
    return _filled(GaugeMetricFamily(name, what, labels=labels), values)


def _filled(family: CounterMetricFamily | GaugeMetricFamily, values: Values) -> Metric:
    for labels, value in values:
        family.add_metric((labels,) if isinstance(labels, str) else labels, value)
    return family


def connection_metrics(listeners: Mapping[str, Connections], in_flight: InFlight) -> Iterator[Metric]:
    """Yield the metrics of the connections, by the name of the listener, and of what is in flight."""
    by, each = ("listener",), listeners.items()
    now = ((name, len(connections)) for name, connections in each)
    yield gauge("vgpu_webhook_connections", "Open connections.", by, now)
    most = ((name, connections.most) for name, connections in each)
    yield gauge("vgpu_webhook_connections_max", "Maximum number of connections.", by, most)
    evicted = ((name, connections.evicted) for name, connections in each)
    yield counter("vgpu_webhook_connections_evicted", "Connections that were closed in favor of new ones.", by, evicted)
    failures = (failure for connections in listeners.values() for failure in connections.failures.items())
    yield counter("vgpu_webhook_handshake_failures", "Failed TLS handshakes.", ("reason",), failures)
    yield GaugeMetricFamily("vgpu_webhook_in_flight", "Reviews that are not answered yet.", value=in_flight.reviews)


def ready_metric(*, ready: bool) -> Iterator[Metric]:
    """Yield whether a server is ready, as ``/readyz`` reports: a process may run and answer nothing but 503."""
    yield GaugeMetricFamily("vgpu_webhook_ready", "1 if /readyz is 200, otherwise 0.", value=float(ready))


ReadyCheck: TypeAlias = Callable[[], str | None]
"""A condition of readiness: returns None, or why it is not met."""


def failures(lifecycle: Lifecycle, checks: Mapping[str, ReadyCheck]) -> list[str]:
    """Why a server is not ready, by what it depends on; empty where it is."""
    found = [f"{name}: {why}" for name, check in checks.items() if (why := check()) is not None]
    if lifecycle.phase is not Phase.SERVING:
        found.append(f"lifecycle: {lifecycle.phase.value}")
    return found


def plain_routes(lifecycle: Lifecycle, metrics: Metrics, checks: Mapping[str, ReadyCheck]) -> Routes:
    """The routes for probes and Prometheus."""

    async def healthz(_request: web.BaseRequest) -> web.Response:
        return web.Response(text="ok\n")

    async def readyz(_request: web.BaseRequest) -> web.Response:
        found = failures(lifecycle, checks)
        status = HTTPStatus.SERVICE_UNAVAILABLE if found else HTTPStatus.OK
        return web.Response(status=status, text="".join(f"{line}\n" for line in found or ["ok"]))

    async def prometheus(_request: web.BaseRequest) -> web.Response:
        return web.Response(body=metrics.text(), headers={hdrs.CONTENT_TYPE: CONTENT_TYPE_LATEST})

    handlers = {"/healthz": healthz, "/readyz": readyz, "/metrics": prometheus}
    return {path: (hdrs.METH_GET, handler) for path, handler in handlers.items()}
