"""What a fault is, and what is promised of it."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .scene import Scene


@dataclass(frozen=True, slots=True)
class Signs:
    """Who hears of a fault; each is looked for while it lasts.

    Attributes:
        log: events of log lines.
        events: reasons of Kubernetes Events.
        metrics: metrics that show it.
        alerts: that fire if it goes on, or comes again every minute.
        checks: of `vgpu-webhook check` that do not end well meanwhile.
    """

    log: tuple[str, ...] = ()
    events: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    alerts: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return any((self.log, self.events, self.metrics, self.alerts, self.checks))


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault.

    Attributes:
        name: for people, the row's first column.
        happens: a context manager: the fault happens at its beginning, and ends with it.
        told: who hears of it.
        lasts: seconds for which it stays.
        before: a context manager: what has to be so for the fault to matter, from before the first pod until all is over.
        denied: why pods may be denied meanwhile; empty: none may be.
        untreated: why pods may be created untreated; empty: none may be.
        harmless: a load rather than a fault: nobody has to be told.
        recovers: seconds after the end of the fault within which all pods are treated.
    """

    name: str
    happens: "Callable[[Scene], AbstractContextManager[None]]"
    signs: Signs
    before: "Callable[[Scene], AbstractContextManager[None]]" = lambda _: nullcontext()
    lasts: float = 3.0
    denied: str = ""
    untreated: str = ""
    recovers: float = 10.0
    harmless: bool = False

    def __str__(self) -> str:
        return self.name.replace(" ", "-")
