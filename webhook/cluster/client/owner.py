"""The owner of everything that a release writes: when it is deleted, Kubernetes deletes its dependents.

The owner is a ClusterRole, because only a cluster-wide object may own the webhook configuration. So uninstalling a
release leaves nothing behind, even if no replica is left to clean up.
"""

from http import HTTPStatus
from typing import Final

import msgspec

from webhook.cluster.client.api import Api, Object

CLUSTER_ROLES: Final = "/apis/rbac.authorization.k8s.io/v1/clusterroles"


async def owner_reference(api: Api, role: str | None) -> Object | None:
    """Make an owner reference to a role as it is now: with the UID of an earlier one, the dependents would be deleted.

    Args:
        api: the API server.
        role: the name of the ClusterRole; None if there is no release.

    Returns:
        None if there is no such role, or reading it is forbidden.

    Raises:
        ApiError: the request fails.
    """
    if role is None:
        return None
    answer = await api.request("GET", f"{CLUSTER_ROLES}/{role}")
    if answer.status in {HTTPStatus.NOT_FOUND, HTTPStatus.FORBIDDEN}:
        return None
    uid = msgspec.json.decode(answer.accepted(), type=Object)["metadata"]["uid"]
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "name": role, "uid": uid}
