"""A healthy installation as its API server answers, and changes to it."""

import asyncio
import base64
import copy
import datetime as dt
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cache
from typing import Any, TypeAlias
from unittest import mock

from certs.x509 import Pair, issue, make_ca
from tests.cluster.fake_api import FakeApi
from tests.yaml_text import put
from webhook import __version__
from webhook.cluster.client import Answer, Object
from webhook.cluster.policy import choose
from webhook.cluster.policy.choose import PolicyOutcome, policy_of
from webhook.cluster.policy.documents import ConfigMap, DocumentCache
from webhook.cluster.registration.wanted import (
    MUTATING,
    VALIDATING,
    ConfigurationKind,
    ServiceReference,
    Site,
    registration,
    wanted_by,
)
from webhook.doctor import Result, reading
from webhook.doctor.checks import CHECKS, made
from webhook.doctor.reading import ClusterReader
from webhook.mapping.load import load_policy
from webhook.mapping.model.policy import Policy

Facts: TypeAlias = Mapping[str, Any]
NOW = dt.datetime(2026, 5, 4, tzinfo=dt.UTC)
LONG_AGO = (NOW - dt.timedelta(hours=1)).isoformat()
URL = "https://webhook.example/mutate"


def refused(message: str, status: int = 403) -> Answer:
    """What an API server answers that refuses."""
    return Answer(status, json.dumps({"message": message}).encode())


REFUSED = refused('things is forbidden: User "u" cannot list resource "things"')
SHIM = "/usr/local/vgpu-shim"
PLUGINS = "/var/lib/kubelet/device-plugins"

AUTHORITY = make_ca("one", NOW - dt.timedelta(days=10))
OTHER = make_ca("other", NOW - dt.timedelta(days=10))
LEAF = issue(AUTHORITY, ["webhook.example"], NOW - dt.timedelta(days=10))


def config_map(name: str, key: str, text: str = "", **labels: str) -> Object:
    """A ConfigMap, with labels of ours."""
    ours = {f"vgpu-webhook.io/{label}": value for label, value in labels.items()}
    return {"metadata": {"name": name, "labels": ours}, "data": {key: text}}


def outcome(settings: str = "target: nvidia\n", **texts: str) -> tuple[Object, ...]:
    """ConfigMaps with settings, and with mappings by name."""
    header = "apiVersion: vgpu-webhook.io/v1alpha1\n"
    maps = [config_map("vgpu-webhook-settings", "settings.yaml", header + settings)]
    return (*maps, *(config_map(name, "mapping.yaml", text, mapping="true") for name, text in texts.items()))


_DOCUMENTS = DocumentCache()


@cache
def _cached(maps: tuple[tuple[str, tuple[Any, ...], tuple[Any, ...]], ...]) -> PolicyOutcome:
    return policy_of([ConfigMap(name, dict(data), dict(labels)) for name, data, labels in maps], {}, _DOCUMENTS)


def made_of(maps: Any, *_: object) -> PolicyOutcome:
    """What ConfigMaps come to, compiled once."""
    return _cached(tuple((each.name, (*each.data.items(),), (*each.labels.items(),)) for each in maps))


def policy_with(maps: Sequence[Object]) -> Policy:
    """The policy that the webhook makes of them."""
    return made_of(
        [ConfigMap(each["metadata"]["name"], each["data"], each["metadata"]["labels"]) for each in maps]
    ).policy


def registered(
    maps: Sequence[Object], authority: Pair = AUTHORITY, *, service: bool = False, kind: ConfigurationKind = MUTATING
) -> Object:
    """The webhook configuration as the webhook writes it."""
    address = ServiceReference("gpu", "vgpu-webhook") if service else URL
    site = Site(address, authority.certificate_pem, "gpu")
    return registration(wanted_by(policy_with(maps), kind), site, version=__version__)


def configuration(name: str, **changes: Any) -> Object:
    """A configuration of somebody else for new pods."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    hook = {"name": f"{name}.example", "clientConfig": {"url": "https://x"}, "rules": [rule], **changes}
    return {"metadata": {"name": name}, "webhooks": [hook]}


def pod(name: str, limits: dict[str, str] | None = None, phase: str = "Running", **metadata: Any) -> Object:
    """A pod with one container."""
    resources = {"limits": limits or {}, "requests": limits or {}}
    container = {"name": "main", "image": "app", "resources": resources}
    spec = {"containers": [container], "nodeName": "n1", "schedulerName": metadata.pop("scheduler", None)}
    return {"metadata": {"name": name, **metadata}, "spec": spec, "status": {"phase": phase}}


DONE = pod(
    "done",
    {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "5000"},
    annotations={"vgpu-webhook.io/status": "{}"},
    scheduler="hami-scheduler",
)
"""A pod as the webhook has left it."""


def space(name: str, **ours: str) -> Object:
    """An opted-in namespace with labels of ours."""
    labels = {f"vgpu-webhook.io/{key}": value for key, value in {"inject": "enabled", **ours}.items()}
    return {"metadata": {"name": name, "labels": labels | {"kubernetes.io/metadata.name": name}}}


def node(name: str, *resources: str, labels: dict[str, str] | None = None) -> Object:
    """A node with one of each of these resources."""
    return {
        "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": {**dict.fromkeys(resources, "1"), "volcano.sh/vgpu-cores": "0"}},
    }


def device_class(name: str, resource: str | None = None) -> Object:
    """A DeviceClass with an extended resource."""
    return {"metadata": {"name": name}, "spec": {} if resource is None else {"extendedResourceName": resource}}


def resource_slice(driver: str, *capacities: str, shared: bool = True, generation: int = 1) -> Object:
    """A ResourceSlice with one device."""
    device = {
        "name": "card",
        "allowMultipleAllocations": shared,
        "capacity": {name: {"value": "1"} for name in capacities},
    }
    spec = {"driver": driver, "pool": {"name": "p", "generation": generation}, "devices": [device]}
    return {"metadata": {"name": "s"}, "spec": spec}


def event(reason: str, kind: str, name: str, message: str, **more: Any) -> Object:
    """A Warning Event of the webhook."""
    of = {"source": {"component": "vgpu-webhook"}, "type": "Warning", "metadata": {"name": f"{name}.1"}}
    return {**of, "reason": reason, "involvedObject": {"kind": kind, "name": name}, "message": message, **more}


def secret(serving: Pair | None, *cas: Pair) -> Object:
    """The webhook's Secret."""
    return {"data": {"tls.crt": "" if serving is None else bundle(serving), "ca.crt": bundle(*cas), "tls.key": "%"}}


DEPLOYED: Object = {
    "metadata": {"name": "vgpu-webhook", "labels": {"app.kubernetes.io/component": "webhook"}},
    "spec": {"replicas": 2},
}


def started_with(*options: str) -> Object:
    """The webhook's Deployment with these options of `serve`."""
    containers = [{"name": "webhook", "args": ["serve", *options]}]
    return DEPLOYED | {"spec": {"replicas": 2, "template": {"spec": {"containers": containers}}}}


def replica(name: str, phase: str = "Running", *containers: Object, **conditions: str | Object) -> Object:
    """A pod of the webhook, with statuses of its containers."""
    stated = [
        {"type": kind, **(state if isinstance(state, dict) else {"status": state})}
        for kind, state in conditions.items()
    ]
    status = {"phase": phase, "conditions": stated, "containerStatuses": list(containers)}
    return {"metadata": {"name": name, "labels": {"app.kubernetes.io/component": "webhook"}}, "status": status}


def daemon_set(name: str, *folders: str, ready: int = 1, wanted: int = 1, **labels: str) -> Object:
    """A DaemonSet that mounts folders of the node; that of the shim is the release's."""
    volumes = [{"name": "v", "hostPath": {"path": folder}} for folder in folders]
    return {
        "metadata": {
            "namespace": "gpu" if name == "shim" else "kube-system",
            "name": name,
            "labels": {f"app.kubernetes.io/{key}": text for key, text in labels.items()},
        },
        "spec": {"selector": {"matchLabels": {"app": name}}, "template": {"spec": {"volumes": volumes}}},
        "status": {"desiredNumberScheduled": wanted, "numberReady": ready},
    }


def placed(name: str, *nodes: str) -> list[Object]:
    """The pods of a DaemonSet on nodes."""
    return [{"metadata": {"name": name, "labels": {"app": name}}, "spec": {"nodeName": each}} for each in nodes]


def queue(scheduler: str, placed: int = 0, waiting: int = 0, considered: int = 0) -> list[Object]:
    """Pods of a scheduler: with a node, without one for long, and of these those that it has looked at."""
    tried = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}
    return [
        {
            "metadata": {"name": "p", "creationTimestamp": LONG_AGO},
            "spec": {"schedulerName": scheduler, **({"nodeName": "n1"} if at < placed else {})},
            "status": {"phase": "Pending", **(tried if placed <= at < placed + considered else {})},
        }
        for at in range(placed + waiting)
    ]


def lease(name: str, seconds: float) -> Object:
    """A Lease that was renewed so long ago."""
    return {"metadata": {"name": name}, "spec": {"renewTime": (NOW - dt.timedelta(seconds=seconds)).isoformat()}}


def bundle(*pairs: Pair) -> str:
    """A caBundle."""
    return base64.b64encode(b"".join(pair.certificate_pem for pair in pairs)).decode()


INSTALLER = daemon_set("shim", SHIM, ready=2, wanted=2, component="shim-installer")
PLUGIN = daemon_set("plugin", PLUGINS)
LIBRARIES = daemon_set("plugin", PLUGINS, "/usr/local/libraries")
OUTCOME = outcome()
TOUCHED = {"metadata": {"annotations": {"vgpu-webhook.io/status": "{}"}}, "spec": {"containers": []}}
READY = [replica("one", Ready="True"), replica("two", Ready="True")]

HEALTHY: Facts = {
    "now": NOW,
    "release": "gpu",
    "/version": {"gitVersion": "v1.36.3"},
    "config_maps": OUTCOME,
    "configurations": [configuration("later"), registered(OUTCOME)],
    "validations": [registered(OUTCOME, kind=VALIDATING)],
    "stored": secret(LEAF, AUTHORITY),
    "namespaces": [space("team"), {"metadata": {"name": "else"}}, {"metadata": {"name": "gpu"}}],
    "pods": {"team": [DONE, pod("plain"), pod("over", {"nvidia.com/gpu": "1"}, "Succeeded")]},
    "dry_run": TOUCHED,
    "/api/v1/nodes": [node("n1", "cpu", "nvidia.com/gpu"), node("n2", "cpu")],
    "/api/v1/pods": queue("hami-scheduler", 3),
    "leases": [],
    "deployments": [DEPLOYED],
    "replicas": READY,
    "daemon_sets": [INSTALLER, PLUGIN],
    "shim_pods": placed("shim", "n1", "n2"),
    "/api/v1/namespaces/kube-system/pods": placed("plugin", "n1"),
    "device_classes": [],
    "slices": [],
    "events": [],
}


def but(**changes: Any) -> Facts:
    """The healthy installation with these facts instead."""
    paths = {"server": "/version", "nodes": "/api/v1/nodes", "waiting": "/api/v1/pods", "outcome": "config_maps"}
    paths |= {"plugin_pods": "/api/v1/namespaces/kube-system/pods"}
    return {**HEALTHY, **{paths.get(key, key): value for key, value in changes.items()}}


def _answers(facts: Facts) -> dict[str, Any]:
    """By path."""
    own, resource = f"/api/v1/namespaces/{facts['release']}", "/apis/resource.k8s.io/v1"
    replicas = facts["replicas"]
    return {
        **{path: answer for path, answer in facts.items() if path.startswith("/")},
        f"{own}/configmaps": facts["config_maps"],
        f"{own}/configmaps/vgpu-webhook-last-good": 404,
        MUTATING.collection: facts["configurations"],
        VALIDATING.collection: facts["validations"],
        f"{own}/secrets/vgpu-webhook-certificates": facts["stored"],
        "/api/v1/namespaces": facts["namespaces"],
        **{f"/api/v1/namespaces/{name}/pods": pods for name, pods in facts["pods"].items()},
        "POST /api/v1/namespaces/team/pods": facts["dry_run"],
        "/apis/coordination.k8s.io/v1/leases": facts["leases"],
        f"/apis/apps/v1/namespaces/{facts['release']}/deployments": facts["deployments"],
        f"{own}/pods": [*replicas, *facts["shim_pods"]] if isinstance(replicas, list) else replicas,
        "/apis/apps/v1/daemonsets": facts["daemon_sets"],
        f"{resource}/deviceclasses": facts["device_classes"],
        f"{resource}/resourceslices": facts["slices"],
        f"{own}/events": facts["events"],
        "/api/v1/namespaces/default/events": [],
    }


_builtin = cache(load_policy)


@asynccontextmanager
async def cluster(facts: Facts, assumed: Policy | None = None) -> AsyncIterator[tuple[ClusterReader, FakeApi]]:
    """A cluster with these facts, and its API server; documents are compiled once."""
    maps = facts["config_maps"]
    await asyncio.to_thread(_builtin)
    if isinstance(maps, list | tuple):
        await asyncio.to_thread(policy_with, maps)
    with (
        mock.patch.object(choose, "policy_of", made_of),
        mock.patch.object(reading, "load_policy", _builtin),
    ):
        api = FakeApi(_answers(facts), otherwise=403)
        yield ClusterReader(api, facts["release"], facts["now"], assumed), api


async def result_of(facts: Facts, name: str) -> Result:
    """What one check says."""
    async with cluster(facts) as (seen, _):
        ((_, result),) = await made([check for check in CHECKS if check.name == name], seen)
    return result


def amended(changes: Mapping[str, Any], *, service: bool = False) -> list[Object]:
    """The webhook configurations, ours with other values at paths of its webhooks; null takes one away."""
    ours = copy.deepcopy(registered(OUTCOME, service=service))
    for path, value in changes.items():
        put(ours["webhooks"], path, value)
    return [configuration("later"), ours]
