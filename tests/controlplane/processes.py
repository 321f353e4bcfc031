"""Processes that a test run starts: each with a log file, none of them outliving the run."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self

LEASH = Path(__file__).with_name("leash.py")
LOG_LINES_SHOWN = 30


class ProcessEndedError(Exception):
    """A process that should be running has ended; the text holds the end of its log."""


class Process:
    """A child process in a group of its own, its output in a file.

    In a group of its own it doesn't get the terminal's Ctrl-C, so that it is still there while the tests are wound up.
    On Linux the kernel ends it when the test run (more exactly: the thread that started it) ends without winding up.
    """

    def __init__(self, command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None) -> None:
        """Start the command, with this process's environment unless `environment` is set."""
        self.name = log.stem
        self.log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(LEASH), str(os.getpid()), *command],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                process_group=0,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def check(self) -> None:
        """Fail with the end of the log if the process is no longer running."""
        if self._process.poll() is not None:
            raise ProcessEndedError(f"{self.name} ended with {self._process.returncode}\n{self.tail()}")

    def tail(self) -> str:
        """Return the end of the log, and where the rest is."""
        lines = self.log.read_text(errors="replace").splitlines()[-LOG_LINES_SHOWN:]
        return "\n".join([f"--- {self.log}", *lines])

    def stop(self, grace: float = 10.0) -> int:
        """Ask the process to end, insist after the grace, and return its exit status."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                return self._process.wait(timeout=grace)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)
        return self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def free_ports(count: int) -> list[int]:
    """Return that many ports of the loopback interface that are free now, all different."""
    with ExitStack() as sockets:
        taken = [sockets.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [opened.getsockname()[1] for opened in taken]
