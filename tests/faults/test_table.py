"""The table of faults, as it is published."""

from tests.deploy.charts import ROOT

from .page import page
from .table import FAULTS
from .test_faults import USUAL


def test_page_is_the_table() -> None:
    """docs/reliability.md says what is tried."""
    assert (ROOT / "docs/reliability.md").read_text() == page(), "run `make docs`"


def test_each_fault_is_reported() -> None:
    """There is no fault of which nobody hears."""
    assert all(fault.signs or fault.harmless for fault in FAULTS)
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)
    assert {fault.name for fault in FAULTS} > USUAL
