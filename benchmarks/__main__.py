"""Measure and print: about four minutes, loopback only, server on core 0, client on core 1."""

import contextlib
import os
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.client import CONNECTIONS, Client, Sample
from benchmarks.five import FIVE
from benchmarks.mappings import write_mappings
from benchmarks.processes import CLIENT_CORE, Server, started, webhook
from benchmarks.reviews import LARGE, SMALL, Load, in_turn, never_seen, one_pod
from webhook.mapping.draft import builtin

ROUNDS: Final = 7
SECONDS: Final = 1.2
WARM_UP: Final = 0.2
BUILT_IN: Final = len(builtin())
MANY: Final = 50
SOAK: Final = 100_000
STARTS: Final = 5


@dataclass(frozen=True, slots=True)
class Row:
    """The medians of all rounds of one server under one load; seconds."""

    cpu: float
    ratio: float
    rate: float
    median: float
    p99: float


def measure(server: Server, authority: Path, sent: Load) -> Sample:
    """One round."""
    with contextlib.closing(Client(server, authority, sent)) as client:
        client.run(seconds=WARM_UP)
        return client.run(seconds=SECONDS)


def row(samples: Sequence[Sample], floor: Sequence[Sample]) -> Row:
    """The medians of rounds; the ratio is to what the empty handler took in the same round."""
    return Row(
        statistics.median(sample.cpu_each for sample in samples),
        statistics.median(one.cpu_each / least.cpu_each for one, least in zip(samples, floor, strict=True)),
        statistics.median(sample.rate for sample in samples),
        statistics.median(sample.percentile(0.5) for sample in samples),
        statistics.median(sample.percentile(0.99) for sample in samples),
    )


def compare(servers: Sequence[Server], authority: Path) -> None:
    """Every server under every load, in turn within a round, so that a noisy moment strikes them alike."""
    loads = [stream(size) for size in (SMALL, LARGE) for stream in (one_pod, in_turn, never_seen)]
    samples: dict[tuple[str, str], list[Sample]] = {}
    for number in range(ROUNDS):
        print(f"round {number + 1} of {ROUNDS} …", file=sys.stderr, flush=True)
        for sent in loads:
            for server in servers:
                samples.setdefault((sent.name, server.name), []).append(measure(server, authority, sent))
    print(f"{CONNECTIONS} keep-alive TLS connections; medians of {ROUNDS} rounds of {SECONDS:g} s\n")
    print(f"{'review':<18} {'server':<22} {'CPU µs':>8} {'ratio':>6} {'reviews/s':>10} {'p50 ms':>7} {'p99 ms':>7}")
    for sent in loads:
        floor = samples[sent.name, servers[0].name]
        rows = {server.name: row(samples[sent.name, server.name], floor) for server in servers}
        for name, one in rows.items():
            print(
                f"{sent.name:<18} {name:<22} {one.cpu * 1e6:>8.1f} {one.ratio:>6.2f} {one.rate:>10,.0f}"
                f" {one.median * 1e3:>7.2f} {one.p99 * 1e3:>7.2f}"
            )
        few = samples[sent.name, servers[1].name]
        for server in servers[2:]:
            pairs = zip(samples[sent.name, server.name], few, strict=True)
            cost = statistics.median(many.cpu_each / one.cpu_each for many, one in pairs) - 1
            print(f"{'':<18} {server.name} cost {cost:+.1%} over {servers[1].name}")
        print()


def soak(state: Path, authority: Path) -> None:
    """How memory develops under pods that are never seen before, on a fresh server."""
    with (
        webhook("soak", state) as server,
        contextlib.closing(Client(server, authority, never_seen(SMALL))) as client,
    ):
        fresh = server.memory
        client.run(reviews=SOAK // 10)
        early = server.memory
        client.run(reviews=SOAK - SOAK // 10)
        late = server.memory
    print(
        f"resident memory: {fresh:.1f} MiB at start, {early:.1f} after {SOAK // 10:,} pods never seen before,", end=" "
    )
    print(f"{late:.1f} after {SOAK:,} ({late - early:+.1f} on the way)")


def starts(state: Path) -> None:
    """How long it takes to be ready."""
    times = []
    for _ in range(STARTS):
        with webhook("start", state) as server:
            times.append(server.start)
    print(f"start to ready: {statistics.median(times):.2f} s (median of {STARTS}, slowest {max(times):.2f} s)")


def main() -> None:
    """Measure everything."""
    if len(os.sched_getaffinity(0)) < 2:
        sys.exit("two cores are needed: one for the server, one for the client")
    os.sched_setaffinity(0, {CLIENT_CORE})
    with tempfile.TemporaryDirectory() as temporary:
        state = Path(temporary) / "state"
        mappings = write_mappings(Path(temporary) / "mappings", MANY - BUILT_IN)
        authority = state / "ca.crt"
        starts(state)
        soak(state, authority)
        with (
            started("empty handler", "benchmarks.empty", str(state)) as empty,
            webhook(f"{len(FIVE)} mappings", state, module="benchmarks.five") as five,
            webhook(f"all {BUILT_IN} mappings", state) as every,
            webhook(f"{MANY} mappings", state, mappings) as many,
        ):
            compare([empty, five, every, many], authority)


if __name__ == "__main__":
    main()
