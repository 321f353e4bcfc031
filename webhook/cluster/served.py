"""What an installation can serve now: image volumes, by the API server's version, and paths, by all of its replicas.

An API server serves image volumes from 1.35 on by default, without a gate from 1.36 on (KEP-4639,
``pkg/features/kube_features.go`` of Kubernetes). An older one that has the gate ``ImageVolume`` switched on serves them, too:
the setting ``imageVolumes`` says so. The replicas are also those of other versions, during an upgrade or a rollback.
"""

import asyncio
import re
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

import msgspec
from structlog.typing import FilteringBoundLogger

from webhook.cluster.client import Api, ApiError, ObjectMetadata, read_object
from webhook.cluster.reflector import Reflector
from webhook.labels import PATHS
from webhook.pod import ENDED

FIRST: Final = (1, 35)
AGAIN: Final = 600.0
"""Seconds between two looks at the version: control planes are upgraded while replicas run."""
RETRY: Final = 1.0
"""Seconds until the first look is repeated."""

_NUMBER: Final = re.compile(r"\d+")


class _Version(msgspec.Struct):
    major: str = ""
    minor: str = ""


class ImageVolumes:
    """Whether one API server serves them (`served`), false until it was asked (`known`)."""

    def __init__(self, api: Api, log: FilteringBoundLogger) -> None:
        self._api = api
        self._log = log
        self.served = False
        self.known = asyncio.Event()

    async def run(self) -> None:
        while True:
            try:
                version = await read_object(self._api, "/version", _Version)
            except ApiError as error:
                self._log.debug("version_unknown", error=str(error))
            else:
                before = self.served if self.known.is_set() else None
                self.served = serves(version.major, version.minor)
                self.known.set()
                if self.served is not before:
                    self._log.info("image_volumes", served=self.served)
            await asyncio.sleep(AGAIN if self.known.is_set() else RETRY)


def serves(major: str, minor: str) -> bool:
    """Return whether an API server of a version serves image volumes; distributions write minors such as ``35+``."""
    numbers = [_NUMBER.match(text) for text in (major, minor)]
    return all(numbers) and tuple(int(found[0]) for found in numbers if found) >= FIRST


SELECTOR: Final = "app.kubernetes.io/component=webhook"
CONTAINER: Final = "webhook"


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
