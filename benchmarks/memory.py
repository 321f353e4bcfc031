"""How memory develops under a million different pods, each sent twice: ``python -m benchmarks.memory [PODS]``.

What occurs once is not remembered, so only the second of two shows what the memory of decisions takes. It is printed beside
resident memory: entries, and their bytes as the server counts them. Exits with 1 if a goal is missed.
"""

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from benchmarks.client import Client
from benchmarks.figures import Figure, print_all
from benchmarks.held import Held, held
from benchmarks.processes import CLIENT_CORE, interpreter, webhook
from benchmarks.streams import different
from webhook.mapping.model.policy import MAX_BYTES
from webhook.request import MIB

PODS: Final = 1_000_000
STEPS: Final = 10
MOST: Final = 80.0
"""MiB after all pods."""

GROWTH: Final = 2.0
"""MiB from the first tenth of the pods to the last: what an allocator may vary by."""

LEAST_HELD: Final = 0.5
"""Part of its bound that the memory of decisions has to reach: with less, it was not measured."""


def twice(bodies: Iterator[bytes]) -> Iterator[bytes]:
    """Each body, and the same again."""
    return (body for body in bodies for _ in range(2))


def main(pods: int) -> None:
    """Measure and print."""
    os.sched_setaffinity(0, {CLIENT_CORE})
    print(interpreter())
    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder)
        with (
            webhook("webhook", state, "benchmarks.held") as server,
            contextlib.closing(Client(server, state / "ca.crt", twice(different().bodies))) as client,
        ):
            print(f"{server.memory:.1f} MiB resident at the start", flush=True)
            resident: list[float] = []
            remembered: list[Held] = []
            for step in range(1, STEPS + 1):
                client.run(reviews=2 * pods // STEPS)
                resident.append(server.memory)
                remembered.append(held(server, state))
                entries, size = remembered[-1]
                print(
                    f"{resident[-1]:.1f} after {pods // STEPS * step:,} pods, of which {entries:,} are remembered:"
                    f" {size / MIB:.2f} MiB as counted",
                    flush=True,
                )
    most = max(each.size for each in remembered)
    figures = [
        Figure(f"resident after {pods:,} different pods, each twice", max(resident), MOST, "MiB"),
        Figure(f"growth since the first {pods // STEPS:,}", max(resident) - resident[0], GROWTH, "MiB"),
        Figure("most that was remembered, as counted", most / MIB, MAX_BYTES / MIB, "MiB"),
    ]
    met = print_all(figures)
    if most < LEAST_HELD * MAX_BYTES:
        sys.exit(f"not measured: the memory of decisions was not half full after {pods:,} pods")
    sys.exit(not met)


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else PODS)
