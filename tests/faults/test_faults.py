"""Every fault of the table, under a stream of pods: what becomes of them, and where it is reported."""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import pytest

from .fault import Fault, Signs
from .scene import OWN, Scene
from .stream import Fate
from .table import FAULTS
from .witnesses import Alerts, Logs, checks, event_counts, moved

pytestmark = [pytest.mark.controlplane, pytest.mark.faults, pytest.mark.timeout(600)]

T = TypeVar("T")

USUAL = {"one replica is killed", "caBundle is emptied"}
"""What the ordinary run makes happen: one fault of processes, one of objects; `make test-deep` all of them."""

REPORT_TIME = 60.0
"""Seconds for which is waited until somebody hears of it: Events are written, and log lines, a moment later."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a fault.

    Attributes:
        counts: pods, by what became of them.
        recovered: seconds until all were treated again; None if they never were.
        told: who heard of it.
        said: what was said of the last pod that was not treated.
    """

    counts: Counter[Fate]
    recovered: float | None
    signs: Signs
    last_message: str


@pytest.mark.parametrize(
    "fault",
    [fault if fault.name in USUAL else pytest.param(fault, marks=pytest.mark.deep) for fault in FAULTS],
    ids=str,
)
def test_fault(scene: Scene, alerts: Alerts, fault: Fault, capsys: pytest.CaptureFixture[str]) -> None:
    """Pods are treated, or denied where that is promised, and never let through; and the fault is reported."""
    scene.settle()
    with fault.before(scene):
        outcome = happen(scene, alerts, fault)
    scene.clear()
    counts, observed, recovered = outcome.counts, outcome.signs, outcome.recovered
    numbers = ", ".join(f"{counts[fate]} {fate.value}" for fate in Fate)
    back = "never" if recovered is None else f"{recovered:.1f} s"
    with capsys.disabled():
        print(f"\n{fault.name}: {numbers}, well after {back}\n    {observed}\n    {outcome.last_message}", flush=True)  # noqa: T201
    assert observed or fault.harmless, "nobody was told"
    assert not (fault.harmless and observed.alerts), "somebody was called, and nothing is wrong"
    assert not missing(fault.signs, observed)
    assert fault.untreated or not counts[Fate.UNTREATED], "pods were created untreated"
    assert fault.denied or not counts[Fate.DENIED], f"pods were denied: {outcome.last_message}"
    assert recovered is not None
    assert recovered <= fault.recovers
    assert counts[Fate.TREATED]


def happen(scene: Scene, alerts: Alerts, fault: Fault) -> Outcome:
    """Make it happen while pods are created, and look who hears of it."""
    logs, events = Logs.since_now(scene.folder), event_counts(scene.client, (OWN, "default"))
    usual = checks(scene.check_command()) if fault.signs.checks else {}
    before = scene.scrape()
    stream = scene.stream
    with stream.running():
        until(lambda: len(stream.fates) >= 5, 60)
        with fault.happens(scene):
            time.sleep(fault.lasts)
            during = scene.scrape()
            found = checks(scene.check_command()).keys() - usual.keys() if fault.signs.checks else set()
        over = time.monotonic()
        recovered = until(lambda: stream.recovered(over), fault.recovers + 60)
    during = {**during, **{series: value for series, value in scene.scrape().items() if "apiserver" in series}}

    def observe() -> Signs:
        now = event_counts(scene.client, (OWN, "default"))
        return Signs(
            log=tuple(sorted(logs.events())),
            events=tuple(sorted({key[1] for key, count in now.items() if events.get(key) != count})),
            metrics=tuple(sorted(moved(before, during))),
            alerts=tuple(sorted(alerts.firing(before, during))),
            checks=tuple(sorted(found)),
        )

    # In a tuple: that nobody is told is an answer, too, of which `until` would think that there is none yet.
    enough = until(lambda: (observed,) if not missing(fault.signs, observed := observe()) else None, REPORT_TIME)
    return Outcome(stream.counts(), recovered, enough[0] if enough else observe(), stream.last_message)


def missing(promised: Signs, observed: Signs) -> dict[str, set[str]]:
    """The channels on which a fault should have been reported, and was not."""
    channels = ("log", "events", "metrics", "alerts", "checks")
    gaps = {channel: set(getattr(promised, channel)) - set(getattr(observed, channel)) for channel in channels}
    return {channel: gap for channel, gap in gaps.items() if gap}


def until(probe: Callable[[], T | None], seconds: float) -> T | None:
    """What a probe gives, as soon as it gives something; None if it doesn't in time."""
    end = time.monotonic() + seconds
    while True:
        found = probe()
        if found or found == 0.0 or time.monotonic() > end:
            return found
        time.sleep(0.2)
