"""Whether a pod is as the policy would have it: the rule of the check `untouched`, and of the sweep of a replica."""

from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias

import msgspec

from webhook.admission import Context, Namespace, decide
from webhook.cluster.registration.match_conditions import MatchedNames, carries_name
from webhook.labels import STATUS
from webhook.mapping.model.policy import Policy
from webhook.mapping.notation import NameSet
from webhook.pod import Pod
from webhook.reasons import Reason

Treatment: TypeAlias = Literal["no keys", "right", "missed", "outdated"]
"""What is known of a pod: it has no GPU keys, is as the policy would have it, or not, without or with the webhook's status."""


def treatment_of(pod: Pod, namespace: Namespace, policy: Policy, let_through: MatchedNames) -> Treatment:
    """Whether a pod of an opted-in namespace is as the policy would have it; `let_through`: the names of the policy."""
    if not carries_name(pod, let_through):
        return "no keys"
    if not _would_change(pod, namespace, policy):
        return "right"
    return "outdated" if STATUS in (pod.metadata.annotations or ()) else "missed"


def _would_change(pod: Pod, namespace: Namespace, policy: Policy) -> bool:
    """Whether the webhook would change or deny a pod, regardless of what was added after its creation."""
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
    decision = decide(as_created, Context(namespace), policy)
    return not decision.allowed or decision.reason is Reason.CHANGED


def _without(texts: Mapping[str, str] | None, owned: Iterable[NameSet]) -> dict[str, str] | None:
    if texts is None:
        return None
    marks = {key for keys in owned for key in keys.among(texts)}
    return {key: value for key, value in texts.items() if key not in marks}
