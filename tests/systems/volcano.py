"""Volcano with the plugin `deviceshare`: scheduler, controllers, and the webhook for pods."""

import datetime as dt
import os
import shutil
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import yaml

from tests.controlplane.beside import beside
from tests.controlplane.client import Object
from tests.controlplane.processes import free_ports

from . import programs
from .place import MODEL, Place, Running, System, configured, pods_webhook, shares
from .shapes import Share

DEFINITIONS: Final = ("crd/bases", "charts/jobflow/crd/bases")
REGISTER = "volcano.sh/node-vgpu-register"
HANDSHAKE = "volcano.sh/node-vgpu-handshake"
REPORTS = 10.0
"""Seconds from one report of the device plugin to the next. After a minute without, the Node has no devices."""
WEBHOOK = "volcano-admission-service-pods-mutate"
GROUP = "scheduling.volcano.sh/v1beta1"
PERCENTAGE = "volcano.sh/vgpu-memory-percentage"
GPU_GROUP = "gpu"
ACCOUNT = Path("/run/secrets/kubernetes.io/serviceaccount")
DEVICES: Final = configured("volcano")
"""What its device plugin's installation configures."""
TIERS: Final = (
    ("priority", "gang", "conformance"),
    ("overcommit", "drf", "deviceshare", "predicates", "proportion", "nodeorder", "binpack"),
)
"""The plugins of its chart, and where its user guide of vGPU adds the one that shares devices."""
OPTIONS: Final[Mapping[str, Object]] = {
    "gang": {"enablePreemptable": False},
    "drf": {"enablePreemptable": False},
    "deviceshare": {"arguments": {"deviceshare.VGPUEnable": True}},
}


@contextmanager
def start(place: Place, *, percentages: bool = False) -> Iterator[Running]:
    """Run it with its definitions, configured as by its chart, and with what its device plugin's installation adds.

    Args:
        place: where.
        percentages: the Node offers percentages of memory, too, as administrators can have it: no device plugin does.
    """
    files = programs.VOLCANO.files() / "installer/helm/chart/volcano"
    for definitions in DEFINITIONS:
        place.create_all(files / definitions)
    place.namespaces("volcano-system")
    config_map = {"name": "volcano-vgpu-device-config", "namespace": "kube-system"}
    data = {"device-config.yaml": yaml.safe_dump({"nvidia": DEVICES})}
    place.created({"apiVersion": "v1", "kind": "ConfigMap", "metadata": config_map, "data": data})
    # By default its chart installs no webhook for pods.
    webhook = pods_webhook(WEBHOOK, "mutatepod.volcano.sh")
    program = place.programs
    kubeconfig = f"--kubeconfig={place.plane.kubeconfig}"
    scheduler, healthz, controllers, port, health = free_ports(5)
    resources = {
        "volcano.sh/vgpu-number": 10 * len(place.uuids),
        "volcano.sh/vgpu-memory": place.device_mib * len(place.uuids),
        "volcano.sh/vgpu-cores": 100 * len(place.uuids),
    }
    if percentages:
        resources[PERCENTAGE] = 100 * len(place.uuids)
    register = "".join(f"{uuid},10,{place.device_mib},{MODEL},true,hami-core:" for uuid in place.uuids)
    with ExitStack() as running:
        running.enter_context(place.node(resources, {"annotations": {REGISTER: register, HANDSHAKE: _now()}}))
        running.enter_context(
            place.run(
                [
                    program / "controller-manager",
                    kubeconfig,
                    "--leader-elect=false",
                    f"--listen-address=127.0.0.1:{controllers}",
                    "--enable-healthz=false",
                ]
            )
        )
        running.enter_context(
            place.run(
                [
                    *_in_cluster(place),
                    program / "scheduler",
                    kubeconfig,
                    f"--scheduler-conf={_configuration(place)}",
                    "--leader-elect=false",
                    f"--listen-address=127.0.0.1:{scheduler}",
                    f"--healthz-address=127.0.0.1:{healthz}",
                ],
                _as_in_cluster(place),
            )
        )
        # It waits for its configuration before it serves, and writes its CA there.
        place.created({**webhook, "webhooks": []})
        running.callback(
            place.plane.client.delete, "admissionregistration.k8s.io/v1", "mutatingwebhookconfigurations", WEBHOOK
        )
        running.enter_context(
            place.run(
                [
                    program / "webhook-manager",
                    kubeconfig,
                    "--enabled-admission=/pods/mutate",
                    f"--tls-cert-file={place.certificate.certificate}",
                    f"--tls-private-key-file={place.certificate.key}",
                    f"--ca-cert-file={place.certificate.ca}",
                    f"--admission-conf={_groups(place)}",
                    "--listen-address=127.0.0.1",
                    f"--port={port}",
                    f"--healthz-address=127.0.0.1:{health}",
                    "--webhook-namespace=volcano-system",
                ]
            )
        )
        running.enter_context(beside(lambda over: _report(place, over)))
        running.callback(_no_groups, place)
        yield Running(given, webhook, f"https://127.0.0.1:{port}/pods/mutate", lambda: _no_groups(place))


def given(pod: Object) -> dict[str, Share]:
    """What its scheduler allocated."""
    return shares(pod["metadata"].get("annotations", {}).get("volcano.sh/vgpu-ids-new", ""), pod)


def _no_groups(place: Place) -> None:
    """Without garbage collection, groups of pods that are gone fill the queue."""
    client = place.plane.client
    for group in client.list(GROUP, "podgroups", place.namespace):
        client.delete(GROUP, "podgroups", group["metadata"]["name"], place.namespace)


def _report(place: Place, over: threading.Event) -> None:
    """Do what its device plugin does. A Node that the scheduler has read before its first session has devices only then."""
    while not over.wait(REPORTS):
        place.annotate_node({HANDSHAKE: _now()})


def _now() -> str:
    return f"Reported {dt.datetime.now(dt.UTC):%Y.%m.%d %H:%M:%S}"


def _configuration(place: Place) -> Path:
    tiers = [{"plugins": [{"name": name, **OPTIONS.get(name, {})} for name in names]} for names in TIERS]
    file = place.folder / "volcano-scheduler.conf"
    file.write_text(yaml.safe_dump({"actions": "enqueue, allocate, backfill", "tiers": tiers}))
    return file


def _groups(place: Place) -> Path:
    """A group of resources, as the chart's configuration shows: pods that name it in an annotation get a toleration."""
    toleration = {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}
    file = place.folder / "volcano-admission.conf"
    file.write_text(yaml.safe_dump({"resourceGroups": [{"resourceGroup": GPU_GROUP, "tolerations": [toleration]}]}))
    return file


def _in_cluster(place: Place) -> list[str]:
    """Show the program a service account where pods have it: it reads the plugin's ConfigMap only so."""
    account = place.folder / "account"
    account.mkdir()
    (account / "token").write_text(place.plane.client.token)
    (account / "namespace").write_text("volcano-system")
    shutil.copy(place.plane.client.ca_file, account / "ca.crt")
    script = f'mount -t tmpfs tmpfs /run && mkdir -p {ACCOUNT} && cp {account}/* {ACCOUNT}/ && exec "$@"'
    return ["unshare", "--mount", "sh", "-c", script, "sh"]


def _as_in_cluster(place: Place) -> dict[str, str]:
    host, port = place.plane.client.server.removeprefix("https://").split(":")
    return {**os.environ, "KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}


VOLCANO = System("volcano", "volcano", start)
REPORTED = {"keys": {"vgpu-memory-percentage": {"unreported": None}}}
"""The mapping where Nodes offer percentages: docs/mapping.md."""
VOLCANO_WITH_PERCENTAGE = System(
    "volcano-with-percentage", "volcano", partial(start, percentages=True), mapping=REPORTED
)
