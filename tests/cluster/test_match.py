"""Match conditions: the same text for the same reach, and the reach read back from it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cluster.asking import many_vendors
from webhook.cluster.registration.match_conditions import WORDS, conditions, expression, parse
from webhook.cluster.registration.matched_names import MatchedNames, matched_names_of, names_set

REACH = matched_names_of(many_vendors())
names = st.lists(st.from_regex(r"[a-z.*-]{0,6}/?[A-Za-z_.*-]{0,6}", fullmatch=True), max_size=5)


@given(names, names, names)
def test_a_reach_is_read_back(prefixes: list[str], resources: list[str], keys: list[str]) -> None:
    """Whatever it holds."""
    made = names_set(prefixes=prefixes, names=resources, keys=keys)
    assert parse(expression(made)) == made


def test_the_same_policy_gives_the_same_text() -> None:
    """Byte for byte, in whatever order names came."""
    again = names_set(prefixes=sorted(f"{domain}/" for domain in REACH.domains)[::-1], keys=sorted(REACH.keys)[::-1])
    assert expression(again | REACH) == expression(REACH)


@pytest.mark.parametrize(
    "damage",
    [("nvidia.com", "nvidia.com'"), ("'nvidia.com',", ""), ("(name", "(other"), (" in [", " in  ["), ("^(", "^((")],
)
def test_a_changed_expression_is_not_ours(damage: tuple[str, str]) -> None:
    """Whatever was changed in it."""
    text = expression(REACH).replace(*damage, 1)
    assert text != expression(REACH)
    assert parse(text) is None


def test_a_whole_name_less_is_another_reach() -> None:
    """Who has taken a name out by hand has written what we would write for the others."""
    name = max(REACH.keys)
    read = parse(expression(REACH).replace(f",\n    '{name}'", "", 1))
    assert read is not None
    assert read.keys == REACH.keys - {name}
    assert read | names_set(keys=[name]) == REACH


@pytest.mark.parametrize("text", ["", "true", expression(REACH) + " || true", "true || " + expression(REACH)])
def test_other_expressions_are_not_ours(text: str) -> None:
    """Nothing is guessed."""
    assert parse(text) is None


def test_conditions() -> None:
    """Few, of different names; nothing of the policy stands outside of one."""
    named = [one["name"] for one in conditions(REACH)]
    assert len(named) == len(set(named)) == 3
    assert [one["name"] for one in conditions(REACH) if one not in conditions(MatchedNames())] == [WORDS]


def test_patterns_are_anchored() -> None:
    """A key that only contains a pattern is none."""
    text = expression(names_set(keys=["a.b/x-*"]))
    assert "key.matches('^(a[.]b/x-.*)$')" in text
