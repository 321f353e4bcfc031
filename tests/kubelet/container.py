"""Becomes a container's process: what a runtime does between a pod's sandbox and `exec`. Run as a script, in the enclave.

It reads the JSON document that `pods.py` writes. The process gets a network namespace with an address on the node's bridge, a
mount namespace with the pod's volumes at the paths that the pod says, a root that cannot be written if the pod says so,
and the pod's user without any capability. The file system beneath is this machine's: it stands for the image.
On a node without an enclave it gets nothing of this.
"""

import ctypes
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWNET = 0x00020000, 0x10000000, 0x40000000
MS_NOSUID, MS_NODEV, MS_BIND, MS_MOVE, MS_REC, MS_PRIVATE = 2, 4, 4096, 8192, 16384, 1 << 18
PR_SET_PDEATHSIG, PR_SET_NO_NEW_PRIVS = 1, 38
SYS_MOUNT_SETATTR, AT_FDCWD, AT_RECURSIVE, RDONLY = 442, -100, 0x8000, 1


def main() -> None:
    """Make the sandbox, then exec."""
    box = json.loads(Path(sys.argv[1]).read_text())
    parent = int(sys.argv[2])
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit("the kubelet is gone already")
    if box["node"]:
        _call("unshare", CLONE_NEWNS | CLONE_NEWNET)
        _mount(None, "/", None, MS_REC | MS_PRIVATE)
        _network(box)
        _volumes(box)
        _become(box["user"])
    os.chdir("/")
    os.execve(box["command"][0], box["command"], box["environment"])


def _network(box: Any) -> None:
    """An address on the bridge of the node; everything else is reached by the node."""
    port = "pod{2}-{3}".format(*box["address"].split("."))
    node = ["nsenter", f"--target={box['node']}", "--net"]
    for command in (
        ["ip", "link", "set", "lo", "up"],
        ["ip", "link", "add", "eth0", "type", "veth", "peer", "name", port, "netns", str(box["node"])],
        ["ip", "address", "add", f"{box['address']}/16", "dev", "eth0"],
        ["ip", "link", "set", "eth0", "up"],
        ["ip", "route", "add", "default", "via", box["gateway"]],
        [*node, "ip", "link", "set", port, "master", box["bridge"], "up"],
    ):
        subprocess.run(command, check=True)


def _volumes(box: Any) -> None:
    """The pod's mounts; a path that this machine doesn't have is made without touching the machine."""
    scratch = Path(box["scratch"])
    sources = {each["source"]: os.open(each["source"], os.O_PATH) for each in box["mounts"] if each["source"]}
    # Of what stands for the image, a mount may hide a part: where it is below /tmp, for instance.
    image = {path: os.open(path, os.O_PATH) for path in box["image"]}
    for each in box["mounts"]:
        each["target"] = os.path.realpath(each["target"])
        _provide(Path(each["target"]), scratch)
    if box["readOnlyRoot"]:
        _set_read_only("/")
        _set_read_only("/proc", clear=True)
    for each in box["mounts"]:
        target = each["target"]
        if each["source"]:
            _mount(f"/proc/self/fd/{sources[each['source']]}", target, None, MS_BIND | MS_REC)
            if each["readOnly"]:
                _set_read_only(target)
        else:
            _mount("tmpfs", target, "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777")
            for path, descriptor in image.items():
                if Path(path).is_relative_to(target):
                    Path(path).mkdir(parents=True, exist_ok=True)
                    _mount(f"/proc/self/fd/{descriptor}", path, None, MS_BIND | MS_REC)


def _provide(path: Path, scratch: Path) -> None:
    """See to it that there is a folder: the nearest one that exists is replaced by one with the same entries and it."""
    if path.is_dir():
        return
    there = next(parent for parent in path.parents if parent.is_dir())
    _mount("tmpfs", str(scratch), "tmpfs", 0, "mode=0755")
    for entry in os.scandir(there):
        same = scratch / entry.name
        if entry.is_symlink():
            same.symlink_to(Path(entry.path).readlink())
            continue
        if entry.is_dir():
            same.mkdir()
        else:
            same.touch()
        _mount(entry.path, str(same), None, MS_BIND | MS_REC)
    (scratch / path.relative_to(there)).mkdir(parents=True)
    _mount(str(scratch), str(there), None, MS_MOVE)


def _become(user: int | None) -> None:
    """The pod's user, who in here is whoever runs the tests, and can't gain anything."""
    _call("prctl", PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if user is None:
        return
    owner, group = os.geteuid(), os.getegid()
    _call("unshare", CLONE_NEWUSER)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {owner} 1")
    Path("/proc/self/gid_map").write_text(f"{user} {group} 1")


def _mount(source: str | None, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    encoded = [None if text is None else text.encode() for text in (source, target, kind)]
    _call("mount", *encoded, ctypes.c_ulong(flags), None if data is None else data.encode())


def _set_read_only(path: str, *, clear: bool = False) -> None:
    """`mount_setattr(2)`, for a mount and all below it; the C library may be older than it."""
    attributes = (ctypes.c_uint64 * 4)(0, RDONLY, 0, 0) if clear else (ctypes.c_uint64 * 4)(RDONLY, 0, 0, 0)
    size = ctypes.c_size_t(ctypes.sizeof(attributes))
    _call("syscall", SYS_MOUNT_SETATTR, AT_FDCWD, path.encode(), AT_RECURSIVE, ctypes.byref(attributes), size)


def _call(name: str, *arguments: Any) -> None:
    if getattr(LIBC, name)(*arguments) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{name}{arguments}: {os.strerror(error)}")


if __name__ == "__main__":
    main()
