"""What an installation can serve now: image volumes, by the API server's version, and paths, by all of its replicas.

An API server serves image volumes from 1.35 on by default, without a gate from 1.36 on (KEP-4639,
``pkg/features/kube_features.go`` of Kubernetes). An older one that has the gate ``ImageVolume`` switched on serves them, too:
the setting ``imageVolumes`` says so. The replicas are also those of other versions, during an upgrade or a rollback.
"""

import asyncio
import re
from collections.abc import Callable
from typing import Final, TypeAlias

from structlog.typing import FilteringBoundLogger

from webhook.cluster.client import Api, ApiError, Object, PlainObject, each_at, found_at, read_object
from webhook.cluster.reflector import Reflector
from webhook.labels import PATHS
from webhook.pod import ENDED

FIRST: Final = (1, 35)
AGAIN: Final = 600.0
"""Seconds between two looks at the version: control planes are upgraded while replicas run."""
RETRY: Final = 1.0
"""Seconds until the first look is repeated."""

_NUMBER: Final = re.compile(r"\d+")


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
                version = await read_object(self._api, "/version", Object)
            except ApiError as error:
                self._log.debug("version_unknown", error=str(error))
            else:
                before = self.served if self.known.is_set() else None
                self.served = serves(*(found_at(version, str, each) or "" for each in ("major", "minor")))
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


Replicas: TypeAlias = Reflector[PlainObject, frozenset[str] | None]
"""By pod: the paths that a replica serves; None for pods that are none, or have ended."""


def watch_replicas(api: Api, namespace: str, changed: Callable[[], None], log: FilteringBoundLogger) -> Replicas:
    """Make a reflector of the replicas in a namespace, which calls `changed` whenever one comes, ends or goes."""
    return Reflector(
        api,
        f"/api/v1/namespaces/{namespace}/pods",
        PlainObject,
        paths_of,
        log,
        changed=lambda _: changed(),
        query={"labelSelector": SELECTOR},
    )


def paths_of(pod: PlainObject) -> frozenset[str] | None:
    """The paths that a replica serves, as its template says; None for any other pod."""
    args = [found_at(each, list, "args") for each in each_at(pod.spec, "containers") if each.get("name") == CONTAINER]
    if not any(each and each[0] == "serve" for each in args) or pod.status.get("phase") in ENDED:
        return None
    return frozenset((pod.metadata.annotations or {}).get(PATHS, "").split())


def served_everywhere(replicas: Replicas, path: str) -> bool:
    """Whether every replica is known to serve a path: one that is not ready yet will be called soon."""
    return replicas.synced.is_set() and all(paths is None or path in paths for paths in replicas.objects.values())
