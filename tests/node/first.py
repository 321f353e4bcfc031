"""The first process of a node's namespaces: starts processes on request, and collects what ends. Run as a script.

It reads a JSON object a line and answers each with one. When its standard input is closed, it ends, and the kernel ends all
others with it.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

# Values of the whole machine that a kubelet insists on. It finds them here, and so does not set them.
KERNEL = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}

# What a node writes in places that are this machine's, each by a folder of the run.
REPLACED = ("/run", "/var/lib", "/var/log")
# The same where what the machine has there must still be seen.
COVERED = ("/usr/local",)

ended: dict[int, int] = {}


def collect(*_: object) -> None:
    """Take the status of every child that has ended, also of those that others have left behind."""
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            ended[pid] = os.waitstatus_to_exitcode(status)


def run(*command: str) -> None:
    """Run one command to its end; what it says goes to the log."""
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=sys.stderr)


def make_places(disk: Path) -> None:
    """Put folders of the run in the place of the machine's; they are in memory, and so gone with the last process."""
    disk.mkdir()
    run("mount", "-t", "tmpfs", "-o", "mode=0755", "node", str(disk))
    for place in REPLACED:
        folder = disk / place.strip("/").replace("/", "-")
        folder.mkdir(parents=True)
        run("mount", "--bind", str(folder), place)
    for place in COVERED:
        upper, work = (disk / f"{place.strip('/').replace('/', '-')}-{part}" for part in ("upper", "work"))
        upper.mkdir()
        work.mkdir()
        run("mount", "-t", "overlay", "overlay", "-o", f"lowerdir={place},upperdir={upper},workdir={work}", place)
    for name, value in KERNEL.items():
        file = disk / "kernel" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{value}\n")
        run("mount", "--bind", str(file), f"/proc/sys/{name}")


def make_network(address: str, pods: str) -> None:
    """Give the node an address that is not a loopback one, which an API server does not take, and a way to everywhere."""
    run("ip", "link", "set", "lo", "up")
    run("ip", "link", "add", "node0", "type", "bridge")
    run("ip", "address", "add", f"{address}/24", "dev", "node0")
    run("ip", "link", "set", "node0", "up")
    run("ip", "route", "add", "default", "dev", "node0")
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    # An address that no pod has is nowhere.
    run("ip", "route", "add", "unreachable", pods)


def obey(order: Any) -> Any:
    """Start a process, signal one, or say how one ended."""
    if "start" in order:
        with Path(order["log"]).open("ab") as log:
            process = subprocess.Popen(
                order["start"], env=order["environment"], stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/"
            )
        process.returncode = 0  # collected here, not by `subprocess`
        return process.pid
    if "signal" in order:
        with contextlib.suppress(ProcessLookupError):
            os.kill(order["pid"], order["signal"])
        return None
    return ended.get(order["ended"])


def main() -> None:
    """Make the node's surroundings, say that they are there, obey. Arguments: folder, address, network of the pods."""
    disk, address, pods = Path(sys.argv[1]) / "disk", sys.argv[2], sys.argv[3]
    make_places(disk)
    make_network(address, pods)
    signal.signal(signal.SIGCHLD, collect)
    sys.stdout.write("{}\n")
    sys.stdout.flush()
    for line in sys.stdin:
        collect()
        sys.stdout.write(json.dumps({"is": obey(json.loads(line))}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
