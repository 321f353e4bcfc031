"""Kueue: it queues pods and jobs by quotas, and counts a job by the template in it, which no webhook for pods changes."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests.controlplane.client import Object
from tests.controlplane.processes import free_ports

from . import programs
from .place import Place

API: Final = "kueue.x-k8s.io/v1beta2"
QUEUE: Final = "queue"
LABELS: Final = {"kueue.x-k8s.io/queue-name": QUEUE}
GROUP: Final = "kueue.x-k8s.io"
KINDS: Final = (
    ("pod", "", "v1", "-v1"),
    ("job", "batch", "v1", "batch-v1"),
    *((kind, GROUP, "v1beta2", "kueue-x-k8s-io-v1beta2") for kind in ("clusterqueue", "resourceflavor", "workload")),
)
"""What its webhooks are called for: kind, group, version, and both as their paths have them."""
CALLS: Final = {"Mutating": ("mutate", "CREATE"), "Validating": ("validate", "CREATE", "UPDATE")}
"""How their paths begin, and for which operations they are called."""
ADMISSION: Final = "admissionregistration.k8s.io/v1"
METRICS: Final = Path("/etc/kueue/metrics/certs")
"""Where it looks for a certificate for its metrics; no option changes that."""


@contextmanager
def started(place: Place, resources: Object, *gates: str) -> Iterator[None]:
    """Run it with its own definitions, with what it makes of resources before it counts them, and with feature gates."""
    definitions = programs.KUEUE.files() / "config/components/crd/bases"
    place.create_all(definitions)
    kinds = {path.stem.partition("_")[2] for path in definitions.glob("*.yaml")}
    place.plane.wait_until(lambda: kinds <= _served(place), "its kinds are served")
    place.namespaces("kueue-system")
    port, health = free_ports(2)
    configuration = {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "health": {"healthProbeBindAddress": f"127.0.0.1:{health}"},
        "metrics": {"bindAddress": "0"},
        "webhook": {"host": "127.0.0.1", "port": port, "certDir": str(place.certificate.certificate.parent)},
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "integrations": {"frameworks": ["batch/job", "pod"]},
        "resources": resources,
        "featureGates": {"VisibilityOnDemand": False, **dict.fromkeys(gates, True)},
    }
    file = place.folder / "kueue.json"
    file.write_text(json.dumps(configuration))
    copied = f"mkdir -p {METRICS} && cp {place.certificate.certificate} {place.certificate.key} {METRICS}/"
    hidden = ["unshare", "--mount", "sh", "-c", f'mount -t tmpfs tmpfs /etc && {copied} && exec "$@"', "sh"]
    environment = {**os.environ, "KUBECONFIG": str(place.plane.kubeconfig)}
    with place.run([*hidden, place.programs / "kueue", f"--config={file}"], environment):
        yield from _registered(place, f"https://127.0.0.1:{port}")


def _served(place: Place) -> set[str]:
    answer = place.plane.client.call("GET", f"/apis/{API}")
    return {each["name"] for each in answer.body.get("resources", ())}


def _registered(place: Place, url: str) -> Iterator[None]:
    """Register its webhooks for what it queues here and for its own kinds; their names begin as its installation has them."""
    client = place.plane.client
    configurations = [_configuration(place, url, kind) for kind in CALLS]
    for configuration in configurations:
        client.create(configuration).accepted()
    try:
        yield
    finally:
        for configuration in configurations:
            kinds = f"{configuration['kind'].lower()}s"
            client.delete(ADMISSION, kinds, configuration["metadata"]["name"]).accepted()


def _configuration(place: Place, url: str, kind: str) -> Object:
    verb, *operations = CALLS[kind]
    bundle = place.certificate.bundle()
    webhooks = []
    for name, group, version, path in KINDS:
        resources = [f"{name}s", *(["workloads/status"] if (name, verb) == ("workload", "validate") else [])]
        rule = {"apiGroups": [group], "apiVersions": [version], "operations": operations, "resources": resources}
        webhook = {
            "name": f"{verb[0]}{name}.kb.io",
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "clientConfig": {"url": f"{url}/{verb}-{path}-{name}", "caBundle": bundle},
            "rules": [rule],
        }
        webhooks.append(webhook if group == GROUP else {**webhook, "namespaceSelector": place.selector()})
    metadata = {"name": f"kueue-{kind.lower()}-webhook-configuration"}
    return {"apiVersion": ADMISSION, "kind": f"{kind}WebhookConfiguration", "metadata": metadata, "webhooks": webhooks}


def create_queue(place: Place, quotas: Mapping[str, Any]) -> None:
    """Create a queue in the namespace, with a quota for each of some resources."""
    resources = [{"name": name, "nominalQuota": str(quota)} for name, quota in quotas.items()]
    flavor = {"name": "flavor", "resources": resources}
    covered = {"coveredResources": list(quotas), "flavors": [flavor]}
    manifests: tuple[tuple[str, Object, Object], ...] = (
        ("ResourceFlavor", {"name": "flavor"}, {}),
        ("ClusterQueue", {"name": "cluster-queue"}, {"namespaceSelector": {}, "resourceGroups": [covered]}),
        ("LocalQueue", {"name": QUEUE, "namespace": place.namespace}, {"clusterQueue": "cluster-queue"}),
    )
    for kind, metadata, spec in manifests:
        _create(place, {"apiVersion": API, "kind": kind, "metadata": metadata, "spec": spec})

    def active() -> bool:
        queue = place.plane.client.get(API, "localqueues", QUEUE, place.namespace).accepted()
        conditions = queue.get("status", {}).get("conditions", ())
        return ("Active", "True") in {(each["type"], each["status"]) for each in conditions}

    place.plane.wait_until(active, "the queue is active")


def _create(place: Place, manifest: Object) -> None:
    """Create an object as soon as its webhooks answer."""

    def tried() -> bool:
        place.check()
        answer = place.plane.client.create(manifest)
        if answer.status in (404, 500):
            return False
        answer.accepted()
        return True

    place.plane.wait_until(tried, f"{manifest['kind']} is created")
