"""Pods that run in the tests' cluster, and what their containers have printed."""

import itertools
import json
import subprocess
from dataclasses import dataclass, field
from typing import Any

from tests.controlplane.client import Object

from .cluster import Cluster
from .small_images import GPU

ENDED = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class Pods:
    """Pods of one namespace."""

    cluster: Cluster
    namespace: str
    numbers: "itertools.count[int]" = field(default_factory=itertools.count)

    def create(self, *containers: Object, annotations: Object | None = None, **spec: Any) -> Object:
        return self.cluster.client.create(
            self.body(*containers, annotations=annotations, **spec), self.namespace
        ).accepted()

    def body(self, *containers: Object, annotations: Object | None = None, **spec: Any) -> Object:
        """A pod; a container without a name or an image gets one."""
        named = [{"name": f"c{number}", "image": GPU, **each} for number, each in enumerate(containers)]
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"pod-{next(self.numbers)}", "annotations": annotations or {}},
            "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": named, **spec},
        }

    def get(self, pod: Object) -> Object:
        return self.cluster.client.get("v1", "pods", pod["metadata"]["name"], self.namespace).accepted()

    def phase(self, pod: Object, *phases: str) -> Object:
        """Wait until it has one of these phases, and return it."""

        def reached() -> Object | None:
            found = self.get(pod)
            return found if found["status"].get("phase") in phases else None

        try:
            return self.cluster.wait_until(reached, f"{pod['metadata']['name']} {phases}", 120)
        except TimeoutError as error:
            raise AssertionError(f"{error}: {json.dumps(self.get(pod)['status'], indent=1)}") from error

    def finish(self, pod: Object) -> Object:
        ended = self.phase(pod, *ENDED)
        assert ended["status"]["phase"] == "Succeeded", (ended["status"], self.log(pod))
        return ended

    def log(self, pod: Object, container: str = "c0") -> str:
        """What a container has printed, as the kubelet hands it out."""
        path = f"/api/v1/namespaces/{self.namespace}/pods/{pod['metadata']['name']}/log"
        body = self.cluster.client.call("GET", path, query={"container": container}).body
        return str(body["text"]) if "text" in body else json.dumps(body)

    def printed(self, pod: Object, container: str = "c0") -> list[Any]:
        return [json.loads(line) for line in self.log(pod, container).splitlines()]

    def run(self, pod: Object, *command: str) -> Any:
        """What a command in its running container prints, as JSON."""
        cluster = self.cluster
        kubectl = [str(cluster.binaries.path("kubectl")), "--kubeconfig", str(cluster.kubeconfig)]
        where = ["exec", "--namespace", self.namespace, pod["metadata"]["name"], "--", *command]
        return json.loads(subprocess.run([*kubectl, *where], capture_output=True, text=True, check=True).stdout)

    def delete(self, pod: Object) -> None:
        name = pod["metadata"]["name"]
        self.cluster.client.delete("v1", "pods", name, self.namespace)
        self.cluster.wait_until(
            lambda: self.cluster.client.get("v1", "pods", name, self.namespace).status == 404, f"{name} gone"
        )


def share(*, memory: int = 3000, **more: Any) -> Object:
    """A container with a share of one GPU in the target's own keys, memory in MiB."""
    return {"resources": {"limits": {"nvidia.com/gpu": "1", "nvidia.com/gpumem": str(memory)}}, **more}
