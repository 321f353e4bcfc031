"""Koordinator: its manager fills the Node from a Device and serves its webhook, its scheduler places."""

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import yaml

from tests.controlplane.client import Object
from tests.controlplane.processes import free_ports

from .place import NODE, UUIDS, Place, Running, System, requesting
from .shapes import DEVICE_MIB, DEVICES, Share
from .sources import sources

NAMESPACE: Final = "koordinator-system"
REGISTRATION: Final = "admissionregistration.k8s.io/v1"
SHARED: Final = "koordinator.sh/gpu.shared"


@contextmanager
def start(place: Place, gates: str) -> Iterator[Running]:
    """Run it with the definitions, configuration and webhooks of its manifests, and feature gates."""
    files, client = place.files["koordinator"], place.plane.client
    place.namespaces(NAMESPACE)
    place.create_all(files / "config/crd/bases")
    place.created(_moved(yaml.safe_load((files / "config/manager/slo-controller-config.yaml").read_text())))
    port, health, metrics, pprof = free_ports(4)
    environment = {
        **os.environ,
        "WEBHOOK_HOST": "127.0.0.1",
        "WEBHOOK_PORT": str(port),
        "WEBHOOK_CERT_DIR": str(place.folder / "webhook"),
        "POD_NAMESPACE": NAMESPACE,
    }
    manager: list[str | Path] = [
        files / "bin/koord-manager",
        "--enable-leader-election=false",
        f"--kubeconfig={place.plane.kubeconfig}",
        f"--metrics-addr=127.0.0.1:{metrics}",
        f"--health-probe-addr=127.0.0.1:{health}",
        f"--pprof-addr=127.0.0.1:{pprof}",
        *([f"--feature-gates={gates}"] if gates else []),
    ]
    with ExitStack() as running:
        running.enter_context(place.node({}, {}))
        webhook: Object = {}
        for manifest in yaml.safe_load_all((files / "config/webhook/manifests.yaml").read_text()):
            resource, name = f"{manifest['kind'].lower()}s", name_of(manifest)
            # It waits for both, and writes its CA there; what sends to a Service that is not here must not be called.
            for each in manifest["webhooks"]:
                each["namespaceSelector"] = {"matchLabels": {"nowhere": "at-all"}}
            place.created({**manifest, "metadata": {"name": name}})
            running.callback(client.delete, REGISTRATION, resource, name)
            if manifest["kind"] == "MutatingWebhookConfiguration":
                webhook = {**manifest, "webhooks": [each for each in manifest["webhooks"] if "pod" in each["name"]]}
        place.created(_device())
        running.callback(client.delete, "scheduling.koordinator.sh/v1alpha1", "devices", NODE)
        running.enter_context(place.run(manager, environment))
        running.enter_context(
            place.run([files / "bin/koord-scheduler", f"--config={_configuration(place)}", "--secure-port=0"])
        )
        place.plane.wait_until(
            partial(_filled, place, SHARED if gates else "koordinator.sh/gpu"), "the Node has devices", 120
        )
        url = f"https://127.0.0.1:{port}/mutate-pod"
        yield Running(given, webhook, url, needed=True, bundle=_bundle(place, name_of(webhook)))


def given(pod: Object) -> dict[str, Share]:
    """What its scheduler allocated, which is for the whole pod."""
    text = pod["metadata"].get("annotations", {}).get("scheduling.koordinator.sh/device-allocated")
    devices = json.loads(text)["gpu"] if text else []
    sizes = {
        (
            _mib(each["resources"]["koordinator.sh/gpu-memory"]),
            int(each["resources"].get("koordinator.sh/gpu-core", 0)) or None,
        )
        for each in devices
    }
    names = requesting(pod)
    return {name: Share(len(devices) // len(names), *size) for name in names for size in sizes}


def name_of(manifest: Object) -> str:
    """The name of a webhook configuration as its installation has it."""
    return f"koordinator-{manifest['metadata']['name']}"


def _bundle(place: Place, name: str) -> str:
    """The CA that its manager has made and written."""

    def written() -> str:
        found = place.plane.client.get(REGISTRATION, "mutatingwebhookconfigurations", name).accepted()
        bundles = {each["clientConfig"].get("caBundle", "") for each in found.get("webhooks", ())}
        return bundles.pop() if len(bundles) == 1 else ""

    return place.plane.wait_until(written, "its CA is written", 60)


def _mib(text: str) -> int:
    units = {"Ki": 1 / 1024, "Mi": 1, "Gi": 1024}
    return round(float(text[:-2]) * units[text[-2:]]) if text[-2:] in units else int(text) // 1024**2


def _filled(place: Place, resource: str) -> bool:
    node = place.plane.client.get("v1", "nodes", NODE).accepted()
    return resource in node["status"]["allocatable"]


def _device() -> Object:
    amounts = {
        "koordinator.sh/gpu-core": "100",
        "koordinator.sh/gpu-memory": f"{DEVICE_MIB}Mi",
        "koordinator.sh/gpu-memory-ratio": "100",
    }
    devices = [
        {"type": "gpu", "id": uuid, "minor": number, "health": True, "resources": amounts}
        for number, uuid in enumerate(UUIDS[:DEVICES])
    ]
    kind = {"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Device"}
    return {**kind, "metadata": {"name": NODE}, "spec": {"devices": devices}}


def _configuration(place: Place) -> str:
    """The scheduler's, for this control plane."""
    manifest = yaml.safe_load((place.files["koordinator"] / "config/manager/scheduler-config.yaml").read_text())
    configuration = yaml.safe_load(manifest["data"]["koord-scheduler-config"])
    configuration["leaderElection"] = {"leaderElect": False}
    configuration["clientConnection"] = {"kubeconfig": str(place.plane.kubeconfig)}
    file = place.folder / "koord-scheduler.yaml"
    file.write_text(yaml.safe_dump(configuration))
    return str(file)


def _moved(manifest: Object) -> Object:
    return {**manifest, "metadata": {**manifest["metadata"], "namespace": NAMESPACE}}


GATE: Final = "EnableSyncGPUSharedResource"
KOORDINATOR, KOORDINATOR_GATED = (
    System(name, "koordinator", (sources()["koordinator"],), partial(start, gates=gates), lacking)
    for name, gates, lacking in (
        (
            "koordinator",
            "",
            f"its webhook adds koordinator.sh/gpu.shared, which Nodes have only with the feature gate {GATE}",
        ),
        ("koordinator-with-gate", f"{GATE}=true", ""),
    )
)
