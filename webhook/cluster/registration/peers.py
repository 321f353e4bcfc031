"""Keys that other replicas know already: a replica that does not know them yet must not admit a pod with one."""

from collections.abc import Iterable

from webhook.cluster.registration.matched_names import MatchedNames
from webhook.cluster.registration.observed import Observed
from webhook.mapping.model.policy import Policy


def known_to_peers(
    resources: Iterable[str], keys: Iterable[str], policy: Policy, own: MatchedNames, registered: Observed | None
) -> bool:
    """Whether a pod has a name that the webhook configuration lets through and this replica's policy does not know.

    The answer is then 503 with ``Retry-After: 1``, and the API server retries within the same call. A configuration with this
    replica's own digest, or without one (because it is maintained by hand), never has such a name.

    Args:
        resources: all resource names of the pod's containers.
        keys: all keys of its labels and annotations.
        policy: the replica's own policy.
        own: the matched names of that policy.
        registered: the webhook configuration, as last seen.
    """
    if registered is None or registered.digest is None or registered.digest == policy.digest:
        return False
    if registered.desired is None:
        return not own.has_pod(resources, keys)
    theirs = registered.desired.matched_names
    return any(theirs.has_resource(name) and not _known(name, policy) for name in resources) or any(
        theirs.has_key(key) and not own.has_key(key) for key in keys
    )


def _known(name: str, policy: Policy) -> bool:
    """Whether a policy knows a resource name as a key, as one of an inactive vendor, or as one of another system."""
    known = policy.near.known
    return (
        bool(policy.resources.owners(name))
        or name in policy.inactive
        or (known is not None and known.fullmatch(name) is not None)
    )
