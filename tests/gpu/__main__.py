"""Run all cases on this machine's GPU: `SHIM=/path/libvgpu.so tests/gpu/run [FOLDER]`. Ends with 1 if one is not as promised.

It writes `result.json` after each row, and `diagnosis.txt` about what failed. It never changes the GPU's settings.
"""

import ctypes
import dataclasses
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Final

from .judge import MIB, POINTS, Row, cores_failures, lifted, memory_failures, memory_text, share
from .nvml import Management, management
from .place import PROGRAM, Place, Reading, place
from .pods import Container, containers
from .ways import OWN_CACHE, OWN_LIBRARY, Way, ways

BUDGET: Final = float(os.environ.get("BUDGET", "520"))
"""Seconds for everything; what has no time left fails."""

STEPS: Final = os.environ.get("STEPS", "")
"""Names of the steps to run, with commas; all, if there is none."""

MEMORY_LIMIT: Final = 45
TORCH_LIMIT: Final = 100
BUSY: Final = 20
SHORT: Final = 5
LONG: Final = 40
"""Seconds that a process may take: for memory, by PyTorch, beside the seconds in which it is busy."""

OWN: Final = Path(__file__).parents[1] / "node/containers/own.c"
ALONE: Final = Container("", "no limit", "alone", 0)
DIAGNOSES: Final = 4
SHOWN: Final = 1500
"""How many failures are tried again with all messages; characters of the messages of the others."""


class Run:
    """All cases: rows in the order in which they were run."""

    def __init__(self, where: Place, results: Path, driver: Management, started: float) -> None:
        self.where, self.results, self.driver = where, results, driver
        self.rows: list[Row] = []
        self.machine: dict[str, Any] = {}
        self.alone: dict[str, Any] = {"error": "not run"}
        self.by_process = False
        self._started, self._diagnosed = started, 0
        self._known: dict[tuple[object, ...], Reading] = {}

    def left(self) -> float:
        """Return the seconds that are left."""
        return BUDGET - (time.monotonic() - self._started)

    def read(self, container: Container, environment: Mapping[str, str], *arguments: str, limit: float) -> Reading:
        """Run a program; the same program in the same environment is run once."""
        key = (container.title, tuple(sorted(environment.items())), arguments)
        if key not in self._known:
            if self.left() < limit / 4:
                return Reading({"error": "no time left"}, 124, 0, "")
            limit = min(limit, self.left())
            self._known[key] = self.where.run(container, environment, *arguments, limit=limit)
        return self._known[key]

    def add(self, row: Row, *readings: Reading, diagnose: Callable[[], Reading] | None = None) -> None:
        """Print a row, keep it, and find out more if it failed."""
        detail = {**row.detail, "readings": [{**each.seen, "took": each.seconds} for each in readings]}
        row = dataclasses.replace(row, detail=detail)
        self.rows.append(row)
        word = {True: "ok", False: "FAILED", None: "recorded"}[row.ok]
        _say(f"{word:8} | {row.kind:6} | {row.vendor:13} | {row.name} | {row.promised} | {row.seen}")
        for failure in row.failures:
            _say(f"         | {failure}")
        self.save()
        if row.ok is False:
            self._diagnose(row, readings, diagnose)

    def save(self) -> None:
        """Write what there is so far."""
        rows = [dataclasses.asdict(each) for each in self.rows]
        text = json.dumps({**self.machine, "rows": rows}, indent=1)
        (self.results / "result.json").write_text(f"{text}\n")

    def note(self, title: str, text: str) -> None:
        """Append to what is for people who look for a cause."""
        with (self.results / "diagnosis.txt").open("a") as file:
            file.write(f"== {title}\n{text}\n")

    def _diagnose(self, row: Row, readings: tuple[Reading, ...], again: Callable[[], Reading] | None) -> None:
        for each in readings:
            text = f"{each.command}\n{each.seen}\n{each.errors[-SHOWN:]}"
            self.note(f"{row.kind} {row.name}: ended with {each.code} after {each.seconds} s", text)
        if again is not None and self._diagnosed < DIAGNOSES and self.left() > MEMORY_LIMIT:
            self._diagnosed += 1
            reading = again()
            self.note(f"{row.name}, all messages", f"{reading.seen}\n{reading.errors}")


def main() -> int:
    """Run all, and return the exit status."""
    shim, results = Path(os.environ["SHIM"]).resolve(), Path(sys.argv[1] if len(sys.argv) > 1 else "build/gpu")
    results.mkdir(parents=True, exist_ok=True)
    pods = containers()
    started, driver = time.monotonic(), management()
    with place(shim, {mount.path for each in pods for mount in each.mounts}) as found:
        where = dataclasses.replace(found, search=_search(pods[0]))
        run = Run(where, results, driver, started)
        run.machine = _machine(shim, where, driver)
        run.note("machine", _texts())
        _say(json.dumps(run.machine, indent=1))
        for step in (_without, _memory, _ways_of_memory, _torch, _cores, _pair, _ways_of_cores, _slices):
            name = step.__name__.strip("_")
            if STEPS and name not in STEPS.split(",") and step is not _without:
                continue
            try:
                step(run, pods)
            except Exception as error:  # noqa: BLE001
                run.add(Row("run", "", name, "", repr(error)[:300], ok=False))
        run.note("the kernel's last words", _text("dmesg | grep -iE 'xid|nvrm' | tail -20"))
    run.machine["took"] = round(BUDGET - run.left())
    run.save()
    failed = [each for each in run.rows if each.ok is False]
    _say(f"{len(run.rows)} rows, {len(failed)} failed, {run.machine['took']} s")
    return 1 if failed else 0


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _without(run: Run, pods: tuple[Container, ...]) -> None:
    """Without a library: the whole device, and how fast the kernel is."""
    reading = run.read(ALONE, {}, "memory", "0", limit=MEMORY_LIMIT)
    ok = "error" not in reading.seen and reading.seen["below"]
    seen = memory_text(reading.seen)
    run.add(Row("memory", "", "without the library", "the whole device", seen, ok=ok), reading, diagnose=None)
    fast = _busy(run, [(ALONE, {})], SHORT, 0)[0]
    run.alone = fast.seen
    run.machine["use by process"] = run.by_process
    seen = str(fast.seen.get("error", ""))
    if not seen:
        seen = f"{fast.seen['launches'] / fast.seen['seconds']:.0f} launches per second"
    run.add(Row("cores", "", "without the library", "all of the time", seen, ok="error" not in fast.seen), fast)


def _memory(run: Run, pods: tuple[Container, ...]) -> None:
    for each in pods:
        arguments = ("memory", str(each.memory * MIB))
        _memory_row(run, each, "memory", run.read(each, each.environment, *arguments, limit=MEMORY_LIMIT))


def _torch(run: Run, pods: tuple[Container, ...]) -> None:
    if not run.machine["torch"]:
        run.add(Row("torch", "", "PyTorch", "", "not on this machine", ok=None))
        return
    # They start together, for that takes longest, and use the GPU one after the other.
    with ExitStack() as stack:
        processes = [
            stack.enter_context(run.where.started(each, each.environment, "torch", str(each.memory * MIB)))
            for each in pods
        ]
        for each, process in zip(pods, processes, strict=True):
            process.ready(min(TORCH_LIMIT, run.left()))
            process.go()
            _memory_row(run, each, "torch", process.ended(min(TORCH_LIMIT, run.left())))


def _memory_row(run: Run, container: Container, mode: str, reading: Reading) -> None:
    promised = str(container.memory * MIB)
    failures = memory_failures(container.memory, reading.seen)
    row = Row(
        mode,
        container.vendor,
        container.title,
        f"{container.memory} MiB",
        memory_text(reading.seen),
        not failures,
        failures,
    )
    loud = {**container.environment, "LIBCUDA_LOG_LEVEL": "4"}
    run.add(row, reading, diagnose=lambda: run.read(container, loud, mode, promised, limit=MEMORY_LIMIT))


def _ways_of_memory(run: Run, pods: tuple[Container, ...]) -> None:
    container = pods[0]
    promised = str(container.memory * MIB)
    folder = run.where.scratch / "own"
    folder.mkdir()
    _compiled(folder / OWN_LIBRARY, run)
    # A file with limits as the library writes it, for another container that was granted more.
    more = {**container.environment, "CUDA_DEVICE_MEMORY_SHARED_CACHE": str(folder / OWN_CACHE)}
    more |= {"CUDA_DEVICE_MEMORY_LIMIT": "80g", "CUDA_DEVICE_MEMORY_LIMIT_0": "80g"}
    run.read(container, more, "memory", promised, limit=MEMORY_LIMIT)
    for way in _all_ways(run, "memory"):
        opened = run.read(container, way.open(container.environment), "memory", promised, limit=MEMORY_LIMIT)
        closed = None
        if way.under:
            closed = run.read(container, way.closed(container.environment), "memory", promised, limit=MEMORY_LIMIT)
        escaped = lifted(container.memory, opened.seen)
        held = None if closed is None else not memory_failures(container.memory, closed.seen)
        _way(run, container, way, (opened, closed), escaped=escaped, held=held)
    environment = {"LD_PRELOAD": "", "LD_AUDIT": "", "CUDA_REDIRECT": ""}
    emptied = run.read(container, environment, "memory", promised, limit=MEMORY_LIMIT)
    by_path = run.read(container, container.environment, "memory", promised, _driver_path(), limit=MEMORY_LIMIT)
    for name, reading in (("an empty environment", emptied), ("the driver by its path", by_path)):
        run.add(Row("way", "nvidia", name, "not prevented", memory_text(reading.seen), ok=None), reading)


def _ways_of_cores(run: Run, pods: tuple[Container, ...]) -> None:
    container = pods[0]
    assert container.cores is not None
    rounds = int(run.alone.get("rounds", 1))
    environment = {**run_values(_all_ways(run, "cores")), **container.environment}
    closed = _busy(run, [(container, environment)], SHORT, rounds)[0]
    percent = share(closed.seen, run.alone)
    held = percent is not None and percent <= container.cores + POINTS
    for way in _all_ways(run, "cores"):
        opened = _busy(run, [(container, way.open(container.environment))], SHORT, rounds)[0]
        more = share(opened.seen, run.alone)
        escaped = None if more is None else more > container.cores + POINTS
        _way(run, container, way, (opened, closed), escaped=escaped, held=held, percents=(more, percent))


def run_values(all_ways: tuple[Way, ...]) -> dict[str, str]:
    """Return all variables of these ways."""
    return {each.variable: each.value for each in all_ways}


def _way(
    run: Run,
    container: Container,
    way: Way,
    readings: tuple[Reading, Reading | None],
    *,
    escaped: bool | None,
    held: bool | None,
    percents: tuple[float | None, float | None] = (None, None),
) -> None:
    """Add the row of a way: it lifts the limit where the webhook is not, and does not where it is."""
    failures = []
    if way.lifts and not escaped:
        failures.append("does not lift the limit without the webhook")
    if held is False:
        failures.append("lifts the limit in what the webhook stores")
    asserted = way.lifts and (way.kind == "memory" or run.by_process)
    texts = [
        "" if each is None else memory_text(each.seen) if percent is None else f"{percent:.0f} % of the time"
        for each, percent in zip(readings, percents, strict=True)
    ]
    seen = f"without: {texts[0]}; stored: {texts[1] or 'denied'}{f' ({way.why})' if way.why else ''}"
    row = Row("way", "nvidia", way.variable, "closed", seen, not failures if asserted else None, tuple(failures))
    row = dataclasses.replace(row, detail={"value": way.value, "container": container.title})
    run.add(row, *(each for each in readings if each is not None))


def _all_ways(run: Run, kind: str) -> tuple[Way, ...]:
    return tuple(each for each in ways(run.where.scratch / "own", _driver_path()) if each.kind == kind)


def _cores(run: Run, pods: tuple[Container, ...]) -> None:
    """Each container with a limit of cores, by itself."""
    for each in pods:
        if each.cores is not None:
            _cores_row(run, each, _busy(run, [(each, each.environment)], BUSY, _rounds(run))[0], "alone")


def _pair(run: Run, pods: tuple[Container, ...]) -> None:
    """Two of them, beside each other."""
    two = [each for each in pods if each.cores is not None][:2]
    readings = _busy(run, [(each, each.environment) for each in two], BUSY, _rounds(run))
    for each, reading in zip(two, readings, strict=True):
        _cores_row(run, each, reading, f"beside {next(other.title for other in two if other is not each)}")


def _slices(run: Run, pods: tuple[Container, ...]) -> None:
    """Two without a limit: the driver divides the time between them."""
    readings = _busy(run, [(ALONE, {}), (ALONE, {})], SHORT, _rounds(run))
    percents = [share(each.seen, run.alone) for each in readings]
    seen = " and ".join("no reading" if each is None else f"{each:.0f} %" for each in percents)
    run.add(Row("cores", "", "two without the library", "", f"{seen} of the time", ok=None), *readings)


def _rounds(run: Run) -> int:
    return int(run.alone.get("rounds", 1))


def _cores_row(run: Run, container: Container, reading: Reading, how: str) -> None:
    assert container.cores is not None
    percent = share(reading.seen, run.alone)
    failures = cores_failures(container.cores, percent, reading.seen)
    seen = failures[0] if percent is None else f"{percent:.0f} % of the time"
    if "use" in reading.seen:
        seen += f", the driver says {reading.seen['use']:.0f} %"
    ok = not failures if run.by_process or percent is None else None
    name = f"{container.title}, {how}"
    loud = {**container.environment, "LIBCUDA_LOG_LEVEL": "3"}
    row = Row("cores", container.vendor, name, f"{container.cores} %", seen, ok, failures)
    run.add(row, reading, diagnose=lambda: _busy(run, [(container, loud)], SHORT, _rounds(run))[0])


def _busy(run: Run, several: list[tuple[Container, Mapping[str, str]]], seconds: int, rounds: int) -> list[Reading]:
    """Return the readings of programs that are busy at the same time, started one after the other."""
    limit = min(seconds + LONG, run.left() - 5)
    if limit < seconds:
        return [Reading({"error": "no time left"}, 124, 0, "")] * len(several)
    with ExitStack() as stack:
        arguments = ("busy", str(seconds), str(rounds))
        processes = []
        for container, environment in several:
            process = stack.enter_context(run.where.started(container, environment, *arguments))
            process.ready(limit)
            processes.append(process)
        for process in processes:
            process.go()
        uses: dict[int, list[int]] = {process.popen.pid: [] for process in processes}
        for _ in _ticks([process.popen for process in processes], limit):
            now = run.driver.use_by_process()
            run.by_process |= any(now.values())
            for pid, samples in uses.items():
                if pid in now:
                    samples.append(now[pid])
        readings = [process.ended(1) for process in processes]
    for samples, reading in zip(uses.values(), readings, strict=True):
        if samples:
            reading.seen["use"] = sum(samples) / len(samples)
    return readings


def _ticks(processes: list[subprocess.Popen[str]], limit: float) -> Iterator[None]:
    """Return twice a second until all have ended, or their time has."""
    end = time.monotonic() + limit
    while time.monotonic() < end and (alive := [each for each in processes if each.poll() is None]):
        yield
        with suppress(subprocess.TimeoutExpired):
            alive[0].wait(0.5)


def _compiled(target: Path, run: Run) -> None:
    """Build the user's library for LD_AUDIT, if there is a compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return
    command = [compiler, "-shared", "-fPIC", str(OWN), "-o", str(target)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    run.note("compiler", f"{command}: {done.returncode}\n{done.stderr}")


def _driver_path() -> str:
    """Return the path of the driver's library, as this process finds it."""
    ctypes.CDLL("libcuda.so.1")
    lines = Path("/proc/self/maps").read_text().splitlines()
    return next(line.split(maxsplit=5)[5] for line in lines if "libcuda.so" in line)


def _search(container: Container) -> str:
    """Return this machine's own folders of libraries, if the driver or PyTorch needs them beside those of the webhook."""
    own = os.environ.get("LD_LIBRARY_PATH", "")
    code = "import ctypes; ctypes.CDLL('libcuda.so.1'); ctypes.CDLL('libnvidia-ml.so.1')"
    for more in ("", "; import torch") if _torch_version() else ("",):
        path = f"LD_LIBRARY_PATH={container.environment['LD_LIBRARY_PATH']}"
        command = ["env", path, sys.executable, "-c", f"{code}{more}"]
        if subprocess.run(command, capture_output=True, check=False).returncode != 0:
            return own
    return ""


@cache
def _torch_version() -> str:
    """Return it; empty if PyTorch is not on this machine."""
    text = _text(f"'{sys.executable}' -c 'import torch; print(torch.__version__)' 2>&1 | tail -1")
    return text if text[:1].isdigit() else ""


def _machine(shim: Path, where: Place, driver: Management) -> dict[str, Any]:
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "device": driver.text("nvmlDeviceGetName", driver.device),
        "driver": driver.text("nvmlSystemGetDriverVersion"),
        "memory": driver.total() // MIB,
        "mig": driver.mig(),
        "time slices": _text("nvidia-smi compute-policy --list 2>&1 | tail -15")[-600:],
        "library": os.environ.get("SHIM_VERSION", shim.name),
        "sha256": hashlib.sha256(shim.read_bytes()).hexdigest(),
        "mounts": where.why or "in a mount namespace of its own",
        "search": where.search,
        "torch": _torch_version(),
        "glibc": os.confstr("CS_GNU_LIBC_VERSION"),
        "kernel": os.uname().release,
        "python": sys.version.split()[0],
    }


def _texts() -> str:
    """Return what the machine says about itself."""
    commands = (
        "nvidia-smi",
        "nvidia-smi -q -d MEMORY,UTILIZATION,COMPUTE,ACCOUNTING",
        "nvidia-smi mig -lgip",
        "nvidia-smi compute-policy --list",
        "nvidia-smi pmon -c 1",
        "ls -la /usr/local/nvidia /usr/local/nvidia/lib64 /dev/nvidia* /tmp /usr/local",
        "ldconfig -p | grep -E 'libcuda|nvidia-ml|ptxjit'",
        "env | grep -E '^(LD_|CUDA|NVIDIA|PATH|PYTHON)'",
        "cat /proc/self/status | grep -E 'Cap|NSpid|Seccomp'; id; mount | head -40",
        "python3 --version; cc --version; nvcc --version; unshare --version; getconf GNU_LIBC_VERSION",
        f"ls -la {PROGRAM.parent}",
    )
    return "\n".join(f"$ {command}\n{_text(command)[-6000:]}" for command in commands)


def _text(command: str) -> str:
    """Return what a command of the shell prints; it is given a minute."""
    try:
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60, check=False)
    except subprocess.TimeoutExpired:
        return "no answer in a minute"
    return f"{done.stdout}{done.stderr}".strip()


if __name__ == "__main__":
    sys.exit(main())
