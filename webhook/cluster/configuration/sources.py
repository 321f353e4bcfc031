"""The ConfigMaps that policy is made of, watched in one namespace."""

import asyncio
from collections.abc import Callable, Collection
from typing import Final

from structlog.typing import FilteringBoundLogger

from webhook import labels
from webhook.cluster.client.api import Api
from webhook.cluster.client.reflector import Reflector, WatchConfig
from webhook.cluster.configuration.config_maps import LAST_GOOD_NAME, SETTINGS_NAME, ConfigMap, Stored, config_map

SELECTORS: Final = (
    {"labelSelector": f"{labels.MAPPING}=true"},
    {"fieldSelector": f"metadata.name={SETTINGS_NAME}"},
    {"fieldSelector": f"metadata.name={LAST_GOOD_NAME}"},
)
"""A watch each: what else is in the namespace is never sent."""


class Sources:
    """What is known of these ConfigMaps.

    Args:
        api: the way to the API server.
        namespace: the webhook's own; who can write there may change policy.
        log: where trouble is told.
        changed: called with the names of what was added, changed or removed. It must not raise.
        pace: how patient the watches are.

    Attributes:
        reflectors: to run, and to ask when they last had contact.
    """

    def __init__(
        self,
        api: Api,
        namespace: str,
        log: FilteringBoundLogger,
        changed: Callable[[Collection[str]], None],
        *,
        pace: WatchConfig | None = None,
    ) -> None:
        def by_name(keys: Collection[str]) -> None:
            changed({key.rpartition("/")[2] for key in keys})

        path = f"/api/v1/namespaces/{namespace}/configmaps"
        self.reflectors: tuple[Reflector[Stored, ConfigMap], ...] = tuple(
            Reflector(api, path, Stored, config_map, log, changed=by_name, query=query, pace=pace)
            for query in SELECTORS
        )

    async def synced(self) -> None:
        """Return once everything there was has been seen, apart from the record, which is read directly."""
        await asyncio.gather(*(reflector.synced.wait() for reflector in self.reflectors[:-1]))

    def all(self) -> list[ConfigMap]:
        """Everything that is there now."""
        return [*{one.name: one for reflector in self.reflectors for one in reflector.objects.values()}.values()]

    def record(self) -> ConfigMap | None:
        """The ConfigMap of the last good documents, if there is one."""
        return next(iter(self.reflectors[-1].objects.values()), None)
