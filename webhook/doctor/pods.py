"""Checks of namespaces and pods: which have opted in, which were missed, a trial pod."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from webhook.admission import Context, Decision, Namespace, decide
from webhook.admission.decision import CHOICES
from webhook.admission.eligibility import Mode, enforcement_of
from webhook.admission.intent import Overrides, check_ordered, overrides_of, target_of
from webhook.admission.survey import unread_keys
from webhook.cluster.client import LIST_SECONDS, ApiError, Object, read_as
from webhook.cluster.registration.names import carries_name, matched_names_of
from webhook.cluster.registration.wanted import AUDIT, ENFORCE, PODS
from webhook.doctor import Result, UnansweredError, counted, error, first_of, listed, ok, warning
from webhook.doctor.cluster import logs, where_none_acts
from webhook.doctor.nodes import targets
from webhook.doctor.reading import ClusterReader, told_by, tried, unread
from webhook.labels import MODE, STATUS
from webhook.mapping.model.policy import Policy
from webhook.mapping.model.vendor import Vendor
from webhook.mapping.notation import NameSet
from webhook.pod import Pod, decode_pod
from webhook.reasons import Denied, Reason


async def namespaces(seen: ClusterReader) -> Result:
    """Which namespaces have opted in, and are their labels valid?"""
    chosen, every, in_force = await seen.chosen_namespaces(), await seen.namespaces(), await seen.policy()
    key = in_force.settings.opt_in_label
    odd = [
        f"{space.name}: {finding.message}"
        for space in every
        for finding in unread_keys("namespace", space.labels, space.annotations, in_force)
    ]
    of_pods = [
        f"{space.name}/{pod.metadata.name}: {finding.message}"
        for space, pod in (await seen.pods())[0]
        for finding in unread_keys("pod", pod.metadata.labels, pod.metadata.annotations, in_force)
    ]
    odd += first_of(of_pods)
    odd += [f"{space.name}: {message}" for space in chosen for message in invalid_values(space, in_force)]
    both = (space.name for space in every if space.labels.get(key) == "enabled" and space not in chosen)
    odd += [f"{name}: has opted in, but is never touched" for name in both]
    if odd:
        hint = "kubectl label namespace NAME …, or kubectl annotate"
        return warning("labels or annotations of namespaces or pods do not have the intended effect", *odd, hint=hint)
    if not chosen:
        return warning("no namespace has opted in", hint=f"kubectl label namespace NAME {key}=enabled")
    return ok(f"opted in: {listed([*map(_titled, chosen)])}")


def _titled(namespace: Namespace) -> str:
    mode = namespace.labels.get(MODE)
    return namespace.name if mode in {None, Mode.ENFORCE.value} else f"{namespace.name} ({mode})"


def invalid_values(space: Namespace, policy: Policy) -> Iterator[str]:
    """What each pod of a namespace is told about the values of its labels and annotations, and what denies each."""
    context = Context(space)
    labels = {key: text for key, text in space.labels.items() if key != MODE}
    enforcing = Context(Namespace(space.name, labels, space.annotations))
    overrides = overrides_of(Pod(), context, policy)
    findings = (
        *dict.fromkeys((*enforcement_of(Pod(), context).findings, *enforcement_of(Pod(), enforcing).findings)),
        *overrides.findings,
        *map(space.odd_choice, CHOICES),
    )
    yield from (each.message for each in findings if each is not None and each.reason is not Reason.OUTSIDE_ROLLOUT)
    vendor = next((each for each in policy.in_force if each.claim is None), None)
    if vendor is not None and (named := overrides.namespace_target) is not None:
        try:
            check_ordered(target_of(vendor, Overrides(namespace_target=named), policy), "namespace", policy)
        except Denied as denied:
            yield denied.finding.message


async def untreated_pods(seen: ClusterReader) -> Result:
    """Are GPU pods in opted-in namespaces as the policy would have them?

    They were created before the webhook, while it was not called, or under an older policy.
    """
    await seen.chosen_namespaces()
    (every, unseen), in_force = await seen.pods(), await seen.policy()
    let_through = matched_names_of(in_force)
    with_keys = [(space, pod) for space, pod in every if carries_name(pod, let_through)]
    missed, older = list[str](), list[str]()
    for space, pod in with_keys:
        decision = decision_again(pod, space, in_force)
        if not decision.allowed or decision.reason is Reason.CHANGED:
            marked = STATUS in (pod.metadata.annotations or ())
            (older if marked else missed).append(f"{space.name}/{pod.metadata.name}")
    said = [
        *([f"{counted(len(missed), 'GPU pod')} in opted-in namespaces without the webhook's status"] if missed else ()),
        *([f"{counted(len(older), 'GPU pod')} that the present policy would change or deny"] if older else ()),
    ]
    if said:
        hint = (
            "pods are changed only when they are created: kubectl rollout restart of their workloads makes them again"
        )
        return warning("; ".join(said), *first_of(missed), *first_of(older), hint=hint)
    if unseen:
        raise unread("pods", "; ".join(unseen), "list pods in opted-in namespaces")
    return ok(f"no GPU pod was missed ({counted(len(with_keys), 'pod')} with GPU keys)")


def decision_again(pod: Pod, namespace: Namespace, policy: Policy) -> Decision:
    """The decision about a pod if it were created again as it is, without what was added after its creation."""
    owned, metadata = [vendor.owned for vendor in policy.vendors.values()], pod.metadata
    as_created = msgspec.structs.replace(
        metadata,
        annotations=_without(metadata.annotations, [marks.annotations for marks in owned]),
        labels=_without(metadata.labels, [marks.labels for marks in owned]),
    )
    unplaced = msgspec.structs.replace(pod.spec, node_name=None)
    return decide(msgspec.structs.replace(pod, metadata=as_created, spec=unplaced), Context(namespace), policy)


def _without(texts: Mapping[str, str] | None, owned: Iterable[NameSet]) -> dict[str, str] | None:
    if texts is None:
        return None
    marks = {key for keys in owned for key in keys.among(texts)}
    return {key: value for key, value in texts.items() if key not in marks}


async def dry_run(seen: ClusterReader) -> Result:
    """Is a pod changed that is created as a dry run?"""
    spaces, in_force = await tried(seen.chosen_namespaces()), await seen.policy()
    if isinstance(spaces, UnansweredError):
        return _untried(spaces.why, in_force)
    chosen = _candidate(spaces, await targets(seen), in_force)
    if chosen is None:
        return _untried("no opted-in namespace enforces, or the policy would change no small pod there", in_force)
    namespace, resources = chosen
    what = f"a pod with {', '.join(f'{name}: {amount}' for name, amount in resources.items())} in {namespace}"
    try:
        path, body = f"/api/v1/namespaces/{namespace}/pods", _pod_with(resources)
        answer = await seen.api.request("POST", path, query={"dryRun": "All"}, body=body, seconds=LIST_SECONDS)
        made = read_as("the answer to a dry run", answer.accepted(), decode_pod)
    except ApiError as refusal:
        return await _refused(what, told_by(refusal), seen)
    if STATUS in (made.metadata.annotations or ()):
        return ok(f"{what} is changed (dry run)")
    hint = f"see the webhook configuration above; {logs(seen)}"
    return error(f"{what} is created unchanged: the webhook is not called", hint=hint)


def _untried(reason: str, policy: Policy) -> Result:
    hint = f"needs a namespace that enforces: kubectl label namespace NAME {policy.settings.opt_in_label}=enabled"
    return warning("no dry run could be made", reason, hint=hint)


async def _refused(what: str, message: str, seen: ClusterReader) -> Result:
    """Judge a denial: all have the same status, and only their text shows who denies."""
    if any(f'failed calling webhook "{name}"' in message for name in (ENFORCE, AUDIT, PODS)):
        hint = f"is it reachable? {await where_none_acts(seen)}"
        return error("the API server cannot call the webhook", message, hint=hint)
    if any(f'admission webhook "{name}" denied' in message for name in (ENFORCE, PODS)):
        hint = "to see why: vgpu-webhook codes CODE"
        if Reason.GUARDED.code in message:
            # The pod of the dry run has no variables.
            hint = "another webhook writes that variable: to allow it, add its value to guardExceptions in the settings"
        return error(f"{what} is denied by the webhook", message, hint=hint)
    if "hostPath" in message:
        hint = "set podSecurityDefault in the settings to the default of this cluster"
        return error(f"{what} is denied because of the shim's volume", message, hint=hint)
    hint = "needed for this check: create pods there (dry run)"
    return warning(f"{what} is denied, but not by the webhook", message, hint=hint)


AMOUNTS: Final = ("1", "100")
"""Of a key: one device or one percent; for a key in percent of a device, a whole one."""


def _candidate(
    spaces: Iterable[Namespace], targets: Iterable[Vendor], policy: Policy
) -> tuple[str, dict[str, str]] | None:
    """An opted-in namespace, and what a pod there requests that the policy changes; the first that is found."""
    for vendor in dict.fromkeys([*targets, *policy.in_force]):
        for resources in _requests(vendor):
            view = decode_pod(msgspec.json.encode(_pod_with(resources)))
            for space in spaces:
                if decide(view, Context(space), policy).reason is Reason.CHANGED:
                    return space.name, resources
    return None


def _pod_with(resources: dict[str, str]) -> Object:
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


def _requests(vendor: Vendor) -> Iterator[dict[str, str]]:
    """Possible requests: one name of each resource key alone, then of all; devices first, for they are requested most."""
    keys = [key for key in vendor.keys.values() if key.place == "resource" and key.kind == "amount"]
    keys.sort(key=lambda key: "devices" not in key.dimensions)
    spelled = ([name for each in key.spellings for name, _ in each.names(vendor.variables)] for key in keys)
    names = [each[0] for each in spelled if each]
    for amount in AMOUNTS:
        yield from ({name: amount} for name in names)
        if len(names) > 1:
            yield dict.fromkeys(names, amount)
