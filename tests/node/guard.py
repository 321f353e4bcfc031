"""Starts the namespaces of a node, and clears away after them however they end. Run as a script, out of them.

The run of the tests holds the other end of its standard input. When that is closed, be it by the kernel because the run
was killed, the first process of the namespaces ends, and with it every process, mount and interface in them. What is left
is no namespace's: control groups, and the folder of the run, which are removed here.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
NAMESPACES = ("--net", "--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child", "--mount-proc")
PATIENCE = 60.0
"""Seconds for the kernel to end what was killed; until then its control groups are busy."""
NEEDED = frozenset({"cpu", "memory", "pids"})
"""The controllers without which a kubelet or runc does not start."""


def hierarchies() -> list[Path]:
    """Return where a control group has to be made: in each hierarchy of version 1, or in the one of version 2.

    In version 2 this enables every controller for the groups below the root, where possible, and leaves it enabled.
    """
    if (CGROUPS / "cgroup.controllers").exists():
        for controller in (CGROUPS / "cgroup.controllers").read_text().split():
            with contextlib.suppress(OSError):
                (CGROUPS / "cgroup.subtree_control").write_text(f"+{controller}")
        return [CGROUPS]
    return sorted({path.resolve() for path in CGROUPS.iterdir() if path.is_dir() and (path / "tasks").exists()})


def missing_controllers(group: Path) -> frozenset[str]:
    """Return the needed controllers that a group of version 2 lacks; in version 1 each has a hierarchy of its own."""
    file = group / "cgroup.controllers"
    return NEEDED - set(file.read_text().split()) if file.exists() else frozenset()


def remove(group: Path) -> bool:
    """Remove a control group with those below it; whether that is done."""
    for folder, _, _ in os.walk(group, topdown=False):
        with contextlib.suppress(OSError):
            Path(folder).rmdir()
    return not group.exists()


def main() -> None:
    """Run the namespaces until they end. Arguments: name of the control group, folder, command of the first process."""
    name, folder, command = sys.argv[1], Path(sys.argv[2]), sys.argv[3:]
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    groups = [each / name for each in hierarchies()]
    for group in groups:
        group.mkdir()
    if (cpus := next((group for group in groups if (group / "cpuset.cpus").exists()), None)) is not None:
        for file in ("cpuset.cpus", "cpuset.mems"):
            with contextlib.suppress(OSError):
                (cpus / file).write_text((cpus.parent / file).read_text())
    try:
        subprocess.run(["unshare", *NAMESPACES, *command], check=False)
    finally:
        deadline = time.monotonic() + PATIENCE
        # Also in a hierarchy of version 2 beside those of version 1, which a kubelet uses as well.
        while (
            not all([remove(group) for group in (CGROUPS / name, *CGROUPS.glob(f"*/{name}"))])
            and time.monotonic() < deadline
        ):
            time.sleep(0.1)
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
