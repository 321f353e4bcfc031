"""From serving to the end of the process: the phases of a drain, and who may hurry it."""

import asyncio
import contextlib
import enum
from dataclasses import dataclass, field

from structlog.typing import FilteringBoundLogger

from webhook.server.limits import InFlight, Limits


class Phase(enum.Enum):
    """How reviews are treated."""

    SERVING = "serving"
    DRAINING = "draining"
    """Not ready any more; answered as ever, but each answer ends its connection: endpoints are catching up."""
    REFUSING = "refusing"
    """Answered with a 503 that the API server repeats elsewhere."""


@dataclass(slots=True)
class Lifecycle:
    """The phase that a server is in, and the wish to end it."""

    phase: Phase = Phase.SERVING
    _asked: asyncio.Event = field(default_factory=asyncio.Event)
    _hurried: asyncio.Event = field(default_factory=asyncio.Event)

    def stop(self, *, hurry: bool = False) -> None:
        """Ask for the end of the server; whoever asks a second time, or is in a hurry, gets no grace."""
        if hurry or self._asked.is_set():
            self._hurried.set()
        self._asked.set()

    async def wait(self) -> None:
        """Return once somebody has asked for the end."""
        await self._asked.wait()

    async def drain(self, *, grace: float, in_flight: InFlight, limits: Limits, log: FilteringBoundLogger) -> None:
        """Go through the phases; when this returns nothing is in flight, or the time for it is over."""
        self.phase = Phase.DRAINING
        log.info("draining", grace=grace)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace):
                await self._hurried.wait()
        self.phase = Phase.REFUSING
        log.info("refusing", in_flight=in_flight.reviews)
        await asyncio.sleep(limits.refuse_time)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limits.shutdown_time):
                await in_flight.none_left()
