"""Reports ConfigMaps that vanished without a deletion, by a log line and an Event, and has them recorded."""

import asyncio
from collections.abc import Callable, Collection
from typing import Final

from structlog.typing import FilteringBoundLogger

from certs.backoff import Backoff
from webhook.cluster.client.api import ApiError
from webhook.cluster.client.events import Events, Subject
from webhook.cluster.configuration.reporter import RETRY_PAUSES

RESTORED: Final = "stay in force, also in replicas that start"
WITHHELD: Final = "stay in force in the replicas that read them, but not in one that starts"


class LossReporter:
    """Reports the current losses whenever they change.

    Args:
        events: where Events are written.
        subject: the record of last good documents, which the Events are about.
        log: where lines are written.
        store: has the record written.
        restore: replicas that start put the lost documents in force.
    """

    def __init__(
        self, events: Events, subject: Subject, log: FilteringBoundLogger, store: Callable[[], None], *, restore: bool
    ) -> None:
        self._events = events
        self._subject = subject
        self._log = log
        self._store = store
        self._consequence = RESTORED if restore else WITHHELD
        self._names: Collection[str] = ()
        self._changed = asyncio.Event()

    def take(self, names: Collection[str]) -> None:
        """Report the names of all that are lost now."""
        self._names = names
        if names:
            self._log.error("config_maps_lost", config_maps=list(names))
        else:
            self._log.info("config_maps_restored")
        self._changed.set()

    async def run(self) -> None:
        """Until cancelled, write an Event as soon as the namespace exists again, and have the record written, too."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            backoff = Backoff(*RETRY_PAUSES)
            while self._names:
                message = (
                    f"Vanished without a deletion: {', '.join(self._names)}. Their last good documents, in this "
                    f"ConfigMap, {self._consequence}. Create them again"
                )
                try:
                    await self._events.write(self._subject, "Warning", "ConfigMapsLost", message)
                    break
                except ApiError:
                    await asyncio.sleep(backoff.failed())
            self._store()
