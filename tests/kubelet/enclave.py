"""A user and a network namespace of this run, in which clusters' addresses mean something."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final, Self

from tests.controlplane.client import wait_until
from tests.controlplane.processes import LEASH, Process

NODE_ADDRESS: Final = "10.244.0.1"
"""Of the node, towards its pods: the bridge that all of them are on."""

KUBERNETES: Final = "10.0.0.1"
"""Cluster IP of the API server: the first one of the control plane's range."""

BRIDGE: Final = "pods"

NETWORK: Final = f"""
set -e
ip link set lo up
ip address add {KUBERNETES}/32 dev lo
ip link add {BRIDGE} type bridge
ip address add {NODE_ADDRESS}/16 dev {BRIDGE}
ip link set {BRIDGE} up
ip link add probe type veth peer name other
ip link delete probe
unshare --mount true
"""


def why_not() -> str:
    """Why no enclave can be made on this machine; empty if one can."""
    try:
        done = subprocess.run(
            ["unshare", "-rn", "sh", "-c", NETWORK], capture_output=True, text=True, check=False, timeout=60
        )
    except OSError as error:
        return str(error)
    return "" if done.returncode == 0 else done.stderr.strip() or f"unshare -rn: {done.returncode}"


class Enclave:
    """The namespaces; they last as long as a process that sleeps in them, and whoever else has entered."""

    def __init__(self, folder: Path) -> None:
        """Make them, with loopback, the bridge of the pods, and the cluster IP of the API server."""
        script = f'{NETWORK} echo ready; exec "$@"'
        sleep = ["sh", *leashed(["sleep", "infinity"])]
        self._holder = Process(["unshare", "-rn", "sh", "-c", script, *sleep], folder / "enclave.log")

        def ready() -> bool:
            self._holder.check()
            return "ready" in self._holder.tail().splitlines()

        wait_until(ready, "namespaces of the run")

    @property
    def pid(self) -> int:
        """Of a process in it."""
        return self._holder.pid

    def inside(self, command: list[str]) -> list[str]:
        """The command that runs another one in there, ended together with this process."""
        enter = ["nsenter", f"--target={self.pid}", "--user", "--net", "--preserve-credentials"]
        return [*enter, *leashed(command)]

    def __enter__(self) -> Self:
        """Return it."""
        return self

    def __exit__(self, *_: object) -> None:
        """Leave it to the kernel: what still runs in there keeps it."""
        self._holder.stop()


def leashed(command: list[str]) -> list[str]:
    """The command on a leash of its own: another user namespace loosens the one that `Process` puts on."""
    return [sys.executable, "-I", "-S", str(LEASH), str(os.getpid()), *command]
