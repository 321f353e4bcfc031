"""Work beside the reviews, which no error ends."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from structlog.typing import FilteringBoundLogger

from certs.notices import Backoff
from webhook.text import error_fields

PAUSES: Final = (1.0, 60.0)
"""Seconds until work that has failed starts again: after the first failure, and at most."""


@dataclass(eq=False)
class Background:
    """Starts work again that has ended by an unforeseen error, which is logged, with its places in the code, and counted."""

    _log: FilteringBoundLogger
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    bugs: int = field(default=0, init=False)

    async def keep(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        """Run work until it is done, or cancelled; pauses grow while it fails, until it has lasted for longer than any."""
        backoff = Backoff(*PAUSES)
        while True:
            since = self.clock()
            try:
                return await work()
            except Exception as error:  # noqa: BLE001  (the others go on, and so does this)
                if self.clock() - since > PAUSES[1]:
                    backoff.reset()
                self.bugs += 1
                self._log.error("bug", task=name, **error_fields(error))
            await self.sleep(backoff.failed())
