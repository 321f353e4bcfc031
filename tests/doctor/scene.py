"""A healthy installation as facts, and changes to it."""

import base64
import copy
import datetime as dt
from dataclasses import replace
from functools import cache
from typing import Any

import msgspec

from certs.x509 import Pair, issue, make_ca
from webhook import __version__
from webhook.admission.decision import Namespace
from webhook.cluster.client import Object
from webhook.cluster.configuration.compatibility import DocumentCache
from webhook.cluster.configuration.config_maps import ConfigMap
from webhook.cluster.configuration.policies import PolicyOutcome, policy_of
from webhook.cluster.registration.wanted import (
    MUTATING,
    VALIDATING,
    ConfigurationKind,
    ServiceReference,
    Site,
    registration,
    wanted_by,
)
from webhook.doctor.checks import CHECKS
from webhook.doctor.facts import INSTALLER as INSTALLER_LABEL
from webhook.doctor.facts import (
    ClusterFacts,
    DryRun,
    HandshakeResult,
    Item,
    Node,
    ReportedEvent,
    ResourceSlice,
    Scheduler,
    StoredCertificates,
    Workload,
)
from webhook.doctor.result import Missing, Result
from webhook.pod import Pod, decode_pod

NOW = dt.datetime(2026, 5, 4, tzinfo=dt.UTC)
URL = "https://webhook.example/mutate"
ADDRESS = "webhook.example:443"
REFUSED = Missing('things is forbidden: User "u" cannot list resource "things"')
SHIM = "/usr/local/vgpu-shim"
PLUGINS = "/var/lib/kubelet/device-plugins"

AUTHORITY = make_ca("one", NOW - dt.timedelta(days=10))
OTHER = make_ca("other", NOW - dt.timedelta(days=10))
LEAF = issue(AUTHORITY, ["webhook.example"], NOW - dt.timedelta(days=10))


_DOCUMENTS = DocumentCache()


@cache
def outcome(**texts: str) -> PolicyOutcome:
    """What ConfigMaps come to: `settings`, and mappings by name."""
    settings = texts.pop("settings", "target: nvidia\n")
    header = "apiVersion: vgpu-webhook.io/v1alpha1\n"
    maps = [ConfigMap("vgpu-webhook-settings", {"settings.yaml": header + settings}, {})]
    label = {"vgpu-webhook.io/mapping": "true"}
    maps += [ConfigMap(name, {"mapping.yaml": text}, label) for name, text in texts.items()]
    return policy_of(maps, {}, _DOCUMENTS)


def registered(
    made: PolicyOutcome, authority: Pair = AUTHORITY, *, service: bool = False, kind: ConfigurationKind = MUTATING
) -> Object:
    """The webhook configuration as the webhook writes it."""
    address = ServiceReference("gpu", "vgpu-webhook") if service else URL
    site = Site(address, authority.certificate_pem, "gpu")
    return registration(wanted_by(made.policy, kind), site, version=__version__)


def configuration(name: str, **changes: Any) -> Object:
    """A configuration of somebody else for new pods."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    hook = {"name": f"{name}.example", "clientConfig": {"url": "https://x"}, "rules": [rule], **changes}
    return {"metadata": {"name": name}, "webhooks": [hook]}


def pod(name: str, limits: dict[str, str] | None = None, **metadata: Any) -> Pod:
    """A pod with one container."""
    resources = {"limits": limits or {}, "requests": limits or {}}
    container = {"name": "main", "image": "app", "resources": resources}
    spec = {"containers": [container], "nodeName": "n1", "schedulerName": metadata.pop("scheduler", None)}
    return decode_pod(msgspec.json.encode({"metadata": {"name": name, **metadata}, "spec": spec}))


DONE = pod(
    "done",
    {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "5000"},
    annotations={"vgpu-webhook.io/status": "{}"},
    scheduler="hami-scheduler",
)
"""A pod as the webhook has left it."""


def space(name: str, **ours: str) -> Namespace:
    """An opted-in namespace with labels of ours."""
    labels = {f"vgpu-webhook.io/{key}": value for key, value in {"inject": "enabled", **ours}.items()}
    return Namespace(name, labels | {"kubernetes.io/metadata.name": name})


def node(name: str, *resources: str, labels: dict[str, str] | None = None) -> Node:
    """A node with one of each of these resources."""
    data = {"metadata": {"name": name, "labels": labels}, "status": {"allocatable": dict.fromkeys(resources, "1")}}
    return msgspec.convert(data, Node)


def device_class(name: str, resource: str | None = None) -> Item:
    """A DeviceClass with an extended resource."""
    spec = {} if resource is None else {"extendedResourceName": resource}
    return msgspec.convert({"metadata": {"name": name}, "spec": spec}, Item)


def resource_slice(driver: str, *capacities: str, shared: bool = True, generation: int = 1) -> ResourceSlice:
    """A ResourceSlice with one device."""
    device = {
        "name": "card",
        "allowMultipleAllocations": shared,
        "capacity": {name: {"value": "1"} for name in capacities},
    }
    spec = {"driver": driver, "pool": {"name": "p", "generation": generation}, "devices": [device]}
    return msgspec.convert({"metadata": {"name": "s"}, "spec": spec}, ResourceSlice)


def event(reason: str, kind: str, name: str, message: str, **more: Any) -> ReportedEvent:
    """A Warning Event of the webhook."""
    data = {"reason": reason, "involvedObject": {"kind": kind, "name": name}, "message": message, **more}
    return msgspec.convert(data, ReportedEvent)


def secret(serving: Pair | None, *cas: Pair) -> StoredCertificates:
    """The webhook's Secret."""
    data = {"tls.crt": "" if serving is None else bundle(serving), "ca.crt": bundle(*cas)}
    return msgspec.convert({"data": data}, StoredCertificates)


def daemon_set(name: str, *folders: str, ready: int = 1, wanted: int = 1, **labels: str) -> Workload:
    """A DaemonSet that mounts folders of the node."""
    volumes = [{"name": "v", "hostPath": {"path": folder}} for folder in folders]
    data = {
        "metadata": {
            "namespace": "gpu",
            "name": name,
            "labels": {f"app.kubernetes.io/{key}": text for key, text in labels.items()},
        },
        "spec": {"template": {"spec": {"volumes": volumes}}},
        "status": {"desiredNumberScheduled": wanted, "numberReady": ready},
    }
    return msgspec.convert(data, Workload)


DEPLOYED = msgspec.convert({"metadata": {"name": "vgpu-webhook"}, "spec": {"replicas": 2}}, Item)


def started_with(*options: str) -> Item:
    """The webhook's Deployment with these options of `serve`."""
    containers = [{"name": "webhook", "args": ["serve", *options]}]
    return msgspec.structs.replace(DEPLOYED, spec={"replicas": 2, "template": {"spec": {"containers": containers}}})


def replica(name: str, phase: str = "Running", *containers: Object, **conditions: str | Object) -> Item:
    """A pod of the webhook, with statuses of its containers."""
    stated = [
        {"type": kind, **(state if isinstance(state, dict) else {"status": state})}
        for kind, state in conditions.items()
    ]
    status = {"phase": phase, "conditions": stated, "containerStatuses": list(containers)}
    return msgspec.convert({"metadata": {"name": name}, "status": status}, Item)


def bundle(*pairs: Pair) -> str:
    """A caBundle."""
    return base64.b64encode(b"".join(pair.certificate_pem for pair in pairs)).decode()


INSTALLER = daemon_set("shim", SHIM, ready=2, wanted=2, component=INSTALLER_LABEL[1])
PLUGIN = daemon_set("plugin", PLUGINS)
LIBRARIES = daemon_set("plugin", PLUGINS, "/usr/local/libraries")
PLACED = {"gpu/shim": frozenset({"n1", "n2"}), "gpu/plugin": frozenset({"n1"})}

OUTCOME = outcome()
HEALTHY = ClusterFacts(
    now=NOW,
    release="gpu",
    server="v1.36.3",
    outcome=OUTCOME,
    config_maps=[],
    configurations=[configuration("later"), registered(OUTCOME)],
    validations=[registered(OUTCOME, kind=VALIDATING)],
    backend=None,
    handshakes=[HandshakeResult(ADDRESS, "verified", "", LEAF.certificate)],
    stored=secret(LEAF, AUTHORITY),
    namespaces=[space("team"), Namespace("else")],
    pods={"team": [DONE, pod("plain")]},
    dry_run=DryRun("team", "nvidia.com/gpu: 1", touched=True),
    nodes=[node("n1", "cpu", "nvidia.com/gpu"), node("n2", "cpu")],
    schedulers={"hami-scheduler": Scheduler(3, 0)},
    awaited=[],
    deployment=DEPLOYED,
    replicas=[replica("one", Ready="True"), replica("two", Ready="True")],
    daemon_sets=[INSTALLER, PLUGIN],
    placed=PLACED,
    device_classes=[],
    resource_slices=[],
    template_dry_run=None,
    reported=[],
)


def but(**changes: Any) -> ClusterFacts:
    """The healthy installation with these facts instead."""
    return replace(HEALTHY, **changes)


def result_of(facts: ClusterFacts, name: str) -> Result:
    """What one check says."""
    return next(check for check in CHECKS if check.name == name).judge(facts)


def amended(change: Any, *, service: bool = False) -> list[Object]:
    """The webhook configurations, with ours as a function has changed its webhooks."""
    ours = copy.deepcopy(registered(OUTCOME, service=service))
    change(ours["webhooks"])
    return [configuration("later"), ours]
