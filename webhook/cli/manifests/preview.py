"""What the next pods of workloads would be, if their namespaces had opted in and a policy were enforced."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias

from msgspec import structs

from webhook import labels
from webhook.admission import decide
from webhook.admission.decision import Context, Decision, Namespace
from webhook.cli.manifests.simulate import SimulatedObject
from webhook.mapping.model.policy import Policy
from webhook.pod import Pod
from webhook.reasons import Reason

Effect: TypeAlias = Literal["default filled", "translated", "other scheduler", "shim", "guard", "denied"]
"""What would become of a pod; one without an effect is unchanged, or only completed."""

_INJECTED: Final = frozenset({"hostPath", "image", "emptyDir", "csi"})
"""Deliveries that put something of ours into a container."""


@dataclass(frozen=True, slots=True)
class NextPod:
    """What the next pods of one template would be.

    Attributes:
        namespace: their namespace.
        workload: its title, ``deployment/train``, with the path of the template if it has several.
        outcome: what admission would do.
        effects: what that changes for its author; empty for a pod that is stored as sent, or only completed.
        codes: the reason, and the warnings that it would cause.
        text: a line for each container, or why the pod is denied.
    """

    namespace: str
    workload: str
    outcome: Literal["unchanged", "changed", "denied"]
    effects: tuple[Effect, ...]
    codes: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Preview:
    """The next pods of all workloads.

    Attributes:
        pods: those that request devices, or that would be changed or denied, by namespace and workload.
        others: the number of all other templates.
    """

    pods: tuple[NextPod, ...]
    others: int

    @property
    def outcomes(self) -> Mapping[str, int]:
        """The numbers of unchanged, changed and denied templates."""
        counts = Counter(pod.outcome for pod in self.pods)
        return {outcome: counts[outcome] for outcome in ("unchanged", "changed", "denied")}

    @property
    def effects(self) -> Mapping[str, int]:
        """The number of templates with each effect, the most frequent first."""
        return dict(Counter(effect for pod in self.pods for effect in pod.effects).most_common())

    @property
    def codes(self) -> Mapping[str, int]:
        """The number of templates with each code, the most frequent first."""
        return dict(Counter(code for pod in self.pods for code in pod.codes).most_common())

    @property
    def namespaces(self) -> Mapping[str, Mapping[str, int]]:
        """The same as `outcomes` for each namespace."""
        spaces = dict.fromkeys(pod.namespace for pod in self.pods)
        return {
            space: Preview(tuple(pod for pod in self.pods if pod.namespace == space), 0).outcomes for space in spaces
        }


def preview_objects(objects: Iterable[SimulatedObject], policy: Policy) -> Preview:
    """Decide on the pods of objects as if each namespace had opted in and enforced the policy; see `simulated`."""
    found: dict[NextPod, None] = {}
    others = 0
    for simulated_object in objects:
        several = len(simulated_object.pods) > 1
        for part in simulated_object.pods:
            title = f"{simulated_object.title}, {part.path}" if several else simulated_object.title
            pod = _next_pod(part.pod, part.context, title, policy)
            if pod is None:
                others += 1
            else:
                found[pod] = None
    return Preview(tuple(sorted(found, key=lambda pod: (pod.namespace, pod.workload))), others)


def enforced(namespace: Namespace, policy: Policy) -> Namespace:
    """A namespace as if it had opted in, with the mode ``enforce`` for all of its workloads; its annotations apply."""
    kept = {key: text for key, text in namespace.labels.items() if key not in {labels.MODE, labels.ROLLOUT}}
    return replace(namespace, labels={**kept, policy.settings.opt_in_label: labels.ENABLED})


def _next_pod(pod: Pod, context: Context, title: str, policy: Policy) -> NextPod | None:
    context = structs.replace(context, namespace=enforced(context.namespace, policy))
    decision = decide(pod, context, policy)
    requests = decision.vendors or decision.warnings or decision.reason is Reason.LEFT
    if decision.allowed and not requests:
        return None
    findings = (*decision.warnings, *([] if decision.denial is None else [decision.denial]))
    codes = tuple(dict.fromkeys(finding.reason.code for finding in findings))
    space = context.namespace.name
    if decision.denial is not None:
        return NextPod(space, title, "denied", ("denied",), codes, decision.denial.text)
    changes = bool(decision.patch_json)
    text = _summary(decision) if changes else decision.reason.value.title
    return NextPod(space, title, "changed" if changes else "unchanged", tuple(_effects(decision)), codes, text)


def _effects(decision: Decision) -> Iterator[Effect]:
    containers: Sequence[Mapping[str, Any]] = tuple(decision.status.get("containers", {}).values())
    if any("defaults" in container for container in containers):
        yield "default filled"
    if any("target" in container for container in containers):
        yield "translated"
    if any(operation["path"] == "/spec/schedulerName" for operation in decision.patch):
        yield "other scheduler"
    if any(container.get("shim") in _INJECTED for container in containers):
        yield "shim"
    if any(finding.reason is Reason.GUARD_STRIPPED for finding in decision.warnings):
        yield "guard"


def _summary(decision: Decision) -> str:
    """The summary that the pod would be stored with, in one line."""
    for operation in decision.patch:
        value = operation.get("value")
        if operation["path"] == f"/metadata/annotations/{labels.SUMMARY.replace('/', '~1')}":
            return "; ".join(str(value).splitlines())
        if operation["path"] == "/metadata/annotations" and isinstance(value, dict):
            return "; ".join(str(value[labels.SUMMARY]).splitlines())
    return ""
