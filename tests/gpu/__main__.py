"""Run all cases on this machine's GPU: `SHIM=/path/libvgpu.so tests/gpu/run [FOLDER]`. Ends with 1 if one is not as promised.

It writes `result.json`, which becomes `seen.json`, and `diagnosis.txt` about each program. It changes no setting of the GPU.
"""

import ctypes
import dataclasses
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from .judge import MIB, Row, Seen, cores_row, cores_text, cores_way, memory_row, memory_text, memory_way
from .place import Place, Process, place
from .pods import Container, containers
from .ways import OWN_CACHE, OWN_LIBRARY, ways

BUDGET: Final = float(os.environ.get("BUDGET", "520"))
"""Seconds for everything; what has no time left fails."""

MEMORY_LIMIT: Final = 45
TORCH_LIMIT: Final = 100
BUSY: Final = 20
SHORT: Final = 5
LONG: Final = 40
"""Seconds that a process may take: for memory, by PyTorch, beside the seconds in which it is busy."""

OWN: Final = Path(__file__).parents[1] / "node/containers/own.c"
ALONE: Final = Container("", "no limit", "alone", 0)
NO_TIME: Final[Seen] = {"error": "no time left"}
WORDS: Final = {True: "ok", False: "FAILED", None: "recorded"}

Pods = tuple[Container, ...]
Started = tuple[Container, Mapping[str, str]]


class Run:
    """All cases: rows in the order in which they were run."""

    def __init__(self, where: Place, results: Path) -> None:
        self.where, self.results = where, results
        self.rows: list[Row] = []
        self.machine = _machine(where)
        self.alone: Seen = {"error": "not run"}
        self.by_process = False
        self._ends = time.monotonic() + BUDGET

    def memory(self, container: Container, environment: Mapping[str, str], *library: str) -> Seen:
        with self.where.started(container, environment, "memory", str(container.memory * MIB), *library) as process:
            return self.ended(process, MEMORY_LIMIT)

    def busy(self, seconds: int, *several: Started) -> list[Seen]:
        """Return the launches of programs that are busy at the same time, started one after the other."""
        limit = min(seconds + LONG, self.left() - 5)
        if limit < seconds:
            return [NO_TIME] * len(several)
        with ExitStack() as stack:
            processes = []
            for container, environment in several:
                arguments = ("busy", str(seconds), str(self.alone.get("rounds", 0)))
                processes.append(stack.enter_context(self.where.started(container, environment, *arguments)))
                processes[-1].ready(limit)
            for process in processes:
                process.go()
            used = _text("nvidia-smi pmon -s u -c 3")
            self.by_process |= re.search(r"^ *\d+ +\d+ +\S+ +[1-9]", used, re.MULTILINE) is not None
            return [self.ended(process, limit) for process in processes]

    def ended(self, process: Process, limit: float) -> Seen:
        """Return what a program has seen at its end, and keep the rest for people who look for a cause."""
        if self.left() < 1:
            return NO_TIME
        reading = process.ended(min(limit, self.left()))
        self.note(reading.story)
        return reading.seen

    def left(self) -> float:
        """Return the seconds that are left."""
        return self._ends - time.monotonic()

    def add(self, row: Row) -> None:
        self.rows.append(row)
        seen = f"without: {row.without}; stored: {row.seen}" if row.without else row.seen
        _say(f"{WORDS[row.ok]:8} | {row.kind:6} | {row.vendor:13} | {row.name} | {row.promised} | {seen}")
        for failure in row.failures:
            _say(f"         | {failure}")
        self.save()

    def save(self) -> None:
        rows = ",\n".join(json.dumps(dataclasses.asdict(each)) for each in self.rows)
        text = f'{{"machine": {json.dumps(self.machine, indent=1)},\n"rows": [\n{rows}\n]}}\n'
        (self.results / "result.json").write_text(text)

    def note(self, text: str) -> None:
        """Append to what is for people who look for a cause."""
        with (self.results / "diagnosis.txt").open("a") as file:
            file.write(f"== {text}\n")


def main() -> int:
    """Run all, and return the exit status."""
    shim, results = Path(os.environ["SHIM"]).resolve(), Path(sys.argv[1] if len(sys.argv) > 1 else "build/gpu")
    results.mkdir(parents=True, exist_ok=True)
    pods = containers()
    with place(shim, {path for each in pods for path in each.mounts}) as where:
        run = Run(where, results)
        run.note(
            _text("nvidia-smi; env | grep -E '^(LD_|CUDA|NVIDIA)'; mount; ldconfig -p | grep -E 'libcuda|nvidia-ml'")
        )
        _say(json.dumps(run.machine, indent=1))
        for step in (_without, _memory, _ways_of_memory, _torch, _cores, _ways_of_cores, _slices):
            try:
                step(run, pods)
            except Exception as error:  # noqa: BLE001
                run.add(Row("run", "", step.__name__, "", repr(error)[:300], ok=False))
    failed = [each for each in run.rows if each.ok is False]
    _say(f"{len(run.rows)} rows, {len(failed)} failed, {BUDGET - run.left():.0f} s")
    return 1 if failed else 0


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _without(run: Run, pods: Pods) -> None:
    """Without a library: the whole device, and how fast the kernel is."""
    seen = run.memory(ALONE, {})
    ok = bool(seen.get("below"))
    run.add(Row("memory", "", "without the library", "the whole device", memory_text(seen), ok))
    [run.alone] = run.busy(SHORT, (ALONE, {}))
    ok = "error" not in run.alone
    text = f"{run.alone['launches'] / run.alone['seconds']:.0f} launches per second" if ok else run.alone["error"]
    run.add(Row("cores", "", "without the library", "all of the time", text, ok))


def _memory(run: Run, pods: Pods) -> None:
    for each in pods:
        run.add(memory_row("memory", each, run.memory(each, each.environment)))


def _torch(run: Run, pods: Pods) -> None:
    if find_spec("torch") is None:
        run.add(Row("torch", "", "PyTorch", "", "not on this machine", ok=None))
        return
    # They start together, for that takes longest, and use the GPU one after the other.
    with ExitStack() as stack:
        processes = [
            stack.enter_context(run.where.started(each, each.environment, "torch", str(each.memory * MIB)))
            for each in pods
        ]
        for each, process in zip(pods, processes, strict=True):
            process.ready(max(min(TORCH_LIMIT, run.left()), 0))
            seen = run.ended(process, TORCH_LIMIT)
            run.machine["torch"] = seen.get("version", "")
            run.add(memory_row("torch", each, seen))


def _ways_of_memory(run: Run, pods: Pods) -> None:
    container, driver = pods[0], _driver_path()
    stored = container.environment
    folder = run.where.scratch / "own"
    folder.mkdir()
    run.note(_text(f"cc -shared -fPIC '{OWN}' -o '{folder / OWN_LIBRARY}'"))
    # A file with limits as the library writes it, for another container that was granted more.
    more = {"CUDA_DEVICE_MEMORY_LIMIT": "80g", "CUDA_DEVICE_MEMORY_LIMIT_0": "80g"}
    run.memory(container, {**stored, **more, "CUDA_DEVICE_MEMORY_SHARED_CACHE": str(folder / OWN_CACHE)})
    for way in ways(folder, driver):
        if way.kind == "memory":
            opened = run.memory(container, way.open(stored))
            closed = run.memory(container, way.closed(stored)) if way.under else None
            run.add(memory_way(way, container.memory, opened, closed))
    emptied = run.memory(container, {"LD_PRELOAD": "", "LD_AUDIT": "", "CUDA_REDIRECT": ""})
    by_path = run.memory(container, stored, driver)
    for name, seen in (("an empty environment", emptied), ("the driver by its path", by_path)):
        run.add(Row("way", "nvidia", name, "not prevented", memory_text(seen), ok=None))


def _ways_of_cores(run: Run, pods: Pods) -> None:
    container = pods[0]
    assert container.cores is not None
    tried = [each for each in ways(Path(), "") if each.kind == "cores"]
    [closed] = run.busy(SHORT, (container, {each.variable: each.value for each in tried} | container.environment))
    for way in tried:
        [opened] = run.busy(SHORT, (container, way.open(container.environment)))
        run.add(cores_way(way, container.cores, opened, closed, run.alone, by_process=run.by_process))


def _cores(run: Run, pods: Pods) -> None:
    """Each container with a limit of cores by itself, and two of them beside each other."""
    limited = [each for each in pods if each.cores is not None]
    for how, several in (*(("alone", [each]) for each in limited), ("beside", limited[:2])):
        readings = run.busy(BUSY, *((each, each.environment) for each in several))
        for each, seen in zip(several, readings, strict=True):
            others = "".join(f" {other.title}" for other in several if other is not each)
            run.add(cores_row(each, f"{how}{others}", seen, run.alone, by_process=run.by_process))


def _slices(run: Run, pods: Pods) -> None:
    """Two without a limit: the driver divides the time between them."""
    text = " and ".join(cores_text(each, run.alone) for each in run.busy(SHORT, (ALONE, {}), (ALONE, {})))
    run.add(Row("cores", "", "two without the library", "", text, ok=None))


def _driver_path() -> str:
    """Return the path of the driver's library, as this process finds it."""
    ctypes.CDLL("libcuda.so.1")
    lines = Path("/proc/self/maps").read_text().splitlines()
    return next(line.split(maxsplit=5)[5] for line in lines if "libcuda.so" in line)


def _machine(where: Place) -> dict[str, Any]:
    """Return what the page says of this machine."""
    named = _text("nvidia-smi --query-gpu=name,driver_version,mig.mode.current --format=csv,noheader")
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        **dict(zip(("device", "driver", "mig"), named.splitlines()[0].split(", "), strict=False)),
        "profiles": re.findall(r"MIG (\S+)", _text("nvidia-smi mig -lgip")),
        "time slices": " ".join(re.findall(r"Timeslice +(\w+)", _text("nvidia-smi compute-policy --list"))),
        "library": os.environ.get("SHIM_VERSION", "libvgpu.so"),
        "mounts": where.why,
        "torch": "",
        "glibc": os.confstr("CS_GNU_LIBC_VERSION"),
    }


def _text(command: str) -> str:
    """Return what a command of the shell prints; it is given a minute."""
    try:
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60, check=False)
    except subprocess.TimeoutExpired:
        return "no answer in a minute"
    return f"{done.stdout}{done.stderr}".strip()


if __name__ == "__main__":
    sys.exit(main())
