"""Creates examples on a control plane that calls the webhook, and gives back what was stored and what was reported."""

import json
import re
from dataclasses import dataclass

from .client import Answer, Object
from .examples import Example
from .plane import ControlPlane
from .product import WEBHOOK, Product
from .written import STATUS, TOKEN_VOLUME

PLAIN = "plain"
SELECTED = {"tests.example/cluster": "enabled"}
"""Labels of namespaces whose pods are sent there: other tests have the usual one for webhooks of their own."""
DENIED = f'admission webhook "{WEBHOOK}" denied the request: '


@dataclass(frozen=True, slots=True)
class Cluster:
    """A control plane with the webhook registered on it, and the namespaces of the examples."""

    plane: ControlPlane
    product: Product

    def submit(self, example: Example) -> Answer:
        """Create a pod and delete it again; return it as it was stored."""
        client, pod = self.plane.client, example.pod
        self.product.process.check()
        answer = client.create(pod)
        if answer.status != 201:
            return answer
        name = answer.body["metadata"]["name"]
        try:
            stored = client.get("v1", "pods", name, example.namespace).accepted()
        finally:
            client.delete("v1", "pods", name, example.namespace).accepted()
        return Answer(answer.status, stored, answer.warnings)

    def run(self, example: Example, count: int) -> list[Object]:
        """Create a workload, delete it again, and return the pods that the controller manager made of it."""
        client, kind = self.plane.client, f"{example.manifest['kind'].lower()}s"
        group, name = example.manifest["apiVersion"], example.manifest["metadata"]["name"]
        client.create(example.manifest, example.namespace).accepted()
        try:
            return self.plane.wait_until(lambda: self._pods(example, count), f"{count} pods of {name}")
        finally:
            client.delete(group, kind, name, example.namespace).accepted()
            self.plane.wait_until(lambda: not self._pods(example, 1), f"no pods of {name}")

    def untreated(self, example: Example) -> Object:
        """Return the pod as it is stored where no webhook is called, but for what differs between any two pods."""
        return comparable(self.submit(example.moved(PLAIN)).accepted())

    def _pods(self, example: Example, count: int) -> list[Object] | None:
        name = example.manifest["metadata"]["name"]
        pods = self.plane.client.list("v1", "pods", example.namespace, f"app={name}")
        return pods if len(pods) >= count else None


def denial(answer: Answer) -> str:
    """Return why the webhook denied a pod; fail if it did not."""
    assert answer.message.startswith(DENIED), f"{answer.status}: {answer.message or answer.body}"
    return answer.message.removeprefix(DENIED)


def comparable(pod: Object) -> Object:
    """Return a stored pod without identity, times and the token volume with its random name."""
    metadata = {key: pod["metadata"].get(key) for key in ("name", "labels", "annotations", "finalizers")}
    text = json.dumps({"metadata": metadata, "spec": pod["spec"]})
    same: Object = json.loads(re.sub(f"{TOKEN_VOLUME}[a-z0-9]+", TOKEN_VOLUME, text))
    return same


def annotated(pod: Object) -> bool:
    """Whether the webhook has left its status on a pod."""
    return STATUS in pod["metadata"].get("annotations", {})
