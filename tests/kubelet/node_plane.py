"""A control plane with a node: pods of one label really run, and Services lead to them where there is an enclave."""

import os
import sys
from pathlib import Path
from typing import Final

import yaml

from tests.controlplane.build import Binaries
from tests.controlplane.plane import ControlPlane
from tests.controlplane.processes import Process

from .enclave import NODE_ADDRESS, Enclave

NODE: Final = "node-1"
ROOT: Final = Path(__file__).parents[2]
DOOR: Final = Path(__file__).with_name("door.py")
SELECTOR: Final = "app.kubernetes.io/name=vgpu-webhook"
AUDIT: Final = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata", "userGroups": ["system:serviceaccounts"]}, {"level": "None"}],
}
"""Who has a service account is written down; controllers have one each in `kube-system`, which is left to the reader."""


class NodePlane(ControlPlane):
    """A control plane in an enclave, reached from outside under the same address; and a node of it.

    Without an enclave pods are processes on this machine's network, and no Service leads to them.
    """

    def __init__(self, binaries: Binaries, folder: Path, *, enclosed: bool = True) -> None:
        """Start everything; the node is ready, and has the shared GPUs that its capacity says."""
        self._enclave = Enclave(folder) if enclosed else None
        self.audit_log = folder / "audit.log"
        self.images = folder / "images"
        self.pods = folder / "pods"
        self.pods.mkdir()
        self._agent: Process | None = None
        self._starts = 0
        policy = folder / "audit.yaml"
        policy.write_text(yaml.safe_dump(AUDIT))
        self._audit = (f"--audit-policy-file={policy}", f"--audit-log-path={self.audit_log}")
        try:
            super().__init__(binaries, folder)
            self.start_controller_manager()
            if enclosed:
                self._start_inside("services", "-m", "tests.kubelet.services", *self._api())
            self._create_node()
            self.start_agent()
        except BaseException:
            self.__exit__()
            raise

    @property
    def has_agent(self) -> bool:
        """Whether the node is there."""
        return self._agent is not None

    def start_agent(self) -> None:
        """Start the node's agent."""
        folder = self.pods / str(self._starts)
        folder.mkdir()
        self._starts += 1
        node = (NODE, str(self._enclave.pid if self._enclave else 0), str(folder), SELECTOR)
        self._agent = self._start_inside("kubelet", "-m", "tests.kubelet", *self._api(), *node)

    def lose_node(self) -> None:
        """Kill the agent, and with it every pod's process, all at once, as when the power fails."""
        if self._agent is not None:
            self._processes.remove(self._agent)
            self._agent.stop(grace=0)
            self._agent = None

    def __exit__(self, *_: object) -> None:
        """Stop everything, and leave the enclave."""
        self.stop()
        if self._enclave is not None:
            self._enclave.__exit__()

    def pid_of(self, pod: str) -> int:
        """The process of a pod that runs."""
        [found] = self.pods.glob(f"*/{pod}-????????/pid")
        return int(found.read_text())

    def logs(self) -> dict[str, Path]:
        """By pod, of those that have ended, too, the file of what it has written."""
        return {path.parent.name.rpartition("-")[0]: path for path in self.pods.glob("*/*-????????/log")}

    def _api(self) -> tuple[str, str, str]:
        return self.client.server, self.client.token, self.client.ca_file

    def _create_node(self) -> None:
        capacity = {"cpu": "64", "memory": "64Gi", "pods": "1000", "nvidia.com/gpu": "100", "nvidia.com/gpumem": "8M"}
        self.client.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}}).accepted()
        ready = [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]
        status = {
            "capacity": capacity,
            "allocatable": capacity,
            "conditions": ready,
            "addresses": [{"type": "InternalIP", "address": NODE_ADDRESS}],
        }
        self.client.patch("v1", "nodes", f"{NODE}/status", {"status": status}).accepted()
        # Until the controllers have seen that it is ready, it counts as not ready.
        self.wait_until(self._untainted, "node without taints")

    def _untainted(self) -> bool:
        return not self.client.get("v1", "nodes", NODE).accepted()["spec"].get("taints")

    def _start_inside(self, name: str, *arguments: str) -> Process:
        command = self._inside([sys.executable, *arguments])
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        process = self._running.enter_context(Process(command, self.folder / f"{name}.log", environment))
        self._processes.append(process)
        return process

    def _run(self, component: str, *arguments: str) -> None:
        if component == "kube-apiserver":
            arguments = (*arguments, *self._audit)
            if self._enclave is not None:
                [port] = [each.partition("=")[2] for each in arguments if each.startswith("--secure-port=")]
                door = [sys.executable, "-I", "-S", str(DOOR), port, str(self._enclave.pid)]
                self._processes.append(self._running.enter_context(Process(door, self.folder / "door.log")))
        command = self._inside([str(self.binaries.path(component)), *arguments])
        self._processes.append(self._running.enter_context(Process(command, self.folder / f"{component}.log")))

    def _inside(self, command: list[str]) -> list[str]:
        return command if self._enclave is None else self._enclave.inside(command)
