"""Server processes on a core of their own, and what the kernel counts of them."""

import contextlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

SERVER_CORE: Final = 0
CLIENT_CORE: Final = 1
TICKS: Final = os.sysconf("SC_CLK_TCK")
PORT: Final = re.compile(r"(?:https://127\.0\.0\.1:)?(\d+)")


@dataclass(frozen=True, slots=True)
class Server:
    """A running server.

    Attributes:
        name: for the table.
        process: its process.
        port: where it answers over TLS.
        start: seconds from its start until it was ready.
    """

    name: str
    process: subprocess.Popen[str]
    port: int
    start: float

    @property
    def cpu(self) -> float:
        """Seconds of CPU so far, its own and the kernel's for it."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    @property
    def memory(self) -> float:
        """Resident MiB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        match = re.search(r"VmRSS:\s+(\d+) kB", status)
        assert match is not None
        return int(match[1]) / 1024


@contextlib.contextmanager
def started(name: str, *arguments: str) -> Iterator[Server]:
    """Start a module of ours on the server's core, and end it afterwards."""
    begin = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.installed", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        os.sched_setaffinity(process.pid, {SERVER_CORE})
        assert process.stdout is not None
        ready = process.stdout.readline()
        start = time.monotonic() - begin
        match = PORT.search(ready)
        assert match is not None, f"{name} did not start"
        yield Server(name, process, int(match[1]), start)
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def webhook(name: str, state: Path, mappings: Path | None = None, module: str = "webhook") -> Iterator[Server]:
    """Start the webhook, or a module that stands for it."""
    ports = ["--listen", "127.0.0.1:0", "--plain-listen", "127.0.0.1:0"]
    more = [] if mappings is None else ["--mappings", str(mappings)]
    arguments = [module, "serve", "--standalone", "--state-dir", str(state), *ports, *more]
    with started(name, *arguments) as server:
        yield server
