"""Every check, in clusters that end it in each of its ways."""

import datetime as dt
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import pytest

from certs.x509 import issue, make_ca
from tests.cluster.config_maps import vendor
from tests.doctor.scene import (
    AUTHORITY,
    DEPLOYED,
    HEALTHY,
    INSTALLER,
    LIBRARIES,
    NOW,
    OTHER,
    OUTCOME,
    PLUGIN,
    PLUGINS,
    READY,
    REFUSED,
    Facts,
    amended,
    bundle,
    but,
    cluster,
    config_map,
    configuration,
    daemon_set,
    device_class,
    event,
    lease,
    node,
    outcome,
    placed,
    pod,
    queue,
    refused,
    registered,
    resource_slice,
    result_of,
    secret,
    space,
    started_with,
)
from tests.yaml_text import load_yaml
from webhook import __version__
from webhook.cli.commands.check import as_json, as_text
from webhook.cluster.client import Object, UnreachableError
from webhook.cluster.registration.wanted import ENFORCE, PODS, VALIDATING
from webhook.doctor import Check, Level, Result, ok
from webhook.doctor.checks import CHECKS, examine, made
from webhook.doctor.reading import ClusterReader

TOLD = Path(__file__).parent / "told.txt"
GPU = {"nvidia.com/gpu": "1"}


DAY = dt.timedelta(days=1)
OVERLOOKED = [
    *OUTCOME,
    config_map("a", "mapping.yaml", mapping="True"),
    config_map("setings", "settings.yaml"),
    config_map("own", "notes.txt"),
]
OLD = issue(AUTHORITY, ["webhook.example"], NOW - 80 * DAY)
ENDED = issue(AUTHORITY, ["webhook.example"], NOW - 100 * DAY)
SHORT = make_ca("short", NOW - DAY, 20 * DAY)
GONE = make_ca("gone", NOW - 20 * DAY, 10 * DAY)
CALLED_FIRST = configuration("00-first", reinvocationPolicy="Never")
CALLED_TWICE = configuration("00-first", reinvocationPolicy="IfNeeded")
CALLED_TWICE["webhooks"] += [{**CALLED_FIRST["webhooks"][0], "name": "second.example"}]
SCHEDULERS = configuration("00-first", clientConfig={"service": {"namespace": "x", "name": "hami-scheduler"}})
RECENT, OLDER, PAST = ((NOW - dt.timedelta(minutes=each)).isoformat() for each in (0, 59, 61))
REPORTED = but(
    events=[
        # An API server's message: which right is missing comes last.
        event(
            "RegistrationFailed",
            "MutatingWebhookConfiguration",
            "00-vgpu-webhook",
            "the webhook configuration 00-vgpu-webhook cannot be updated: 403 Forbidden: "
            'mutatingwebhookconfigurations.admissionregistration.k8s.io "00-vgpu-webhook" is forbidden: '
            'User "system:serviceaccount:vgpu-webhook:vgpu-webhook" cannot create resource '
            '"mutatingwebhookconfigurations" in API group "admissionregistration.k8s.io" at the cluster scope',
            count=3,
            lastTimestamp=OLDER,
        ),
        event("PolicyNotCompiled", "ConfigMap", "a", "long ago", lastTimestamp=PAST),
        event("Unrelated", "Pod", "a", "not ours", lastTimestamp=RECENT, source={"component": "kubelet"}),
        event("LastGoodFull", "ConfigMap", "vgpu-webhook-last-good", "no space for a", lastTimestamp=RECENT),
    ]
)
TWELVE = [event("LastGoodFull", "ConfigMap", "a", str(at), lastTimestamp=RECENT) for at in range(12)]
TEAMS = [space("team"), space("more")]
SERVED, UNSERVED = queue("volcano", 5, 2), queue("volcano", 0, 2)
HAMI_WAITS = queue("hami-scheduler", 0, 2)
YOUNG = [each | {"metadata": {"name": "p", "creationTimestamp": NOW.isoformat()}} for each in UNSERVED]
OVER = [each | {"status": {"phase": "Failed"}} for each in UNSERVED]
GATES = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]}
GATED = [each | {"status": {"phase": "Pending", **GATES}} for each in UNSERVED]
BOTH = [node("n1", "nvidia.com/gpu"), node("n2", "volcano.sh/vgpu-number"), node("n3", "volcano.sh/vgpu-number")]
UNREADABLE = outcome(settings="owners: {nvidia.com/gpu: mig-single}")
HAMIS = daemon_set("plugin", PLUGINS, "/usr/local/libraries", component="hami-device-plugin")
"""HAMi's device plugin, as HAMi 4707fb02 labels it: charts/hami/templates/device-plugin/daemonsetnvidia.yaml."""
LATE = daemon_set("shim", ready=1, wanted=2, component="shim-installer")
WHOLE = outcome(settings="target: whole")
BY_SCHEDULER = {
    "reinvocationPolicy": "IfNeeded",
    "matchConditions": [{"name": "a", "expression": "object.spec.schedulerName == 'kai-scheduler'"}],
}
"""As KAI's operator registers its webhook."""
KOORDINATOR = outcome(settings="target: koordinator")
UNGATED = [f"koordinator.sh/{name}" for name in ("gpu", "gpu-core", "gpu-memory", "gpu-memory-ratio")]
"""What its nodes report as it is installed."""
KAI, ASCEND, KUNLUN, SLICED, ILUVATAR, BI_V150 = (
    outcome(settings=f"target: {name}", **documents)
    for name, documents in (
        ("kai", {}),
        ("ascend", {"ascend": "extends: ascend\nvariables: {chip: {write: 910B3}}\n"}),
        ("kunlun", {}),
        ("timeslicing", {}),
        ("iluvatar", {}),
        ("iluvatar", {"iluvatar": "extends: iluvatar\nvariables: {chip: {write: BI-V150}}\n"}),
    )
)
NO_TARGET = outcome(settings="{}\n")
PLUGIN_MODE = outcome(nvidia="extends: nvidia\nshim: {mode: plugin}\n")
ALL_PLUGIN = outcome(settings="{}\n", nvidia="extends: nvidia\nshim: {mode: plugin}\n")
"""Without a target, which may be one of those whose shim is injected."""
VOLCANO = outcome(settings="target: volcano")
SERVES_ALIYUN = outcome(settings="target: nvidia\nserved: [aliyun]")
SLICE = resource_slice("gpu.nvidia.com", "memory", shared=False)
DRIVER = "hami-core-gpu.project-hami.io"
NEWER = [resource_slice(DRIVER, "memory", generation=2)]
ALIYUN = node("n4", "aliyun.com/gpu-mem")
MORE = outcome(acme=vendor("acme"))
ANY_POD = [{"name": "gpu-keys", "expression": "true"}]
DENIED = f'admission webhook "{ENFORCE}" denied the request: VGW301'
SHARED = node("n1", *GPU, labels={"nvidia.com/gpu.product": "Tesla-T4-SHARED", "nvidia.com/gpu.replicas": "4"})
"""As GPU feature discovery labels a node (k8s-device-plugin 02f65cc, internal/lm/resource.go)."""
PRODUCT, REPLICAS = SHARED["metadata"]["labels"]
SIZED = node("n1", *GPU, labels={"nvidia.com/gpu.memory": "81559", "nvidia.com/gpu.count": "8"})
"""Likewise, of what it has."""
ELSEWHERE = placed("plugin", "n3")
OF_TWO = [INSTALLER, {**INSTALLER, "metadata": {**INSTALLER["metadata"], "namespace": "forbidden"}}]
"""Installers, the nodes of one of which cannot be read."""
TURNS = outcome(
    settings="owners: {nvidia.com/gpu: timeslicing}",
    turns="extends: timeslicing\nkeys: {gpu: {resource: [nvidia.com/gpu, nvidia.com/gpu.shared]}}\n",
)
OPEN = {"0 failurePolicy": "Ignore"}
"""What the webhook itself writes while replicas start, or cannot be listed."""
TERMS = "namespaceSelector matchExpressions"
NARROWED = {f"0 {TERMS} 3": {"key": "a", "operator": "Exists"}}
WITHOUT = [{f"{number} {TERMS} {term}": None for number in range(2)} for term in range(3)]
FIRST_TRUSTS_MORE = {"0 clientConfig caBundle": bundle(AUTHORITY, OTHER)}
FAILED = f'Internal error occurred: failed calling webhook "{ENFORCE}": connection refused'


def both(**changes: Any) -> list[dict[str, Any]]:
    """Our webhook configuration with the same changes in both webhooks."""
    return amended({f"{number} {key}": value for number in range(2) for key, value in changes.items()})


def bundles(text: str | None, *, service: bool = False) -> list[dict[str, Any]]:
    """Our webhook configuration with this caBundle."""
    return amended({f"{number} clientConfig caBundle": text for number in range(2)}, service=service)


def validating(**changes: Any) -> list[dict[str, Any]]:
    """The validating webhook configuration with changes in each webhook."""
    found = registered(OUTCOME, kind=VALIDATING)
    return [found | {"webhooks": [webhook | changes for webhook in found["webhooks"]]}]


def unfinished(**age: float) -> dict[str, Any]:
    """The validating webhook configuration without webhooks, made so long ago."""
    [made] = validating()
    created = (NOW - dt.timedelta(**age)).isoformat()
    return made | {"webhooks": [], "metadata": {**made["metadata"], "creationTimestamp": created}}


def with_claims(*slices: Object, classes: Sequence[str] = (DRIVER,), target: str = "dra-hami", **changes: Any) -> Facts:
    """A cluster whose target writes claims."""
    classes_ = [device_class(name) for name in classes]
    return but(outcome=outcome(f"target: {target}"), device_classes=classes_, **{"slices": [*slices], **changes})


def with_nvidia(*classes: str) -> Facts:
    """A cluster whose target also has a mapping for partitions."""
    return with_claims(resource_slice("gpu.nvidia.com", "memory"), classes=classes, target="dra-nvidia")


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


def annotated(name: str, ours: dict[str, str]) -> Object:
    """An opted-in namespace with annotations of ours."""
    annotations = {f"vgpu-webhook.io/{key}": value for key, value in ours.items()}
    return {"metadata": {**space(name)["metadata"], "annotations": annotations}}


ORDERED = annotated("team", {"target": "kai"})
"""Its pods are to be KAI's."""

BY_HAND = registered(OUTCOME) | {"metadata": {"name": "00-vgpu-webhook"}}

STATES = load_yaml(Path(__file__).with_name("states.yaml").read_text())
UNREADY, UNPULLED, UNPLACED, CREATING, CRASHING, EVICTED, FORBIDDEN = STATES.values()
LEAVING = UNREADY | {"metadata": {**UNREADY["metadata"], "deletionTimestamp": NOW.isoformat()}}
UNREGISTERED: dict[str, Any] = {"configurations": []}
STATIC = started_with("--registration=static", "--service=gpu/vgpu-webhook")
OK, WARNING, ERROR = Level.OK, Level.WARNING, Level.ERROR
CASES: list[tuple[str, Level, str, Facts]] = [
    ("api-server", OK, "v1.36.3", HEALTHY),
    ("api-server", WARNING, "could not be read", but(server=REFUSED)),
    ("api-server", ERROR, "v1.29.4", but(server={"gitVersion": "v1.29.4"})),
    ("api-server", ERROR, "does not answer", but(server=UnreachableError("connection refused"))),
    ("replicas", OK, "2 of 2 pods ready", HEALTHY),
    ("replicas", OK, "2 of 2 pods ready", but(replicas=[*READY, LEAVING])),
    ("replicas", OK, "1 of 1 pod ready", but(replicas=READY[:1], deployments=[DEPLOYED | {"spec": {}}])),
    ("replicas", OK, "it runs elsewhere", but(deployments=[])),
    ("replicas", WARNING, "could not be read", but(deployments=REFUSED)),
    ("replicas", WARNING, "could not be read", but(replicas=REFUSED)),
    ("replicas", WARNING, "1 of 2 pods ready", but(replicas=[READY[0], CRASHING])),
    ("replicas", WARNING, "2 of 2 pods ready, 1 not", but(replicas=[*READY, UNREADY])),
    ("replicas", ERROR, "0 of 2 pods ready", but(replicas=[UNPULLED, UNPLACED, CREATING])),
    ("replicas", ERROR, "0 of 2 pods ready", but(replicas=[EVICTED])),
    ("replicas", ERROR, "0 of 2 pods ready", but(replicas=[], deployments=[FORBIDDEN])),
    ("replicas", ERROR, "scaled to 0", but(replicas=[], deployments=[DEPLOYED | {"spec": {"replicas": 0}}])),
    ("mappings", OK, "1 document of gpu", HEALTHY),
    ("mappings", WARNING, "a count alone requests whole devices", but(outcome=())),
    ("mappings", WARNING, "could not be read", but(outcome=REFUSED)),
    ("mappings", WARNING, "1 vendor to configure", but(outcome=UNREADABLE)),
    ("mappings", WARNING, "2 ConfigMaps with a document", but(outcome=OVERLOOKED)),
    ("mappings", ERROR, "1 document not in force", but(outcome=outcome(nvidia="extends: nvidia\nplaec: {}\n"))),
    ("events", OK, "nothing within the last hour", HEALTHY),
    ("events", WARNING, "2 Events of the webhook within the last hour: LastGoodFull, RegistrationFailed", REPORTED),
    ("events", WARNING, "the webhook's Events could not be read", but(events=REFUSED)),
    ("events", WARNING, "12 Events", but(events=TWELVE)),
    ("registration", OK, "written by version", HEALTHY),
    ("registration", OK, "by hand", but(configurations=[BY_HAND])),
    ("registration", WARNING, "could not be read", but(configurations=REFUSED)),
    ("registration", WARNING, "was written for policy", but(outcome=NO_TARGET)),
    ("registration", ERROR, "is not installed", but(configurations=[], namespaces=[space("team")])),
    ("registration", ERROR, "there is no 00", but(replicas=[UNPULLED], **UNREGISTERED)),
    ("registration", ERROR, "there is no 00", but(replicas=[READY[0], CRASHING], **UNREGISTERED)),
    ("registration", ERROR, "there is no 00", but(deployments=[STATIC], **UNREGISTERED)),
    ("registration", ERROR, "there is no 00", but(deployments=[], **UNREGISTERED)),
    ("registration", ERROR, "has no webhook audit", but(configurations=amended({"1": None}))),
    ("selectors", OK, "vgpu-webhook.io/inject=enabled", HEALTHY),
    ("selectors", OK, "vgpu-webhook.io/inject=enabled", but(outcome=MORE)),
    ("selectors", WARNING, "could not be read", but(configurations=REFUSED)),
    ("selectors", WARNING, "not checked", but(configurations=[])),
    ("selectors", WARNING, "changed by others", but(configurations=both(timeoutSeconds=30))),
    ("selectors", WARNING, "does not hold pods back yet", but(configurations=amended(OPEN))),
    ("selectors", WARNING, "written for another policy", but(outcome=outcome(settings="timeoutSeconds: 7\n"))),
    ("selectors", ERROR, "does not select", but(configurations=both(objectSelector={"matchLabels": {"a": "b"}}))),
    ("selectors", ERROR, "does not select", but(configurations=amended(NARROWED))),
    ("selectors", ERROR, "does not select", but(configurations=amended(WITHOUT[0]))),
    ("selectors", ERROR, "does not select", but(configurations=amended(WITHOUT[1]))),
    ("selectors", ERROR, "does not select", but(configurations=amended(WITHOUT[2]))),
    ("selectors", ERROR, "does not select", but(configurations=both(rules=[]))),
    ("selectors", ERROR, "does not select", but(release="elsewhere")),
    ("match-conditions", OK, "every pod with a name", HEALTHY),
    ("match-conditions", WARNING, "could not be read", but(configurations=REFUSED)),
    ("match-conditions", WARNING, "more pods", but(configurations=both(matchConditions=[]))),
    ("match-conditions", WARNING, "more pods", but(configurations=[registered(MORE)])),
    ("match-conditions", ERROR, "are not sent", but(configurations=both(matchConditions=ANY_POD))),
    ("match-conditions", ERROR, "are not sent", but(outcome=MORE)),
    ("order", OK, "before all others that change pods (1)", HEALTHY),
    ("validation", OK, "written by version", HEALTHY),
    ("validation", OK, "switched off", but(outcome=outcome(settings="validation: []\n"), validations=[])),
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
    ("order", WARNING, "00-first", but(configurations=[CALLED_TWICE])),
    ("order", ERROR, "of a scheduler", but(configurations=[SCHEDULERS])),
    ("order", ERROR, "only for pods of a scheduler", but(configurations=[configuration("00-kai", **BY_SCHEDULER)])),
    ("order", OK, "before all", but(configurations=[configuration("mutating-kai", **BY_SCHEDULER)])),
    ("bundle", OK, "trusts 1 CA", HEALTHY),
    ("bundle", OK, "trusts 2 CAs", but(validations=[], configurations=bundles(bundle(AUTHORITY, OTHER)))),
    ("bundle", WARNING, "could not be read", but(configurations=REFUSED)),
    ("bundle", WARNING, "no webhook configuration", but(configurations=[])),
    ("bundle", WARNING, "lacks 1 CA of the Secret", but(stored=secret(None, OTHER))),
    ("bundle", WARNING, "lacks 1 CA of the Secret", but(stored=secret(None, OTHER), configurations=[BY_HAND])),
    ("bundle", WARNING, "trust different", but(configurations=amended(FIRST_TRUSTS_MORE))),
    ("bundle", WARNING, "expires in 19 days", but(validations=[], configurations=bundles(bundle(SHORT)), stored=404)),
    ("bundle", WARNING, "has no caBundle", but(validations=[], configurations=bundles(""))),
    ("bundle", ERROR, "has no caBundle", but(validations=[], configurations=bundles(None, service=True))),
    ("bundle", ERROR, "other than certificates", but(validations=[], configurations=bundles("bm9uZQ=="))),
    ("bundle", ERROR, "has expired", but(validations=[], configurations=bundles(bundle(GONE)), stored=404)),
    ("bundle", ERROR, "is valid now", but(now=NOW - 15 * DAY, validations=[], configurations=bundles(bundle(SHORT)))),
    ("certificates", OK, "valid for 80 days", HEALTHY),
    ("certificates", OK, "renewed elsewhere", but(stored=404)),
    ("certificates", WARNING, "could not be read", but(stored=REFUSED)),
    ("certificates", WARNING, "should have been renewed", but(stored=secret(OLD))),
    ("certificates", ERROR, "has expired", but(stored=secret(ENDED))),
    ("namespaces", OK, "opted in: team", HEALTHY),
    ("namespaces", OK, "team (warn)", but(namespaces=[space("team", mode="warn")])),
    ("namespaces", WARNING, "could not be read", but(namespaces=REFUSED)),
    ("namespaces", WARNING, "no namespace", but(namespaces=[{"metadata": {"name": "else"}}])),
    ("namespaces", WARNING, "intended effect", but(namespaces=[space("team", inject="true")])),
    ("namespaces", WARNING, "intended effect", but(namespaces=[space("team", mode="warning")])),
    ("namespaces", WARNING, "intended effect", but(namespaces=[space("team", rollout="25pct")])),
    ("namespaces", OK, "opted in: team", but(namespaces=[space("team", rollout="0")])),
    ("namespaces", WARNING, "intended effect", but(namespaces=[annotated("team", WRONG)])),
    ("namespaces", WARNING, "intended effect", but(namespaces=[space("team", moed="warn")])),
    ("namespaces", WARNING, "intended effect", but(namespaces=[ORDERED], outcome=VOLCANO)),
    ("namespaces", OK, "opted in", but(namespaces=[ORDERED], outcome=KAI)),
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
    ("untouched", WARNING, "1 GPU pod", but(pods={"team": [pod("old", GPU, annotations={"vgpu-webhook.io/status": "{}"})]})),
    ("untouched", WARNING, "12 GPU pods", but(pods={"team": [pod(f"missed-{number}", GPU) for number in range(12)]})),
    ("untouched", WARNING, "1 GPU pod", but(pods={"team": [pod("refused", {**GPU, "nvidia.com/gpucores": "120"})]})),
    ("dry-run", OK, "is changed", HEALTHY),
    ("dry-run", WARNING, "no dry run could be made", but(namespaces=REFUSED)),
    ("dry-run", WARNING, "no dry run could be made", but(namespaces=[space("team", mode="audit")])),
    ("dry-run", WARNING, "not by the webhook", but(dry_run=REFUSED)),
    ("dry-run", WARNING, "not by the webhook", but(dry_run=refused("exceeded quota: q"))),
    ("dry-run", WARNING, "not by the webhook", but(dry_run=refused('failed calling webhook "other"'))),
    ("dry-run", ERROR, "created unchanged", but(dry_run={"spec": {"containers": []}})),
    ("dry-run", ERROR, "cannot call", but(dry_run=refused(FAILED))),
    ("dry-run", ERROR, "is denied", but(dry_run=refused(DENIED))),
    ("dry-run", ERROR, "is denied", but(dry_run=refused(DENIED.replace("VGW301", "VGW605: env X")))),
    ("dry-run", ERROR, "cannot call", but(dry_run=refused(FAILED.replace(ENFORCE, PODS)))),
    ("dry-run", ERROR, "is denied", but(dry_run=refused(DENIED.replace(ENFORCE, PODS)))),
    ("dry-run", ERROR, "the shim's volume", but(dry_run=refused("violates PodSecurity: hostPath"))),
    ("resources", OK, "nvidia.com/gpu on 1 of 2 nodes", HEALTHY),
    ("resources", OK, "nvidia.com/gpu on 1 of 2 nodes", but(outcome=NO_TARGET)),
    ("resources", WARNING, "could not be read", but(nodes=REFUSED)),
    ("resources", WARNING, "of the target nvidia", but(nodes=[node("n1", "cpu")])),
    ("resources", WARNING, "no node has any", but(outcome=NO_TARGET, nodes=[node("n1", "cpu")])),
    ("resources", ERROR, "get: they would stay Pending", but(outcome=KOORDINATOR, nodes=[node("n1", *UNGATED)])),
    ("resources", WARNING, "of the target kai", but(outcome=KAI, nodes=[node("n1", "cpu")])),
    ("resources", OK, "nvidia.com/gpu on 1 of 1 node", but(outcome=KAI, nodes=[node("n1", "nvidia.com/gpu")])),
    ("resources", OK, "Ascend910B3 on 1 of 1", but(outcome=ASCEND, nodes=[node("n1", "huawei.com/Ascend910B3")])),
    ("resources", ERROR, "stay Pending", but(outcome=ASCEND, nodes=[node("n1", "huawei.com/Ascend910B3-memory")])),
    ("resources", WARNING, "some requests", but(outcome=ILUVATAR, nodes=[node("n1", "iluvatar.ai/BI-V150-vgpu")])),
    ("resources", OK, "on 1 of 1 node", but(outcome=BI_V150, nodes=[node("n1", "iluvatar.ai/BI-V150-vgpu")])),
    ("resources", OK, "nvidia.com/gpu on 1", but(outcome=TURNS, nodes=[node("n1", "nvidia.com/gpu")])),
    ("resources", WARNING, "some requests", but(outcome=KUNLUN, nodes=[node("n1", "kunlunxin.com/vxpu")])),
    ("resources", OK, "1 of", but(outcome=KOORDINATOR, nodes=[node("n1", *UNGATED, "koordinator.sh/gpu.shared")])),
    ("systems", OK, "neither", HEALTHY),
    ("systems", OK, "neither", but(nodes=BOTH, outcome=NO_TARGET)),
    ("systems", OK, "neither", but(nodes=BOTH, outcome=outcome(settings="target: nvidia\nserved: [volcano]"))),
    ("systems", OK, "neither", but(nodes=BOTH, outcome=outcome(v="extends: volcano\ntranslateTo: nvidia\n"))),
    ("systems", OK, "neither", but(nodes=[node("n1", "metax-tech.com/sgpu")])),
    ("systems", WARNING, "could not be read", but(nodes=REFUSED)),
    ("systems", WARNING, "translated or denied", but(nodes=BOTH)),
    ("systems", WARNING, "translated or denied", but(nodes=[*BOTH, node("n3", "nvidia.com/mig-1g.10gb")])),
    ("systems", WARNING, "translated or denied", but(nodes=[node("n1", "hygon.com/dcunum")], outcome=VOLCANO)),
    ("systems", WARNING, "translated or denied", but(nodes=[*BOTH, ALIYUN], outcome=SERVES_ALIYUN)),
    ("systems", WARNING, "translated or denied", but(nodes=BOTH, outcome=VOLCANO)),
    ("largest", OK, "are not set", HEALTHY),
    ("largest", OK, "no more", but(nodes=[SIZED], outcome=outcome(settings="largestDevice: 80Gi\nlargestNode: 8"))),
    ("largest", OK, "no more", but(nodes=[node("n", *GPU)], outcome=outcome(settings="largestNode: 1"))),
    ("largest", WARNING, "are denied", but(nodes=[SIZED], outcome=outcome(settings="largestNode: 4"))),
    ("largest", WARNING, "are denied", but(nodes=[SIZED], outcome=outcome(settings="largestDevice: {nvidia: 40Gi}"))),
    ("largest", WARNING, "could not be read", but(nodes=REFUSED)),
    ("sharing", OK, "no node", HEALTHY),
    ("sharing", OK, "no node", but(nodes=[node("n1", *GPU, labels={REPLICAS: "1", PRODUCT: "NVIDIA-A10"})])),
    ("sharing", OK, "no node", but(nodes=[node("n1", "nvidia.com/gpu.shared", labels={REPLICAS: "4"})])),
    ("sharing", OK, "no node", but(nodes=[SHARED], outcome=TURNS)),
    ("sharing", WARNING, "could not be read", but(nodes=REFUSED)),
    ("sharing", WARNING, "another meaning in the policy", but(nodes=[SHARED])),
    ("sharing", WARNING, "another meaning", but(nodes=[SHARED, node("n2", *GPU, labels=SHARED["metadata"]["labels"])])),
    ("sharing", WARNING, "another meaning in the policy", but(nodes=[node("n1", *GPU, labels={REPLICAS: "10"})])),
    ("sharing", WARNING, "meaning", but(nodes=[SHARED], outcome=outcome(settings="owners: {nvidia.com/gpu: whole}"))),
    ("claims", OK, "(0 DeviceClasses)", HEALTHY),
    ("claims", OK, "(1 DeviceClass)", but(device_classes=[device_class("a")])),
    ("claims", WARNING, "could not be read", but(device_classes=REFUSED)),
    ("claims", WARNING, "serves a key of the policy", but(device_classes=[device_class("a", "nvidia.com/gpu")])),
    ("drivers", OK, "the target writes no resource claims", HEALTHY),
    ("drivers", OK, "and may be shared", with_claims(resource_slice(DRIVER, "memory", "cores"))),
    ("drivers", WARNING, "request partitions", with_nvidia("gpu.nvidia.com", "share.gpu.nvidia.com")),
    ("drivers", OK, "may be shared", with_nvidia("gpu.nvidia.com", "share.gpu.nvidia.com", "mig.nvidia.com")),
    ("drivers", ERROR, "would stay Pending", with_nvidia("gpu.nvidia.com", "mig.nvidia.com")),
    ("drivers", ERROR, "would stay Pending", with_claims()),
    ("drivers", ERROR, "", with_claims(resource_slice(DRIVER, "memory", "cores"), classes=[])),
    ("drivers", ERROR, "", with_claims(resource_slice("other.example", "memory", "cores"))),
    ("drivers", ERROR, "", with_claims(resource_slice(DRIVER, "memory", "cores", shared=False))),
    ("drivers", ERROR, "", with_claims(resource_slice(DRIVER, "memory"))),
    # The driver has replaced the older ones of a pool.
    ("drivers", ERROR, "", with_claims(resource_slice(DRIVER, "memory", "cores"), *NEWER)),
    # Slices have one owner each, and a claim of one no capacity.
    ("drivers", OK, "", with_claims(SLICE, classes=["mig.nvidia.com"], target="dra-nvidia-mig")),
    ("drivers", WARNING, "could not be read", with_claims(slices=REFUSED)),
    ("scheduler", OK, "has placed pods", HEALTHY),
    ("scheduler", OK, "holds its Lease", but(waiting=HAMI_WAITS, leases=[lease("hami-scheduler", 10)])),
    ("scheduler", OK, "has no node for 1 pod", but(waiting=queue("hami-scheduler", 0, 2, 1))),
    ("scheduler", OK, "only the cluster", but(outcome=WHOLE)),
    ("scheduler", OK, "only the cluster", but(outcome=WHOLE, waiting=SERVED)),
    ("scheduler", OK, "has placed pods", but(waiting=[*queue("hami-scheduler", 3), *SERVED])),
    ("scheduler", WARNING, "not checked: no node", but(outcome=NO_TARGET, nodes=[])),
    ("scheduler", WARNING, "not checked: no node", but(outcome=NO_TARGET, nodes=[], waiting=REFUSED)),
    ("scheduler", OK, "only the cluster", but(outcome=WHOLE, waiting=[*YOUNG, *OVER, *GATED, *queue("else", 0, 2)])),
    ("scheduler", ERROR, "pods wait", but(outcome=NO_TARGET, nodes=[], waiting=UNSERVED)),
    ("scheduler", ERROR, "pods wait", but(outcome=WHOLE, waiting=UNSERVED)),
    ("scheduler", ERROR, "pods wait", but(waiting=[*queue("hami-scheduler", 3), *UNSERVED])),
    ("scheduler", WARNING, "could not be read", but(outcome=NO_TARGET, nodes=REFUSED)),
    ("scheduler", WARNING, "shows no sign", but(waiting=REFUSED)),
    ("scheduler", WARNING, "shows no sign", but(waiting=[])),
    ("scheduler", WARNING, "shows no sign", but(waiting=[], leases=[lease("hami-scheduler", 900), lease("volcano", 1)])),
    ("scheduler", WARNING, "shows no sign", but(waiting=HAMI_WAITS, leases=REFUSED)),
    ("scheduler", ERROR, "pods wait", but(waiting=HAMI_WAITS, leases=[lease("hami-scheduler", 900)])),
    ("shim", OK, "on 2 nodes", HEALTHY),
    ("shim", OK, "on 2 nodes", but(daemon_sets=[INSTALLER, LIBRARIES], plugin_pods=ELSEWHERE)),
    ("shim", OK, "no shim is injected", but(outcome=PLUGIN_MODE, daemon_sets=[LIBRARIES])),
    ("shim", WARNING, "could not be read", but(daemon_sets=REFUSED)),
    ("shim", WARNING, "no mapping injects", but(outcome=PLUGIN_MODE)),
    ("shim", WARNING, "may mount one", but(daemon_sets=[INSTALLER, LIBRARIES])),
    ("shim", WARNING, "may mount one", but(daemon_sets=[LIBRARIES])),
    ("shim", WARNING, "may mount one", but(daemon_sets=[INSTALLER, LIBRARIES], plugin_pods=REFUSED)),
    ("shim", WARNING, "may mount one", but(daemon_sets=[*OF_TWO, LIBRARIES], plugin_pods=ELSEWHERE)),
    ("shim", ERROR, "mounts the same library", but(daemon_sets=[INSTALLER, HAMIS])),
    ("shim", ERROR, "mounts the same library", but(daemon_sets=[HAMIS])),
    ("shim", ERROR, "mounts the same library", but(daemon_sets=[INSTALLER, HAMIS], plugin_pods=REFUSED)),
    ("shim", OK, "on 2 nodes", but(daemon_sets=[INSTALLER, HAMIS], plugin_pods=ELSEWHERE)),
    ("shim", OK, "no shim is injected", but(outcome=PLUGIN_MODE, daemon_sets=[HAMIS])),
    ("shim", WARNING, "not on every node", but(daemon_sets=[LATE])),
    ("shim", WARNING, "no installer", but(daemon_sets=[PLUGIN])),
    ("shim", WARNING, "not checked: no node", but(outcome=ALL_PLUGIN, nodes=[], daemon_sets=[])),
]  # fmt: skip


async def test_what_is_told(update_golden: bool) -> None:  # noqa: FBT001
    """Of each case the level, the sentence, its details and what to do next, in the order of the table."""
    told = []
    for name, level, text, facts in CASES:
        result = await result_of(facts, name)
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


async def examined(facts: Facts) -> tuple[Sequence[tuple[Check[Any], Result]], list[str]]:
    """What `check` finds, and what it requested."""
    async with cluster(facts) as (seen, api):
        found = await examine(seen)
    return found, [" ".join(filter(None, (*each[:2], each.query.get("dryRun")))) for each in api.requests]


async def test_healthy() -> None:
    """All is well, in the order of the table; nothing is read twice, but each page and namespace, and one pod is tried."""
    found, requests = await examined(HEALTHY)
    assert [check.name for check, result in found if result.level is OK] == [check.name for check in CHECKS]
    assert requests.count("GET /api/v1/nodes") == len(HEALTHY["/api/v1/nodes"])
    assert [each for each in requests if not each.startswith("GET")] == ["POST /api/v1/namespaces/team/pods All"]
    assert not [each for each in requests if "resourceslices" in each]


async def test_what_no_node_offers_comes_first() -> None:
    """It is the first line of the text, and the first check of JSON, with what is needed: nothing else helps without it."""
    found, _ = await examined(but(outcome=SLICED, nodes=[node("n1", "nvidia.com/gpu")]))
    first, line, *rest = click.unstyle(as_text(found)).splitlines()
    assert (first, line) == ("target", "‼ resources: no node has a resource of the target timeslicing")
    assert "renameByDefault: true" in " ".join(rest[:3])
    assert json.loads(as_json(found))["checks"][0]["name"] == "resources"


async def test_nothing_is_known() -> None:
    """A cluster that lets us read nothing has no errors, only questions; and nothing is tried there."""
    found, requests = await examined({**dict.fromkeys(HEALTHY, 403), "now": NOW, "release": "gpu", "pods": {}})
    assert [check.name for check, result in found if result.level is not WARNING] == []
    assert len(found) == len(CHECKS)
    assert all(each.startswith("GET ") for each in requests)


@pytest.mark.parametrize(
    "answer", [UnreachableError("connection refused"), refused("connection refused", 401)], ids=str
)
async def test_nobody_answers(answer: object) -> None:
    """Without an API server, or credentials that it knows, nothing else is reported, nor requested."""
    (((check, result),), requests) = await examined(but(server=answer))
    assert (check.name, result.level) == ("api-server", ERROR)
    assert "connection refused" in result.details[0]
    assert requests == ["GET /version"]


NOTHING: dict[str, Any] = {
    "configurations": [configuration("later")],
    "outcome": (),
    "stored": 404,
    "deployments": [],
}


@pytest.mark.parametrize(
    "changes",
    [{}, {"stored": REFUSED, "deployments": REFUSED, "outcome": REFUSED, "namespaces": [space("team")]}],
    ids=["empty namespace", "no namespace"],
)
async def test_nothing_is_installed(changes: dict[str, Any]) -> None:
    """One line, with the command; nothing that depends on an installation is requested, and no pod is made."""
    (((check, result),), requests) = await examined(but(**{**NOTHING, **changes}))
    assert (check.name, result.level) == ("registration", ERROR)
    assert "not installed" in result.message
    assert "helm install vgpu-webhook" in result.hint
    assert "--namespace gpu " in result.hint
    assert {"GET /api/v1/pods", "POST /api/v1/namespaces/team/pods All"}.isdisjoint(requests)


@pytest.mark.parametrize(
    "changes",
    [
        {"configurations": HEALTHY["configurations"]},
        {"configurations": REFUSED},
        {"outcome": OUTCOME},
        {"outcome": REFUSED},
        {"stored": HEALTHY["stored"]},
        {"stored": REFUSED},
        {"deployments": [DEPLOYED]},
        {"deployments": REFUSED},
    ],
    ids=[
        f"{what} {how}"
        for what in ("configurations", "outcome", "stored", "deployment")
        for how in ("there", "refused")
    ],
)
async def test_something_is_installed(changes: dict[str, Any]) -> None:
    """Anything of it, or anything that may not be read, is looked at check by check."""
    found, _ = await examined(but(**{**NOTHING, **changes}))
    assert len(found) == len(CHECKS)


async def test_a_check_that_fails_ends_no_other() -> None:
    """An unforeseen object of a cluster is told, with where it was read."""

    async def odd(seen: ClusterReader) -> Result:
        return ok(seen.answers["nothing"].result())

    async def fine(_: ClusterReader) -> Result:
        return ok("fine")

    async with cluster(HEALTHY) as (seen, _):
        (_, result), (_, other) = await made([Check("odd", "", odd), Check("fine", "", fine)], seen)
    assert (result.level, other.message) == (Level.ERROR, "fine")
    (where,) = result.details
    assert re.fullmatch(r"test_checks\.py:\d+: KeyError: 'nothing'", where)
