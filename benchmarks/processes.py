"""Server processes on a core of their own, and what the kernel counts of them."""

import contextlib
import math
import os
import platform
import re
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

SERVER_CORE: Final = 0
CLIENT_CORE: Final = 1
TICKS: Final = os.sysconf("SC_CLK_TCK")
PEER: Final = "PEER"
PEER_PID: Final = "PEER_PID"
PORT: Final = re.compile(r"(?:https://127\.0\.0\.1:)?(\d+)")

FLAGS: Final = ("PY_CFLAGS", "PY_CFLAGS_NODIST", "PY_LDFLAGS", "PY_LDFLAGS_NODIST", "PY_CORE_CFLAGS", "PY_CORE_LDFLAGS")
"""The variables of Python's own build with the flags of compiler and linker."""

NAMED: Final = {True: "yes", False: "not named by its build"}


@dataclass(frozen=True, slots=True)
class Server:
    """A running server.

    Attributes:
        name: for the table.
        pid: of its process; None: unknown.
        port: where it answers over TLS.
        start: seconds from its start until it was ready.
        host: its name or address.
        path: where it takes reviews.
    """

    name: str
    pid: int | None
    port: int
    start: float = math.nan
    host: str = "127.0.0.1"
    path: str = "/mutate"

    @property
    def cpu(self) -> float:
        """Seconds of CPU so far, its own and the kernel's for it; not a number without a process."""
        if self.pid is None:
            return math.nan
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    @property
    def memory(self) -> float:
        """Resident MiB."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        match = re.search(r"VmRSS:\s+(\d+) kB", status)
        assert match is not None
        return int(match[1]) / 1024


def interpreter() -> str:
    """Which Python runs the servers, and how it was built: without profile-guided optimization it is 15 % slower.

    A build that names neither in its configuration may still have them: distributions call make's targets themselves.
    """
    arguments, *others = (str(sysconfig.get_config_var(name)) for name in ("CONFIG_ARGS", *FLAGS))
    flags = " ".join(others)
    profiled = "--enable-optimizations" in arguments or "-fprofile-use" in flags
    linked = "--with-lto" in arguments or "-flto" in flags
    return (
        f"{platform.python_implementation()} {platform.python_version()} ({platform.python_compiler()});"
        f" profile-guided optimization: {NAMED[profiled]}; link-time optimization: {NAMED[linked]}"
    )


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
        yield Server(name, process.pid, int(match[1]), start)
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def webhook(name: str, state: Path, module: str = "webhook") -> Iterator[Server]:
    """Start the webhook, or a module that stands for it."""
    ports = ["--listen", "127.0.0.1:0", "--plain-listen", "127.0.0.1:0"]
    arguments = [module, "serve", "--standalone", "--state-dir", str(state), *ports]
    with started(name, *arguments) as server:
        yield server


def peer() -> Server | None:
    """Return the webhook to compare with: its URL is in the environment variable `PEER`, its process in `PEER_PID`."""
    url = os.environ.get(PEER)
    if not url:
        return None
    parts = urlsplit(url)
    assert parts.scheme == "https", f"PEER={url}: not https://"
    assert parts.hostname is not None, f"PEER={url}: no host"
    pid = os.environ.get(PEER_PID)
    if pid:
        for thread in Path(f"/proc/{pid}/task").iterdir():
            os.sched_setaffinity(int(thread.name), {SERVER_CORE})
    return Server("peer", int(pid) if pid else None, parts.port or 443, host=parts.hostname, path=parts.path or "/")
