"""``make fuzz``: as many pods as there is time for, or a fixed number, on all cores.

Pod i of a seed is always the same, so a run can be continued (``--from``), and one pod looked at (``--pod``).
"""

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator

from tests.fuzz.generate import case_of
from tests.fuzz.judge import Tally, judge
from tests.fuzz.policies import SETUPS, policy_of
from tests.fuzz.report import figures, manifest, reproductions

BATCH = 2000
"""Pods that a process takes at a time."""
CLOSELY = 128
"""One in so many pods is looked at closely."""


def run_batch(work: tuple[int, int, int]) -> Tally:
    """The tally of some pods of a seed.

    Args:
        work: the seed, the first pod's number, and the number after the last one's.
    """
    seed, start, end = work
    tally = Tally()
    for number in range(start, end):
        tally.count(number, *judge(case_of(seed, number), closely=number % CLOSELY == 0))
    return tally


def _batches(seed: int, start: int, end: int | None, until: float | None) -> Iterator[tuple[int, int, int]]:
    while (end is None or start < end) and (until is None or time.monotonic() < until):
        stop = start + BATCH if end is None else min(start + BATCH, end)
        yield seed, start, stop
        start = stop


def fuzz(seed: int, start: int, end: int | None, minutes: float | None, processes: int) -> Tally:
    """The tally of a run; the policies are compiled before the processes part."""
    for index in range(len(SETUPS)):
        policy_of(index)
    until = None if minutes is None else time.monotonic() + 60 * minutes
    total, shown_at = Tally(), time.monotonic()
    if processes == 1:
        for work in _batches(seed, start, end, until):
            total.add(run_batch(work))
        return total
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        waiting = []
        batches = _batches(seed, start, end, until)
        for work in batches:
            waiting.append(pool.apply_async(run_batch, (work,)))
            while len(waiting) > 2 * processes:
                total.add(waiting.pop(0).get())
            if time.monotonic() - shown_at > 60:
                shown_at = time.monotonic()
                _say(f"{total.pods:,} pods, {sum(total.findings.values()):,} findings{_first(total)}")
        for each in waiting:
            total.add(each.get())
    return total


def _first(tally: Tally) -> str:
    """Where each kind of finding was met first, so that nobody has to wait for the end of a long run."""
    return "".join(f"; {rule} {vendor}: pod {number}" for (rule, vendor), number in tally.first.items())


def main() -> int:
    """Runs, prints, and returns 1 if something was found."""
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, help="for how long; 1 if neither this nor --pods is given")
    parser.add_argument("--pods", type=int, help="how many")
    parser.add_argument("--from", type=int, default=0, dest="start", help="number of the first pod")
    parser.add_argument("--pod", type=int, help="only this pod: print it, and what is wrong with it")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    if arguments.pod is not None:
        case = case_of(arguments.seed, arguments.pod)
        outcome, findings = judge(case, closely=True)
        _say(manifest(case) + outcome + "".join(f"\n{finding.rule}: {finding.detail}" for finding in findings))
        return int(bool(findings))
    minutes = 1.0 if arguments.pods is None and arguments.minutes is None else arguments.minutes
    end = None if arguments.pods is None else arguments.start + arguments.pods
    began = time.monotonic()
    tally = fuzz(arguments.seed, arguments.start, end, minutes, arguments.processes)
    line = f"seed {arguments.seed}, from pod {arguments.start}: {figures(tally, time.monotonic() - began)}"
    for reproduction in reproductions(tally, arguments.seed):
        _say(f"\n{reproduction}")
    _say(line)
    return int(bool(tally.findings))


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
