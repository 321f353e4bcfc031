"""Measure and print one table: about five minutes, loopback only, servers on core 0, the client on core 1.

Environment variables, and variables of ``make bench``:

TRACE      a file with the requests of a production cluster (`benchmarks.trace`)
PEER       another webhook to compare with, as https://host:port/path; its certificate is not verified
PEER_PID   its process on this machine, for its CPU; it is bound to the servers' core
WITHOUT    what is to be left out though goals need it: `trace`, `peer` or both, separated by a comma

Exits with 1 if a goal is missed, and at once if one could not be measured and WITHOUT does not say so.
"""

import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from benchmarks.client import CONNECTIONS, Client, Sample
from benchmarks.figures import OK, OVER, Figure, print_all
from benchmarks.five import FIVE
from benchmarks.processes import CLIENT_CORE, PEER, PEER_PID, Server, interpreter, peer, started, webhook
from benchmarks.streams import OF_TRACE, Stream, different, streams
from benchmarks.trace import TRACE
from webhook.mapping.load import builtin

ROUNDS: Final = 7
SECONDS: Final = 1.2
WARM_UP: Final = 0.2
REPETITIONS: Final = 5
"""Of what is measured by the clock once: starts, and runs of the command."""

MOST_P99: Final = 5e-3
"""Seconds, of reviews of the size of a usual pod."""

MOST_START: Final = 0.6
MOST_MUTATE: Final = 0.35
"""Seconds."""

MOST_MAPPINGS: Final = 1.05
"""CPU with all mappings, in times that with five."""

WITHOUT: Final = "WITHOUT"
NEEDED: Final = {"trace": (TRACE,), "peer": (PEER, PEER_PID)}
"""What goals need, by its name in `WITHOUT`: environment variables."""

EXAMPLE: Final = Path(__file__).parents[1] / "examples" / "pods" / "01-default-memory.yaml"


@dataclass(frozen=True, slots=True)
class Row:
    """All samples of one stream, round by round; those of the peer and of five mappings where they are measured."""

    stream: Stream
    empty: list[Sample] = field(default_factory=list)
    ours: list[Sample] = field(default_factory=list)
    five: list[Sample] = field(default_factory=list)
    peer: list[Sample] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        """CPU in times that of the empty handler in the same round."""
        return ratio(self.ours, self.empty)

    @property
    def missed(self) -> list[str]:
        """What is over its goal."""
        stream = self.stream
        over = {
            "CPU": stream.goal is not None and self.ratio > stream.goal,
            "p99": not stream.large and percentile(self.ours, 0.99) > MOST_P99,
            # Without the peer's process its CPU is not a number, and never less.
            "the peer": stream.below_peer and bool(self.peer) and cpu(self.peer) <= cpu(self.ours),
        }
        return [name for name, missed in over.items() if missed]

    def __str__(self) -> str:
        goal = "" if self.stream.goal is None else f"{self.stream.goal:.1f}"
        p50, p99 = percentile(self.ours, 0.5) * 1e3, percentile(self.ours, 0.99) * 1e3
        verdict = f"{OVER}: {', '.join(self.missed)}" if self.missed else OK
        text = (
            f"{self.stream.name:<36} {cpu(self.empty) * 1e6:>8.0f} {cpu(self.ours) * 1e6:>6.0f} {busy(self.ours):>5.0%}"
            f" {self.ratio:>6.2f} {goal:>5}"
            f" {p50:>7.2f} {p99:>7.2f} {verdict:<24}"
        )
        if not self.peer:
            return text
        return (
            f"{text} {cpu(self.peer) * 1e6:>7.0f} {percentile(self.peer, 0.5) * 1e3:>7.2f}"
            f" {percentile(self.peer, 0.99) * 1e3:>7.2f} {statistics.median(each.rate for each in self.peer):>7,.0f}"
        )


HEADER: Final = (
    f"{'stream':<36} {'empty µs':>8} {'CPU µs':>6} {'busy':>5} {'times':>6} {'goal':>5}"
    f" {'p50 ms':>7} {'p99 ms':>7} {'':24}"
)
PEER_HEADER: Final = f" {'peer µs':>7} {'p50 ms':>7} {'p99 ms':>7} {'/s':>7}"


def cpu(samples: Sequence[Sample]) -> float:
    """Seconds for one review, the median of all rounds."""
    return statistics.median(sample.cpu_each for sample in samples)


def busy(samples: Sequence[Sample]) -> float:
    """The part of the time in which the server worked, likewise: where it is less than all, it waited for the client."""
    return statistics.median(sample.cpu / sample.elapsed for sample in samples)


def percentile(samples: Sequence[Sample], part: float) -> float:
    """Seconds within which a part of the reviews is answered, likewise."""
    return statistics.median(sample.percentile(part) for sample in samples)


def ratio(samples: Sequence[Sample], base: Sequence[Sample]) -> float:
    """CPU in times that of other samples from the same rounds, likewise."""
    return statistics.median(sample.cpu_each / other.cpu_each for sample, other in zip(samples, base, strict=True))


def unmeasured() -> dict[str, str]:
    """Return what no goal can be measured without, by its name in `WITHOUT`: what is not set, and which goals need it."""
    below = [stream.name for stream in streams() if stream.below_peer]
    goals = {
        "trace": f"the goals of {' and '.join(OF_TRACE)}",
        "peer": f"less CPU than another webhook for {'; '.join(below)}",
    }
    missing = {name: [each for each in needed if not os.environ.get(each)] for name, needed in NEEDED.items()}
    return {name: f"{' and '.join(unset)} not set: {goals[name]}" for name, unset in missing.items() if unset}


def check_measured(missing: Mapping[str, str]) -> None:
    """Exit unless `WITHOUT` names everything that is missing, and nothing else than is known."""
    without = set(filter(None, os.environ.get(WITHOUT, "").split(",")))
    if not without <= set(NEEDED):
        sys.exit(f"{WITHOUT}={os.environ[WITHOUT]}: write {' or '.join(NEEDED)}, or both with a comma between")
    if not without >= set(missing):
        told = [f"cannot be measured, as {text}" for text in missing.values()]
        sys.exit("\n".join([*told, f"set these variables, or leave the goals out: {WITHOUT}={','.join(missing)}"]))


def measure(server: Server, ca_file: Path | None, bodies: Iterator[bytes]) -> Sample:
    """One round."""
    with contextlib.closing(Client(server, ca_file, bodies)) as client:
        client.run(seconds=WARM_UP)
        return client.run(seconds=SECONDS)


def compare(state: Path) -> bool:
    """Send every stream to every server, in turn within a round, so that noise strikes them alike; print the table."""
    ca_file = state / "ca.crt"
    rows = [Row(stream) for stream in streams()]
    # Whether a mapping more costs anything shows where nothing is remembered, and where everything is.
    few = [row for row in rows if row.stream.name in {"one template", different().name}]
    other = peer()
    with (
        started("empty handler", "benchmarks.empty", str(state)) as empty,
        webhook("webhook", state) as ours,
        webhook("five mappings", state, "benchmarks.five") as five,
    ):
        for number in range(ROUNDS):
            print(f"round {number + 1} of {ROUNDS} …", file=sys.stderr, flush=True)
            for row in rows:
                row.empty.append(measure(empty, ca_file, row.stream.bodies))
                row.ours.append(measure(ours, ca_file, row.stream.bodies))
                if row in few:
                    row.five.append(measure(five, ca_file, row.stream.bodies))
                if other is not None:
                    row.peer.append(measure(other, None, row.stream.peers or row.stream.bodies))
    print(
        f"{CONNECTIONS} keep-alive TLS connections, {len(builtin())} mappings; medians of {ROUNDS} rounds of {SECONDS:g} s\n"
    )
    print(HEADER + (PEER_HEADER if other is not None else ""))
    for row in rows:
        print(row)
    print()
    against = f"{len(builtin())} against {len(FIVE)} mappings"
    figures = [Figure(f"{against}, {row.stream.name}", ratio(row.ours, row.five), MOST_MAPPINGS) for row in few]
    return print_all(figures) and not any(row.missed for row in rows)


def start(state: Path) -> float:
    """Seconds until the server is ready."""
    times = []
    for _ in range(REPETITIONS):
        with webhook("start", state) as server:
            times.append(server.start)
    return statistics.median(times)


def mutate() -> float:
    """Seconds that ``vgpu-webhook mutate`` takes for a small file."""
    command = [sys.executable, "-m", "benchmarks.installed", "webhook", "mutate", "-f", str(EXAMPLE)]
    times = []
    for _ in range(REPETITIONS):
        begin = time.monotonic()
        subprocess.run(command, check=True, capture_output=True)
        times.append(time.monotonic() - begin)
    return statistics.median(times)


def main() -> None:
    """Measure everything."""
    missing = unmeasured()
    check_measured(missing)
    if len(os.sched_getaffinity(0)) < 2:
        sys.exit("two cores are needed: one for the server, one for the client")
    os.sched_setaffinity(0, {CLIENT_CORE})
    print(interpreter())
    with tempfile.TemporaryDirectory() as temporary:
        state = Path(temporary)
        figures = [
            Figure("start to ready", start(state), MOST_START, "s"),
            Figure("vgpu-webhook mutate of a small file", mutate(), MOST_MUTATE, "s"),
        ]
        met = compare(state)
        met = print_all(figures) and met
    for name, text in missing.items():
        print(f"not measured ({WITHOUT}={name}): {text}")
    sys.exit(not met)


if __name__ == "__main__":
    main()
