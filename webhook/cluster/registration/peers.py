"""Words that another replica knows already: a pod with one must not be let through by a replica that has yet to learn it."""

from collections.abc import Iterable

from webhook.cluster.registration.matched_names import MatchedNames
from webhook.cluster.registration.observed import Observed
from webhook.mapping.model.policy import Policy


def known_to_peers(
    resources: Iterable[str], keys: Iterable[str], policy: Policy, reach: MatchedNames, registered: Observed | None
) -> bool:
    """Whether a pod carries a name that the registered policy lets through and this replica's policy does not know.

    The answer is then 503 with ``Retry-After: 1``: the API server asks again within the same call. It is never so where the
    registered digest is the replica's own, or where nobody keeps one (a registration kept by hand).

    Args:
        resources: all resource names of the pod's containers.
        keys: all keys of its labels and annotations.
        policy: the replica's own.
        reach: of that policy.
        registered: what stands in the cluster, as far as the replica has seen.
    """
    if registered is None or registered.digest is None or registered.digest == policy.digest:
        return False
    if registered.desired is None:
        return not reach.has_pod(resources, keys)
    there = registered.desired.matched_names
    return any(there.has_resource(name) and not _known(name, policy) for name in resources) or any(
        there.has_key(key) and not reach.has_key(key) for key in keys
    )


def _known(name: str, policy: Policy) -> bool:
    """Whether a resource name means something here: a word, one of a vendor on standby, or somebody else's."""
    somebodys = policy.near.known
    return (
        bool(policy.resources.owners(name))
        or name in policy.inactive
        or (somebodys is not None and somebodys.fullmatch(name) is not None)
    )
