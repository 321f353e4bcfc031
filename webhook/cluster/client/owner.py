"""The object that all a release has written goes with: when it is deleted, Kubernetes collects the rest.

A ClusterRole, for only a cluster-wide object may own the registration. So removing a release leaves nothing behind, even
when no replica is left that could clean up.
"""

from http import HTTPStatus
from typing import Final

import msgspec

from webhook.cluster.client.api import Api, Object

CLUSTER_ROLES: Final = "/apis/rbac.authorization.k8s.io/v1/clusterroles"


async def owner_reference(api: Api, role: str | None) -> Object | None:
    """A reference to a role as it is now: one to a role that is gone would have its dependents collected.

    Args:
        api: the way to the API server.
        role: the name of the ClusterRole; None if there is no release.

    Returns:
        None if there is no such role, or it may not be read.

    Raises:
        ApiError: the API server does not say.
    """
    if role is None:
        return None
    answer = await api.request("GET", f"{CLUSTER_ROLES}/{role}")
    if answer.status in {HTTPStatus.NOT_FOUND, HTTPStatus.FORBIDDEN}:
        return None
    uid = msgspec.json.decode(answer.accepted(), type=Object)["metadata"]["uid"]
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "name": role, "uid": uid}
