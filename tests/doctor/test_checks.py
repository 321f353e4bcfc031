"""Every check, with facts for each of its ends."""

import datetime as dt
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest

from certs.x509 import issue, make_ca
from tests.cluster.config_maps import vendor
from tests.doctor.scene import (
    ADDRESS,
    AUTHORITY,
    DEPLOYED,
    HEALTHY,
    INSTALLER,
    LEAF,
    LIBRARIES,
    NOW,
    OTHER,
    OUTCOME,
    PLACED,
    PLUGIN,
    PLUGINS,
    REFUSED,
    amended,
    bundle,
    but,
    configuration,
    daemon_set,
    device_class,
    event,
    node,
    outcome,
    pod,
    registered,
    replica,
    resource_slice,
    result_of,
    secret,
    space,
    started_with,
)
from webhook import __version__
from webhook.admission.decision import Namespace
from webhook.cli.commands.check import as_json, as_text
from webhook.cluster.client import ObjectMetadata
from webhook.cluster.configuration.compatibility import DocumentCache
from webhook.cluster.configuration.config_maps import StoredConfigMap
from webhook.cluster.configuration.policies import policy_of
from webhook.cluster.registration.wanted import ENFORCE, PODS, VALIDATING
from webhook.doctor.checks import CHECKS, examine
from webhook.doctor.facts import (
    Backend,
    ClusterFacts,
    DryRun,
    HandshakeResult,
    ResourceSlice,
    Scheduler,
    TemplateDryRun,
)
from webhook.doctor.result import Check, Level, Missing, Result, ok
from webhook.pod import Pod
from webhook.request import ClaimTemplate

TOLD = Path(__file__).parent / "told.txt"
GPU = {"nvidia.com/gpu": "1"}


def owned(name: str, kind: str, owner: str) -> Pod:
    """A GPU pod of a controller."""
    return pod(name, GPU, ownerReferences=[{"kind": kind, "name": owner, "controller": True}])


MISSED = [
    *(owned(name, "ReplicaSet", "train-5d4f8c7b9") for name in ("a", "b")),
    *(owned("c", "StatefulSet", "db"), pod("d", GPU)),
]
DAY = dt.timedelta(days=1)


def stored(name: str, key: str, **labels: str) -> StoredConfigMap:
    """A ConfigMap as the API server sends it."""
    prefixed = {f"vgpu-webhook.io/{label}": value for label, value in labels.items()}
    return StoredConfigMap(ObjectMetadata(name, labels=prefixed), {key: ""})


OVERLOOKED = [
    stored("a", "mapping.yaml", mapping="True"),
    stored("b", "mapping.yaml", mapping="true"),
    stored("vgpu-webhook-settings", "settings.yaml"),
    stored("setings", "settings.yaml"),
    stored("own", "notes.txt"),
]
OLD = issue(AUTHORITY, ["webhook.example"], NOW - 80 * DAY)
ENDED = issue(AUTHORITY, ["webhook.example"], NOW - 100 * DAY)
SHORT = make_ca("short", NOW - DAY, 20 * DAY)
GONE = make_ca("gone", NOW - 20 * DAY, 10 * DAY)
CALLED_FIRST = configuration("00-first", reinvocationPolicy="Never")
SCHEDULERS = configuration("00-first", clientConfig={"service": {"namespace": "x", "name": "hami-scheduler"}})
LEASE = Scheduler(0, 2, 0, 10.0)
THRICE = {"count": 3, "lastTimestamp": NOW.isoformat()}
REPORTED = but(
    reported=[
        # An API server's message: which right is missing comes last.
        event(
            "RegistrationFailed",
            "MutatingWebhookConfiguration",
            "00-vgpu-webhook",
            "the webhook configuration 00-vgpu-webhook cannot be updated: 403 Forbidden: "
            'mutatingwebhookconfigurations.admissionregistration.k8s.io "00-vgpu-webhook" is forbidden: '
            'User "system:serviceaccount:vgpu-webhook:vgpu-webhook" cannot create resource '
            '"mutatingwebhookconfigurations" in API group "admissionregistration.k8s.io" at the cluster scope',
            **THRICE,
        ),
        event("LastGoodFull", "ConfigMap", "vgpu-webhook-last-good", "no space for a"),
    ]
)
SERVED = {"volcano": Scheduler(5, 2)}
YOUNG = {"volcano": Scheduler(0, 0)}
UNSERVED = {"volcano": Scheduler(0, 2)}
BOTH = [node("n1", "nvidia.com/gpu"), node("n2", "volcano.sh/vgpu-number"), node("n3", "volcano.sh/vgpu-number")]
UNREADABLE = partial(outcome, settings="owners: {nvidia.com/gpu: mig-single}")
HAMIS = daemon_set("plugin", PLUGINS, "/usr/local/libraries", component="hami-device-plugin")
"""HAMi's device plugin, as HAMi 4707fb02 labels it: charts/hami/templates/device-plugin/daemonsetnvidia.yaml."""
LATE = daemon_set("shim", ready=1, wanted=2, component="shim-installer")
WHOLE = partial(outcome, settings="target: whole")
BY_SCHEDULER = {
    "reinvocationPolicy": "IfNeeded",
    "matchConditions": [{"name": "a", "expression": "object.spec.schedulerName == 'kai-scheduler'"}],
}
"""As KAI's operator registers its webhook."""
KOORDINATOR = partial(outcome, settings="target: koordinator")
UNGATED = [f"koordinator.sh/{name}" for name in ("gpu", "gpu-core", "gpu-memory", "gpu-memory-ratio")]
"""What its nodes report as it is installed."""
KAI, ASCEND, KUNLUN, SLICED, ILUVATAR, BI_V150 = (
    partial(outcome, settings=f"target: {name}", **documents)
    for name, documents in (
        ("kai", {}),
        ("ascend", {"ascend": "extends: ascend\nvariables: {chip: {write: 910B3}}\n"}),
        ("kunlun", {}),
        ("timeslicing", {}),
        ("iluvatar", {}),
        ("iluvatar", {"iluvatar": "extends: iluvatar\nvariables: {chip: {write: BI-V150}}\n"}),
    )
)
NO_TARGET = partial(outcome, settings="{}\n")
PLUGIN_MODE = partial(outcome, nvidia="extends: nvidia\nshim: {mode: plugin}\n")
ALL_PLUGIN = partial(outcome, settings="{}\n", nvidia="extends: nvidia\nshim: {mode: plugin}\n")
"""Without a target, which may be one of those whose shim is injected."""
VOLCANO = partial(outcome, settings="target: volcano")
SERVES_ALIYUN = partial(outcome, settings="target: nvidia\nserved: [aliyun]")
OF_SLICES = partial(outcome, settings="target: dra-nvidia-mig")
SLICE = resource_slice("gpu.nvidia.com", "memory", shared=False)
DRIVER = "hami-core-gpu.project-hami.io"
NEWER = [resource_slice(DRIVER, "memory", generation=2)]
ALIYUN = node("n4", "aliyun.com/gpu-mem")
MORE = partial(outcome, acme=vendor("acme"))
ANY_POD = [{"name": "gpu-keys", "expression": "true"}]
DENIED = f'admission webhook "{ENFORCE}" denied the request: VGW301'
SHARED = node("n1", *GPU, labels={"nvidia.com/gpu.product": "Tesla-T4-SHARED", "nvidia.com/gpu.replicas": "4"})
"""As GPU feature discovery labels a node (k8s-device-plugin 02f65cc, internal/lm/resource.go)."""
PRODUCT, REPLICAS = SHARED.labels
SIZED = node("n1", *GPU, labels={"nvidia.com/gpu.memory": "81559", "nvidia.com/gpu.count": "8"})
"""Likewise, of what it has."""
ELSEWHERE = {**PLACED, "gpu/plugin": frozenset({"n3"})}
SOMEWHERE = {**PLACED, "gpu/plugin": REFUSED}
TURNS = partial(
    outcome,
    settings="owners: {nvidia.com/gpu: timeslicing}",
    turns="extends: timeslicing\nkeys: {gpu: {resource: [nvidia.com/gpu, nvidia.com/gpu.shared]}}\n",
)
CLAIMING = pod("claiming", {**GPU, "deviceclass.resource.kubernetes.io/gpu.example": "1"})
BESIDE = pod("beside", {**GPU, "b.example/nic": "1"})
FAILED = f'Internal error occurred: failed calling webhook "{ENFORCE}": connection refused'


def both(**changes: Any) -> list[dict[str, Any]]:
    """Our webhook configuration with the same change in both webhooks."""
    return amended(lambda webhooks: [webhook.update(changes) for webhook in webhooks])


def failing_open(webhooks: list[dict[str, Any]]) -> None:
    """What the webhook itself writes while replicas start, or cannot be listed."""
    webhooks[0]["failurePolicy"] = "Ignore"


def narrowed(webhooks: list[dict[str, Any]]) -> None:
    """A term of somebody else."""
    webhooks[0]["namespaceSelector"]["matchExpressions"].append({"key": "a", "operator": "Exists"})


def first_trusts_more(webhooks: list[dict[str, Any]]) -> None:
    """One of the two webhooks has another bundle."""
    webhooks[0]["clientConfig"]["caBundle"] = bundle(AUTHORITY, OTHER)


def without_term(number: int) -> Any:
    """A function that takes a term of the namespace selectors away."""
    return lambda webhooks: [webhook["namespaceSelector"]["matchExpressions"].pop(number) for webhook in webhooks]


def bundles(text: str | None, *, service: bool = False) -> list[dict[str, Any]]:
    """Our webhook configuration with this caBundle."""
    return amended(
        lambda webhooks: [webhook["clientConfig"].update(caBundle=text) for webhook in webhooks], service=service
    )


def validating(**changes: Any) -> list[dict[str, Any]]:
    """The validating webhook configuration with changes in each webhook."""
    found = registered(OUTCOME, kind=VALIDATING)
    return [found | {"webhooks": [webhook | changes for webhook in found["webhooks"]]}]


def unfinished(**age: float) -> dict[str, Any]:
    """The validating webhook configuration without webhooks, made so long ago."""
    [made] = validating()
    created = (NOW - dt.timedelta(**age)).isoformat()
    return made | {"webhooks": [], "metadata": {**made["metadata"], "creationTimestamp": created}}


def shown(end: Any, leaf: Any = LEAF.certificate) -> list[HandshakeResult]:
    """What the URL shows."""
    return [HandshakeResult(ADDRESS, end, "why", leaf)]


def with_claims(*slices: ResourceSlice, classes: Sequence[str] = (DRIVER,)) -> ClusterFacts:
    """A cluster whose target writes claims."""
    return but(
        outcome=outcome(settings="target: dra-hami"),
        device_classes=[device_class(name) for name in classes],
        resource_slices=slices,
    )


def with_nvidia(*classes: str) -> ClusterFacts:
    """A cluster whose target also has a mapping for partitions."""
    facts = with_claims(resource_slice("gpu.nvidia.com", "memory"), classes=classes)
    return replace(facts, outcome=outcome(settings="target: dra-nvidia"))


DROPPED = TemplateDryRun("dra-hami", ClaimTemplate.of({"spec": {"capacity": "1"}}), {"spec": {}}, 201)

WRONG = {
    "target": "nvidea",
    "default-devices": "0",
    "default-memory": "4GB",
    "default-cores": "120",
    "bare-devices": "Whole",
    "shim": "mount",
    "guard": "off",
}
"""Each annotation of a namespace, with a value that it cannot have."""


def annotated(name: str, ours: dict[str, str]) -> Namespace:
    """An opted-in namespace with annotations of ours."""
    return replace(space(name), annotations={f"vgpu-webhook.io/{key}": value for key, value in ours.items()})


BY_HAND = registered(OUTCOME) | {"metadata": {"name": "00-vgpu-webhook"}}

READY = replica("one", Ready="True")
UNREADY = replica("a", "Running", {"name": "webhook", "ready": False, "state": {"running": {}}}, Ready="False")
UNPULLED = replica(
    "a",
    "Pending",
    {
        "state": {
            "waiting": {
                "reason": "ImagePullBackOff",
                "message": 'Back-off pulling image "example/vgpu-webhook:1": ErrImagePull: not found',
            }
        }
    },
)
UNPLACED = replica(
    "b",
    "Pending",
    PodScheduled={
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/1 nodes are available: 1 node(s) had untolerated taint(s).",
    },
)
CREATING = replica("c", "Pending", {"state": {"waiting": {"reason": "ContainerCreating"}}}, PodScheduled="True")
CRASHING = replica(
    "a",
    "Running",
    {
        "state": {
            "waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed container=webhook"}
        },
        "lastState": {
            "terminated": {"exitCode": 1, "reason": "Error", "message": "error: /certificates: no tls.crt\n"}
        },
    },
)
"""As a kubelet states them."""
EVICTED = msgspec.structs.replace(
    READY, status={"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."}
)
UNREGISTERED: dict[str, Any] = {"configurations": [], "namespaces": [space("team"), Namespace("gpu")]}
STATIC = started_with("--registration=static", "--service=gpu/vgpu-webhook")
FORBIDDEN = msgspec.structs.replace(
    DEPLOYED,
    status={
        "conditions": [
            {
                "type": "ReplicaFailure",
                "status": "True",
                "reason": "FailedCreate",
                "message": 'pods "vgpu-webhook-1" is forbidden: exceeded quota: cpu',
            }
        ]
    },
)

OK, WARNING, ERROR = Level.OK, Level.WARNING, Level.ERROR
CASES: list[tuple[str, Level, str, ClusterFacts | Callable[[], ClusterFacts]]] = [
    ("api-server", OK, "v1.36.3", HEALTHY),
    ("api-server", WARNING, "could not be read", but(server=REFUSED)),
    ("api-server", ERROR, "v1.29.4", but(server="v1.29.4")),
    ("api-server", ERROR, "does not answer", but(server=REFUSED, reachable=False)),
    ("replicas", OK, "2 of 2 pods ready", HEALTHY),
    ("replicas", OK, "it runs elsewhere", but(deployment=None)),
    ("replicas", WARNING, "could not be read", but(deployment=REFUSED)),
    ("replicas", WARNING, "could not be read", but(replicas=REFUSED)),
    ("replicas", WARNING, "1 of 2 pods ready", but(replicas=[READY, CRASHING])),
    ("replicas", WARNING, "2 of 2 pods ready, 1 not", but(replicas=[READY, READY, UNREADY])),
    ("replicas", ERROR, "0 of 2 pods ready", but(replicas=[UNPULLED, UNPLACED, CREATING])),
    ("replicas", ERROR, "0 of 2 pods ready", but(replicas=[EVICTED])),
    ("replicas", ERROR, "0 of 2 pods ready", but(replicas=[], deployment=FORBIDDEN)),
    ("replicas", ERROR, "scaled to 0", but(replicas=[], deployment=msgspec.structs.replace(DEPLOYED, spec={"replicas": 0}))),
    ("mappings", OK, "1 document of gpu", HEALTHY),
    ("mappings", WARNING, "a count alone requests whole devices", lambda: but(outcome=policy_of([], {}, DocumentCache()))),
    ("mappings", WARNING, "could not be read", lambda: but(outcome=REFUSED)),
    ("mappings", WARNING, "1 document without apiVersion", lambda: but(outcome=outcome(acme="extends: nvidia\n"))),
    ("mappings", WARNING, "1 vendor cannot be read yet", lambda: but(outcome=UNREADABLE())),
    ("mappings", WARNING, "2 ConfigMaps with a document", lambda: but(config_maps=OVERLOOKED)),
    ("mappings", ERROR, "1 document not in force", lambda: but(outcome=outcome(nvidia="extends: nvidia\nplaec: {}\n"))),
    ("events", OK, "nothing within the last hour", HEALTHY),
    ("events", WARNING, "2 Events of the webhook within the last hour: LastGoodFull, RegistrationFailed", REPORTED),
    ("events", WARNING, "the webhook's Events could not be read", but(reported=REFUSED)),
    ("events", WARNING, "12 Events", but(reported=[event("LastGoodFull", "ConfigMap", "a", str(at)) for at in range(12)])),
    ("registration", OK, "written by version", HEALTHY),
    ("registration", OK, "by hand", but(configurations=[BY_HAND])),
    ("registration", WARNING, "could not be read", but(configurations=REFUSED)),
    ("registration", WARNING, "was written for policy", lambda: but(outcome=NO_TARGET())),
    ("registration", ERROR, "there is no", but(configurations=[])),
    ("registration", ERROR, "there is no 00", but(replicas=[UNPULLED], **UNREGISTERED)),
    ("registration", ERROR, "there is no 00", but(deployment=STATIC, **UNREGISTERED)),
    ("registration", ERROR, "there is no 00", but(deployment=None, **UNREGISTERED)),
    ("registration", ERROR, "has no webhook audit", but(configurations=amended(lambda webhooks: webhooks.pop()))),
    ("selectors", OK, "vgpu-webhook.io/inject=enabled", HEALTHY),
    ("selectors", WARNING, "could not be read", but(configurations=REFUSED)),
    ("selectors", WARNING, "not checked", but(configurations=[])),
    ("selectors", WARNING, "changed by others", but(configurations=both(timeoutSeconds=30))),
    ("selectors", WARNING, "does not hold pods back yet", but(configurations=amended(failing_open))),
    ("selectors", WARNING, "written for another policy", lambda: but(outcome=outcome(settings="timeoutSeconds: 7\n"))),
    ("selectors", ERROR, "does not select", but(configurations=both(objectSelector={"matchLabels": {"a": "b"}}))),
    ("selectors", ERROR, "does not select", but(configurations=amended(narrowed))),
    ("selectors", ERROR, "does not select", but(configurations=amended(without_term(0)))),
    ("selectors", ERROR, "does not select", but(configurations=amended(without_term(1)))),
    ("selectors", ERROR, "does not select", but(configurations=amended(without_term(2)))),
    ("selectors", ERROR, "does not select", but(configurations=both(rules=[]))),
    ("selectors", ERROR, "does not select", but(release="elsewhere")),
    ("match-conditions", OK, "every pod with a name", HEALTHY),
    ("match-conditions", WARNING, "could not be read", but(configurations=REFUSED)),
    ("match-conditions", WARNING, "more pods", but(configurations=both(matchConditions=[]))),
    ("match-conditions", WARNING, "more pods", lambda: but(configurations=[registered(MORE())])),
    ("match-conditions", ERROR, "are not sent", but(configurations=both(matchConditions=ANY_POD))),
    ("match-conditions", ERROR, "are not sent", lambda: but(outcome=MORE())),
    ("order", OK, "before all others that change pods (1)", HEALTHY),
    ("validation", OK, "written by version", HEALTHY),
    ("validation", OK, "switched off", lambda: but(outcome=outcome(settings="validation: []\n"), validations=[])),
    ("validation", WARNING, "could not be read", but(validations=REFUSED)),
    ("validation", WARNING, "more pods", but(validations=validating(matchConditions=[]))),
    ("validation", ERROR, "there is no validating webhook configuration", but(validations=[])),
    ("validation", ERROR, "has no webhook pods.validate", but(validations=[validating()[0] | {"webhooks": []}])),
    ("validation", ERROR, "has no webhook pods.validate", but(validations=[unfinished(minutes=2)])),
    ("validation", WARNING, "yet", but(validations=[unfinished(seconds=20)])),
    ("validation", ERROR, "does not select", but(validations=validating(rules=[]))),
    ("order", OK, "may append twice: 00-a", but(configurations=[configuration("00-a", reinvocationPolicy="IfNeeded")])),
    ("order", OK, "(0)", but(configurations=[configuration("00-a", namespaceSelector={"matchLabels": {"a": "b"}})])),
    ("order", OK, "(0)", but(configurations=[configuration("00-a", rules=[{"resources": ["services"]}])])),
    ("order", WARNING, "could not be read", but(configurations=REFUSED)),
    ("order", WARNING, "00-first", but(configurations=[CALLED_FIRST])),
    ("order", ERROR, "of a scheduler", but(configurations=[SCHEDULERS])),
    ("order", ERROR, "only for pods of a scheduler", but(configurations=[configuration("00-kai", **BY_SCHEDULER)])),
    ("order", OK, "before all", but(configurations=[configuration("mutating-kai", **BY_SCHEDULER)])),
    ("bundle", OK, "trusts 1 CA", HEALTHY),
    ("bundle", OK, "trusts 2 CAs", but(validations=[], configurations=bundles(bundle(AUTHORITY, OTHER)))),
    ("bundle", WARNING, "could not be read", but(configurations=REFUSED)),
    ("bundle", WARNING, "no webhook configuration", but(configurations=[])),
    ("bundle", WARNING, "lacks 1 CA of the Secret", but(stored=secret(None, OTHER))),
    ("bundle", WARNING, "lacks 1 CA of the Secret", but(stored=secret(None, OTHER), configurations=[BY_HAND])),
    ("bundle", WARNING, "trust different", but(configurations=amended(first_trusts_more))),
    ("bundle", WARNING, "expires in 19 days", but(validations=[], configurations=bundles(bundle(SHORT)), stored=None)),
    ("bundle", WARNING, "has no caBundle", but(validations=[], configurations=bundles(""))),
    ("bundle", ERROR, "has no caBundle", but(validations=[], configurations=bundles(""), handshakes=shown("untrusted"))),
    ("bundle", ERROR, "has no caBundle", but(validations=[], configurations=bundles(None, service=True))),
    ("bundle", ERROR, "other than certificates", but(validations=[], configurations=bundles("bm9uZQ=="))),
    ("bundle", ERROR, "has expired", but(validations=[], configurations=bundles(bundle(GONE)), stored=None)),
    ("bundle", ERROR, "is valid now", but(now=NOW - 15 * DAY, validations=[], configurations=bundles(bundle(SHORT)))),
    ("served", OK, ADDRESS, HEALTHY),
    ("served", OK, ADDRESS, but(backend=Backend(2, 1), handshakes=[*shown("unreachable", None), *shown("verified")])),
    ("served", WARNING, "could not be read", but(configurations=REFUSED)),
    ("served", WARNING, "no webhook configuration", but(configurations=[])),
    ("served", WARNING, "could not be read", but(backend=REFUSED)),
    ("served", WARNING, "no connection could be made", but(handshakes=REFUSED)),
    ("served", WARNING, "cannot be reached", but(handshakes=shown("unreachable", None))),
    ("served", WARNING, "cannot be reached", but(backend=Backend(1, 0), handshakes=shown("refused", None))),
    ("served", ERROR, "no ready endpoint", but(backend=Backend(0, 2))),
    ("served", ERROR, "does not verify", but(handshakes=shown("untrusted"))),
    ("served", ERROR, "another program answers", but(handshakes=shown("no TLS", None))),
    ("served", ERROR, "nothing answers", but(handshakes=shown("refused", None))),
    ("certificates", OK, "valid for 80 days", HEALTHY),
    ("certificates", OK, "Secret", but(handshakes=REFUSED)),
    ("certificates", WARNING, "no certificate", but(handshakes=REFUSED, stored=REFUSED)),
    ("certificates", WARNING, "should have been renewed", but(handshakes=shown("verified", OLD.certificate))),
    ("certificates", WARNING, "should have been renewed", but(stored=secret(OLD))),
    ("certificates", ERROR, "has expired", but(handshakes=shown("untrusted", ENDED.certificate))),
    ("namespaces", OK, "opted in: team", HEALTHY),
    ("namespaces", OK, "team (warn)", but(namespaces=[space("team", mode="warn")])),
    ("namespaces", WARNING, "could not be read", but(namespaces=REFUSED)),
    ("namespaces", WARNING, "no namespace", but(namespaces=[Namespace("else")])),
    ("namespaces", WARNING, "intended effect", but(namespaces=[space("team", inject="true")])),
    ("namespaces", WARNING, "intended effect", but(namespaces=[space("team", mode="warning")])),
    ("namespaces", WARNING, "intended effect", but(namespaces=[space("team", rollout="25pct")])),
    ("namespaces", OK, "opted in: team", but(namespaces=[space("team", rollout="0")])),
    ("namespaces", WARNING, "intended effect", but(namespaces=[annotated("team", WRONG)])),
    ("namespaces", WARNING, "intended effect", but(namespaces=[space("team", moed="warn")])),
    ("namespaces", WARNING, "intended", but(pods={"team": [pod("out", GPU, labels={"vgpu-webhook.io/inject": "false"})]})),
    ("namespaces", WARNING, "intended effect", but(pods={"team": [pod("a", annotations={"vgpu-webhook.io/taget": "x"})]})),
    ("namespaces", WARNING, "intended effect", but(namespaces=[space("kube-system")])),
    ("namespaces", WARNING, "intended effect", but(namespaces=[space("gpu")])),
    ("untouched", OK, "(1 pod with", HEALTHY),
    ("untouched", OK, "(0 pods with", but(namespaces=[])),
    ("untouched", OK, "", but(pods={"team": [pod("out", GPU, labels={"vgpu-webhook.io/inject": "disabled"})]})),
    ("untouched", OK, "", but(namespaces=[space("team", mode="warn")], pods={"team": [pod("told", GPU)]})),
    ("untouched", OK, "", but(pods={"team": [pod("marked", {}, annotations={"hami.io/vgpu-node": "n1"})]})),
    ("untouched", WARNING, "could not be read", but(namespaces=REFUSED)),
    ("untouched", WARNING, "could not be read", but(pods={"team": REFUSED})),
    ("untouched", WARNING, "1 GPU pod", but(pods={"team": [pod("missed", GPU)]})),
    ("untouched", WARNING, "1 GPU pod", but(pods={"team": [pod("missed", GPU, annotations={"hami.io/vgpu-node": "n1"})]})),
    (
        "untouched",
        WARNING,
        "1 GPU pod that the present policy would change or deny",
        but(pods={"team": [pod("older", GPU, annotations={"vgpu-webhook.io/status": "{}"})]}),
    ),
    ("untouched", WARNING, "12 GPU pods", but(pods={"team": [pod(f"missed-{number}", GPU) for number in range(12)]})),
    ("untouched", WARNING, "4 GPU pods", but(pods={"team": MISSED})),
    ("untouched", WARNING, "9 GPU pods", but(pods={"team": [owned("a", "StatefulSet", f"s{number}") for number in range(9)]})),
    ("untouched", WARNING, "1 GPU pod", but(pods={"team": [owned("a", "Job", "nightly-28000000")]})),
    ("dry-run", OK, "is changed", HEALTHY),
    ("dry-run", WARNING, "no dry run could be made", but(dry_run=REFUSED)),
    ("dry-run", WARNING, "not by the webhook", but(dry_run=DryRun("team", "x: 1", "exceeded quota: q"))),
    ("dry-run", WARNING, "not by the webhook", but(dry_run=DryRun("team", "x: 1", 'failed calling webhook "other"'))),
    ("dry-run", ERROR, "created unchanged", but(dry_run=DryRun("team", "x: 1"))),
    ("dry-run", ERROR, "cannot call", but(dry_run=DryRun("team", "x: 1", FAILED))),
    ("dry-run", ERROR, "is denied", but(dry_run=DryRun("team", "x: 1", DENIED))),
    ("dry-run", ERROR, "is denied", but(dry_run=DryRun("team", "x: 1", DENIED.replace("VGW301", "VGW605: env X")))),
    ("dry-run", ERROR, "cannot call", but(dry_run=DryRun("team", "x: 1", FAILED.replace(ENFORCE, PODS)))),
    ("dry-run", ERROR, "is denied", but(dry_run=DryRun("team", "x: 1", DENIED.replace(ENFORCE, PODS)))),
    ("dry-run", ERROR, "the shim's volume", but(dry_run=DryRun("team", "x: 1", "violates PodSecurity: hostPath"))),
    ("resources", OK, "nvidia.com/gpu on 1 of 2 nodes", HEALTHY),
    ("resources", OK, "nvidia.com/gpu on 1 of 2 nodes", lambda: but(outcome=NO_TARGET())),
    ("resources", WARNING, "could not be read", but(nodes=REFUSED)),
    ("resources", WARNING, "of the target nvidia", but(nodes=[node("n1", "cpu")])),
    ("resources", WARNING, "no node has any", lambda: but(outcome=NO_TARGET(), nodes=[node("n1", "cpu")])),
    ("resources", ERROR, "get: they would stay Pending", lambda: but(outcome=KOORDINATOR(), nodes=[node("n1", *UNGATED)])),
    ("resources", WARNING, "of the target kai", lambda: but(outcome=KAI(), nodes=[node("n1", "cpu")])),
    ("resources", OK, "nvidia.com/gpu on 1 of 1 node", lambda: but(outcome=KAI(), nodes=[node("n1", "nvidia.com/gpu")])),
    ("resources", OK, "Ascend910B3 on 1 of 1", lambda: but(outcome=ASCEND(), nodes=[node("n1", "huawei.com/Ascend910B3")])),
    ("resources", ERROR, "stay Pending", lambda: but(outcome=ASCEND(), nodes=[node("n1", "huawei.com/Ascend910B3-memory")])),
    ("resources", WARNING, "some requests", lambda: but(outcome=ILUVATAR(), nodes=[node("n1", "iluvatar.ai/BI-V150-vgpu")])),
    ("resources", OK, "on 1 of 1 node", lambda: but(outcome=BI_V150(), nodes=[node("n1", "iluvatar.ai/BI-V150-vgpu")])),
    ("resources", OK, "nvidia.com/gpu on 1", lambda: but(outcome=TURNS(), nodes=[node("n1", "nvidia.com/gpu")])),
    ("resources", WARNING, "some requests", lambda: but(outcome=KUNLUN(), nodes=[node("n1", "kunlunxin.com/vxpu")])),
    ("resources", OK, "1 of", lambda: but(outcome=KOORDINATOR(), nodes=[node("n1", *UNGATED, "koordinator.sh/gpu.shared")])),
    ("systems", OK, "neither", HEALTHY),
    ("systems", OK, "neither", lambda: but(nodes=BOTH, outcome=NO_TARGET())),
    ("systems", OK, "neither", lambda: but(nodes=BOTH, outcome=outcome(settings="target: nvidia\nserved: [volcano]"))),
    ("systems", OK, "neither", lambda: but(nodes=BOTH, outcome=outcome(v="extends: volcano\ntranslateTo: nvidia\n"))),
    ("systems", OK, "neither", but(nodes=[node("n1", "metax-tech.com/sgpu")])),
    ("systems", WARNING, "could not be read", but(nodes=REFUSED)),
    ("systems", WARNING, "translated or denied", but(nodes=BOTH)),
    ("systems", WARNING, "translated or denied", but(nodes=[*BOTH, node("n3", "nvidia.com/mig-1g.10gb")])),
    ("systems", WARNING, "translated or denied", lambda: but(nodes=[node("n1", "hygon.com/dcunum")], outcome=VOLCANO())),
    ("systems", WARNING, "translated or denied", lambda: but(nodes=[*BOTH, ALIYUN], outcome=SERVES_ALIYUN())),
    ("systems", WARNING, "translated or denied", lambda: but(nodes=BOTH, outcome=VOLCANO())),
    ("largest", OK, "are not set", HEALTHY),
    ("largest", OK, "no more", lambda: but(nodes=[SIZED], outcome=outcome(settings="largestDevice: 80Gi\nlargestNode: 8"))),
    ("largest", OK, "no more", lambda: but(nodes=[node("n", *GPU)], outcome=outcome(settings="largestNode: 1"))),
    ("largest", WARNING, "are denied", lambda: but(nodes=[SIZED], outcome=outcome(settings="largestNode: 4"))),
    ("largest", WARNING, "are denied", lambda: but(nodes=[SIZED], outcome=outcome(settings="largestDevice: {nvidia: 40Gi}"))),
    ("largest", WARNING, "could not be read", but(nodes=REFUSED)),
    ("sharing", OK, "no node", HEALTHY),
    ("sharing", OK, "no node", but(nodes=[node("n1", *GPU, labels={REPLICAS: "1", PRODUCT: "NVIDIA-A10"})])),
    ("sharing", OK, "no node", but(nodes=[node("n1", "nvidia.com/gpu.shared", labels={REPLICAS: "4"})])),
    ("sharing", OK, "no node", lambda: but(nodes=[SHARED], outcome=TURNS())),
    ("sharing", WARNING, "could not be read", but(nodes=REFUSED)),
    ("sharing", WARNING, "another meaning in the policy", but(nodes=[SHARED])),
    ("sharing", WARNING, "another meaning", but(nodes=[SHARED, node("n2", *GPU, labels=dict(SHARED.labels))])),
    ("sharing", WARNING, "another meaning in the policy", but(nodes=[node("n1", *GPU, labels={REPLICAS: "10"})])),
    ("sharing", WARNING, "meaning", lambda: but(nodes=[SHARED], outcome=outcome(settings="owners: {nvidia.com/gpu: whole}"))),
    ("claims", OK, "(0 DeviceClasses)", HEALTHY),
    ("claims", OK, "(1 DeviceClass)", but(device_classes=[device_class("a")])),
    ("claims", OK, "(1 DeviceClass)", but(device_classes=[device_class("a", "a.example/nic")], pods={"team": [BESIDE]})),
    ("claims", WARNING, "could not be read", but(device_classes=REFUSED)),
    ("claims", WARNING, "serves a key of the policy", but(device_classes=[device_class("a", "nvidia.com/gpu")])),
    ("claims", WARNING, "1 container with both a claim", but(pods={"team": [CLAIMING], "more": REFUSED})),
    ("claims", WARNING, "", but(device_classes=[device_class("a", "nvidia.com/gpu")], pods={"team": [CLAIMING]})),
    ("claims", WARNING, "12 containers with", but(pods={"team": [CLAIMING] * 12})),
    ("claims", WARNING, "1 container with", but(device_classes=[device_class("a", "b.example/nic")], pods={"team": [BESIDE]})),
    ("drivers", OK, "the target writes no resource claims", HEALTHY),
    ("drivers", OK, "and may be shared", lambda: with_claims(resource_slice(DRIVER, "memory", "cores"))),
    ("drivers", WARNING, "request partitions", lambda: with_nvidia("gpu.nvidia.com", "share.gpu.nvidia.com")),
    ("drivers", OK, "may be shared", lambda: with_nvidia("gpu.nvidia.com", "share.gpu.nvidia.com", "mig.nvidia.com")),
    ("drivers", ERROR, "would stay Pending", lambda: with_nvidia("gpu.nvidia.com", "mig.nvidia.com")),
    ("drivers", ERROR, "would stay Pending", with_claims),
    ("drivers", ERROR, "", lambda: with_claims(resource_slice(DRIVER, "memory", "cores"), classes=[])),
    ("drivers", ERROR, "", lambda: with_claims(resource_slice("other.example", "memory", "cores"))),
    ("drivers", ERROR, "", lambda: with_claims(resource_slice(DRIVER, "memory", "cores", shared=False))),
    ("drivers", ERROR, "", lambda: with_claims(resource_slice(DRIVER, "memory"))),
    # The driver has replaced the older ones of a pool.
    ("drivers", ERROR, "", lambda: with_claims(resource_slice(DRIVER, "memory", "cores"), *NEWER)),
    # Slices have one owner each, and a claim of one no capacity.
    ("drivers", OK, "", lambda: replace(with_claims(SLICE, classes=["mig.nvidia.com"]), outcome=OF_SLICES())),
    ("drivers", WARNING, "could not be read", lambda: replace(with_claims(), resource_slices=REFUSED)),
    # More of the next two: test_drivers.py.
    ("feature-gate", OK, "writes no resource claims", HEALTHY),
    ("feature-gate", WARNING, "could not be read", lambda: replace(with_claims(), template_dry_run=REFUSED)),
    ("feature-gate", ERROR, "drops the capacities", lambda: replace(with_claims(), template_dry_run=DROPPED)),
    ("scheduler", OK, "has placed 3 pods", HEALTHY),
    ("scheduler", OK, "holds its Lease", but(schedulers={"hami-scheduler": LEASE})),
    ("scheduler", OK, "has no node for 1 pod", but(schedulers={"hami-scheduler": Scheduler(0, 2, 1)})),
    ("scheduler", OK, "only the cluster", lambda: but(outcome=WHOLE())),
    ("scheduler", OK, "only the cluster", lambda: but(outcome=WHOLE(), awaited=["volcano"], schedulers=SERVED)),
    ("scheduler", OK, "has placed 3", but(awaited=["volcano"], schedulers={**HEALTHY.schedulers, **SERVED})),
    ("scheduler", WARNING, "not checked: no node", lambda: but(outcome=NO_TARGET(), nodes=[])),
    ("scheduler", WARNING, "not checked: no node", lambda: but(outcome=NO_TARGET(), nodes=[], awaited=REFUSED)),
    ("scheduler", OK, "only the cluster", lambda: but(outcome=WHOLE(), awaited=["volcano"], schedulers=YOUNG)),
    ("scheduler", WARNING, "no sign", lambda: but(outcome=NO_TARGET(), awaited=["volcano"], schedulers={"volcano": REFUSED})),
    ("scheduler", ERROR, "pods wait", lambda: but(outcome=NO_TARGET(), nodes=[], awaited=["volcano"], schedulers=UNSERVED)),
    ("scheduler", ERROR, "pods wait", lambda: but(outcome=WHOLE(), awaited=["volcano"], schedulers=UNSERVED)),
    ("scheduler", ERROR, "pods wait", but(awaited=["volcano"], schedulers={**HEALTHY.schedulers, **UNSERVED})),
    ("scheduler", WARNING, "could not be read", lambda: but(outcome=NO_TARGET(), nodes=REFUSED)),
    ("scheduler", WARNING, "shows no sign", but(schedulers={"hami-scheduler": REFUSED})),
    ("scheduler", WARNING, "shows no sign", but(schedulers={"hami-scheduler": Scheduler(0, 0)})),
    ("scheduler", WARNING, "shows no sign", but(schedulers={"hami-scheduler": Scheduler(0, 0, 0, 900.0)})),
    ("scheduler", WARNING, "shows no sign", but(schedulers={"hami-scheduler": Scheduler(0, 2, 0, REFUSED)})),
    ("scheduler", ERROR, "pods wait", but(schedulers={"hami-scheduler": Scheduler(0, 2, 0, 900.0)})),
    ("shim", OK, "on 2 nodes", HEALTHY),
    ("shim", OK, "on 2 nodes", but(daemon_sets=[INSTALLER, LIBRARIES], placed=ELSEWHERE)),
    ("shim", OK, "no shim is injected", lambda: but(outcome=PLUGIN_MODE(), daemon_sets=[LIBRARIES])),
    ("shim", WARNING, "could not be read", but(daemon_sets=REFUSED)),
    ("shim", WARNING, "no mapping injects", lambda: but(outcome=PLUGIN_MODE())),
    ("shim", WARNING, "may mount one", but(daemon_sets=[INSTALLER, LIBRARIES])),
    ("shim", WARNING, "may mount one", but(daemon_sets=[LIBRARIES])),
    ("shim", WARNING, "may mount one", but(daemon_sets=[INSTALLER, LIBRARIES], placed=SOMEWHERE)),
    ("shim", ERROR, "mounts the same library", but(daemon_sets=[INSTALLER, HAMIS])),
    ("shim", ERROR, "mounts the same library", but(daemon_sets=[HAMIS])),
    ("shim", ERROR, "mounts the same library", but(daemon_sets=[INSTALLER, HAMIS], placed=SOMEWHERE)),
    ("shim", OK, "on 2 nodes", but(daemon_sets=[INSTALLER, HAMIS], placed=ELSEWHERE)),
    ("shim", OK, "no shim is injected", lambda: but(outcome=PLUGIN_MODE(), daemon_sets=[HAMIS])),
    ("shim", WARNING, "not on every node", but(daemon_sets=[LATE])),
    ("shim", WARNING, "no installer", but(daemon_sets=[PLUGIN])),
    ("shim", WARNING, "not checked: no node", lambda: but(outcome=ALL_PLUGIN(), nodes=[], daemon_sets=[])),
]  # fmt: skip


def test_what_is_told(update_golden: bool) -> None:  # noqa: FBT001
    """Of each case the level, the sentence, its details and what to do next, in the order of the table."""
    told = []
    for name, level, text, facts in CASES:
        result = result_of(facts() if callable(facts) else facts, name)
        assert (result.level, text in result.message) == (level, True), (name, result)
        assert bool(result.hint) is (level is not OK), (name, result)
        lines = [f"{name}, {result.level.name}: {result.message}", *(f"- {each}" for each in result.details)]
        told += lines + ([f"→ {result.hint}"] if result.hint else [])
    text = re.sub(r"\b[0-9a-f]{12,}\b", "HASH", "\n".join(told).replace(__version__, "VERSION")) + "\n"
    if update_golden:
        TOLD.write_text(text)
    assert text == TOLD.read_text()


def test_each_check_has_its_ends() -> None:
    """Every check is seen to succeed and not to; the tables would not notice one that always says the same."""
    ends = {check.name: {level for name, level, *_ in CASES if name == check.name} for check in CHECKS}
    assert all({OK, WARNING} <= levels for levels in ends.values())
    # Of these nothing that can be seen is proof: groups of nodes may be empty, pods older than a label.
    # What was reported may be over.
    assert {name for name, levels in ends.items() if ERROR not in levels} == {
        "events",
        "namespaces",
        "untouched",
        "sharing",
        "largest",
        "systems",
        "claims",
    }


def test_healthy() -> None:
    """All is well, in the order of the table."""
    found = list(examine(HEALTHY))
    assert [check.name for check, result in found if result.level is OK] == [check.name for check in CHECKS]


def test_what_no_node_offers_comes_first() -> None:
    """It is the first line of the text, and the first check of JSON, with what is needed: nothing else helps without it."""
    facts = but(outcome=SLICED(), nodes=[node("n1", "nvidia.com/gpu")])
    first, line, *rest = click.unstyle(as_text(examine(facts))).splitlines()
    assert (first, line) == ("target", "‼ resources: no node has a resource of the target timeslicing")
    assert "renameByDefault: true" in " ".join(rest[:3])
    assert json.loads(as_json(examine(facts)))["checks"][0]["name"] == "resources"


def test_nothing_is_known() -> None:
    """A cluster that lets us read nothing has no errors, only questions."""
    unread: dict[str, Any] = dict.fromkeys(("outcome", "configurations", "namespaces", "nodes"), REFUSED)
    nothing = ClusterFacts(NOW, "gpu", REFUSED, **unread)
    levels = {check.name: result.level for check, result in examine(nothing)}
    assert set(levels.values()) == {WARNING}
    assert len(levels) == len(CHECKS)


def test_nobody_answers() -> None:
    """Without an API server nothing else is reported."""
    nobody = ClusterFacts(NOW, "gpu", Missing("connection refused"), reachable=False)
    ((check, result),) = examine(nobody)
    assert (check.name, result.level, result.details) == ("api-server", ERROR, ("connection refused",))


NOTHING: dict[str, Any] = {
    "configurations": [configuration("later")],
    "outcome": policy_of([], {}, DocumentCache()),
    "stored": None,
    "deployment": None,
    "namespaces": [space("team"), Namespace("gpu")],
}


@pytest.mark.parametrize(
    "changes",
    [{}, {"stored": REFUSED, "deployment": REFUSED, "outcome": REFUSED, "namespaces": [space("team")]}],
    ids=["empty namespace", "no namespace"],
)
def test_nothing_is_installed(changes: dict[str, Any]) -> None:
    """One line, with the command."""
    ((check, result),) = examine(but(**{**NOTHING, **changes}))
    assert (check.name, result.level) == ("registration", ERROR)
    assert "not installed" in result.message
    assert "helm install vgpu-webhook" in result.hint
    assert "--namespace gpu " in result.hint


@pytest.mark.parametrize(
    "changes",
    [
        {"configurations": HEALTHY.configurations},
        {"configurations": REFUSED},
        {"outcome": OUTCOME},
        {"outcome": REFUSED},
        {"stored": HEALTHY.stored},
        {"stored": REFUSED},
        {"deployment": DEPLOYED},
        {"deployment": REFUSED},
    ],
    ids=[
        f"{what} {how}"
        for what in ("configurations", "outcome", "stored", "deployment")
        for how in ("there", "refused")
    ],
)
def test_something_is_installed(changes: dict[str, Any]) -> None:
    """Anything of it, or anything that may not be read, is looked at check by check."""
    assert len(list(examine(but(**{**NOTHING, **changes})))) == len(CHECKS)


def test_a_check_that_fails_ends_no_other() -> None:
    """An unforeseen object of a cluster is told, with where it was read."""

    def answer(facts: list[int]) -> Result:
        return ok(str(facts[0]))

    check = Check("odd", "Odd", answer)
    assert check.judge([1]).level is Level.OK
    result = check.judge([])
    assert result.level is Level.ERROR
    (where,) = result.details
    assert re.fullmatch(r"test_checks\.py:\d+: IndexError: list index out of range", where)
