"""One pod of the node, from its binding to its end: the part of a kubelet that this is a stand-in for."""

import contextlib
import datetime as dt
import json
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.controlplane.client import Client, Object

from .enclave import BRIDGE, NODE_ADDRESS
from .probes import Probe
from .volumes import UnsupportedError, Volumes

TICK = 0.05
RUNTIME = Path(__file__).with_name("container.py")
ROOT = Path(__file__).parents[2]
SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
ENTRYPOINT = [sys.executable, "-m", "webhook"]
"""In the place of the image's."""


@dataclass(frozen=True, slots=True)
class Node:
    """The node that pods run on: its name, the pid of its network namespace, where its files are."""

    client: Client
    name: str
    pid: int
    folder: Path

    def code(self, image: str) -> Path:
        """The program that an image holds: what a test has put into `images` under its tag, else this project's."""
        given = self.folder.parents[1] / "images" / image.rpartition(":")[2]
        return given if given.is_dir() else ROOT


@dataclass
class Running:
    """A pod on the node. `live` is its whole life; `pod` is kept up by the node.

    A container is started again at once when it has ended, without the growing pause of a real kubelet.
    """

    node: Node
    pod: Object
    address: str
    restarts: int = 0
    ready: bool = False
    _told: Any = None
    _started: str = ""
    _log: Path = field(init=False)

    def __post_init__(self) -> None:
        """Make the pod's folder."""
        self._folder = self.node.folder / f"{self.pod['metadata']['name']}-{self.pod['metadata']['uid'][:8]}"
        self._folder.mkdir()
        self._log = self._folder / "log"

    @property
    def ending(self) -> bool:
        """Whether it was deleted."""
        return "deletionTimestamp" in self.pod["metadata"]

    def live(self) -> None:
        """Start the pod's container, look after it, and end it when the pod is deleted; meant for a thread."""
        try:
            if not self.ending and self.pod["status"].get("phase") not in {"Succeeded", "Failed"}:
                self._run()
        except Exception:  # noqa: BLE001 (a stand-in that goes silent is hard to find)
            sys.stderr.write(f"{self.pod['metadata']['name']}: {traceback.format_exc()}\n")
        while not self.ending:
            threading.Event().wait(TICK)
        self._delete()

    def _run(self) -> None:
        spec = self.pod["spec"]
        if len(spec["containers"]) != 1 or spec.get("initContainers"):
            raise UnsupportedError("more than one container")
        [container] = spec["containers"]
        box = self._sandbox(container)
        while True:
            self._started = _now()
            process = self._start(box)
            code = self._look_after(process, container)
            if self.ending or spec["restartPolicy"] == "Never" or (spec["restartPolicy"] == "OnFailure" and code == 0):
                break
            self.restarts += 1
        self._tell("Succeeded" if code == 0 else "Failed", exit_code=code)

    def _sandbox(self, container: Object) -> Path:
        """Write down what `container.py` makes."""
        volumes = Volumes(self.node.client, self.pod, self._folder)
        code = self.node.code(container["image"])
        context = {**self.pod["spec"].get("securityContext", {}), **container.get("securityContext", {})}
        scratch = self._folder / "scratch"
        scratch.mkdir()
        command = [*(container.get("command") or ENTRYPOINT), *container.get("args", [])]
        if any("$(" in part for part in command):
            raise UnsupportedError(f"variables in {command}")
        mounts, environment = volumes.mounts(container), volumes.environment(container, self.address)
        environment["PYTHONPATH"] = str(code)
        if not self.node.pid:
            environment |= self._without_mounts(mounts)
        box = {
            "node": self.node.pid,
            "address": self.address,
            "gateway": NODE_ADDRESS,
            "bridge": BRIDGE,
            "image": sorted({str(ROOT), str(code), sys.prefix, sys.base_prefix}),
            "scratch": str(scratch),
            "mounts": mounts,
            "readOnlyRoot": context.get("readOnlyRootFilesystem", False),
            "user": context.get("runAsUser"),
            "command": command,
            "environment": environment,
        }
        path = self._folder / "sandbox.json"
        path.write_text(json.dumps(box))
        return path

    def _without_mounts(self, mounts: list[Object]) -> dict[str, str]:
        """What tells the program where the files of the status are, for they can't be where a pod has them."""
        [account] = [Path(each["source"]) for each in mounts if each["target"] == SERVICE_ACCOUNT]
        names = {"name": "pod", "cluster": "pod", "user": "pod"}
        cluster = {"server": self.node.client.server, "certificate-authority": str(account / "ca.crt")}
        config = {
            "current-context": "pod",
            "clusters": [{"name": "pod", "cluster": cluster}],
            "users": [{"name": "pod", "user": {"tokenFile": str(account / "token")}}],
            "contexts": [{"name": "pod", "context": names}],
        }
        path = self._folder / "kubeconfig"
        path.write_text(json.dumps(config))
        namespace = (account / "namespace").read_text()
        return {"KUBECONFIG": str(path), "VGPU_WEBHOOK_RELEASE_NAMESPACE": namespace}

    def _start(self, box: Path) -> "subprocess.Popen[bytes]":
        with self._log.open("ab") as output:
            command = [sys.executable, "-I", "-S", str(RUNTIME), str(box), str(os.getpid())]
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
        (self._folder / "pid").write_text(str(process.pid))
        return process

    def _look_after(self, process: "subprocess.Popen[bytes]", container: Object) -> int:
        """Run the probes until the process has ended, by itself or by our hand; its exit code."""
        probes = {kind: Probe.read(container, f"{kind}Probe", self.address) for kind in ("startup", "readiness")}
        startup, readiness = probes["startup"], probes["readiness"]
        liveness: Probe | None = None
        ending: threading.Thread | None = None
        self.ready = False
        while process.poll() is None:
            if self.ending and ending is None:
                ending = threading.Thread(target=self._end, args=(process, container))
                ending.start()
            if startup is not None and startup.passed is not True:
                startup.run_if_due()
                if startup.passed:
                    liveness = Probe.read(container, "livenessProbe", self.address)
            else:
                if readiness is not None:
                    readiness.run_if_due()
                if liveness is not None and ending is None:
                    liveness.run_if_due()
            started = startup is None or startup.passed is True
            self.ready = started and (readiness is None or readiness.passed is True)
            self._tell("Running")
            if ending is None and any(each is not None and each.passed is False for each in (startup, liveness)):
                sys.stderr.write(f"{self.pod['metadata']['name']}: killed by its probes\n")
                self._end(process, container)
            threading.Event().wait(TICK)
        if ending is not None:
            ending.join()
        self.ready = False
        return process.returncode

    def _end(self, process: "subprocess.Popen[bytes]", container: Object) -> None:
        """The hook, then SIGTERM, then SIGKILL when the grace is over, of which the hook is a part."""
        metadata = self.pod["metadata"]
        grace = metadata.get("deletionGracePeriodSeconds", self.pod["spec"]["terminationGracePeriodSeconds"])
        deadline = time.monotonic() + grace
        hook = container.get("lifecycle", {}).get("preStop")
        if hook is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(min(hook["sleep"]["seconds"], grace))
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(max(deadline - time.monotonic(), 2.0))
        except subprocess.TimeoutExpired:
            sys.stderr.write(f"{metadata['name']}: killed after {grace} s\n")
            process.kill()

    def _tell(self, phase: str, exit_code: int | None = None) -> None:
        """Write the pod's status, if it is another one."""
        told = (phase, self.ready, self.restarts)
        if told == self._told:
            return
        [container] = self.pod["spec"]["containers"]
        state: Object = {"running": {"startedAt": self._started}}
        if exit_code is not None:
            state = {"terminated": {"exitCode": exit_code, "startedAt": self._started, "finishedAt": _now()}}
        status = {
            "name": container["name"],
            "image": container["image"],
            "imageID": "",
            "ready": self.ready,
            "started": True,
            "restartCount": self.restarts,
            "state": state,
        }
        ready = "True" if self.ready else "False"
        conditions = {"PodScheduled": "True", "Initialized": "True", "ContainersReady": ready, "Ready": ready}
        body = {
            "phase": phase,
            "hostIP": NODE_ADDRESS,
            "podIP": self.address,
            "podIPs": [{"ip": self.address}],
            "startTime": self._started,
            "conditions": [
                {"type": type_, "status": value, "lastTransitionTime": _now()} for type_, value in conditions.items()
            ],
            "containerStatuses": [status],
        }
        metadata = self.pod["metadata"]
        answer = self.node.client.patch(
            "v1", "pods", f"{metadata['name']}/status", {"status": body}, metadata["namespace"]
        )
        if answer.status != 404:
            answer.accepted()
        self._told = told

    def _delete(self) -> None:
        """Let the API server forget the pod."""
        metadata = self.pod["metadata"]
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
        body = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}
        answer = self.node.client.call("DELETE", path, {**body, "preconditions": {"uid": metadata["uid"]}})
        if answer.status not in {404, 409}:
            answer.accepted()


def _now() -> str:
    return dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
