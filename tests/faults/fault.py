"""What a fault is, and what is promised of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Final, NamedTuple

import msgspec

from tests.yaml_text import load_yaml


class Finding(NamedTuple):
    """What a check of `vgpu-webhook check` says.

    Attributes:
        check: its name.
        text: part of a line that it did not print before the fault.
    """

    check: str
    text: str


@dataclass(frozen=True, slots=True)
class Signs:
    """Who hears of a fault; each is looked for while it lasts.

    Attributes:
        log: events of log lines.
        events: reasons of Kubernetes Events.
        metrics: metrics that show it.
        alerts: that fire if it goes on, or comes again every minute.
        checks: of `vgpu-webhook check` that do not end well meanwhile, each with what it says.
    """

    log: tuple[str, ...] = ()
    events: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    alerts: tuple[str, ...] = ()
    checks: tuple[Finding, ...] = ()

    def missing(self, observed: "Observed") -> dict[str, set[object]]:
        """By channel, each of these signs that was not observed."""
        gaps: dict[str, set[object]] = {
            channel: set(getattr(self, channel)) - getattr(observed, channel) for channel in CHANNELS[:-1]
        }
        gaps["checks"] = {
            finding
            for finding in self.checks
            if not any(finding.text in line for line in observed.checks.get(finding.check, ()))
        }
        return {channel: gap for channel, gap in gaps.items() if gap}


CHANNELS = tuple(field.name for field in fields(Signs))
"""All of them; a fault says of each what it tells, or why nothing."""


@dataclass(frozen=True, slots=True)
class Observed:
    """What the channels told in fact; of the checks the lines that they did not print before."""

    log: frozenset[str] = frozenset()
    events: frozenset[str] = frozenset()
    metrics: frozenset[str] = frozenset()
    alerts: frozenset[str] = frozenset()
    checks: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def __or__(self, other: "Observed") -> "Observed":
        nothing: frozenset[str] = frozenset()
        names = self.checks.keys() | other.checks.keys()
        return Observed(
            self.log | other.log,
            self.events | other.events,
            self.metrics | other.metrics,
            self.alerts | other.alerts,
            {name: self.checks.get(name, nothing) | other.checks.get(name, nothing) for name in names},
        )


@dataclass(frozen=True, slots=True)
class Bound:
    """How many pods may have another fate than that of every day.

    The stream begins 30 pods a second at most, on a slow machine fewer: a bound in pods does not depend on its speed.

    Attributes:
        why: what happens to them, for people.
        seconds: from the first of them to the last, at most; with `pods` None, longer than the fault lasts.
        pods: how many at most; None: all that are created while the fault lasts.
    """

    why: str
    seconds: float
    pods: int | None = None

    def __str__(self) -> str:
        if self.pods is None:
            return f"as long as it lasts, and at most {self.seconds:g} s longer: {self.why}"
        return f"at most {self.pods} pods, within {self.seconds:g} s: {self.why}"


def exceeds(bound: Bound | None, begun: Sequence[float], lasted: float) -> str:
    """How pods are beyond a bound; empty if they are within it.

    Args:
        bound: None: there may be no such pod.
        begun: when each pod was begun, in seconds.
        lasted: seconds from the beginning of the fault to its end.
    """
    if not begun:
        return ""
    span = max(begun) - min(begun)
    if bound is not None:
        longest = bound.seconds + (lasted if bound.pods is None else 0)
        if span <= longest and (bound.pods is None or len(begun) <= bound.pods):
            return ""
    return f"{len(begun)} pods within {span:.1f} s of a fault of {lasted:.1f} s; permitted: {bound or 'none'}"


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault.

    Attributes:
        name: for people, the row's first column.
        happens: the function that makes it happen, given the scene; a context manager also ends it.
        signs: who hears of it; all of them have to.
        silent: why each other channel tells nothing.
        lasts: seconds for which it stays.
        before: likewise: what has to be so for the fault to matter, from before the first pod until all is over.
        denied: the pods that may be denied meanwhile; None: none may be.
        untreated: the pods that may be created untreated; None: none may be.
        unanswered: the pods that the API server may fail to create for reasons of its own; None: there may be none.
        watched: whether the API server answers meanwhile, so that Events can be looked for.
        harmless: a load rather than a fault: nobody has to be told.
        recovers: seconds after the end of the fault within which all pods are treated.
    """

    name: str
    happens: str
    signs: Signs = Signs()
    silent: Mapping[str, str] = field(default_factory=dict)
    before: str = "contextlib.nullcontext"
    lasts: float = 3.0
    denied: Bound | None = None
    untreated: Bound | None = None
    unanswered: Bound | None = None
    recovers: float = 10.0
    watched: bool = True
    harmless: bool = False

    def __str__(self) -> str:
        return self.name.replace(" ", "-")


FAULTS: Final = msgspec.convert(load_yaml((Path(__file__).parent / "table.yaml").read_text()), tuple[Fault, ...])


def function(name: str) -> Callable[[Any], Any]:
    """What a fault names."""
    found: Callable[[Any], Any] = resolve_name(name if name.startswith("contextlib") else f"tests.faults.{name}")
    return found
