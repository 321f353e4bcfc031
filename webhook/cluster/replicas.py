"""The replicas of an installation, also those of other versions during an upgrade or a rollback."""

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

import msgspec
from structlog.typing import FilteringBoundLogger

from webhook.cluster.client.api import Api, ObjectMetadata
from webhook.cluster.client.reflector import Reflector
from webhook.labels import PATHS

SELECTOR: Final = "app.kubernetes.io/component=webhook"
CONTAINER: Final = "webhook"
ENDED: Final = ("Succeeded", "Failed")


class _Container(msgspec.Struct, frozen=True):
    name: str = ""
    args: list[str] | None = None


class _Spec(msgspec.Struct, frozen=True):
    containers: list[_Container] = []


class _Status(msgspec.Struct, frozen=True):
    phase: str = ""


class ReplicaPod(msgspec.Struct, frozen=True):
    """The part of a pod that shows whether it is a replica, and what it serves."""

    metadata: ObjectMetadata
    spec: _Spec = _Spec()
    status: _Status = _Status()


Replicas: TypeAlias = Reflector[ReplicaPod, frozenset[str] | None]
"""By pod: the paths that a replica serves; None for pods that are none, or have ended."""


def watch_replicas(api: Api, namespace: str, changed: Callable[[], None], log: FilteringBoundLogger) -> Replicas:
    """Make a reflector of the replicas in a namespace, which calls `changed` whenever one comes, ends or goes."""
    return Reflector(
        api,
        f"/api/v1/namespaces/{namespace}/pods",
        ReplicaPod,
        paths_of,
        log,
        changed=lambda _: changed(),
        query={"labelSelector": SELECTOR},
    )


def paths_of(pod: ReplicaPod) -> frozenset[str] | None:
    """The paths that a replica serves, as its template says; None for any other pod."""
    serves = any(each.name == CONTAINER and (each.args or [""])[0] == "serve" for each in pod.spec.containers)
    if not serves or pod.status.phase in ENDED:
        return None
    annotations: Mapping[str, str] = pod.metadata.annotations or {}
    return frozenset(annotations.get(PATHS, "").split())


def served_everywhere(replicas: Replicas, path: str) -> bool:
    """Whether every replica is known to serve a path: one that is not ready yet will be called soon."""
    return replicas.synced.is_set() and all(paths is None or path in paths for paths in replicas.objects.values())
