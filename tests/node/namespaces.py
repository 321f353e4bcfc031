"""The namespaces that a node lives in, seen from the tests: processes are started in them, and end with them."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from tests.controlplane.client import wait_until
from tests.controlplane.processes import LOG_LINES_SHOWN, ProcessEndedError

GUARD: Final = Path(__file__).with_name("guard.py")
FIRST: Final = Path(__file__).with_name("first.py")

ADDRESS: Final = "192.168.77.1"
"""Of the node."""

PODS: Final = "10.244.0.0/16"
"""Addresses of pods."""


class Namespaces:
    """Network, mounts, processes and control groups of a node; nothing of them outlives this process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name = folder.name
        self.log = folder / "namespaces.log"
        self._lock = threading.Lock()
        script = [sys.executable, "-I", "-S"]
        first = [*script, str(FIRST), str(folder), ADDRESS, PODS]
        with self.log.open("ab") as log:
            self._guard = subprocess.Popen(
                [*script, str(GUARD), self.name, str(folder), *first],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        self._read()

    @property
    def pid(self) -> int:
        [unshare] = _children(self._guard.pid)
        [first] = _children(unshare)
        return first

    def start(self, name: str, command: Sequence[str | Path], environment: dict[str, str] | None = None) -> "Inside":
        """Start a process; its log is named after it."""
        inside = Inside(self, name, self.folder / f"{name}.log", list(map(str, command)), environment)
        inside.start()
        return inside

    def call(self, **order: Any) -> Any:
        """Give the first process an order, and return what it answers."""
        with self._lock:
            assert self._guard.stdin is not None
            self._guard.stdin.write(f"{json.dumps(order)}\n")
            self._guard.stdin.flush()
            return self._read().get("is")

    def close(self) -> None:
        assert self._guard.stdin is not None
        self._guard.stdin.close()
        self._guard.wait(timeout=120)
        assert self._guard.stdout is not None
        self._guard.stdout.close()

    def _read(self) -> Any:
        assert self._guard.stdout is not None
        line = self._guard.stdout.readline()
        if not line:
            raise ProcessEndedError(f"the namespaces have ended:\n{self.log.read_text()}")
        return json.loads(line)


@dataclass
class Inside:
    """A process in the namespaces; `start` starts it again after it has ended."""

    namespaces: Namespaces
    name: str
    log: Path
    command: list[str]
    environment: dict[str, str] | None
    pid: int = field(default=0, init=False)

    def start(self) -> None:
        environment = {"PATH": os.defpath + ":/usr/sbin:/sbin", **(self.environment or {})}
        self.pid = self.namespaces.call(start=self.command, log=str(self.log), environment=environment)

    def ended(self) -> int | None:
        status: int | None = self.namespaces.call(ended=self.pid)
        return status

    def check(self) -> None:
        """Fail with the end of the log if it is no longer running."""
        status = self.ended()
        if status is not None:
            raise ProcessEndedError(f"{self.name} ended with {status}\n{self.tail()}")

    def tail(self) -> str:
        """Return the end of the log, and where the rest is."""
        return "\n".join([f"--- {self.log}", *self.log.read_text(errors="replace").splitlines()[-LOG_LINES_SHOWN:]])

    def stop(self, number: int = signal.SIGTERM) -> None:
        """Send it a signal, and wait for its end."""
        self.namespaces.call(signal=number, pid=self.pid)
        wait_until(lambda: self.ended() is not None, f"{self.name} ended")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Leave it to the end of the namespaces."""


def _children(pid: int) -> list[int]:
    return list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))
