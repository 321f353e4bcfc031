"""Whether the API server serves image volumes, by its version: from 1.35 on by default, without a gate from 1.36 on.

KEP-4639 and ``pkg/features/kube_features.go`` of Kubernetes. An older one that has the gate ``ImageVolume`` switched on serves
them, too: the setting ``imageVolumes`` says so.
"""

import asyncio
import re
from typing import Final

import msgspec
from structlog.typing import FilteringBoundLogger

from webhook.cluster.client.api import Api, ApiError, read_object

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
    """What is known of one API server.

    Attributes:
        served: whether it serves them; false until it is known.
        known: set once it was asked.
    """

    def __init__(self, api: Api, log: FilteringBoundLogger) -> None:
        self._api = api
        self._log = log
        self.served = False
        self.known = asyncio.Event()

    async def run(self) -> None:
        """Ask until cancelled."""
        while True:
            try:
                version = await read_object(self._api, "/version", _Version)
            except ApiError as error:
                self._log.debug("version_unknown", error=str(error))
            else:
                self._take(serves(version.major, version.minor))
            await asyncio.sleep(AGAIN if self.known.is_set() else RETRY)

    def _take(self, served: bool) -> None:  # noqa: FBT001
        if not self.known.is_set() or served != self.served:
            self._log.info("image_volumes", served=served)
        self.served = served
        self.known.set()


def serves(major: str, minor: str) -> bool:
    """Return whether an API server of a version serves image volumes; distributions write minors such as ``35+``."""
    numbers = [_NUMBER.match(text) for text in (major, minor)]
    return all(numbers) and tuple(int(found[0]) for found in numbers if found) >= FIRST
