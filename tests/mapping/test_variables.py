"""Variables of documents: those that a document overrides exist, and those that it defines are used."""

import json

from tests.mapping.vendors import policy
from tests.naming import each_of
from webhook.mapping.load import builtin

VALUES = {"values": ["a", "b"]}


@each_of(
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


@each_of("name", builtin())
def test_built_in_variables_are_used(name: str) -> None:
    """Each is part of a name, picked by a key, or has rows."""
    data = builtin()[name].data
    text, picked = json.dumps(data), {key.get("rowOf") for key in data["keys"].values()}
    for variable, definition in data.get("variables", {}).items():
        assert f"{{{variable}}}" in text or variable in picked or "rows" in definition


def test_an_inherited_variable_that_is_no_longer_used() -> None:
    """Where the key loses its variable part, the hint says how the variable goes, too."""
    text = {"extends": "intel", "keys": {"gpus": {"resource": "gpu.example/any"}}}
    assert "driver" not in policy(json.dumps({**text, "variables": {"driver": None}})).vendors["intel"].variables
