"""The table of faults: as it is published, whole, and with limits that can be exceeded."""

from collections import Counter
from dataclasses import replace

import pytest

from tests.deploy.charts import ROOT
from webhook.doctor.checks import CHECKS

from .fault import CHANNELS, Bound, Finding, Observed, Signs, exceeds
from .page import page
from .table import FAULTS

SILENT = {"log": 10, "events": 14, "metrics": 1, "alerts": 2, "checks": 8}
"""How many faults each channel does not tell of. Fewer is better: lower these numbers, and do not raise them."""

BOUNDED = {"denied": 13, "untreated": 0, "unanswered": 2}
"""For how many faults pods may be denied, be created untreated, or get no answer: likewise."""

TOLD = Signs(("line",), ("Reason",), ("metric",), ("Alert",), (Finding("mappings", "not in force"),))
HEARD = Observed(
    frozenset({"line", "more"}),
    frozenset({"Reason"}),
    frozenset({"metric"}),
    frozenset({"Alert"}),
    {"mappings": frozenset({"1 document not in force", "bad: unknown key"})},
)


def test_page_is_the_table() -> None:
    """docs/reliability.md says what is tried."""
    assert (ROOT / "docs/reliability.md").read_text() == page(), "run `make docs`"


def test_each_fault_says_of_each_channel_what_it_tells_or_why_nothing() -> None:
    """No channel is left open, and none has both."""
    for fault in FAULTS:
        telling = {channel for channel in CHANNELS if getattr(fault.signs, channel)}
        if fault.harmless:
            assert not telling, fault.name
            continue
        assert telling, fault.name
        assert telling.isdisjoint(fault.silent), fault.name
        assert telling | fault.silent.keys() == set(CHANNELS), fault.name
        assert all(fault.silent.values()), fault.name
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)


def test_exemptions_do_not_grow() -> None:
    """The number of channels that tell nothing, and of faults that affect pods; and each finding is of a real check."""
    assert Counter(channel for fault in FAULTS for channel in fault.silent) == SILENT
    assert {fate: sum(getattr(fault, fate) is not None for fault in FAULTS) for fate in BOUNDED} == BOUNDED
    findings = [finding for fault in FAULTS for finding in fault.signs.checks]
    assert {finding.check for finding in findings} <= {check.name for check in CHECKS}
    assert all(finding.text for finding in findings)


@pytest.mark.parametrize("channel", CHANNELS)
def test_any_sign_that_is_absent_is_missing(channel: str) -> None:
    """However many others were seen."""
    assert TOLD.missing(HEARD) == {}
    [sign] = getattr(TOLD, channel)
    nothing: object = {} if channel == "checks" else frozenset({"other"})
    assert TOLD.missing(replace(HEARD, **{channel: nothing})) == {channel: {sign}}  # type: ignore[arg-type]


def test_a_check_has_to_say_it() -> None:
    """That it does not end well, or that another check says so, is not enough."""
    line = frozenset({"1 document not in force"})
    for said in ({"mappings": frozenset({"something else"})}, {"events": line}):
        assert TOLD.missing(replace(HEARD, checks=said)) == {"checks": set(TOLD.checks)}


def test_bounds_can_be_exceeded() -> None:
    """By pods, by time, and by any pod where none is permitted."""
    few, all_of_them = Bound("meanwhile", 3, 2.0), Bound("meanwhile", None, 2.0)
    assert not exceeds(few, [5.0, 6.0, 7.0], lasted=1)
    assert "4 pods within 2.0 s" in exceeds(few, [5.0, 6.0, 6.5, 7.0], lasted=100)
    assert "2 pods within 2.1 s" in exceeds(few, [7.1, 5.0], lasted=100)
    assert not exceeds(all_of_them, [*map(float, range(103))], lasted=100)
    assert "104 pods within 103.0 s of a fault of 100.0 s" in exceeds(
        all_of_them, [*map(float, range(104))], lasted=100
    )
    assert not exceeds(None, [], lasted=1)
    assert "1 pods within 0.0 s of a fault of 1.0 s; permitted: none" in exceeds(None, [5.0], lasted=1)
