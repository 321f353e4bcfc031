"""What vendors' public documentation says that their keys mean, number by number: one file for each vendor in `tests/keys`.

A case is a line: where the number is from (`source`), what stands in the pod (`limits`, `labels`, `annotations`,
`nodeSelector`), and what it `means` (devices x memory cores of each; `nothing`: it is left unchanged; `known`: so is this
name of the vendor's own plugin, and it is no misspelled key), or the code with which it is `refused`; `with` is what the
cluster configures (a document that extends the vendor's). A key that is a vendor's name says what is written there, or the
code with which that is refused.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.decided import POLICY, decided
from tests.decisions.any_to_any import SOURCES, TARGET, VENDORS, policy_for, translated
from tests.naming import each_of, naming
from tests.yaml_text import load_yaml
from webhook.explanation.names import look_up
from webhook.mapping.notation import glob_pattern
from webhook.reasons import Reason

KEYS = Path(__file__).parents[1] / "keys"
CASES: dict[str, list[dict[str, Any]]] = {file.stem: load_yaml(file.read_text()) for file in sorted(KEYS.iterdir())}
"""The cases by vendor."""
PLAIN = {"source", "with", "limits", "labels", "annotations", "nodeSelector", "means", "refused"}
WHOLE_CARDS = {"biren", "vastai", "whole", "timeslicing", "mps", "neuron"}
"""Vendors whose keys have no size."""


def pod_of(case: dict[str, Any]) -> Any:
    """A pod with what the case requests, which may be changed: the case is another's, too."""
    side = {name: str(value) for name, value in case.get("limits", {}).items()}
    return {
        "metadata": {"name": "p", "labels": {**case.get("labels", {})}, "annotations": {**case.get("annotations", {})}},
        "spec": {
            "nodeSelector": {**case.get("nodeSelector", {})},
            "containers": [{"name": "main", "resources": {"limits": side, "requests": dict(side)}}],
        },
    }


def meaning(account: Any) -> str:
    """What a container holds, as cases say it."""
    if "main" not in account.get("containers", {}):
        return "nothing"
    request = account["containers"]["main"]["request"]
    return f"{request['devices']} x {request['memory']} {request['cores']}"


@pytest.mark.parametrize("vendor", CASES)
def test_keys(vendor: str) -> None:
    """Read as the source says, and written as its own source says there."""
    for number, case in enumerate(CASES[vendor], start=1):
        with naming(f"{vendor} {number}: {case['source']}"):
            assert_read_and_written(vendor, case)


def assert_read_and_written(vendor: str, case: dict[str, Any]) -> None:
    """A case is read and written as it says."""
    policy = policy_for(vendor, json.dumps({"extends": vendor, **case["with"]}) if "with" in case else "")
    assert set(case) <= PLAIN | set(VENDORS)
    if case.get("means") == "known":
        _is_known(vendor, case)
    elif "means" in case or "refused" in case:
        decision = decided(pod_of(case), policy)
        outcome = meaning(decision.status) if decision.denial is None else decision.reason.code
        assert outcome == case.get("means", case.get("refused")), decision.denial
    for target in case.keys() - PLAIN:
        stored, decision = translated(pod_of(case), target, policy)
        if isinstance(case[target], str):
            assert decision.reason.code == case[target]
            continue
        assert decision.denial is None, decision.denial
        metadata = stored["metadata"]
        limits = stored["spec"]["containers"][0]["resources"].get("limits", {})
        carried = {
            key: text for key, text in {**metadata["labels"], **metadata["annotations"]}.items() if key in case[target]
        }
        written = {**limits, **carried}
        assert written == {name: str(value) for name, value in case[target].items()}
        assert TARGET in metadata["annotations"]


def _is_known(vendor: str, case: dict[str, Any]) -> None:
    """Nobody is told that the name is a misspelled one, but what to do where it is reported; `explain --name` tells both."""
    decision = decided(pod_of(case))
    reported = [name for names in POLICY.reported_names.values() for name in names if name in _names(case)]
    reported += [name for name in _names(case) for pattern, _ in POLICY.reported_patterns if pattern.fullmatch(name)]
    assert (decision.denial, decision.patch_json) == (None, b"")
    assert [finding.reason for finding in decision.warnings] == [Reason.OTHER_SYSTEM] * len(reported)
    assert not any(finding.text.endswith("…") for finding in decision.warnings), "the advice is cut"
    for name in _names(case):
        assert _patterns(vendor, name), f"{name} is not in `known` of {vendor}"
        entry = look_up(POLICY, name)
        assert entry is not None
        assert (vendor, "known") in entry["marks"] or entry["uses"], entry


def _patterns(vendor: str, name: str) -> list[str]:
    """The entries of `known` that have the name."""
    return [pattern for pattern in _known(vendor) if re.fullmatch(glob_pattern(pattern), name)]


def _known(vendor: str) -> list[str]:
    document = POLICY.vendors[vendor]
    return [each.name for each in document.names_of_others()]


def _names(case: dict[str, Any]) -> list[str]:
    return [name for place in ("limits", "labels", "annotations") for name in case.get(place, {})]


@each_of("vendor", SOURCES)
def test_every_known_name_has_a_source(vendor: str) -> None:
    """Each entry of `known` is held by a case of its own, in which its removal or a misspelling of it is seen."""
    names = [name for case in CASES[vendor] if case.get("means") == "known" for name in _names(case)]
    assert len(set(names)) == len(names)
    matches = {name: _patterns(vendor, name) for name in names}
    assert all(len(patterns) == 1 for patterns in matches.values()), matches
    held = {pattern for patterns in matches.values() for pattern in patterns}
    assert held == set(_known(vendor))


@each_of("vendor", SOURCES)
def test_every_vendor_has_cases(vendor: str) -> None:
    """Six where there are sizes, two where there are none, and a refusal."""
    cases = CASES[vendor]
    read = [case for case in cases if "refused" not in case and case.get("means") != "known"]
    refused = [case for case in cases if any(re.fullmatch(r"VGW\d+", str(value)) for value in case.values())]
    assert len(read) >= (2 if vendor in WHOLE_CARDS else 6)
    assert refused
