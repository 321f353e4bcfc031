"""References in variables expand as by the kubelet's own code, in what is expected of generated pods."""

import json
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.controlplane.build import expansion
from tests.fuzz.enforcement import effective
from tests.go_program import BinariesMissingError


@pytest.fixture(scope="module")
def kubelet(pytestconfig: pytest.Config) -> Path:
    """The kubelet's own expansion, built now if this machine has never built it."""
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        try:
            return expansion()
        except BinariesMissingError as error:
            pytest.fail(str(error), pytrace=False)


SIGNS = ["$", "$$", "$(", "(", ")", "$(E)", "$(F)", "$(G)", "$($(E))", "E", ":", "/x", "\n", "é"]
TEXTS = st.lists(st.sampled_from(SIGNS), max_size=10).map("".join).filter(lambda text: "$é" not in text)
"""Not a dollar before what is not ASCII: there the kubelet cuts the sign in two, and no element begins or ends."""


@pytest.mark.controlplane
@settings(deadline=None)
@given(st.lists(st.tuples(TEXTS, st.dictionaries(st.sampled_from("EF"), TEXTS)), min_size=1, max_size=50))
def test_references_expand_as_by_the_kubelet(kubelet: Path, cases: list[tuple[str, dict[str, str]]]) -> None:
    """Whatever is known, not known or escaped, and wherever it stands."""
    lines = "".join(json.dumps({"value": text, "variables": values}) + "\n" for text, values in cases)
    done = subprocess.run([kubelet], input=lines, capture_output=True, text=True, check=True)
    theirs = [json.loads(line) for line in done.stdout.splitlines()]
    for (text, values), answer in zip(cases, theirs, strict=True):
        before = [{"name": name, "value": value.replace("$", "$$")} for name, value in values.items()]
        assert effective({"env": [*before, {"name": "X", "value": text}]})["X"] == answer
