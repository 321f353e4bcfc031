"""The table of ways out of a share in ``docs/threats.md``: each is tried, and ends as the page says."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.decided import CONTEXT, POLICY, decided, view
from tests.naming import each_of
from tests.strict_patch import apply_strictly
from tests.ways_out import ADDED_LATER, DONE, LATER, LATER_HIDDEN, ROWS, WAYS_OUT, WayOut
from webhook.admission import Decision
from webhook.admission.judge import judge_ephemeral
from webhook.mapping.model.policy import Policy
from webhook.reasons import Reason

ROOT = Path(__file__).parents[2]
HIDING = replace(POLICY, settings=POLICY.settings.model_copy(update={"hide_devices": True, "target": "nvidia"}))


def outcome(decision: Decision) -> str:
    """What the page would say of it."""
    if decision.denial is not None:
        return "denied"
    reasons = {finding.reason for finding in decision.warnings}
    if Reason.OWNED_STRIPPED in reasons:
        return "removed"
    return "reported" if reasons & {Reason.GUARD_KEPT, Reason.GUARD_BLIND} else "kept"


@each_of("way, parts", WAYS_OUT)
def test_it_ends_as_the_page_says(way: str, parts: WayOut) -> None:
    """The same pod without it is treated."""
    assert outcome(decided(parts.pod("app"))) == DONE[way]


@each_of("policy, container", [*((POLICY, each) for each in LATER), *((HIDING, each) for each in LATER_HIDDEN)])
def test_ephemeral_containers_end_as_the_page_says(policy: Policy, container: dict[str, Any]) -> None:
    """In a pod as it is stored; one that does nothing of the kind is added."""
    made = WayOut().pod("app")
    stored = apply_strictly(made, decided(made).patch)
    harmless = {"name": "debug", "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}]}
    for debugging, done in ((container, DONE[ADDED_LATER]), (harmless, "kept")):
        later = {**stored, "spec": {**stored["spec"], "ephemeralContainers": [debugging]}}
        judgement = judge_ephemeral(view(stored), view(later), CONTEXT, policy)
        assert outcome(judgement) == done


def test_every_other_row_says_how_it_is_known() -> None:
    """What no single pod shows has a test of its own."""
    tests = {path.name for path in ROOT.glob("tests/**/test_*.py")}
    functions = {
        name for path in ROOT.glob("tests/**/test_*.py") for name in re.findall(r"def (test_\w+)", path.read_text())
    }
    tried = {ADDED_LATER, *(way for way, _ in WAYS_OUT)}
    for way, _, why in [row for row in ROWS if row[0] not in tried]:
        named = set(re.findall(r"`(test_[\w.]+)`", why))
        assert named, way
        assert named <= tests | functions, way
    assert DONE.keys() > tried
