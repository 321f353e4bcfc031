"""What the checks cover: the target vendors of this cluster, and the namespaces that have opted in."""

from collections.abc import Iterable, Iterator

from webhook.admission.context import Namespace
from webhook.admission.eligibility import opted_in
from webhook.admission.overrides import Overrides, target_of
from webhook.doctor.facts import Facts, Node
from webhook.doctor.result import Missing
from webhook.finding import Denied
from webhook.mapping.model.names import index
from webhook.mapping.model.policy import Policy
from webhook.mapping.model.vendor import Vendor


def targets(policy: Policy, nodes: Iterable[Node] | Missing) -> list[Vendor]:
    """The vendors whose keys pods of this cluster get: the setting ``target``, else those of the nodes' resources."""
    if policy.settings.target is not None:
        return [policy.vendors[policy.settings.target]]
    if isinstance(nodes, Missing):
        return []
    names = {name for node in nodes for name in node.resources}
    found = {owner.vendor for name in names for owner in policy.resources.owners(name)}
    written = (_target(policy.vendors[name], policy) for name in sorted(found))
    return list({vendor.name: vendor for vendor in written if vendor is not None}.values())


def resources_of(vendor: Vendor, names: Iterable[str]) -> Iterator[str]:
    """Those of the resource names that are keys of a vendor."""
    keys = index([vendor], "resource")
    return (name for name in names if keys.owners(name))


def opted_in_namespaces(facts: Facts) -> list[Namespace] | Missing:
    """The namespaces that have opted in."""
    if isinstance(facts.namespaces, Missing):
        return facts.namespaces
    return opted_in_among(facts.namespaces, facts.policy, facts.release)


def opted_in_among(namespaces: Iterable[Namespace], policy: Policy, release: str) -> list[Namespace]:
    """The namespaces that have opted in, except for the cluster's, the webhook's, and those that the settings exempt."""
    spared = policy.never_touched | {release}
    return [namespace for namespace in namespaces if opted_in(namespace, policy) and namespace.name not in spared]


def _target(vendor: Vendor, policy: Policy) -> Vendor | None:
    try:
        return target_of(vendor, Overrides(), policy)[0]
    except Denied:
        return None
