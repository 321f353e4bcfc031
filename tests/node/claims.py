"""Resource claims on the node: a driver that serves them, and an API server that is held back from their templates."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.controlplane.client import Answer, Object

from . import programs
from .cluster import NODE, Cluster
from .pods import Pods
from .releases import GROUP as ADMISSION
from .releases import TEAM, Release
from .rights import POD

GROUP: Final = "resource.k8s.io/v1"
TEMPLATES: Final = "resourceclaimtemplates"
DRIVER: Final = "gpu.example.com"
CLASS: Final = f"share.{DRIVER}"
"""That of the chart, which has only devices that are shared."""

TARGET: Final = "dra-example"
MAPPING: Final[Object] = {
    "vendor": TARGET,
    "family": "nvidia",
    "claim": {"driver": DRIVER, "class": CLASS, "distinct": "uuid"},
    "keys": {
        "count": {"claim": "count", "is": "devices", "values": "1..32"},
        "mem": {"claim": "memory", "is": "memory", "unit": "1Mi"},
        # dra-example-driver 0.4.0, internal/profiles/gpu/gpu.go: 1 to 100, all of them by default.
        "core": {"claim": "compute", "is": "cores", "unset": 1, "omitted": 100},
    },
    "forms": [{"name": "share", "absent": {"devices": 1, "memory": "all", "cores": "unlimited"}}],
    "place": {"scheduler": "default-scheduler"},
}
CDI: Final = "/run/cdi"
"""Where containerd looks for devices by default; the driver writes a file for each claim that it has prepared."""

CHECKPOINT: Final = f"var/lib/kubelet/plugins/{DRIVER}/checkpoint.json"
HOLD: Final = "hold"
PORT: Final = 4433
SILENT: Final = f"""
import signal, socket
signal.signal(signal.SIGTERM, signal.SIG_DFL)  # who starts it ignores that
listening = socket.create_server(("127.0.0.1", {PORT}))
signal.pause()
"""
"""Takes connections, and says nothing."""


@dataclass(frozen=True, slots=True)
class Claims:
    """What there is of claims in the cluster, and on its node."""

    release: Release
    pods: Pods

    @property
    def cluster(self) -> Cluster:
        return self.release.plane

    def templates(self, namespace: str = TEAM) -> set[str]:
        return {each["metadata"]["name"] for each in self.cluster.client.list(GROUP, TEMPLATES, namespace)}

    def prepared(self) -> list[str]:
        """What the driver has prepared, or has not given back: files of claims, and claims in its checkpoint."""
        files = (self.cluster.files / CDI.lstrip("/")).iterdir()
        checkpoint = json.loads((self.cluster.files / CHECKPOINT).read_text())
        uids = [each["uid"] for each in checkpoint.get("preparedClaims") or ()]
        # One file of the driver's is for all claims.
        return sorted([file.name for file in files if "common" not in file.name] + uids)

    def left(self) -> list[str]:
        """Claims in any namespace, and what the driver has prepared for them."""
        claims = self.cluster.client.list(GROUP, "resourceclaims")
        return [f"{each['metadata']['namespace']}/{each['metadata']['name']}" for each in claims] + self.prepared()

    def requests(self, template: str, status: int) -> list[str]:
        """The replicas whose request to create a template ended so."""
        found = []
        for line in self.cluster.audit_log.read_text().splitlines():
            event: Any = json.loads(line)
            reference = event.get("objectRef", {})
            created = (event["verb"], reference.get("resource")) == ("create", TEMPLATES)
            if created and event["responseStatus"]["code"] == status and reference.get("name") == template:
                found += event["user"]["extra"].get(POD, [])
        return found

    @contextmanager
    def held(self, seconds: int, replica: str = "") -> Iterator[None]:
        """In a block, the API server asks somebody silent before it creates a template: for all replicas, or for one.

        Args:
            seconds: until it gives up, and answers 500.
            replica: its name.
        """
        client = self.cluster.client
        of_replica = f"request.userInfo.extra[?'{POD}'].orValue([]).exists(name, name == '{replica}')"
        webhooks = [
            _silent("held", seconds, "!request.dryRun" + (f" && {of_replica}" if replica else "")),
            _silent("tried", 1, "request.dryRun"),
        ]
        hold = {"apiVersion": ADMISSION, "kind": "ValidatingWebhookConfiguration", "metadata": {"name": HOLD}}
        spec: Object = {"spec": {"devices": {}}}
        template = {"apiVersion": GROUP, "kind": "ResourceClaimTemplate", "metadata": {"name": "try"}, "spec": spec}

        def tried() -> Answer:
            return client.create(template, TEAM, dry_run=True)

        def held_back() -> bool:
            answer = tried()
            return answer.status == 500 and "refused" not in answer.message  # by somebody who listens already

        with self.cluster.beside("silent", [sys.executable, "-I", "-S", "-c", SILENT]):
            client.create({**hold, "webhooks": webhooks}).accepted()
            try:
                self.cluster.wait_until(held_back, "templates held back")
                yield
            finally:
                client.delete(ADMISSION, "validatingwebhookconfigurations", HOLD).accepted()
                self.cluster.wait_until(lambda: tried().status == 201, "templates created again")


def _silent(name: str, seconds: int, when: str) -> Object:
    rule = {"apiGroups": ["resource.k8s.io"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": [TEMPLATES]}
    return {
        "name": f"{name}.example.com",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": f"https://127.0.0.1:{PORT}/"},
        "failurePolicy": "Fail",
        "matchConditions": [{"name": "when", "expression": when}],
        "rules": [rule],
        "sideEffects": "None",
        "timeoutSeconds": seconds,
    }


@contextmanager
def driver(cluster: Cluster) -> Iterator[None]:
    """In a block, the node has one device of 80 GiB, which is shared."""
    command: list[str | Path] = [
        programs.dra(),
        *("--kubeconfig", cluster.kubeconfig, "--node-name", NODE, "--cdi-root", CDI),
        *("--num-devices=1", "--gpu-allow-multiple-allocations"),
    ]

    def published() -> list[Object]:
        slices = cluster.client.list(GROUP, "resourceslices")
        return [each for each in slices if each["spec"]["driver"] == DRIVER and each["spec"].get("devices")]

    with cluster.beside("dra", command):
        cluster.wait_until(published, "devices published")
        yield
    for each in published():
        cluster.client.delete(GROUP, "resourceslices", each["metadata"]["name"]).accepted()


def install(release: Release, values: Path) -> None:
    """Have the chart create templates, with the driver as the target."""
    release.ensure()
    settings = {"claims": {"enabled": True, "driver": DRIVER}, "settings": {"target": TARGET}}
    values.write_text(json.dumps({**settings, "mappings": {TARGET: MAPPING}}))
    release.run("upgrade", "--reset-then-reuse-values", "--values", str(values))
    release.settled()
