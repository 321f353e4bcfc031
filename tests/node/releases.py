"""The chart as a release on the node."""

import itertools
import json
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tests.controlplane import objects
from tests.controlplane.client import Answer, Object
from tests.controlplane.plane import ControlPlane
from tests.controlplane.written import STATUS
from tests.deploy.charts import INJECT, RELEASE, REQUIRED, Chart

from .cluster import Cluster

GROUP = "admissionregistration.k8s.io/v1"
KIND = "mutatingwebhookconfigurations"
REGISTRATION = "00-vgpu-webhook"
NAMESPACE = "vgpu-webhook"
WEBHOOKS = "app.kubernetes.io/component=webhook"
TEAM = "team"
OPTED_IN = {"vgpu-webhook.io/inject": "enabled"}


@dataclass(frozen=True)
class Release:
    """A release, whether it is installed or not; `options` are those of its installation."""

    helm: Chart
    plane: Cluster
    options: tuple[str, ...] = ()
    numbers: "itertools.count[int]" = field(default_factory=itertools.count)

    def run(self, command: str, *more: str) -> str:
        """Run Helm on it: `install`, `upgrade`, `rollback`, `test`, `uninstall`, `get hooks`."""
        # An upgrade keeps the image that the release was installed with.
        values = {"install": REQUIRED, "upgrade": INJECT}.get(command)
        chart = [str(self.helm.folder), *values] if values else []
        where = ["--kubeconfig", str(self.plane.kubeconfig), "--namespace", NAMESPACE]
        return self.helm.run(*command.split(), RELEASE, *chart, *where, *more)

    def replicas(self) -> list[Object]:
        return self.plane.client.list("v1", "pods", NAMESPACE, WEBHOOKS)

    def ready(self) -> list[str]:
        """Names of those that are ready, and not about to end."""
        return [
            pod["metadata"]["name"]
            for pod in self.replicas()
            if "deletionTimestamp" not in pod["metadata"]
            and any(
                condition["type"] == "Ready" and condition["status"] == "True"
                for condition in pod["status"].get("conditions", [])
            )
        ]

    def log(self, replica: str) -> Path:
        """Where the kubelet keeps what a replica has written."""
        [path] = (self.plane.files / "var/log/pods").glob(f"{NAMESPACE}_{replica}_*/webhook/0.log")
        return path

    def policy(self) -> str | None:
        """The digest of the policy that is in force in every replica; None while they have different ones."""
        logs = [events(self.log(replica).read_text()) for replica in self.ready()]
        digests = {[line["digest"] for line in lines if line["event"] == "policy"][-1] for lines in logs}
        return digests.pop() if len(digests) == 1 else None

    def deployment(self) -> Object:
        return self.plane.client.get("apps/v1", "deployments", RELEASE, NAMESPACE).accepted()

    def ensure(self) -> None:
        """Install it unless it is there, and wait until it is well and registered."""
        if not self.installed():
            self.plane.wait_until(lambda: not self.replicas(), "replicas of an earlier one gone", 120)
            self.run("install", "--create-namespace", *self.options)
        self.settled()
        self.plane.wait_until(self.registration, "registered", 60)

    def installed(self) -> bool:
        where = ["--kubeconfig", str(self.plane.kubeconfig), "--namespace", NAMESPACE]
        return RELEASE in self.helm.run("list", "--short", *where).split()

    def remove(self) -> None:
        """Uninstall it, if it is there; wait for what has to go, but for replicas, which drain."""
        if self.installed():
            self.run("uninstall")
        self.gone()

    def rolled_out(self) -> bool:
        found = self.deployment()
        wanted, status = found["spec"]["replicas"], found["status"]
        counts = [status.get(key, 0) for key in ("updatedReplicas", "replicas", "readyReplicas", "availableReplicas")]
        return status.get("observedGeneration") == found["metadata"]["generation"] and counts == [wanted] * 4

    def shim_ready(self) -> bool:
        """Whether each installer of a shim, if there is one, is on all its nodes."""
        found = [each["status"] for each in self.plane.client.list("apps/v1", "daemonsets", NAMESPACE)]
        return all(status["numberReady"] == status["desiredNumberScheduled"] > 0 for status in found)

    def settled(self) -> None:
        """Wait until it is rolled out, and nothing ends any more."""
        self.plane.wait_until(self.rolled_out, "rolled out", 120)
        wanted = self.deployment()["spec"]["replicas"]
        self.plane.wait_until(lambda: len(self.replicas()) == wanted, "old replicas gone", 120)

    def registration(self) -> Object | None:
        """The webhook configuration, None where there is none."""
        answer = self.plane.client.get(GROUP, KIND, REGISTRATION)
        return answer.body if answer.status == 200 else None

    def create(self, namespace: str, *, dry_run: bool = False) -> Answer:
        """Create a pod that requests a share of a GPU, and that no scheduler looks at."""
        limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000"}
        made = objects.pod(f"share-{next(self.numbers)}", limits, schedulingGates=[{"name": "tests.example/none"}])
        return self.plane.client.create(made, namespace, dry_run=dry_run)

    def serving(self, namespace: str) -> None:
        self.plane.wait_until(lambda: touched(self.create(namespace, dry_run=True)), f"pods of {namespace} treated", 60)

    def gone(self) -> None:
        """Wait until nothing is left of what the release and the webhook have made."""
        self.plane.wait_until(lambda: not self.left(), f"gone: {', '.join(self.left())}", 120)

    def left(self) -> list[str]:
        """All that is there of the release, or of what the webhook has made, but for pods."""
        client = self.plane.client
        found = [*client.list(GROUP, KIND), *client.list(GROUP, "validatingwebhookconfigurations")]
        for resource in ("clusterroles", "clusterrolebindings", "roles", "rolebindings"):
            found += client.list("rbac.authorization.k8s.io/v1", resource, selector="app.kubernetes.io/managed-by=Helm")
        for resource in ("configmaps", "secrets", "services", "serviceaccounts"):
            found += client.list("v1", resource, NAMESPACE)
        for version, resource in (
            ("apps/v1", "deployments"),
            ("apps/v1", "daemonsets"),
            ("policy/v1", "poddisruptionbudgets"),
            ("networking.k8s.io/v1", "networkpolicies"),
            ("discovery.k8s.io/v1", "endpointslices"),
        ):
            found += client.list(version, resource, NAMESPACE)
        names = [each["metadata"]["name"] for each in found]
        return [name for name in names if name not in {"kube-root-ca.crt", "default"}]


def events(log: str) -> list[Object]:
    """What the webhook has written to a log; a runtime may have put something before each line."""
    return [json.loads(line[line.index("{") :]) for line in log.splitlines() if line.endswith("}") and "{" in line]


def touched(answer: Answer) -> bool:
    """Whether the webhook has left its status on a pod that was created."""
    return STATUS in answer.body.get("metadata", {}).get("annotations", {})


def namespace(plane: ControlPlane, name: str, labels: dict[str, str], **metadata: Object) -> None:
    """A namespace, unless it is there."""
    if plane.client.get("v1", "namespaces", name).status == 404:
        plane.create_namespace(objects.namespace(name, labels, **metadata))
    plane.wait_until(partial(_has_account, plane, name), f"service account of {name}")


def remove_namespaces(plane: ControlPlane, *names: str) -> None:
    """Delete namespaces with all that is in them, and wait until they are gone."""
    for name in names:
        plane.client.delete("v1", "namespaces", name).accepted()

    def gone() -> bool:
        return {each["metadata"]["name"] for each in plane.client.list("v1", "namespaces")}.isdisjoint(names)

    plane.wait_until(gone, f"{names} gone", 120)


def _has_account(plane: ControlPlane, name: str) -> bool:
    return plane.client.get("v1", "serviceaccounts", "default", name).status == 200
