"""What a node is made of beside the control plane: built from Go modules, or Debian's; and why there can be none here."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.controlplane import build
from tests.go_program import BinariesMissingError, GoProgram, kubernetes_link_flags

from . import images
from .guard import hierarchies, missing_controllers

SOURCE = Path(__file__).parent
COMMANDS = ("runc", "iptables", "conntrack", "ip", "nsenter", "unshare", "cc")
CONTAINERD = "github.com/containerd/containerd/v2/cmd"
NETWORK = "github.com/containernetworking/plugins/plugins"
PROBE = """
mount -t tmpfs node /var/lib
mkdir /var/lib/lower /var/lib/upper /var/lib/work
mount -t overlay overlay -o lowerdir=/var/lib/lower,upperdir=/var/lib/upper,workdir=/var/lib/work /usr/local
ip link add node0 type bridge
iptables --list
"""
"""What has to be possible in namespaces of its own."""

WITHOUT_GO = (
    "kubelet and containerd are built with Go for the tests on a node: install Go 1.26 from https://go.dev/dl/ "
    "(any from 1.21 on fetches what it lacks)"
)


@dataclass(frozen=True, slots=True)
class Programs:
    """Where the programs are.

    Attributes:
        control_plane: etcd, API server, and the others of `tests.controlplane`.
        kubernetes: `kubelet`, `kube-proxy` and `device-plugin`.
        runtime: `containerd`, its shim, `ctr`, and the network plugins.
        csi: a CSI driver for inline volumes.
    """

    control_plane: build.Binaries
    kubernetes: Path
    runtime: Path
    csi: Path


def find() -> Programs:
    """Return the programs, built now if this machine has never built them.

    Raises:
        BinariesMissingError: they are not there, and cannot be built.
    """
    inputs = ("go.mod", "go.sum", "main.go", "plugin.go", "systems.go")
    links = ("kubelet", "kube-proxy", "device-plugin")
    source = SOURCE / "kubernetes"
    kubernetes = GoProgram("node", source, inputs, ".", kubernetes_link_flags(source / "go.mod"), WITHOUT_GO, links)
    runtime = GoProgram(
        "container-runtime",
        SOURCE / "runtime",
        ("go.mod", "go.sum"),
        f"{CONTAINERD}/containerd",
        "-s -w",
        WITHOUT_GO,
        others=(
            f"{CONTAINERD}/containerd-shim-runc-v2",
            f"{CONTAINERD}/ctr",
            f"{NETWORK}/ipam/host-local",
            f"{NETWORK}/main/loopback",
            f"{NETWORK}/main/ptp",
        ),
    )
    csi = GoProgram("csi", source, ("go.mod", "go.sum", "csi/main.go"), "./csi", "-s -w", WITHOUT_GO)
    return Programs(build.find(), kubernetes.folder(), runtime.folder(), csi.program())


def why_not() -> str | None:
    """Return why there can be no node on this machine, or nothing."""
    if sys.platform != "linux":
        return f"a node needs Linux, and this is {sys.platform}"
    if os.geteuid() != 0:
        return "a kubelet needs root"
    missing = [name for name in COMMANDS if shutil.which(name) is None]
    if missing:
        return (
            f"{', '.join(missing)} not installed: tests/node/install.sh installs what is missing on Debian and Ubuntu"
        )
    return images.why_not() or _why_no_namespaces() or _why_no_groups()


def _why_no_namespaces() -> str | None:
    command = ["unshare", "--net", "--mount", "--pid", "--ipc", "--uts", "--fork", "--mount-proc", "sh", "-ec", PROBE]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    return None if done.returncode == 0 else f"no namespaces for it: {done.stderr.strip()}"


def _why_no_groups() -> str | None:
    try:
        for folder in hierarchies():
            group = folder / f"vgpu-node-probe-{os.getpid()}"
            group.mkdir()
            missing = missing_controllers(group)
            group.rmdir()
            if missing:
                return f"no control groups for it: {', '.join(sorted(missing))} cannot be enabled below {folder}"
    except OSError as error:
        return f"no control groups for it: {error}"
    return None


if __name__ == "__main__":
    try:
        sys.stdout.write(f"{find()}\n")
    except BinariesMissingError as error:
        sys.exit(f"error: {error}")
