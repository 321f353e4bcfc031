"""Koordinator: its manager fills the Node from a Device and serves its webhook, its scheduler places."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from tests.controlplane.client import Object
from tests.controlplane.processes import free_ports

from . import programs
from .place import NODE, UUIDS, Place, Running, System, configured, pods_webhook, requesting
from .shapes import DEVICE_MIB, DEVICES, Share

NAMESPACE: Final = "koordinator-system"
REGISTRATION: Final = "admissionregistration.k8s.io/v1"
SHARED: Final = "koordinator.sh/gpu.shared"
MUTATING: Final = "koordinator-mutating-webhook-configuration"
VALIDATING: Final = "koordinator-validating-webhook-configuration"
VERSION: Final = "kubescheduler.config.k8s.io/v1"
PLUGINS: Final[Mapping[str, str]] = configured("koordinator")
"""Where its manifests have its scheduler call plugins, some with a weight."""
ARGUMENTS: Final[Mapping[str, Object]] = {
    "LoadAwareScheduling": {"filterExpiredNodeMetrics": False},
    "ElasticQuota": {"quotaGroupNamespace": NAMESPACE},
}


@contextmanager
def start(place: Place, gates: str) -> Iterator[Running]:
    """Run it with its definitions, configured as by its manifests, and with feature gates."""
    client = place.plane.client
    place.namespaces(NAMESPACE)
    place.create_all(programs.KOORDINATOR.files() / "config/crd/bases")
    config_map = {"name": "slo-controller-config", "namespace": NAMESPACE}
    data = {"colocation-config": json.dumps({"enable": True})}
    place.created({"apiVersion": "v1", "kind": "ConfigMap", "metadata": config_map, "data": data})
    port, health, metrics, pprof = free_ports(4)
    url = f"https://127.0.0.1:{port}/mutate-pod"
    environment = {
        **os.environ,
        "WEBHOOK_HOST": "127.0.0.1",
        "WEBHOOK_PORT": str(port),
        "WEBHOOK_CERT_DIR": str(place.folder / "webhook"),
        "POD_NAMESPACE": NAMESPACE,
    }
    manager: list[str | Path] = [
        place.programs / "koord-manager",
        "--enable-leader-election=false",
        f"--kubeconfig={place.plane.kubeconfig}",
        f"--metrics-addr=127.0.0.1:{metrics}",
        f"--health-probe-addr=127.0.0.1:{health}",
        f"--pprof-addr=127.0.0.1:{pprof}",
        *([f"--feature-gates={gates}"] if gates else []),
    ]
    with ExitStack() as running:
        running.enter_context(place.node({}, {}))
        # It waits for both configurations, and writes its CA into the webhooks: this one must not be called.
        nowhere = {"matchLabels": {"nowhere": "at-all"}}
        where: Object = {"clientConfig": {"url": url}, "namespaceSelector": nowhere}
        webhook = pods_webhook(MUTATING, "mpod-create.koordinator.sh", ["v1", "v1beta1"], **where)
        validating = {"kind": "ValidatingWebhookConfiguration", "metadata": {"name": VALIDATING}, "webhooks": []}
        for manifest in (webhook, {**webhook, **validating}):
            place.created(manifest)
            resource = f"{manifest['kind'].lower()}s"
            running.callback(client.delete, REGISTRATION, resource, manifest["metadata"]["name"])
        place.created(_device())
        running.callback(client.delete, "scheduling.koordinator.sh/v1alpha1", "devices", NODE)
        running.enter_context(place.run(manager, environment))
        running.enter_context(
            place.run([place.programs / "koord-scheduler", f"--config={_configuration(place)}", "--secure-port=0"])
        )
        place.plane.wait_until(
            partial(_filled, place, SHARED if gates else "koordinator.sh/gpu"), "the Node has devices", 120
        )
        yield Running(given, webhook, url, needed=True, bundle=_bundle(place))


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


def _bundle(place: Place) -> str:
    """The CA that its manager has made and written."""

    def written() -> str:
        found = place.plane.client.get(REGISTRATION, "mutatingwebhookconfigurations", MUTATING).accepted()
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
    replaced = ("queueSort", "postFilter", "bind")
    plugins = {
        point: {"enabled": enabled, **({"disabled": [{"name": "*"}]} if point in replaced else {})}
        for point, enabled in ((point, [_plugin(name) for name in names.split()]) for point, names in PLUGINS.items())
    }
    arguments = {name: {"apiVersion": VERSION, "kind": f"{name}Args", **given} for name, given in ARGUMENTS.items()}
    profile = {
        "schedulerName": "koord-scheduler",
        "plugins": plugins,
        "pluginConfig": [{"name": name, "args": given} for name, given in arguments.items()],
    }
    configuration = {
        "apiVersion": VERSION,
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(place.plane.kubeconfig)},
        "profiles": [profile],
    }
    file = place.folder / "koord-scheduler.json"
    file.write_text(json.dumps(configuration))
    return str(file)


def _plugin(text: str) -> Object:
    name, _, weight = text.partition("=")
    return {"name": name, **({"weight": int(weight)} if weight else {})}


GATE: Final = "EnableSyncGPUSharedResource"
KOORDINATOR, KOORDINATOR_GATED = (
    System(name, "koordinator", partial(start, gates=gates), lacking)
    for name, gates, lacking in (
        (
            "koordinator",
            "",
            f"its webhook adds koordinator.sh/gpu.shared, which Nodes have only with the feature gate {GATE}",
        ),
        ("koordinator-with-gate", f"{GATE}=true", ""),
    )
)
