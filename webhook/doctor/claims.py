"""Checks of Dynamic Resource Allocation beside mappings: names that two systems serve, and pods that use both."""

from collections.abc import Collection, Iterator
from typing import Final

from webhook.admission.claims import claims_of, requested_key
from webhook.doctor.facts import DeviceClass, Facts, Node
from webhook.doctor.result import Missing, Result, counted, ok, unread, warning
from webhook.mapping.model.policy import Policy
from webhook.pod import Pod
from webhook.reasons import Reason

MAX_SHOWN: Final = 10
"""Containers that are listed by name."""


def claims(facts: Facts) -> Result:
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
