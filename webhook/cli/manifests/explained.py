"""What is explained of manifests: their objects, with the pods in them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from webhook.cli.manifests.files import Manifest
from webhook.cli.manifests.simulate import Simulated, claims_in
from webhook.cluster.registration.match_conditions import NOT_SENT, sends, sent_names
from webhook.explanation.pods import POD_TARGET, PodExplained, explain_pod, unsent
from webhook.mapping.model.policy import Policy


@dataclass(frozen=True, slots=True)
class ObjectExplained:
    """One object of the input.

    Attributes:
        title: its name in messages: ``deployment/demo``.
        notes: messages of the command itself.
        pods: the pods in it by their path, which is empty for the object itself; none for a kind without pods.
    """

    title: str
    notes: tuple[str, ...]
    pods: tuple[tuple[str, PodExplained], ...]

    def data(self) -> dict[str, Any]:
        """Return it as data for JSON."""
        pods = [{"path": path, **pod.data()} for path, pod in self.pods]
        return {"title": self.title, "notes": self.notes, "pods": pods}


def explain_objects(
    manifests: Sequence[Manifest], outcome: Simulated, policy: Policy, target: str | None
) -> Iterator[ObjectExplained]:
    """Yield the explanation of each object.

    Args:
        manifests: the documents.
        outcome: what became of them.
        policy: the policy under which it did.
        target: the option that replaces the target of the pods.
    """
    known, match = claims_in(manifests), sent_names(policy)
    pod_target = POD_TARGET if target is None else f"--to {target}"
    for each in outcome.objects:
        notes = (*each.notes, *each.unjudged, *known.notes(each.pods, policy))
        explained = [(pod, explain_pod(pod.pod, pod.context, policy, pod_target)) for pod in each.pods]
        pods = (
            (pod.path, why if match is None or sends(pod.pod, match) else unsent(why, NOT_SENT))
            for pod, why in explained
        )
        yield ObjectExplained(each.title, notes, tuple(pods))
