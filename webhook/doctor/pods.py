"""Checks of namespaces and pods: which have opted in, which were missed, and whether a pod is really changed."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from webhook.admission import Context, Namespace, decide
from webhook.admission.eligibility import Mode
from webhook.admission.own_keys import unread_keys
from webhook.cluster.registration.desired import AUDIT, ENFORCE
from webhook.cluster.registration.matched_names import MatchedNames, matched_names_of
from webhook.doctor.facts import Facts
from webhook.doctor.registration import LOGS
from webhook.doctor.result import Missing, Result, counted, error, listed, ok, unread, warning
from webhook.doctor.targets import opted_in_namespaces
from webhook.labels import MODE, STATUS
from webhook.mapping.model.owned import Keys
from webhook.mapping.model.policy import Policy
from webhook.pod import Pod
from webhook.reasons import BY_CODE, Reason

_MODES: Final = {mode.value for mode in Mode}
_SHOWN: Final = 10
"""Pods that are listed by name."""


def namespaces(facts: Facts) -> Result:
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


def untouched(facts: Facts) -> Result:
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


def notes(facts: Facts) -> Result:
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


def dry_run(facts: Facts) -> Result:
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


def _without(texts: Mapping[str, str] | None, owned: Iterable[Keys]) -> dict[str, str] | None:
    if texts is None:
        return None
    marks = {key for keys in owned for key in keys.among(texts)}
    return {key: value for key, value in texts.items() if key not in marks}
