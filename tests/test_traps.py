"""Each trap of `docs/traps.md` is held by tests that are there and carry its number, and by those that the page names."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.strict_patch import apply_strictly
from tests.test_any_to_any import TARGET
from tests.test_cases import OPTED_IN
from tests.trap_list import COLLECTED
from webhook.admission import Context, Namespace, decide
from webhook.mapping.load import load_policy
from webhook.pod import decode_pod

ROOT = Path(__file__).parents[1]
NOT_OURS = {8}
POLICY = load_policy()


def holder(test: str) -> str:
    """What the page calls a test: cases by their folder, keys together, others without their parameters."""
    name, _, parameters = test.partition("[")
    if name.startswith("tests/test_cases.py"):
        return f"tests/cases/{parameters.removesuffix(']')}"
    return "tests/keys" if name.startswith("tests/test_keys.py") else name


def marked(config: pytest.Config) -> list[tuple[int, str]]:
    """The trap and the place of each test that carries one: of this run where it collected all of them, else of another."""
    items = config.stash[COLLECTED]
    if {item.path for item in items} >= {*ROOT.glob("tests/**/test_*.py")}:
        return [(mark.kwargs["number"], item.nodeid) for item in items for mark in item.iter_markers("trap")]
    command = [sys.executable, "-m", "tests.trap_list"]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [(int(number), test) for number, test in re.findall(r"^trap (\d+) (.+)$", printed, re.MULTILINE)]


def test_page(pytestconfig: pytest.Config) -> None:
    """The page has a line for each of the 36 traps, with all tests that carry its number, and no other."""
    held: dict[int, set[str]] = {}
    for number, test in marked(pytestconfig):
        held.setdefault(number, set()).add(holder(test))
    lines = re.findall(r"^\| (\d+) \| .* \| (.*) \|$", (ROOT / "docs" / "traps.md").read_text(), re.MULTILINE)
    named = {int(number): set(re.findall(r"`(tests/[^`]+)`", text)) for number, text in lines}
    assert named == {number: held.get(number, set()) for number in range(1, 37)}
    assert {number for number, tests in named.items() if not tests} == NOT_OURS


def stored(metadata: dict[str, Any]) -> Any:
    """A pod that requests a share in a foreign vendor's keys, as it is stored; it is not changed a second time."""
    limits = {"tencent.com/vcuda-core": "50", "tencent.com/vcuda-memory": "16"}
    container = {"name": "main", "resources": {"limits": limits, "requests": dict(limits)}}
    pod: Any = {**metadata, "spec": {"containers": [container]}}
    context = Context(Namespace("team", OPTED_IN.labels, {TARGET: "nvidia"}), "privileged")
    for patched in (True, False):
        decision = decide(decode_pod(json.dumps(pod).encode()), context, POLICY)
        assert decision.denial is None
        assert bool(decision.patch) is patched
        pod = apply_strictly(pod, decision.patch)
    return pod


@pytest.mark.trap(number=31)
@pytest.mark.parametrize(
    "given",
    [
        {},
        {"metadata": {}},
        {"metadata": {"name": ""}},
        {"metadata": {"name": None, "labels": None, "annotations": None}},
        {"metadata": {"generateName": "a-"}},
    ],
)
def test_names_may_be_missing(given: dict[str, Any]) -> None:
    """A pod is changed as one with a name is, maps that are missing are made, and nothing else is added to its metadata."""
    named, unnamed = stored({"metadata": {"name": "a"}}), stored(given)
    assert unnamed["spec"] == named["spec"]
    assert unnamed["metadata"] == {**given.get("metadata", {}), "annotations": named["metadata"]["annotations"]}
