"""Whatever is in a ConfigMap is that ConfigMap's problem, with its line: all others are in force."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given

from tests.cluster.config_maps import mapping, outcome, settings, vendor
from tests.depth import costly
from tests.generators.documents import BROKEN, SETTINGS, mappings, named, text_of
from webhook.cluster.policy import choose
from webhook.cluster.policy.choose import PolicyOutcome
from webhook.cluster.registration.names import conditions, matched_names_of
from webhook.mapping import load
from webhook.mapping.document import MappingError, parse
from webhook.mapping.load import build_policy, builtin
from webhook.mapping.model.policy import Policy, compile_policy
from webhook.mapping.model.vendor import Vendor
from webhook.mapping.settings import Settings

CODE_POINTS = 100_000
"""Of an expression, at most: CEL in the API server."""


def fine(found: PolicyOutcome) -> None:
    """The good one is in force, and what is wrong with another has a line; what the policy lets through can be written."""
    assert "fine" in found.policy.vendors
    for verdict in found.verdicts:
        if not verdict.accepted:
            assert verdict.config_map.name != "fine"
            assert all(problem.line for problem in verdict.problems), verdict.problems
            assert max(len(str(problem)) for problem in verdict.problems) < 5000
            assert not any("bug of the webhook" in problem.message for problem in verdict.problems), verdict.problems
    assert all(len(condition["expression"]) <= CODE_POINTS for condition in conditions(matched_names_of(found.policy)))


FINE = mapping("fine", vendor("fine"), 1)


@given(mappings())
def test_a_hostile_mapping(data: dict[str, Any]) -> None:
    """Every key with every value."""
    fine(outcome(FINE, mapping("bad", text_of(data), 2)))


@costly
@given(named())
def test_hostile_names(data: dict[str, Any]) -> None:
    """Patterns and names, wherever they stand."""
    fine(outcome(FINE, mapping("bad", text_of(data), 2)))


@costly
@given(SETTINGS)
def test_hostile_settings(data: Any) -> None:
    """The same of the settings."""
    fine(outcome(FINE, settings(text_of(data))))


@costly
@given(BROKEN)
def test_no_yaml(text: str) -> None:
    """As both at once."""
    fine(outcome(FINE, mapping("bad", text, 2), settings(text)))


IN_A_NAME = "\n".join(vendor("bad").splitlines()).replace("bad.example/gpu", '"bad.example/{x}-gpu"') + "\n"


@pytest.mark.parametrize("pattern", ["(?i)a", "(?i:a)", "(?P<x>a)", "(?=a)", "a++", "(a", "[", "^a$", "(" * 200])
def test_a_bad_pattern_in_a_name(pattern: str) -> None:
    """It is invalid with its line, at the start and afterwards; what is changed next counts."""
    text = IN_A_NAME + f"variables:\n  x:\n    values: '{pattern}'\n"
    first = outcome(FINE, mapping("bad", text, 2))
    fine(first)
    (problem,) = next(verdict for verdict in first.verdicts if verdict.config_map.name == "bad").problems
    assert (problem.path, problem.line) == (("variables", "x", "values"), 10)
    changed = outcome(FINE, mapping("bad", text, 2), mapping("new", vendor("new"), 3), last_good=first.accepted)
    fine(changed)
    assert "new" in changed.policy.vendors


@pytest.mark.parametrize("error", [ZeroDivisionError, RecursionError, OverflowError, MemoryError, KeyError])
@pytest.mark.parametrize("stage", ["compile_vendor", "merge_documents", "probe"])
def test_a_bug_at_any_stage(monkeypatch: pytest.MonkeyPatch, stage: str, error: type[Exception]) -> None:
    """Of one document alone: it is that one which is reported, with its line."""
    real = getattr(load, stage)

    def broken(*arguments: Any) -> Any:
        if "bad.example" in repr(arguments):
            raise error
        return real(*arguments)

    builtin()
    monkeypatch.setattr(load, stage, broken)
    found = outcome(FINE, mapping("bad", vendor("bad"), 2), mapping("other", vendor("other"), 3))
    assert {verdict.config_map.name for verdict in found.verdicts if not verdict.accepted} == {"bad"}
    assert {"fine", "other"} < found.policy.vendors.keys()
    problems = next(verdict for verdict in found.verdicts if not verdict.accepted).problems
    assert [(report.line, report.message) for report in problems] == [
        (1, f"it causes an internal error of the webhook: {error.__name__}")
    ]
    with pytest.raises(MappingError, match=rf"bad:1: it causes an internal error of the webhook: {error.__name__}"):
        build_policy([parse(vendor(name), name)[0] for name in ("fine", "bad", "other")])


def break_where(monkeypatch: pytest.MonkeyPatch, is_bad: Callable[[Mapping[str, Vendor], Settings], bool]) -> None:
    """Have some policies fail to compile."""

    def broken(vendors: Mapping[str, Vendor], chosen: Settings, digest: str) -> Policy:
        if is_bad(vendors, chosen):
            raise ZeroDivisionError
        return compile_policy(vendors, chosen, digest)

    for module in (choose, load):
        monkeypatch.setattr(module, "compile_policy", broken)


@pytest.mark.parametrize("guilty", [{"bad"}, {"bad", "fine"}], ids=len)
def test_a_bug_of_documents_together(monkeypatch: pytest.MonkeyPatch, guilty: set[str]) -> None:
    """In a cluster the youngest of those without which it does not come is reported; all others are in force."""
    break_where(monkeypatch, lambda vendors, _: guilty <= vendors.keys())
    names = ["fine", "other", "bad", *(f"v{number}" for number in range(20))]
    found = outcome(*(mapping(name, vendor(name), age) for age, name in enumerate(names)))
    assert {verdict.config_map.name for verdict in found.verdicts if not verdict.accepted} == {"bad"}
    assert names[2] not in found.policy.vendors
    assert set(names) - {"bad"} < found.policy.vendors.keys()
    with pytest.raises(MappingError, match=r"^it causes an internal error of the webhook: ZeroDivisionError"):
        build_policy([parse(vendor(name), name)[0] for name in names])


def test_a_bug_that_settings_bring_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are reported, and those before are in force."""
    break_where(monkeypatch, lambda _, chosen: chosen.timeout_seconds == 9)
    found = outcome(FINE, settings("timeoutSeconds: 9"), last_good={"vgpu-webhook-settings": "timeoutSeconds: 8"})
    assert [verdict.config_map.name for verdict in found.verdicts if not verdict.accepted] == ["vgpu-webhook-settings"]
    assert found.policy.settings.timeout_seconds == 8
    assert "fine" in found.policy.vendors


@pytest.mark.long
def test_more_documents_than_match_conditions_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest are in force, and what was accepted before; few compilations find the others."""
    monkeypatch.setattr(load, "probe", lambda made, largest: [])
    many = [mapping(f"m{number:04}", vendor(f"v{number:04}"), number) for number in range(1300)]
    compiled = 0

    def counted(vendors: Mapping[str, Vendor], chosen: Settings, digest: str) -> Policy:
        nonlocal compiled
        compiled += 1
        return compile_policy(vendors, chosen, digest)

    monkeypatch.setattr(choose, "compile_policy", counted)
    found = outcome(*many)
    rejected = [verdict for verdict in found.verdicts if not verdict.accepted]
    assert [each.config_map.name for each in rejected] == [each.name for each in many[-len(rejected) :]]
    assert 100 < len(rejected) < 500
    assert all("characters of a match condition, more than" in each.problems[0].message for each in rejected)
    assert all(each.problems[0].line for each in rejected)
    assert compiled < 10
    fine_size = max(len(condition["expression"]) for condition in conditions(matched_names_of(found.policy)))
    assert 50_000 < fine_size <= CODE_POINTS
    # One that was accepted stays, however old those are that come then.
    last = many[-1]
    stored = outcome(last)
    assert outcome(*many, last_good=stored.accepted).policy.vendors.keys() >= {"v1299", "v0000"}


def test_two_thousand_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one document, in `match`: invalid, with the number."""
    keys = ", ".join(f"bad.example/{'k' * 38}{number:04}" for number in range(2000))
    found = outcome(FINE, mapping("bad", vendor("bad", match=f"{{keys: [{keys}]}}"), 2))
    fine(found)
    (problem,) = found.verdicts[-1].problems
    assert "2000 entries" in problem.message
