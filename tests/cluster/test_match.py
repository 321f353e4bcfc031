"""Match conditions: the same text for the same reach, and the names in an annotation beside them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cluster.gpu_pods import many_vendors
from webhook.cluster.client import Object
from webhook.cluster.registration.names import (
    GPU_KEYS,
    MatchedNames,
    conditions,
    devices_expression,
    match_expression,
    matched_names_of,
    names_set,
    parse_names,
)
from webhook.cluster.registration.stored import matched_names_in
from webhook.cluster.registration.wanted import MUTATING, ServiceReference, Site, Wanted, registration
from webhook.labels import MATCHED_NAMES, STATUS
from webhook.pod import DEVICE_CLASS

SITE = Site(ServiceReference("gpu", "webhook"))
REACH = matched_names_of(many_vendors())
names = st.lists(st.from_regex(r"[a-z.*-]{0,6}/?[A-Za-z_.*-]{0,6}", fullmatch=True), max_size=5)


@given(names, names, names)
def test_names_are_read_back(prefixes: list[str], resources: list[str], keys: list[str]) -> None:
    """Whatever they are; as JSON they take no more room than in the conditions."""
    made = names_set(prefixes=prefixes, names=resources, keys=keys)
    assert parse_names(made.as_json) == made
    assert len(made.as_json) < len(match_expression(made))


@pytest.mark.parametrize(
    "text", [None, 1, "", "null", "[]", "{", '{"names": 1}', '{"others": []}', '{"keys": [1]}', " " * 100_001 + "{}"]
)
def test_other_texts_are_no_names(text: object) -> None:
    """Anybody can write an annotation."""
    assert parse_names(text) is None


def read(configuration: Object) -> MatchedNames | None:
    """The names in the conditions of a configuration's first webhook."""
    return matched_names_in(configuration, MUTATING.webhooks[0])


def made(let_through: MatchedNames) -> Object:
    """A configuration for these names."""
    return registration(Wanted("0" * 12, let_through), SITE)


def with_words(text: str) -> Object:
    """The configuration for all names with another expression in its first webhook."""
    configuration = made(REACH)
    *_, gpu_keys = configuration["webhooks"][0]["matchConditions"]
    gpu_keys["expression"] = text
    return configuration


def test_the_same_policy_gives_the_same_text() -> None:
    """Byte for byte, in whatever order names came."""
    again = names_set(prefixes=sorted(REACH.prefixes)[::-1], keys=sorted(REACH.keys)[::-1])
    assert match_expression(again | REACH) == match_expression(REACH)


@given(names, names, names)
def test_names_of_a_configuration_are_those_of_its_annotation(
    prefixes: list[str], resources: list[str], keys: list[str]
) -> None:
    """As long as its conditions are made from them."""
    let_through = names_set(prefixes=prefixes, names=resources, keys=keys)
    assert read(made(let_through)) == let_through


@pytest.mark.parametrize(
    "damage",
    [("nvidia.com", "nvidia.com'"), ("'nvidia.com',", ""), ("(name", "(other"), (" in [", " in  ["), ("^(", "^((")],
)
def test_a_changed_expression_is_not_ours(damage: tuple[str, str]) -> None:
    """Whatever was changed in it, be it a whole name."""
    text = match_expression(REACH).replace(*damage, 1)
    assert text != match_expression(REACH)
    assert read(with_words(text)) is None


@pytest.mark.parametrize(
    "text", ["", "true", match_expression(REACH) + " || true", "true || " + match_expression(REACH)]
)
def test_other_expressions_are_not_ours(text: str) -> None:
    """Nothing is guessed."""
    assert read(with_words(text)) is None


def test_changed_annotation_is_not_believed() -> None:
    """Names that do not lead to the conditions are not theirs; conditions that are expected are recognized without it."""
    for annotations in ({}, {MATCHED_NAMES: names_set(keys=["a.b/x"]).as_json}):
        configuration = made(REACH)
        configuration["metadata"]["annotations"] = annotations
        webhook = MUTATING.webhooks[0]
        assert matched_names_in(configuration, webhook) is None
        assert matched_names_in(configuration, webhook, REACH) == REACH


def test_conditions() -> None:
    """Few, of different names; nothing of the policy stands outside of one."""
    named = [condition["name"] for condition in conditions(REACH)]
    assert len(named) == len(set(named)) == 3
    assert [condition["name"] for condition in conditions(REACH) if condition not in conditions(MatchedNames())] == [
        GPU_KEYS
    ]


def test_devices_by_whatever_means() -> None:
    """A pod has some by its names, by claims of both kinds, or as its status says."""
    text = devices_expression(names_set(keys=["a.example/b"]))
    for means in ("a.example/b", "resourceClaims", DEVICE_CLASS.removesuffix("/"), STATUS):
        assert means in text


def test_patterns_are_anchored() -> None:
    """A key that only contains a pattern is none."""
    text = match_expression(names_set(keys=["a.b/x-*"]))
    assert "key.matches('^(a[.]b/x-.*)$')" in text
