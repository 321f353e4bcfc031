"""Watches the ConfigMaps that make up the policy, in one namespace."""

import asyncio
from collections.abc import Callable, Collection
from typing import Final

from structlog.typing import FilteringBoundLogger

from webhook import labels
from webhook.cluster.client.api import Api
from webhook.cluster.client.reflector import Reflector, WatchConfig
from webhook.cluster.configuration.config_maps import (
    LAST_GOOD_NAME,
    SETTINGS_NAME,
    ConfigMap,
    StoredConfigMap,
    config_map,
)

SELECTORS: Final = (
    {"labelSelector": f"{labels.MAPPING}=true"},
    {"fieldSelector": f"metadata.name={SETTINGS_NAME}"},
    {"fieldSelector": f"metadata.name={LAST_GOOD_NAME}"},
)
"""One watch for each, so that other ConfigMaps of the namespace are never sent."""


class Sources:
    """The ConfigMaps that make up the policy, in memory.

    Args:
        api: the API server.
        namespace: the webhook's own; everyone who can write ConfigMaps there can change the policy.
        log: for failures of the watches.
        changed: called with the names of what was added, changed or removed. It must not raise.
        config: the time limits of the watches.

    Attributes:
        reflectors: have to be run; they know when they last had contact.
    """

    def __init__(
        self,
        api: Api,
        namespace: str,
        log: FilteringBoundLogger,
        changed: Callable[[Collection[str]], None],
        *,
        config: WatchConfig | None = None,
    ) -> None:
        def changed_keys(keys: Collection[str]) -> None:
            changed({key.rpartition("/")[2] for key in keys})

        path = f"/api/v1/namespaces/{namespace}/configmaps"
        self.reflectors: tuple[Reflector[StoredConfigMap, ConfigMap], ...] = tuple(
            Reflector(api, path, StoredConfigMap, config_map, log, changed=changed_keys, query=query, config=config)
            for query in SELECTORS
        )

    async def synced(self) -> None:
        """Return once all ConfigMaps are known, except for the record, which is read directly."""
        await asyncio.gather(*(reflector.synced.wait() for reflector in self.reflectors[:-1]))

    def all(self) -> list[ConfigMap]:
        """All current ConfigMaps."""
        return [
            *{
                config_map.name: config_map
                for reflector in self.reflectors
                for config_map in reflector.objects.values()
            }.values()
        ]

    def record(self) -> ConfigMap | None:
        """The ConfigMap of the last good documents, if there is one."""
        return next(iter(self.reflectors[-1].objects.values()), None)
