"""Checks of namespaces and pods: which have opted in, which were missed, claims beside shares, a trial pod."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from webhook.admission import Context, Namespace, decide
from webhook.admission.claims import claims_of, requested_key
from webhook.admission.eligibility import Mode
from webhook.admission.own_keys import unread_keys
from webhook.cluster.client.api import Object
from webhook.cluster.registration.desired import AUDIT, ENFORCE, MatchedNames, matched_names_of
from webhook.doctor.facts import (
    ClusterFacts,
    DeviceClass,
    Missing,
    Node,
    Result,
    counted,
    error,
    listed,
    ok,
    unread,
    warning,
)
from webhook.doctor.nodes import opted_in_namespaces, targets
from webhook.doctor.registration import LOGS
from webhook.labels import MODE, STATUS
from webhook.mapping.model.policy import Policy
from webhook.mapping.model.vendor import Vendor
from webhook.mapping.notation import NameSet
from webhook.pod import Pod, decode_pod
from webhook.reasons import BY_CODE, Reason

_MODES: Final = {mode.value for mode in Mode}
_SHOWN: Final = 10
"""Pods that are listed by name."""


def namespaces(facts: ClusterFacts) -> Result:
    """Which namespaces have opted in, and whether labels have an effect."""
    chosen = opted_in_namespaces(facts)
    if isinstance(chosen, Missing) or isinstance(facts.namespaces, Missing):
        missing = facts.namespaces if isinstance(facts.namespaces, Missing) else Missing("")
        return unread("the namespaces", missing, "list namespaces")
    key = facts.policy.settings.opt_in_label
    odd = [
        f"{namespace.name}: {finding.message}"
        for namespace in facts.namespaces
        for finding in unread_keys("namespace", namespace.labels, namespace.annotations, facts.policy)
    ]
    of_pods = [
        f"{name}/{pod.metadata.name}: {finding.message}"
        for name, pods in facts.pods.items()
        for pod in (() if isinstance(pods, Missing) else pods)
        for finding in unread_keys("pod", pod.metadata.labels, pod.metadata.annotations, facts.policy)
    ]
    odd += [*of_pods[:_SHOWN], *([f"and {len(of_pods) - _SHOWN} more"] if of_pods[_SHOWN:] else [])]
    odd += [
        f"{namespace.name}: {MODE}={namespace.labels[MODE]} is not a mode (counts as warn): write {', '.join(sorted(_MODES))}"
        for namespace in chosen
        if namespace.labels.get(MODE, Mode.ENFORCE.value) not in _MODES
    ]
    odd += [
        f"{namespace.name}: has opted in, but is never touched"
        for namespace in facts.namespaces
        if namespace.labels.get(key) == "enabled" and namespace not in chosen
    ]
    if odd:
        return warning(
            "labels or annotations of namespaces or pods do not have the intended effect",
            *odd,
            hint="kubectl label namespace NAME …",
        )
    if not chosen:
        return warning("no namespace has opted in", hint=f"kubectl label namespace NAME {key}=enabled")
    return ok(f"opted in: {listed(list(map(_titled, chosen)))}")


def untreated_pods(facts: ClusterFacts) -> Result:
    """Whether GPU pods of opted-in namespaces bypassed the webhook: created before it, or while it was not called."""
    chosen = opted_in_namespaces(facts)
    if isinstance(chosen, Missing):
        return unread("the namespaces", chosen, "list namespaces")
    let_through = matched_names_of(facts.policy)
    missed, unseen, seen = [], [], 0
    for space in chosen:
        pods = facts.pods.get(space.name, Missing("not tried"))
        if isinstance(pods, Missing):
            unseen.append(f"{space.name}: {pods.why}")
            continue
        carrying = [pod for pod in pods if _carries(pod, let_through)]
        seen += len(carrying)
        missed += [f"{space.name}/{pod.metadata.name}" for pod in carrying if _missed(pod, space, facts.policy)]
    if missed:
        more = [f"and {len(missed) - _SHOWN} more"] if len(missed) > _SHOWN else []
        return warning(
            f"{counted(len(missed), 'GPU pod')} in opted-in namespaces without the webhook's status",
            *missed[:_SHOWN],
            *more,
            hint="pods are changed only when they are created: kubectl rollout restart, or create them again",
        )
    if unseen:
        return unread("pods", Missing("; ".join(unseen)), "list pods in opted-in namespaces")
    return ok(f"no GPU pod was missed ({counted(seen, 'pod')} with GPU keys)")


def notes(facts: ClusterFacts) -> Result:
    """What the status annotations of pods note, by namespace."""
    chosen = opted_in_namespaces(facts)
    if isinstance(chosen, Missing):
        return unread("the namespaces", chosen, "list namespaces")
    lines, unseen = [], []
    for space in chosen:
        pods = facts.pods.get(space.name, Missing("not tried"))
        if isinstance(pods, Missing):
            unseen.append(f"{space.name}: {pods.why}")
            continue
        found = Counter(reason for pod in pods for reason in _noted(pod))
        counts = sorted(found.items(), key=lambda count: count[0].code)
        if counts:
            texts = [f"{reason.code} ({reason.value.title}) in {counted(n, 'pod')}" for reason, n in counts]
            lines.append(f"{space.name}: {', '.join(texts)}")
    if unseen:
        return unread("pods", Missing("; ".join(unseen)), "list pods in opted-in namespaces")
    if lines:
        return ok("the webhook noted something on pods that needs no action; for more: vgpu-webhook codes CODE", *lines)
    return ok("the webhook noted nothing on pods")


def dry_run(facts: ClusterFacts) -> Result:
    """Whether a pod that the API server creates as a dry run is really changed."""
    trial = facts.trial
    if isinstance(trial, Missing):
        return warning(
            "no dry run could be made",
            trial.why,
            hint=f"needs a namespace that enforces: kubectl label namespace NAME {facts.policy.settings.opt_in_label}=enabled",
        )
    what = f"a pod with {trial.requested} in {trial.namespace}"
    if trial.touched:
        return ok(f"{what} is changed (dry run)")
    logs = LOGS.format(release=facts.release)
    if not trial.message:
        return error(
            f"{what} is created unchanged: the webhook is not called",
            hint=f"see the webhook configuration above; {logs}",
        )
    # All denials have the same status; only their text shows who denies.
    if any(f'failed calling webhook "{name}"' in trial.message for name in (ENFORCE, AUDIT)):
        return error(
            "the API server cannot call the webhook", trial.message, hint=f"is it running, and reachable? {logs}"
        )
    if f'admission webhook "{ENFORCE}" denied' in trial.message:
        hint = "to see why: vgpu-webhook codes CODE"
        if Reason.GUARDED.code in trial.message:
            # The pod of the dry run has no variables.
            hint = "another webhook writes that variable: to allow it, add its value to guardExceptions in the settings"
        return error(f"{what} is denied by the webhook", trial.message, hint=hint)
    if "hostPath" in trial.message:
        return error(
            f"{what} is denied because of the shim's volume",
            trial.message,
            hint="set podSecurityDefault in the settings to the default of this cluster",
        )
    return warning(
        f"{what} is denied, but not by the webhook",
        trial.message,
        hint="needed for this check: create pods there (dry run)",
    )


def resources_text(resources: Mapping[str, str]) -> str:
    """Resources as text."""
    return ", ".join(f"{name}: {amount}" for name, amount in resources.items())


def _titled(namespace: Namespace) -> str:
    mode = namespace.labels.get(MODE)
    return namespace.name if mode in {None, Mode.ENFORCE.value} else f"{namespace.name} ({mode})"


class _NotedContainer(msgspec.Struct):
    notes: list[str] = []


class _Status(msgspec.Struct):
    containers: dict[str, _NotedContainer] = {}


def _noted(pod: Pod) -> set[Reason]:
    """The reasons of the notes in a pod's status; none if it is not the webhook's."""
    try:
        status = msgspec.json.decode((pod.metadata.annotations or {}).get(STATUS, "{}"), type=_Status)
    except msgspec.DecodeError:
        return set()
    codes = (note.partition(":")[0] for container in status.containers.values() for note in container.notes)
    return {BY_CODE[code] for code in codes if code in BY_CODE}


def _carries(pod: Pod, let_through: MatchedNames) -> bool:
    containers = (*pod.spec.containers, *(pod.spec.init_containers or ()))
    sides = [
        side
        for container in containers
        if container.resources
        for side in (container.resources.limits, container.resources.requests)
    ]
    names = (name for side in sides for name in side or ())
    return let_through.has_pod(names, (*(pod.metadata.labels or ()), *(pod.metadata.annotations or ())))


def _missed(pod: Pod, namespace: Namespace, policy: Policy) -> bool:
    """Whether the webhook would have changed or denied a pod, regardless of what was added after its creation."""
    metadata, spec = pod.metadata, pod.spec
    if metadata.annotations and STATUS in metadata.annotations:
        return False
    owned = [vendor.owned for vendor in policy.vendors.values()]
    as_created = msgspec.structs.replace(
        pod,
        metadata=msgspec.structs.replace(
            metadata,
            annotations=_without(metadata.annotations, [marks.annotations for marks in owned]),
            labels=_without(metadata.labels, [marks.labels for marks in owned]),
        ),
        spec=msgspec.structs.replace(spec, node_name=None),
    )
    decision = decide(as_created, Context(namespace), policy)
    return not decision.allowed or decision.reason is Reason.CHANGED


def _without(texts: Mapping[str, str] | None, owned: Iterable[NameSet]) -> dict[str, str] | None:
    if texts is None:
        return None
    marks = {key for keys in owned for key in keys.among(texts)}
    return {key: value for key, value in texts.items() if key not in marks}


MAX_SHOWN: Final = 10
"""Containers that are listed by name."""


def claims(facts: ClusterFacts) -> Result:
    """Whether device plugins and DeviceClasses conflict."""
    classes = facts.device_classes
    if isinstance(classes, Missing):
        return unread("the DeviceClasses", classes, "list deviceclasses.resource.k8s.io")
    nodes = [] if isinstance(facts.nodes, Missing) else facts.nodes
    taken = [
        _served(device_class, facts.policy, nodes)
        for device_class in classes
        if device_class.resource and key_owner(device_class.resource, facts.policy)
    ]
    other = {
        device_class.resource
        for device_class in classes
        if device_class.resource and not key_owner(device_class.resource, facts.policy)
    }
    containers = [
        f"{namespace}/{line}"
        for namespace, pods in facts.pods.items()
        if not isinstance(pods, Missing)
        for pod in pods
        for line in _beside(pod, facts.policy, other)
    ]
    if taken:
        return warning(
            f"a DeviceClass serves a key of the policy ({len(taken)} of {len(classes)}): one name, two systems",
            *taken,
            *containers[:MAX_SHOWN],
            hint="change the DeviceClass's extendedResourceName, or make the mapping inactive",
        )
    if containers:
        more = [f"and {len(containers) - MAX_SHOWN} more"] if len(containers) > MAX_SHOWN else []
        return warning(
            f"{counted(len(containers), 'container')} with both a claim and a GPU request, which are counted separately",
            *containers[:MAX_SHOWN],
            *more,
            hint=f"such pods are denied ({Reason.CLAIM_BESIDE_REQUEST.code}), unless resourceClaims: warn is set",
        )
    return ok(f"no DeviceClass serves a key of the policy ({counted(len(classes), 'DeviceClass', 'DeviceClasses')})")


def key_owner(name: str, policy: Policy) -> str | None:
    """The vendor whose key a resource name is; None if it is not a vendor's."""
    owners = policy.resources.owners(name)
    return owners[0].vendor if owners else None


def _served(device_class: DeviceClass, policy: Policy, nodes: Collection[Node]) -> str:
    resource = device_class.resource or ""
    having = sum(resource in node.resources for node in nodes)
    plugins = f"; {having} of {counted(len(nodes), 'node')} have it from a device plugin" if having else ""
    return f"{device_class.name} serves {resource}, which is read as a key of {key_owner(resource, policy)}{plugins}"


def _beside(pod: Pod, policy: Policy, served: Collection[str]) -> Iterator[str]:
    for container in (*(pod.spec.init_containers or ()), *pod.spec.containers):
        claimed, key = claims_of(container, served), requested_key(container, policy)
        if claimed and key:
            yield f"{pod.metadata.name}: container {container.name}: {key} and the claim {claimed[0]}"


AMOUNTS: Final = ("1", "100")
"""Of a key: one device or one percent; for a key in percent of a device, a whole one."""


@dataclass(frozen=True, slots=True)
class TrialCandidate:
    """A pod that would be changed, and where."""

    namespace: str
    resources: dict[str, str]
    pod: Object


def candidate(
    policy: Policy, namespaces: Iterable[Namespace], nodes: Iterable[Node] | Missing
) -> TrialCandidate | None:
    """The first pod that the policy changes in one of these namespaces; None if there is none."""
    spaces = list(namespaces)
    for resources in _requests(policy, nodes):
        made = pod(resources)
        view = decode_pod(msgspec.json.encode(made))
        for space in spaces:
            if decide(view, Context(space), policy).reason is Reason.CHANGED:
                return TrialCandidate(space.name, resources, made)
    return None


def pod(resources: dict[str, str]) -> Object:
    """Make a pod that requests resources."""
    container = {
        "name": "check",
        "image": "vgpu-webhook-check.invalid/none:0",
        "resources": {"limits": resources},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "runAsNonRoot": True,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "vgpu-webhook-check-"},
        "spec": {"automountServiceAccountToken": False, "containers": [container]},
    }


def _requests(policy: Policy, nodes: Iterable[Node] | Missing) -> Iterator[dict[str, str]]:
    """Possible requests: the targets' keys first; each key alone, then all keys of a vendor."""
    for vendor in dict.fromkeys([*targets(policy, nodes), *policy.in_force]):
        names = list(_names(vendor))
        for amount in AMOUNTS:
            yield from ({name: amount} for name in names)
            if len(names) > 1:
                yield dict.fromkeys(names, amount)


def _names(vendor: Vendor) -> Iterator[str]:
    """One name of each resource key; devices first, for they are requested most."""
    keys = [key for key in vendor.keys.values() if key.place == "resource" and key.kind == "amount"]
    for key in sorted(keys, key=lambda key: "devices" not in key.dimensions):
        listed = (name for spelling in key.spellings for name, _ in spelling.names(vendor.document.variables))
        first = next(listed, None)
        if first is not None:
            yield first
