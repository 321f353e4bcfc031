"""The table of faults: as it is published, and whole."""

from collections import Counter

from tests.deploy.charts import ROOT
from webhook.doctor.checks import CHECKS

from .fault import CHANNELS, FAULTS, function
from .page import page

SILENT = {"log": 9, "events": 14, "metrics": 1, "alerts": 2, "checks": 8}
"""How many faults each channel does not tell of. Fewer is better: lower these numbers, and do not raise them."""

BOUNDED = {"denied": 8, "untreated": 0, "unanswered": 2}
"""For how many faults pods may be denied, be created untreated, or get no answer: likewise."""


def test_page_is_the_table() -> None:
    """docs/reliability.md says what is tried."""
    assert (ROOT / "docs/reliability.md").read_text() == page(), "run `make docs`"


def test_each_fault_says_of_each_channel_what_it_tells_or_why_nothing() -> None:
    """No channel is left open, and none has both."""
    for fault in FAULTS:
        assert callable(function(fault.happens))
        assert callable(function(fault.before))
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
