"""How memory develops under a million pods that are all different: ``python -m benchmarks.memory [PODS]``, some minutes.

Exits with 1 if a goal is missed.
"""

import contextlib
import os
import sys
import tempfile
from pathlib import Path
from typing import Final

from benchmarks.client import Client
from benchmarks.figures import Figure, print_all
from benchmarks.processes import CLIENT_CORE, webhook
from benchmarks.streams import different

PODS: Final = 1_000_000
STEPS: Final = 10
MOST: Final = 80.0
"""MiB after all pods."""

GROWTH: Final = 2.0
"""MiB from the first tenth of the pods to the last: what an allocator may vary by."""


def main(pods: int) -> None:
    """Measure and print."""
    os.sched_setaffinity(0, {CLIENT_CORE})
    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder)
        with (
            webhook("webhook", state) as server,
            contextlib.closing(Client(server, state / "ca.crt", different().bodies)) as client,
        ):
            print(f"{server.memory:.1f} MiB resident at the start", flush=True)
            resident = []
            for step in range(1, STEPS + 1):
                client.run(reviews=pods // STEPS)
                resident.append(server.memory)
                print(f"{resident[-1]:.1f} after {pods // STEPS * step:,} pods", flush=True)
    growth = resident[-1] - resident[0]
    figures = [
        Figure(f"resident after {pods:,} different pods", resident[-1], MOST, "MiB"),
        Figure(f"growth since the first {pods // STEPS:,}", growth, GROWTH, "MiB"),
    ]
    sys.exit(not print_all(figures))


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else PODS)
