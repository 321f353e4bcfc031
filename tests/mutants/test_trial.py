"""The tests that mutants are put to."""

import re
from pathlib import Path

from tests.mutants.draw import ROOT
from tests.mutants.trial import STAGES


def test_every_test_that_is_named_exists() -> None:
    """Files and folders, and single tests by their name: what is gone would be passed over, or end a run."""
    for stage in {stage for stages in STAGES.values() for stage in stages}:
        for argument in stage:
            path, _, test = re.sub("^--(ignore|deselect)=", "", argument).partition("::")
            assert Path(ROOT / path).exists(), argument
            assert not test or f"def {test}(" in Path(ROOT / path).read_text(), argument
