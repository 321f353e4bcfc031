"""Variables of documents: those that a document overrides exist, and those that it defines are used."""

import json
from typing import Any

import pytest

from tests.mapping.vendors import ACME, policy, problems
from webhook.mapping.load import builtin

VALUES = {"values": ["a", "b"]}


@pytest.mark.parametrize("variable", [{"write": "a10_24g"}, {"model": "x", "why": "y"}, {"others": "[a-z]"}, {}, None])
@pytest.mark.parametrize(
    "extended, name, hint",
    [
        ("baidu", "modle", "did you mean `model`?"),
        ("baidu", "card", "known are model"),
        ("nvidia", "card", "remove it"),
    ],
)
def test_an_override_of_a_variable_that_does_not_exist(
    extended: str, name: str, hint: str, variable: dict[str, Any] | None
) -> None:
    """It is reported once, at its line, whatever it would set or remove, with the variables that exist."""
    text = f"vendor: {extended}\nextends: {extended}\nvariables:\n  {name}: {json.dumps(variable)}\n"
    (problem,) = problems(text)
    assert (problem.line, problem.path) == (4, ("variables", name))
    assert (problem.message, problem.hint) == (f"{extended} has no variable called {name!r}", hint)


def test_a_new_variable_without_values() -> None:
    """One in a key of the document's own is not unknown, but incomplete."""
    text = "extends: nvidia\nkeys: {gpumem: {resource: 'x.com/{foo}-mem'}}\nvariables: {foo: {write: a}}\n"
    assert [problem.message for problem in problems(text)] == ["needs `values` or `rows`"]


def test_an_unknown_variable_hides_no_other_mistake() -> None:
    """One run reports all problems of the document."""
    found = problems("extends: baidu\nvariables: {card: {write: x}, model: {write: 1}}\nplaec: {}\n")
    assert {problem.path for problem in found} == {("variables", "card"), ("variables", "model", "write"), ("plaec",)}


@pytest.mark.parametrize("values", ["[a, b]", "'[a-z]'"])
@pytest.mark.parametrize("base", [ACME, "extends: nvidia\n"])
def test_a_variable_that_nothing_uses(base: str, values: str) -> None:
    """A document that defines a variable for no key was probably meant otherwise."""
    (problem,) = problems(f"{base}variables:\n  kind:\n    values: {values}\n")
    assert (problem.line, problem.path) == (len(base.splitlines()) + 2, ("variables", "kind"))
    assert problem.message == "has no effect: no key contains {kind}"
    assert problem.hint == "add it to a key, or remove it"


@pytest.mark.parametrize(
    "used",
    [
        "keys: {more: {resource: 'nvidia.com/{kind}-more', is: other}}",
        "keys: {more: {annotation: [gpu.example/more, 'gpu.example/{kind}'], is: other}}",
        "hints: ['gpu.example/{kind}-uuid']",
        "owned: ['gpu.example/{kind}-devices']",
        "owned: [{label: 'gpu.example/{kind}-devices'}]",
        "match: {keys: ['gpu.example/{kind}-uuid']}",
    ],
)
def test_a_variable_that_any_name_uses(used: str) -> None:
    """Names of keys use it, marks of the scheduler, hints, and names that let pods through."""
    assert (
        "kind"
        in policy(f"extends: nvidia\nvariables: {{kind: {json.dumps(VALUES)}}}\n{used}\n").vendors["nvidia"].variables
    )


def test_an_inherited_variable_may_be_unused() -> None:
    """A document that renames the keys with it need not remove it, as long as nothing would be written with it."""
    text = "extends: timeslicing\nkeys: {gpu: {resource: [nvidia.com/gpu, nvidia.com/gpu.shared]}}\n"
    renamed = policy(text, settings="owners: {nvidia.com/gpu: timeslicing}\n").vendors["timeslicing"]
    assert not any(key.variables for key in renamed.keys.values())
    assert "resource" in renamed.variables


@pytest.mark.parametrize("name", builtin())
def test_built_in_variables_are_used(name: str) -> None:
    """Each is part of a name, picked by a key, or has rows."""
    data = builtin()[name].data
    text, picked = json.dumps(data), {key.get("rowOf") for key in data["keys"].values()}
    for variable, definition in data.get("variables", {}).items():
        assert f"{{{variable}}}" in text or variable in picked or "rows" in definition


def test_a_misspelled_variable_that_is_used() -> None:
    """Nothing is extended: the name in the key is the one that was meant."""
    found = problems(ACME.replace("acme.com/core", '"acme.com/{size}"') + "variables: {sise: {model: one}}\n")
    assert [problem.hint for problem in found] == ["add it under `variables`", "did you mean `size`?"]


def test_a_variable_without_anything() -> None:
    """In a document that extends none, it is reported for what it lacks."""
    (problem,) = problems(f"{ACME}variables: {{xyz: {{model: big}}}}\n")
    assert (problem.message, problem.hint) == ("needs `values` or `rows`", None)


def test_two_variables_for_every_device() -> None:
    """Rows of one of them only would count: both are reported."""
    rows = {"rows": {"x": {"memory": "1Gi", "cores": 10}}, "write": "x"}
    found = problems(json.dumps({"extends": "mig-single", "variables": {"more": rows, "profile": {"write": "1g.5gb"}}}))
    assert [(problem.path, problem.message, problem.hint) for problem in found] == [
        (
            ("variables", name),
            f"is in no key, so its row is the size of every device; so are the rows of {other}",
            f"keep the rows of one of them, or add `{{{name}}}` to a key",
        )
        for name, other in (("profile", "more"), ("more", "profile"))
    ]


def test_a_misspelled_variable_with_rows() -> None:
    """Rows under it would never be read, for those of the variable in the key are."""
    rows = {"rows": {"1g.5gb": {"memory": "1Gi"}}}
    (problem,) = problems(json.dumps({"extends": "mig", "variables": {"profle": rows}}))
    assert problem.path == ("variables", "profle")
    assert "so are the rows of profile" in problem.message


@pytest.mark.parametrize("values", [["a", "b"], "[a-z]"])
def test_written_where_nothing_is_written(values: Any) -> None:
    """A variable without rows that stands in no key changes nothing."""
    (problem,) = problems(json.dumps({"extends": "nvidia", "variables": {"kind": {"values": values, "write": "a"}}}))
    assert problem.path == ("variables", "kind", "write")
    assert problem.message == "has no effect: no key contains {kind}"
    assert problem.hint == "add it to a key, or remove it"


def test_an_inherited_variable_that_is_no_longer_used() -> None:
    """Where the key loses its variable part, the hint says how the variable goes, too."""
    text = {"extends": "intel", "keys": {"gpus": {"resource": "gpu.example/any"}}}
    (problem,) = problems(json.dumps(text))
    assert problem.hint == "add it to a key, or write `driver: null`"
    assert "driver" not in policy(json.dumps({**text, "variables": {"driver": None}})).vendors["intel"].variables
