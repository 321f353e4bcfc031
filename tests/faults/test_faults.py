"""Every fault of the table, under a stream of pods: what becomes of them, and where it is reported."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TypeVar

import pytest

from .fault import CHANNELS, FAULTS, Fault, Observed, exceeds, function
from .scene import OWN, Scene
from .stream import Fate
from .witnesses import Alerts, Logs, Samples, checks, event_reasons, moved

pytestmark = [pytest.mark.controlplane, pytest.mark.faults, pytest.mark.long, pytest.mark.timeout(1200)]

T = TypeVar("T")

REPORT_TIME = 120.0
"""Seconds for which is waited until somebody hears of it: Events are written, and log lines, a moment later."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a fault.

    Attributes:
        begun: when pods were begun, by what became of them.
        lasted: seconds from the beginning of the fault to its end.
        recovered: seconds until all were treated again; None if they never were.
        observed: who heard of it.
        missing: the signs that nobody saw.
        refused: connections for which the Service had no replica.
        last_message: what was said of the last pod that was not treated.
    """

    begun: Mapping[Fate, Sequence[float]]
    lasted: float
    recovered: float | None
    observed: Observed
    missing: Mapping[str, set[object]]
    refused: int
    last_message: str


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_fault(scene: Scene, alerts: Alerts, fault: Fault, capsys: pytest.CaptureFixture[str]) -> None:
    """Pods are treated, all but as many as is promised; and the fault is reported wherever that is promised."""
    scene.settle()
    with function(fault.before)(scene):
        outcome = happen(scene, alerts, fault)
    scene.clear()
    with capsys.disabled():
        print(f"\n{fault.name}: {described(outcome)}", flush=True)  # noqa: T201
    bounds = {Fate.DENIED: fault.denied, Fate.UNTREATED: fault.untreated, Fate.UNANSWERED: fault.unanswered}
    beyond = {fate.value: exceeds(bound, outcome.begun[fate], outcome.lasted) for fate, bound in bounds.items()}
    assert not {fate: by for fate, by in beyond.items() if by}, f"{outcome.refused} refused; {outcome.last_message}"
    assert not outcome.missing, "somebody did not hear of it"
    assert not (fault.harmless and outcome.observed.alerts), "somebody was called, and nothing is wrong"
    assert outcome.recovered is not None
    assert outcome.recovered <= fault.recovers
    assert outcome.begun[Fate.TREATED]


def described(outcome: Outcome) -> str:
    """What came of it, for people."""
    numbers = ", ".join(
        f"{len(begun)} {fate.value} within {max(begun) - min(begun):.1f} s"
        for fate, begun in outcome.begun.items()
        if begun
    )
    back = "never" if outcome.recovered is None else f"{outcome.recovered:.1f} s"
    told = {channel: sorted(getattr(outcome.observed, channel)) for channel in CHANNELS[:-1]}
    checks = {name: sorted(line[:160] for line in lines) for name, lines in outcome.observed.checks.items()}
    lines = (f"{numbers}, in a fault of {outcome.lasted:.1f} s, well after {back}", told, checks, outcome.last_message)
    return "\n    ".join(map(str, lines))


def happen(scene: Scene, alerts: Alerts, fault: Fault) -> Outcome:
    """Make it happen while pods are created, and look who hears of it."""
    # Within an hour, what is said again would be no new Event.
    for namespace in (OWN, "default"):
        scene.client.call("DELETE", f"/api/v1/namespaces/{namespace}/events").accepted()
    logs = Logs.since_now(scene.folder)
    usual = checks(scene.check_command())
    before = scene.steady()
    firing = alerts.firing(before, before)
    stream, refused = scene.stream, scene.ways.refused

    def new_lines() -> dict[str, frozenset[str]]:
        found = checks(scene.check_command())
        new = {name: lines - usual.get(name, frozenset()) for name, lines in found.items()}
        return {name: lines for name, lines in new.items() if lines}

    def observe(during: Samples, said: Mapping[str, frozenset[str]]) -> Observed:
        try:
            events = event_reasons(scene.client, (OWN, "default"))
        except OSError:
            events = frozenset()  # a moment after its storage was away, the API server may not answer yet
        return Observed(
            log=frozenset(logs.events()),
            events=events,
            metrics=frozenset(moved(before, during)),
            # What fires already, such as a setting that a previous version does not know, is none of this fault's.
            alerts=frozenset(alerts.firing(before, during) - firing),
            checks=said,
        )

    with stream.running():
        until(lambda: len(stream.fates) >= 5, 60)
        began = time.monotonic()
        with function(fault.happens)(scene) or nullcontext():
            time.sleep(fault.lasts)
            during = scene.scrape()
            observed = observe(during, new_lines()) if fault.watched else Observed(checks=new_lines())
            end = time.monotonic() + REPORT_TIME
            while fault.watched and fault.signs.missing(observed).keys() - {"log"} and time.monotonic() < end:
                during = scene.scrape()
                observed |= observe(during, new_lines() if "checks" in fault.signs.missing(observed) else {})
        over = time.monotonic()
        recovered = until(lambda: stream.recovered(over), fault.recovers + 60)
    # Calls that nobody answers are counted when they end.
    during = {**during, **{series: value for series, value in scene.scrape().items() if "apiserver" in series}}
    observed |= observe(during, {})
    end = time.monotonic() + REPORT_TIME
    while (missing := fault.signs.missing(observed)) and time.monotonic() < end:
        time.sleep(0.5)
        observed |= observe(during, {})
    refused = scene.ways.refused - refused
    return Outcome(stream.begun(), over - began, recovered, observed, missing, refused, stream.last_message)


def until(probe: Callable[[], T | None], seconds: float) -> T | None:
    """What a probe gives, as soon as it gives something; None if it doesn't in time."""
    end = time.monotonic() + seconds
    while True:
        found = probe()
        if found or found == 0.0 or time.monotonic() > end:
            return found
        time.sleep(0.2)
