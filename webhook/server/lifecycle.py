"""The phases from serving to the end of the process."""

import asyncio
import contextlib
import enum
from dataclasses import dataclass, field

from structlog.typing import FilteringBoundLogger

from webhook.server.limits import InFlight, Limits


class Phase(enum.Enum):
    """How reviews are answered."""

    SERVING = "serving"
    DRAINING = "draining"
    """Not ready. Reviews are answered, and each answer closes its connection, until endpoints are updated."""
    STOPPING = "stopping"
    """Reviews are answered with a 503, after which the API server retries elsewhere."""


@dataclass(slots=True)
class Lifecycle:
    """The phase of a server, and requests to end it."""

    phase: Phase = Phase.SERVING
    _requested: asyncio.Event = field(default_factory=asyncio.Event)
    _hurried: asyncio.Event = field(default_factory=asyncio.Event)

    def stop(self, *, hurry: bool = False) -> None:
        """Request the end of the server; the second request, or one in a hurry, skips the grace period."""
        if hurry or self._requested.is_set():
            self._hurried.set()
        self._requested.set()

    async def wait(self) -> None:
        """Return once the end was requested."""
        await self._requested.wait()

    async def drain(self, *, grace: float, in_flight: InFlight, limits: Limits, log: FilteringBoundLogger) -> None:
        """Go through the phases; return when nothing is in flight, or the time for it is over."""
        self.phase = Phase.DRAINING
        log.info("draining", grace=grace)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace):
                await self._hurried.wait()
        self.phase = Phase.STOPPING
        log.info("stopping", in_flight=in_flight.reviews)
        await asyncio.sleep(limits.unavailable_time)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limits.shutdown_time):
                await in_flight.none_left()
