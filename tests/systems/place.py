"""Where another system runs beside the webhook: a control plane, Nodes that are only objects, processes, certificates."""

import base64
import datetime as dt
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from certs.x509 import issue, make_ca
from tests.controlplane.client import Answer, Object
from tests.controlplane.objects import namespace
from tests.controlplane.plane import ControlPlane
from tests.controlplane.processes import Process, free_ports
from tests.yaml_text import load_yaml

from .shapes import DEVICE_MIB, DEVICES, Share

NODE: Final = "node-with-devices"
UUIDS: Final = tuple(f"GPU-{number:08d}-0000-0000-0000-000000000000" for number in range(DEVICES))
MODEL: Final = "NVIDIA-A800"


@dataclass(frozen=True, slots=True)
class Certificate:
    """What all webhooks here are served with.

    Attributes:
        certificate: the file of it, for 127.0.0.1.
        key: the file of its key.
        ca: the file of what signed it.
    """

    certificate: Path
    key: Path
    ca: Path

    def bundle(self) -> str:
        return base64.b64encode(self.ca.read_bytes()).decode()


@dataclass(frozen=True, slots=True)
class Place:
    """Where one system runs.

    Attributes:
        plane: the control plane.
        folder: for files of this system.
        namespace: of the pods.
        certificate: for its webhooks.
        programs: the folder with its programs.
        started: the processes, for what they say of their memory.
        uuids: of the devices of its Node.
        device_mib: memory of each.
    """

    plane: ControlPlane
    folder: Path
    namespace: str
    certificate: Certificate
    programs: Path
    started: list[Process]
    uuids: tuple[str, ...] = UUIDS
    device_mib: int = DEVICE_MIB

    @contextmanager
    def run(self, command: Sequence[str | Path], environment: Mapping[str, str] | None = None) -> Iterator[Process]:
        """Run a program until the end of the block; its log has its name."""
        log = self.folder / f"{Path(command[0]).name}-{len(self.started)}.log"
        with Process([str(part) for part in command], log, environment) as process:
            self.started.append(process)
            yield process
            process.check()

    def selector(self) -> Object:
        """What selects the namespace of the pods in a webhook configuration."""
        return {"matchLabels": {"kubernetes.io/metadata.name": self.namespace}}

    def check(self) -> None:
        """Fail with the end of its log if a program has ended."""
        for process in self.started:
            process.check()

    def create_all(self, file: Path) -> None:
        """Create every object of a file, or of the files of a folder; what is there stays."""
        for path in sorted(file.rglob("*.yaml")) if file.is_dir() else [file]:
            for manifest in yaml.safe_load_all(path.read_text()):
                if manifest and manifest.get("kind") != "Kustomization":
                    self.created(manifest)

    def created(self, manifest: Object) -> None:
        """Create an object, unless it is there; of a kind that was just defined, as soon as the API server serves it."""

        def tried() -> Answer | None:
            answer = self.plane.client.create(manifest)
            return None if answer.status == 404 else answer

        answer = self.plane.wait_until(tried, f"the kind {manifest['kind']} is served")
        if answer.status != 409:
            answer.accepted()

    def namespaces(self, *names: str) -> None:
        for name in names:
            self.created(namespace(name))

    @contextmanager
    def node(self, resources: Mapping[str, Any], metadata: Object) -> Iterator[None]:
        """A ready Node with resources, annotations and labels, until the end of the block."""
        client = self.plane.client
        client.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE, **metadata}}).accepted()
        try:
            amounts = {
                "cpu": "64",
                "memory": "512Gi",
                "pods": "110",
                **{key: str(each) for key, each in resources.items()},
            }
            ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
            status = {"capacity": amounts, "allocatable": amounts, "conditions": [ready]}
            client.patch("v1", "nodes", f"{NODE}/status", {"status": status}).accepted()
            client.patch("v1", "nodes", NODE, {"spec": {"taints": None}}).accepted()
            yield
        finally:
            client.delete("v1", "nodes", NODE).accepted()

    def annotate_node(self, annotations: Mapping[str, str | None]) -> None:
        self.plane.client.patch("v1", "nodes", NODE, {"metadata": {"annotations": dict(annotations)}}).accepted()

    def kube_scheduler(self, name: str, extender: Object) -> AbstractContextManager[Process]:
        """Kubernetes' own scheduler under another name, with an extender."""
        configuration = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            "clientConnection": {"kubeconfig": str(self.plane.kubeconfig)},
            "profiles": [{"schedulerName": name}],
            "extenders": [{"filterVerb": "filter", "bindVerb": "bind", "nodeCacheCapable": True, **extender}],
        }
        file = self.folder / "scheduler.json"
        file.write_text(json.dumps(configuration))
        [port] = free_ports(1)
        options = [f"--secure-port={port}", "--bind-address=127.0.0.1", f"--cert-dir={self.folder / 'scheduler'}"]
        return self.run([self.plane.binaries.path("kube-scheduler"), f"--config={file}", *options])


@dataclass(frozen=True, slots=True)
class Running:
    """A system that runs.

    Attributes:
        given: what each container of a stored pod was given.
        webhook: its mutating webhook, as its installation registers it; none where it has none.
        url: where that is served.
        tidy: what is done after each pod.
        needed: its webhook has to be there for a pod to be placed.
        bundle: the CA of its webhook, if it makes one itself.
        serves: the resource whose pods it places without a scheduler of another name.
    """

    given: Callable[[Object], dict[str, Share]]
    webhook: Object | None = None
    url: str = ""
    tidy: Callable[[], None] = lambda: None
    needed: bool = False
    bundle: str = ""
    serves: str = ""


@dataclass(frozen=True, slots=True)
class System:
    """One system.

    Attributes:
        name: of it, as in the table of programs.
        target: the mapping that describes it.
        start: runs it until the end of a block.
        lacking: what it lacks as it is installed, so that no pod that requests a device is placed.
        settings: of the webhook, besides the target.
        mapping: a document that changes the target's, as its administrators would.
    """

    name: str
    target: str
    start: Callable[[Place], AbstractContextManager[Running]]
    lacking: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    mapping: Mapping[str, Any] | None = None


def make_certificate(folder: Path) -> Certificate:
    """Make the certificate of all webhooks here."""
    now = dt.datetime.now(dt.UTC)
    authority = make_ca("systems", now)
    leaf = issue(authority, ["127.0.0.1"], now)
    made = Certificate(folder / "tls.crt", folder / "tls.key", folder / "ca.crt")
    made.certificate.write_bytes(leaf.certificate_pem)
    made.key.write_bytes(leaf.key_pem)
    made.ca.write_bytes(authority.certificate_pem)
    return made


def pods_webhook(configuration: str, name: str, versions: Sequence[str] = ("v1",), **fields: Any) -> Object:
    """A webhook for new pods, but for what the order of webhooks and the place decide."""
    rule = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
    webhook = {"name": name, "admissionReviewVersions": [*versions], "sideEffects": "None", "rules": [rule], **fields}
    kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration"}
    return {**kind, "metadata": {"name": configuration}, "webhooks": [webhook]}


def shares(text: str, pod: Object) -> dict[str, Share]:
    """Read what HAMi's family writes: `UUID,TYPE,MiB,CORES:` for each device, and `;` after each container that requests any.

    0 cores are no limit.
    """
    found: dict[str, Share] = {}
    parts = list(filter(None, text.split(";")))
    for name, part in zip(requesting(pod), parts, strict=bool(parts)):
        devices = [device.split(",") for device in part.split(":") if device]
        [(memory, cores)] = {(int(memory), int(cores) or None) for _, _, memory, cores in devices}
        found[name] = Share(len(devices), memory, cores)
    return found


def requesting(pod: Object) -> list[str]:
    """The names of the containers that request a device, init containers first."""
    spec = pod["spec"]
    both = (*spec.get("initContainers", ()), *spec["containers"])
    return [each["name"] for each in both if any("/" in key for key in each["resources"].get("limits", {}))]


def configured(system: str) -> Object:
    """What a system's own installation configures."""
    found: Object = load_yaml(Path(__file__).with_name("configured.yaml").read_text())[system]
    return found
