"""A cluster of one node: control plane, kubelet, kube-proxy and containerd, in namespaces of their own."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.controlplane.plane import ControlPlane
from tests.controlplane.processes import Process
from webhook.mapping.load import load_policy
from webhook.request import parse_quantity

from . import configuration
from .namespaces import ADDRESS, PODS, Inside, Namespaces
from .programs import Programs

NODE: Final = "node-1"
DOOR: Final = Path(__file__).with_name("door.py")
GROUP: Final = "vgpu-node-"
"""What the names of the run's control groups begin with."""

DEVICE: Final = "nvidia.com/gpu"
DEVICES: Final = 40
COUNTED: Final = {"nvidia.com/gpumem": 1_000_000, "nvidia.com/gpucores": 4000}
"""What no device plugin serves: HAMi's scheduler counts it, and here any scheduler does, as capacity of the node."""

STARTED: Final = "containerd successfully booted"
"""What containerd writes when a kubelet can use it. Others get answers earlier, while it still looks at old containers."""

OFFERED: Final = "registered"
"""What the device plugin writes when a kubelet knows it."""

AUDIT: Final = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata", "userGroups": ["system:serviceaccounts"]}, {"level": "None"}],
}
"""What pods request is written down; what the node and the tests do is not: they are administrators."""


def stand_ins() -> list[str]:
    """The names of vendors' own schedulers, in the place of which one scheduler of Kubernetes binds pods here."""
    return [scheduler for vendor in load_policy().vendors.values() if (scheduler := vendor.place.scheduler)]


class Cluster(ControlPlane):
    """A control plane and its node; the API server has the same address out of the namespaces as in them.

    Attributes:
        node: its parts by name: `containerd`, `kubelet`, `kube-proxy`, `device-plugin`.
        allocations: what the device plugin was asked and has answered, a JSON object a line.
        audit_log: what service accounts have requested of the API server, a JSON object a line.
    """

    names = ("127.0.0.1", "10.0.0.1", ADDRESS, "localhost", "kubernetes.default.svc")

    def __init__(self, programs: Programs, logs: Path) -> None:
        """Start everything; the node is ready. At the end, what all have written is copied to a folder for logs."""
        self._logs = logs
        self.programs = programs
        self.node: dict[str, Inside] = {}
        self._inside: list[Inside] = []
        # The paths of sockets have to be short, and the kernel has to let a file system lie over the folder.
        self._root = Path(tempfile.mkdtemp(prefix=GROUP, dir="/var/tmp"))
        self._root.chmod(0o755)
        self.allocations = self._root / "allocations"
        self.audit_log = self._root / "audit.log"
        self._namespaces = Namespaces(self._root)
        try:
            (self._root / "audit.json").write_text(json.dumps(AUDIT))
            super().__init__(programs.control_plane, self._root)
            self.start_controller_manager()
            self._start_node()
        except BaseException:
            self.__exit__()
            raise

    @property
    def pid(self) -> int:
        """Of the first process of the namespaces, as this machine counts."""
        return self._namespaces.pid

    @property
    def files(self) -> Path:
        return Path(f"/proc/{self.pid}/root")

    def load(self, archive: Path) -> None:
        done = self._ctr("--namespace", "k8s.io", "images", "import", "--local", archive)
        assert done.returncode == 0, done.stderr + done.stdout

    def serve_devices(self) -> None:
        """Start a device plugin, and give the node what HAMi's scheduler counts."""
        self._serve(DEVICE, str(DEVICES))
        counted = {name: str(amount) for name, amount in COUNTED.items()}
        self.client.patch("v1", "nodes", f"{NODE}/status", {"status": {"capacity": counted}}).accepted()
        self.wait_until(self.has_devices, "devices of the node")

    @contextlib.contextmanager
    def served_by(self, system: str, scheduler: str, devices: str, offered: Mapping[str, int]) -> Iterator[None]:
        """In a block, the device plugin of a system serves, and the stand-in of its scheduler does not.

        Args:
            system: as the plugin calls it.
            scheduler: the name of its scheduler.
            devices: the names of devices, and the MiB of each, as the plugin reads them.
            offered: what the node then has to offer.
        """
        self._stop("device-plugin")
        self._restart_scheduler(name for name in stand_ins() if name != scheduler)
        nothing = dict.fromkeys(COUNTED)
        status = {"status": {"capacity": nothing, "allocatable": nothing}}
        self.client.patch("v1", "nodes", f"{NODE}/status", status).accepted()
        self._serve(system, devices)
        self.wait_until(lambda: self._offers(offered), f"devices of {system}", 120)
        try:
            yield
        finally:
            self._stop("device-plugin")
            self._restart_scheduler(stand_ins())
            self.serve_devices()

    def serve_volumes(self, driver: str, folder: Path) -> None:
        """Start a CSI driver whose inline volumes show a folder, unless it was: until the end, for volumes that are left."""
        if driver in self.node:
            return
        spec = {"attachRequired": False, "volumeLifecycleModes": ["Ephemeral"]}
        self.client.create(
            {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": driver}, "spec": spec}
        ).accepted()
        command: list[str | Path] = [self.programs.csi, "/var/lib/kubelet", driver, NODE, folder]
        self.node[driver] = self._start_inside("csi", command)

        def registered() -> bool:
            answer = self.client.get("storage.k8s.io/v1", "csinodes", NODE)
            return any(each["name"] == driver for each in answer.body.get("spec", {}).get("drivers") or [])

        self.wait_until(registered, f"{driver} registered", 60)

    @contextlib.contextmanager
    def beside(self, name: str, command: Sequence[str | Path]) -> Iterator[None]:
        """In a block, a further process runs on the node, in its namespaces."""
        process = self._start_inside(name, command)
        try:
            yield
        finally:
            self._inside.remove(process)
            process.stop()

    def stop_node(self) -> None:
        """Stop kubelet, then containerd; containers run on without them."""
        for name in ("kubelet", "containerd"):
            self._inside.remove(self.node[name])
            self.node[name].stop()

    def cut_power(self) -> None:
        """Stop the node, and end all that runs in its containers at once."""
        self.stop_node()
        self.wait_until(lambda: not self._kill_containers(), "containers ended")

    @property
    def has_power(self) -> bool:
        """Whether the node has not been stopped."""
        return self.node["kubelet"] in self._inside

    def start_node(self) -> None:
        """Start kubelet and containerd again, and wait until the node is ready."""
        offers, starts = self._logged("device-plugin", OFFERED), self._logged("containerd", STARTED)
        for name in ("containerd", "kubelet"):
            self.node[name].start()
            self._inside.append(self.node[name])
            if name == "containerd":
                self.wait_until(lambda: self._logged("containerd", STARTED) > starts, "containerd ready", 120)
        self.wait_until(lambda: self._logged("device-plugin", OFFERED) > offers, "devices offered again", 120)
        self.wait_until(self.has_devices, "devices of the node", 120)
        self.wait_until(self.ready, "node ready", 120)

    def check(self) -> None:
        """Fail with the end of its log if a component has ended."""
        super().check()
        for process in self._inside:
            process.check()

    def has_devices(self) -> bool:
        """Whether the node offers all that pods may request."""
        return self._offers({DEVICE: DEVICES, **COUNTED})

    def ready(self) -> bool:
        answer = self.client.get("v1", "nodes", NODE)
        if answer.status != 200 or answer.body["spec"].get("taints"):
            return False
        conditions = answer.body["status"].get("conditions", [])
        return any((each["type"], each["status"]) == ("Ready", "True") for each in conditions)

    def __exit__(self, *_: object) -> None:
        for log in self._root.glob("*.log"):
            shutil.copy(log, self._logs)
        self.stop()
        self._namespaces.close()

    def _offers(self, amounts: Mapping[str, int]) -> bool:
        """Whether the node offers just that of each resource."""
        allocatable = self.client.get("v1", "nodes", NODE).accepted()["status"]["allocatable"]
        return all(parse_quantity(allocatable.get(name, "0")) == amount for name, amount in amounts.items())

    def _serve(self, name: str, devices: str) -> None:
        """Start a device plugin: of one resource, or of a system."""
        sockets = "/var/lib/kubelet/device-plugins"
        plugin = self.programs.kubernetes / "device-plugin"
        command: list[str | Path] = [plugin, sockets, self.kubeconfig, NODE, self.allocations, name, devices]
        self.node["device-plugin"] = self._start_inside("device-plugin", command)

    def _stop(self, name: str) -> None:
        [process] = [each for each in self._inside if each.name == name]
        self._inside.remove(process)
        process.stop()

    def _restart_scheduler(self, names: Iterable[str]) -> None:
        self._stop("kube-scheduler")
        self._optional.discard("kube-scheduler")
        self.start_scheduler(names)

    def _kill_containers(self) -> int:
        """Kill the processes of all containers; return how many there were."""
        found = 0
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if f"/{self._namespaces.name}/kubepods/" in (process / "cgroup").read_text():
                    found += 1
                    os.kill(int(process.name), signal.SIGKILL)
        return found

    def _ctr(self, *arguments: str | Path) -> "subprocess.CompletedProcess[str]":
        enter = ["nsenter", f"--target={self.pid}", "--mount", "--", str(self.programs.runtime / "ctr")]
        command = [*enter, "--address", str(configuration.socket(self._root)), *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)

    def _logged(self, name: str, text: str) -> int:
        """How often a part of the node has written something."""
        return self.node[name].log.read_text(errors="replace").count(text)

    def _start_node(self) -> None:
        root, kubernetes, runtime = self._root, self.programs.kubernetes, self.programs.runtime
        (root / "network").mkdir()
        (root / "network" / "10-pods.conflist").write_text(configuration.network(PODS))
        (root / "containerd.toml").write_text(configuration.containerd(root, runtime))
        (root / "kubelet.json").write_text(configuration.kubelet(root, self._namespaces.name))
        (root / "proxy.json").write_text(configuration.proxy(self.kubeconfig, PODS, NODE))
        commands: dict[str, list[str | Path]] = {
            "containerd": [runtime / "containerd", "--config", root / "containerd.toml"],
            "kube-proxy": [kubernetes / "kube-proxy", "--config", root / "proxy.json"],
            "kubelet": [
                kubernetes / "kubelet",
                *("--config", root / "kubelet.json", "--kubeconfig", self.kubeconfig),
                *("--hostname-override", NODE, "--node-ip", ADDRESS, "--node-labels", "gpu=on"),
            ],
        }
        for name, command in commands.items():
            self.node[name] = self._start_inside(name, command)
            if name == "containerd":
                self.wait_until(lambda: self._logged("containerd", STARTED), "containerd ready")
        self.wait_until(self.ready, "node ready", 120)

    def _start_inside(self, name: str, command: Sequence[str | Path]) -> Inside:
        process = self._namespaces.start(name, command)
        self._inside.append(process)
        return process

    def _run(self, component: str, *arguments: str) -> None:
        if component == "kube-apiserver":
            [port] = [each.partition("=")[2] for each in arguments if each.startswith("--secure-port=")]
            door = [sys.executable, "-I", "-S", str(DOOR), port, str(self._namespaces.pid)]
            self._processes.append(self._running.enter_context(Process(door, self.folder / "door.log")))
            arguments = (
                *arguments,
                "--bind-address=0.0.0.0",
                f"--advertise-address={ADDRESS}",
                "--endpoint-reconciler-type=lease",
                "--kubelet-preferred-address-types=InternalIP",
                f"--audit-policy-file={self._root / 'audit.json'}",
                f"--audit-log-path={self.audit_log}",
            )
        self._start_inside(component, [self.binaries.path(component), *arguments])
