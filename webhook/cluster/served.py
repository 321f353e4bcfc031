"""Whether an API server serves image volumes, by its version.

It does from 1.35 on by default, without a gate from 1.36 on (KEP-4639, ``pkg/features/kube_features.go`` of Kubernetes). An
older one that has the gate ``ImageVolume`` switched on serves them, too: the setting ``imageVolumes`` says so.
"""

import asyncio
import re
from typing import Final

from structlog.typing import FilteringBoundLogger

from webhook.cluster.client import Api, ApiError, Object, found_at, read_object

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
