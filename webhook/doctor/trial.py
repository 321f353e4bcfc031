"""The pod of the dry run: small, within every Pod Security level, and one that the webhook has to change."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import msgspec

from webhook.admission import Context, Namespace, decide
from webhook.cluster.client.api import Object
from webhook.doctor.facts import Node
from webhook.doctor.result import Missing
from webhook.doctor.targets import targets
from webhook.mapping.model.policy import Policy
from webhook.mapping.model.vendor import Vendor
from webhook.pod import decode_pod
from webhook.reasons import Reason

AMOUNTS: Final = ("1", "100")
"""Of a key: one device or one percent; for a key in percent of a device, a whole one."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A pod that would be changed, and where."""

    namespace: str
    resources: dict[str, str]
    pod: Object


def candidate(policy: Policy, namespaces: Iterable[Namespace], nodes: Iterable[Node] | Missing) -> Candidate | None:
    """The first pod that the policy changes in one of these namespaces; None if there is none."""
    spaces = list(namespaces)
    for resources in _requests(policy, nodes):
        made = pod(resources)
        view = decode_pod(msgspec.json.encode(made))
        for space in spaces:
            if decide(view, Context(space), policy).reason is Reason.CHANGED:
                return Candidate(space.name, resources, made)
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
