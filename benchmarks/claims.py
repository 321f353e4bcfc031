"""A thousand pods a second that need claims: ``python -m benchmarks.claims [RATE]``, on a real API server; three minutes.

200 different requests in each of 50 namespaces, whose target writes claims, beside the same pods in 50 namespaces with another
target. At first every template has to be created, as fast as this machine makes; afterwards all are known, and rounds with the
one target and the other alternate. Exits with 1 if a goal is missed.
"""

import contextlib
import itertools
import math
import os
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.client import Client, Sample
from benchmarks.figures import Figure, print_all
from benchmarks.owners import DEPLOYMENT
from benchmarks.processes import CLIENT_CORE, SERVER_CORE, Server, interpreter
from benchmarks.streams import CPU_AND_MEMORY, SMALL
from benchmarks.workloads import AMOUNT, template
from tests.controlplane.build import find
from tests.controlplane.plane import ControlPlane
from tests.controlplane.processes import Process, free_ports
from webhook.cluster.claims import RESOURCE
from webhook.request import CLAIM_API

RATE: Final = 1000.0
REQUESTS: Final = 200
NAMESPACES: Final = 50
ROUNDS: Final = 20
REVIEWS: Final = 2000
"""Of a round: short ones, so that noise strikes both targets alike."""

SETTLED: Final = 2.0
"""Seconds after which the watch has brought the last template."""

CONNECTIONS: Final = 64
"""More than elsewhere: pods whose template is not there yet wait for it."""

CLAIMS, OTHER = "claims", "other"
TARGETS: Final = {CLAIMS: "dra-hami", OTHER: "nvidia"}
OWN: Final = "claims-own"
SHARE: Final = {**CPU_AND_MEMORY, "tencent.com/vcuda-core": AMOUNT}

MOST_MORE: Final = 1.1
"""Latency with claims at the median, and CPU, in times those with the other target: what rounds vary by."""

MOST_MORE_P99: Final = 1.5


@dataclass(frozen=True, slots=True)
class Load:
    """How many different requests there are in each of how many namespaces, and how often they come.

    Attributes:
        requests, namespaces: that many.
        rate: pods a second once all templates are known.
        rounds: with each target.
        reviews: of each round.
    """

    requests: int = REQUESTS
    namespaces: int = NAMESPACES
    rate: float = RATE
    rounds: int = ROUNDS
    reviews: int = REVIEWS

    @property
    def templates(self) -> int:
        """One for each request in each namespace."""
        return self.requests * self.namespaces

    def names(self, target: str) -> list[str]:
        """The names of the namespaces with a target."""
        return [f"{target}-{number:02}" for number in range(self.namespaces)]

    def bodies(self, target: str) -> Iterator[bytes]:
        """Reviews without end: each request in each namespace in turn, every one of them a pod of its own."""
        sent = template(DEPLOYMENT, SHARE, SMALL)
        numbers = itertools.count()
        while True:
            for request, name in itertools.product(range(self.requests), self.names(target)):
                # 1 to 20 % of the cores, and 1 GiB and more.
                amount = f'{1 + request % 20}","tencent.com/vcuda-memory":"{4 * (1 + request // 20)}'
                body = sent.fill(request, 0, next(numbers), amount)
                yield body.replace(b'"namespace":"team"', b'"namespace":"%b"' % name.encode())


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run gave.

    Attributes:
        created: the run in which no template was known.
        creations: requests for templates meanwhile.
        templates: how many there are afterwards.
        known: the runs in which all were known, by target.
        calls: requests for templates meanwhile.
    """

    created: Sample
    creations: int
    templates: int
    known: Mapping[str, Sequence[Sample]]
    calls: int

    def more(self, what: Callable[[Sample], float]) -> float:
        """A figure with claims in times that of the other target in the same round; the median."""
        pairs = zip(self.known[CLAIMS], self.known[OTHER], strict=True)
        return statistics.median(what(claims) / what(other) for claims, other in pairs)


def calls(plane: ControlPlane) -> int:
    """Requests for single templates, by the API server's own count: watches and lists are not those of pods."""
    text = plane.client.call("GET", "/metrics").body["text"]
    pattern = rf'^apiserver_request_total\{{[^}}]*resource="{RESOURCE}"[^}}]*verb="(?!WATCH|LIST)[^}}]*\}} (\S+)$'
    return sum(int(float(count)) for count in re.findall(pattern, text, re.MULTILINE))


@contextlib.contextmanager
def serving(plane: ControlPlane, folder: Path) -> Iterator[Server]:
    """The webhook beside an API server that does not call it."""
    port, plain = free_ports(2)
    command = [
        *(sys.executable, "-m", "benchmarks.installed", "webhook", "serve", "--kubeconfig", str(plane.kubeconfig)),
        *("--url", f"https://127.0.0.1:{port}/mutate", "--state-dir", str(folder), "--drain-grace", "0"),
        *("--listen", f"127.0.0.1:{port}", "--plain-listen", f"127.0.0.1:{plain}", "--registration", "static"),
        *("--claims", "--release-namespace", OWN),
    ]
    with Process(command, folder / "webhook.log") as process:
        plane.wait_until(lambda: "ready:" in process.tail(), "webhook ready")
        yield Server("webhook", process.pid, port)
        process.check()


def prepare(plane: ControlPlane, load: Load) -> None:
    """Create the namespaces."""
    plane.create_namespace({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OWN}})
    for target, vendor in TARGETS.items():
        for name in load.names(target):
            metadata = {"name": name, "labels": {"vgpu-webhook.io/inject": "enabled"}}
            metadata["annotations"] = {"vgpu-webhook.io/target": vendor}
            plane.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}).accepted()


def measure(plane: ControlPlane, server: Server, folder: Path, load: Load) -> Outcome:
    """Send each request in each namespace once, then again at a rate."""
    bodies = {target: load.bodies(target) for target in TARGETS}

    def run(target: str, rate: float, reviews: int) -> Sample:
        with contextlib.closing(Client(server, folder / "ca.crt", bodies[target], CONNECTIONS)) as client:
            return client.paced(rate, reviews)

    before = calls(plane)
    created = run(CLAIMS, math.inf, load.templates)
    # What was late is created nevertheless, and the watch brings all of it.
    plane.wait_until(lambda: len(templates(plane)) >= load.templates, "templates created", 300)
    time.sleep(SETTLED)
    creations, before = calls(plane) - before, calls(plane)
    run(OTHER, math.inf, load.templates)
    known: dict[str, list[Sample]] = {target: [] for target in TARGETS}
    for number in range(load.rounds):
        for target in list(known)[:: 1 if number % 2 else -1]:
            known[target].append(run(target, load.rate, load.reviews))
    return Outcome(created, creations, len(templates(plane)), known, calls(plane) - before)


def templates(plane: ControlPlane) -> list[Any]:
    """The templates of these namespaces."""
    found = plane.client.list(CLAIM_API, RESOURCE)
    return [each for each in found if each["metadata"]["namespace"].startswith(f"{CLAIMS}-")]


def tell(name: str, samples: Sequence[Sample]) -> None:
    """Print one line of a table: medians of rounds."""
    figures: list[Callable[[Sample], float]] = [
        lambda each: each.rate,
        lambda each: each.cpu_each * 1e6,
        lambda each: each.percentile(0.5) * 1e3,
        lambda each: each.percentile(0.99) * 1e3,
    ]
    rate, cpu, p50, p99 = (statistics.median(map(figure, samples)) for figure in figures)
    print(f"{name:<28} {rate:>6,.0f} pods/s {cpu:>5.0f} µs of CPU {p50:>8.2f} ms p50 {p99:>8.2f} ms p99")


def main(rate: float) -> None:
    """Start a control plane, serve, measure and print."""
    print(interpreter())
    load = Load(rate=rate)
    with tempfile.TemporaryDirectory() as temporary, ControlPlane(find(), Path(temporary)) as plane:
        folder = Path(temporary) / "webhook"
        folder.mkdir()
        prepare(plane, load)
        with serving(plane, folder) as server:
            assert server.pid is not None
            os.sched_setaffinity(server.pid, {SERVER_CORE})
            os.sched_setaffinity(0, {CLIENT_CORE})
            outcome = measure(plane, server, folder, load)
    tell("no template known", [outcome.created])
    for target, samples in outcome.known.items():
        tell(f"all known, target {TARGETS[target]}", samples)
    figures = [
        Figure("templates, of 200 requests in 50 namespaces", outcome.templates, load.templates),
        Figure("requests to the API server to create them", outcome.creations, load.templates),
        Figure("requests to the API server for known templates", outcome.calls, 0),
        Figure("median with claims, in times that without", outcome.more(lambda each: each.percentile(0.5)), MOST_MORE),
        Figure("p99 with claims, likewise", outcome.more(lambda each: each.percentile(0.99)), MOST_MORE_P99),
        Figure("CPU with claims, likewise", outcome.more(lambda each: each.cpu_each), MOST_MORE),
    ]
    sys.exit(not print_all(figures))


if __name__ == "__main__":
    main(float(sys.argv[1]) if sys.argv[1:] else RATE)
