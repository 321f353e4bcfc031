"""A healthy installation as facts, and changes to it."""

import base64
import copy
import datetime as dt
from dataclasses import replace
from functools import cache
from typing import Any

import msgspec

from certs.ca import Pair, issue, make_ca
from webhook import __version__
from webhook.admission.decision import Namespace
from webhook.cluster.client.api import Object
from webhook.cluster.configuration.config_maps import ConfigMap
from webhook.cluster.configuration.documents import DocumentCache
from webhook.cluster.configuration.policies import PolicyOutcome, policy_of
from webhook.cluster.registration.desired import ServiceReference, Site, desired_from, registration
from webhook.doctor.checks import CHECKS
from webhook.doctor.facts import (
    ClusterFacts,
    DaemonSet,
    Missing,
    Node,
    Result,
    Scheduler,
    Shown,
    StoredCertificates,
    Trial,
)
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


@cache
def outcome(**texts: str) -> PolicyOutcome:
    """What ConfigMaps come to: `settings`, and mappings by name."""
    settings = texts.pop("settings", "target: nvidia\n")
    header = "apiVersion: vgpu-webhook.io/v1alpha1\n"
    maps = [ConfigMap("vgpu-webhook-settings", {"settings.yaml": header + settings}, {})]
    label = {"vgpu-webhook.io/mapping": "true"}
    maps += [ConfigMap(name, {"mapping.yaml": text}, label) for name, text in texts.items()]
    return policy_of(maps, {}, DocumentCache())


def registered(made: PolicyOutcome, authority: Pair = AUTHORITY, *, service: bool = False) -> Object:
    """The webhook configuration as the webhook writes it."""
    address = ServiceReference("gpu", "vgpu-webhook") if service else URL
    site = Site(address, authority.certificate_pem, "gpu")
    return registration(desired_from(made.policy), site, version=__version__)


def configuration(name: str, **changes: Any) -> Object:
    """A configuration of somebody else for new pods."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    hook = {"name": f"{name}.example", "clientConfig": {"url": "https://x"}, "rules": [rule], **changes}
    return {"metadata": {"name": name}, "webhooks": [hook]}


def pod(name: str, limits: dict[str, str] | None = None, **metadata: Any) -> Pod:
    """A pod with one container."""
    container = {"name": "main", "image": "app", "resources": {"limits": limits or {}}}
    data = {"metadata": {"name": name, **metadata}, "spec": {"containers": [container], "nodeName": "n1"}}
    return decode_pod(msgspec.json.encode(data))


def space(name: str, **ours: str) -> Namespace:
    """An opted-in namespace with labels of ours."""
    labels = {f"vgpu-webhook.io/{key}": value for key, value in {"inject": "enabled", **ours}.items()}
    return Namespace(name, labels | {"kubernetes.io/metadata.name": name})


INSTALLER = DaemonSet("gpu/shim", True, (SHIM,), frozenset({"n1", "n2"}), 2, 2)  # noqa: FBT003
PLUGIN = DaemonSet("gpu/plugin", False, (PLUGINS,), frozenset({"n1"}), 1, 1)  # noqa: FBT003
LIBRARIES = replace(PLUGIN, host_paths=(PLUGINS, "/usr/local/libraries"))

OUTCOME = outcome()
HEALTHY = ClusterFacts(
    now=NOW,
    release="gpu",
    server="v1.36.3",
    outcome=OUTCOME,
    configurations=[configuration("later"), registered(OUTCOME)],
    backend=None,
    shown=[Shown(ADDRESS, "verified", "", LEAF.certificate)],
    stored=StoredCertificates(LEAF.certificate, (AUTHORITY.certificate,)),
    namespaces=[space("team"), Namespace("else")],
    pods={"team": [pod("done", {"nvidia.com/gpu": "1"}, annotations={"vgpu-webhook.io/status": "{}"}), pod("plain")]},
    trial=Trial("team", "nvidia.com/gpu: 1", 201, touched=True),
    nodes=[Node("n1", frozenset({"cpu", "nvidia.com/gpu"})), Node("n2", frozenset({"cpu"}))],
    schedulers={"hami-scheduler": Scheduler(3, 0)},
    awaited=[],
    deployed=True,
    daemon_sets=[INSTALLER, PLUGIN],
    choices=[],
    device_classes=[],
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


def bundle(*pairs: Pair) -> str:
    """A caBundle."""
    return base64.b64encode(b"".join(pair.certificate_pem for pair in pairs)).decode()
