"""Checks of namespaces and pods: which have opted in, which were missed, claims beside shares, a trial pod."""

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, Literal, TypeAlias, get_args

import msgspec

from webhook.admission import Context, Decision, Namespace, decide
from webhook.admission.claims import claims_of, of_other_devices, requested_key
from webhook.admission.delivery import invalid_kind
from webhook.admission.eligibility import Mode, enforcement_of, workload
from webhook.admission.guard import invalid_action
from webhook.admission.overrides import overrides_of, target_of
from webhook.admission.survey import unread_keys
from webhook.cluster.client import Object
from webhook.cluster.registration.names import MatchedNames, carries_name, matched_names_of
from webhook.cluster.registration.wanted import AUDIT, ENFORCE, PODS
from webhook.doctor.facts import ClusterFacts, Node, found_at
from webhook.doctor.nodes import targets
from webhook.doctor.replicas import logs, where_none_acts
from webhook.doctor.result import NOT_TRIED, Missing, Result, counted, error, first_of, known, listed, ok, warning
from webhook.labels import MODE, STATUS
from webhook.mapping.model.policy import Policy
from webhook.mapping.model.vendor import Vendor
from webhook.mapping.notation import NameSet
from webhook.pod import Pod, decode_pod
from webhook.reasons import Denied, Reason


def opted_in_of(facts: ClusterFacts) -> list[Namespace]:
    """Return the namespaces that have opted in.

    Raises:
        UnansweredError: they could not be read.
    """
    return known(facts.opted_in, "the namespaces", "list namespaces")


def all_pods(facts: ClusterFacts) -> Iterator[tuple[str, Pod]]:
    """Those that could be read, each with its namespace."""
    return ((name, pod) for name, pods in facts.pods.items() if not isinstance(pods, Missing) for pod in pods)


def require_pods(facts: ClusterFacts) -> None:
    """End a check that needs the pods of all opted-in namespaces, unless they could be read.

    Raises:
        UnansweredError: those of a namespace could not.
    """
    pods = {space.name: facts.pods.get(space.name, NOT_TRIED) for space in opted_in_of(facts)}
    unseen = [f"{name}: {some.why}" for name, some in pods.items() if isinstance(some, Missing)]
    known(Missing("; ".join(unseen)) if unseen else pods, "pods", "list pods in opted-in namespaces")


def namespaces(facts: ClusterFacts) -> Result:
    """Which namespaces have opted in, and are their labels valid?"""
    chosen = opted_in_of(facts)
    every = known(facts.namespaces, "the namespaces", "list namespaces")
    key = facts.policy.settings.opt_in_label
    of_pods = [
        f"{name}/{pod.metadata.name}: {finding.message}"
        for name, pod in all_pods(facts)
        for finding in unread_keys("pod", pod.metadata.labels, pod.metadata.annotations, facts.policy)
    ]
    odd = [
        *(
            f"{space.name}: {finding.message}"
            for space in every
            for finding in unread_keys("namespace", space.labels, space.annotations, facts.policy)
        ),
        *first_of(of_pods),
        *(f"{space.name}: {message}" for space in chosen for message in _invalid_values(space, facts.policy)),
        *(
            f"{space.name}: has opted in, but is never touched"
            for space in every
            if space.labels.get(key) == "enabled" and space not in chosen
        ),
    ]
    if odd:
        return warning(
            "labels or annotations of namespaces or pods do not have the intended effect",
            *odd,
            hint="kubectl label namespace NAME …, or kubectl annotate",
        )
    if not chosen:
        return warning("no namespace has opted in", hint=f"kubectl label namespace NAME {key}=enabled")
    return ok(f"opted in: {listed(list(map(_titled, chosen)))}")


def _invalid_values(space: Namespace, policy: Policy) -> Iterator[str]:
    """What each pod of a namespace is told about the values of its labels and annotations, and what denies each."""
    context = Context(space)
    overrides = overrides_of(Pod(), context, policy)
    findings = (
        *enforcement_of(Pod(), context).findings,
        *overrides.findings,
        invalid_action(space),
        invalid_kind(space),
    )
    yield from (each.message for each in findings if each is not None and each.reason is not Reason.OUTSIDE_ROLLOUT)
    vendor = next((each for each in policy.in_force if each.claim is None), None)
    if vendor is not None and overrides.namespace_target is not None:
        try:
            target_of(vendor, overrides, policy)
        except Denied as denied:
            yield denied.finding.message


def untreated_pods(facts: ClusterFacts) -> Result:
    """Are GPU pods in opted-in namespaces as the policy would have them?

    They were created before the webhook, while it was not called, or under an older policy.
    """
    spaces = {space.name: space for space in opted_in_of(facts)}
    let_through = matched_names_of(facts.policy)
    found: dict[_Treatment, list[str]] = {state: [] for state in get_args(_Treatment)}
    commands: dict[str, None] = {}
    for name, pod in all_pods(facts):
        if name in spaces:
            state = _treatment_of(pod, spaces[name], facts.policy, let_through)
            found[state].append(f"{name}/{pod.metadata.name}")
            if state in {"missed", "outdated"}:
                commands[_made_again(pod, name)] = None
    missed, older = found["missed"], found["outdated"]
    said = [
        *([f"{counted(len(missed), 'GPU pod')} in opted-in namespaces without the webhook's status"] if missed else ()),
        *([f"{counted(len(older), 'GPU pod')} that the present policy would change or deny"] if older else ()),
    ]
    if said:
        return warning(
            "; ".join(said),
            *first_of(missed),
            *first_of(older),
            hint="; ".join(["pods are changed only when they are created", *first_of(list(commands), MAX_COMMANDS)]),
        )
    require_pods(facts)
    return ok(f"no GPU pod was missed ({counted(len(found['right']), 'pod')} with GPU keys)")


MAX_COMMANDS: Final = 3
"""The most commands that a hint lists."""

_RESTARTED: Final = {"ReplicaSet": "deployment", "StatefulSet": "statefulset", "DaemonSet": "daemonset"}
"""Owners of pods, and what `kubectl rollout restart` takes in their place."""


def _made_again(pod: Pod, namespace: str) -> str:
    """What makes a pod again."""
    _, kind, name = workload(pod, namespace).split("/", 2)
    restarted = _RESTARTED.get(kind)
    if restarted is None:
        return f"create those {f'of each {kind}' if kind else 'without an owner'} again"
    return f"kubectl rollout restart --namespace {namespace} {restarted}/{name}"


def dry_run(facts: ClusterFacts) -> Result:
    """Is a pod changed that is created as a dry run?"""
    trial = facts.dry_run
    if isinstance(trial, Missing):
        return warning(
            "no dry run could be made",
            trial.why,
            hint=f"needs a namespace that enforces: kubectl label namespace NAME {facts.policy.settings.opt_in_label}=enabled",
        )
    what = f"a pod with {trial.requested} in {trial.namespace}"
    if trial.touched:
        return ok(f"{what} is changed (dry run)")
    if not trial.message:
        return error(
            f"{what} is created unchanged: the webhook is not called",
            hint=f"see the webhook configuration above; {logs(facts)}",
        )
    # All denials have the same status; only their text shows who denies.
    if any(f'failed calling webhook "{name}"' in trial.message for name in (ENFORCE, AUDIT, PODS)):
        return error(
            "the API server cannot call the webhook", trial.message, hint=f"is it reachable? {where_none_acts(facts)}"
        )
    if any(f'admission webhook "{name}" denied' in trial.message for name in (ENFORCE, PODS)):
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


def _titled(namespace: Namespace) -> str:
    mode = namespace.labels.get(MODE)
    return namespace.name if mode in {None, Mode.ENFORCE.value} else f"{namespace.name} ({mode})"


def claims(facts: ClusterFacts) -> Result:
    """Does a DeviceClass serve a key of the policy, and do pods have claims beside such keys?"""
    classes = known(facts.device_classes, "the DeviceClasses", "list deviceclasses.resource.k8s.io")
    nodes = [] if isinstance(facts.nodes, Missing) else facts.nodes
    resources = ((each, found_at(each.spec, str, "extendedResourceName")) for each in classes)
    served = [(each, key, _owner(key, facts.policy)) for each, key in resources if key]
    taken = [_served(each.metadata.name, key, owner, nodes) for each, key, owner in served if owner]
    of_others = facts.policy.settings.other_device_classes
    other = {key for each, key, owner in served if not owner and each.metadata.name not in of_others}
    containers = [f"{name}/{line}" for name, pod in all_pods(facts) for line in _beside(pod, facts.policy, other)]
    if taken:
        return warning(
            f"a DeviceClass serves a key of the policy ({len(taken)} of {len(classes)}): one name, two systems",
            *taken,
            *first_of(containers),
            hint="change the DeviceClass's extendedResourceName, or make the mapping inactive",
        )
    if containers:
        return warning(
            f"{counted(len(containers), 'container')} with both a claim and a GPU request, which are counted separately",
            *first_of(containers),
            hint=f"a resource name of a DeviceClass is denied there ({Reason.CLAIM_BESIDE_REQUEST.code}), unless "
            "otherDeviceClasses has the class",
        )
    return ok(f"no DeviceClass serves a key of the policy ({counted(len(classes), 'DeviceClass', 'DeviceClasses')})")


def _owner(name: str, policy: Policy) -> str | None:
    """The vendor whose key a resource name is; None if it is not a vendor's."""
    owners = policy.resources.owners(name)
    return owners[0].vendor if owners else None


def _served(device_class: str, key: str, owner: str, nodes: Collection[Node]) -> str:
    having = sum(key in node.resources for node in nodes)
    plugins = f"; {having} of {counted(len(nodes), 'node')} have it from a device plugin" if having else ""
    return f"{device_class} serves {key}, which is read as a key of {owner}{plugins}"


def _beside(pod: Pod, policy: Policy, served: Collection[str]) -> Iterator[str]:
    for container in (*(pod.spec.init_containers or ()), *pod.spec.containers):
        claimed = [claim for claim in claims_of(container, served) if not of_other_devices(claim, policy)]
        key = requested_key(container, policy)
        if claimed and key:
            yield f"{pod.metadata.name}: container {container.name}: {key} and the claim {claimed[0]}"


AMOUNTS: Final = ("1", "100")
"""Of a key: one device or one percent; for a key in percent of a device, a whole one."""


def candidate(facts: ClusterFacts) -> tuple[str, dict[str, str]] | Missing:
    """An opted-in namespace, and what a pod there requests that the policy changes; the first that is found."""
    if isinstance(facts.opted_in, Missing):
        return facts.opted_in
    for resources in _requests(facts):
        view = decode_pod(msgspec.json.encode(dry_run_pod(resources)))
        for space in facts.opted_in:
            if decide(view, Context(space), facts.policy).reason is Reason.CHANGED:
                return space.name, resources
    return Missing("no opted-in namespace enforces, or the policy would change no small pod there")


def dry_run_pod(resources: dict[str, str]) -> Object:
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


def _requests(facts: ClusterFacts) -> Iterator[dict[str, str]]:
    """Possible requests: the targets' keys first; each key alone, then all keys of a vendor."""
    for vendor in dict.fromkeys([*targets(facts), *facts.policy.in_force]):
        names = list(_names(vendor))
        for amount in AMOUNTS:
            yield from ({name: amount} for name in names)
            if len(names) > 1:
                yield dict.fromkeys(names, amount)


def _names(vendor: Vendor) -> Iterator[str]:
    """One name of each resource key; devices first, for they are requested most."""
    keys = [key for key in vendor.keys.values() if key.place == "resource" and key.kind == "amount"]
    for key in sorted(keys, key=lambda key: "devices" not in key.dimensions):
        spellings = (name for spelling in key.spellings for name, _ in spelling.names(vendor.document.variables))
        yield from itertools.islice(spellings, 1)


_Treatment: TypeAlias = Literal["no keys", "right", "missed", "outdated"]
"""What is known of a pod: it has no GPU keys, is as the policy would have it, or not, without or with the webhook's status."""


def _treatment_of(pod: Pod, namespace: Namespace, policy: Policy, let_through: MatchedNames) -> _Treatment:
    """Whether a pod of an opted-in namespace is as the policy would have it; `let_through`: the names of the policy."""
    if not carries_name(pod, let_through):
        return "no keys"
    if not _would_change(pod, namespace, policy):
        return "right"
    return "outdated" if STATUS in (pod.metadata.annotations or ()) else "missed"


def _would_change(pod: Pod, namespace: Namespace, policy: Policy) -> bool:
    """Whether the webhook would change or deny a pod, regardless of what was added after its creation."""
    decision = decision_again(pod, namespace, policy)
    return not decision.allowed or decision.reason is Reason.CHANGED


def decision_again(pod: Pod, namespace: Namespace, policy: Policy) -> Decision:
    """The decision about a pod if it were created again as it is, without what was added after its creation."""
    metadata, spec = pod.metadata, pod.spec
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
    return decide(as_created, Context(namespace), policy)


def _without(texts: Mapping[str, str] | None, owned: Iterable[NameSet]) -> dict[str, str] | None:
    if texts is None:
        return None
    marks = {key for keys in owned for key in keys.among(texts)}
    return {key: value for key, value in texts.items() if key not in marks}
