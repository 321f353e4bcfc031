"""Every list, map, text and number of a document has a bound; one beyond it is reported with the numbers, at its line."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.cluster.config_maps import vendor
from tests.mapping.vendors import ACME, problems
from tests.mapping.vendors import vendor as made_of
from tests.naming import each_of
from webhook.cli.commands.schema import mapping_json_schema
from webhook.mapping.document import MAX_PROBLEMS, Document, MappingError, Problems, parse
from webhook.mapping.load import build_policy, combinations
from webhook.mapping.model.compiling import compile_vendor
from webhook.mapping.model.vendor import Vendor as Schema
from webhook.mapping.settings import Settings

BOUNDS = {
    "array": {"maxItems"},
    "integer": {"maximum", "minimum"},
    "string": {"maxLength"},
    "object": {"maxProperties"},
}


def unbounded(node: Any, path: str = "") -> Iterator[str]:
    """Places of a JSON Schema that take anything, however much."""
    if isinstance(node, list):
        node = dict(enumerate(node))
    if not isinstance(node, dict):
        return
    if node.get("additionalProperties") is not False and not {"enum", "const"} & node.keys():
        lacks = BOUNDS.get(str(node.get("type")), set()) - node.keys()
        yield from (f"{path}: {key}" for key in sorted(lacks))
        if node.get("type") == "object" and "maxLength" not in node.get("propertyNames", {}):
            yield f"{path}: keys"
    for key, child in node.items():
        if key not in {"default", "propertyNames", "enum", "required"}:
            yield from unbounded(child, f"{path}.{key}")


@pytest.mark.parametrize(
    "schema", [Settings.model_json_schema(by_alias=True), mapping_json_schema()], ids=["settings", "mapping"]
)
def test_all_have_a_bound(schema: Mapping[str, Any]) -> None:
    """In the schema for editors, too."""
    assert list(unbounded(schema)) == []


@each_of(
    "text, path, message",
    [
        ("forms:\n" + "- {when: {gpu: 1}, deny: nix}\n" * 1500, "forms", "1500 entries"),
        ("about: " + "x" * 2000, "about", "2000 characters"),
        ("known: [" + "a, " * 600 + "]", "known", "600 entries"),
        (
            "place: {nodeSelector: {" + ", ".join(f"k{n}: v" for n in range(40)) + "}}",
            "place.nodeSelector",
            "40 entries",
        ),
        ("place: {tolerations: [{key: [a]}]}", "place.tolerations[0].key", "text"),
        ("defaults: {devices: 99999999999999999999}", "defaults.devices", "less than or equal to"),
        ("variables: {v: {rows: {a: {devices: 0}}}}", "variables.v.rows.a.devices", "greater than or equal to 1"),
        ("variables: {v: {values: [" + "a, " * 600 + "]}}", "variables.v.values", "600 entries"),
        ("variables: {container: {values: [a]}}", "variables.container", "is not a name of a variable"),
        ("x" * 1000 + ": 1", "x" * 1000, "unknown key"),
    ],
)
def test_beyond(text: str, path: str, message: str) -> None:
    """One entry too many is one problem, with how many there are."""
    text = ACME.partition("forms:")[0] + text + "\n" if text.startswith("forms") else f"{ACME}{text}\n"
    found = next(problem for problem in problems(text) if ".".join(map(str, problem.path)).replace(".0", "[0]") == path)
    assert message in found.message
    assert found.line
    assert len(str(found)) < 4000


@pytest.mark.parametrize("twin", ["acme.com/{a}{a}", "acme.com/{b}"])
def test_a_twin_is_checked_like_a_key(twin: str) -> None:
    """Variables that are not there, or twice."""
    text = ACME.replace("resource: acme.com/gpu", f"label: acme.com/gpu, requestKey: '{twin}'")
    (found,) = problems(text + "variables: {a: {values: '[a-z]'}}\nhints: ['acme.com/{a}']\n")
    assert (found.path, found.line) == (("keys", "gpu", "requestKey"), 4)


@pytest.mark.parametrize(
    "more",
    [
        {"keys": {"gpu": {"resource": "w.example/{v0}{v1}{v2}", "is": "devices"}}},
        {"owned": ["w.example/{v0}{v1}{v2}"]},
        {"match": {"keys": ["w.example/{v0}{v1}{v2}"]}},
    ],
    ids=str,
)
def test_names_are_counted_before_they_are_made(more: dict[str, Any]) -> None:
    """Three variables of 500 values each are a hundred million names."""
    variables = {f"v{n}": {"values": [f"x{m}" for m in range(500)]} for n in range(3)}
    found = problems(json.dumps({**document(), "variables": variables, **more}))
    assert any("125000000 names" in problem.message for problem in found)


def document() -> dict[str, Any]:
    """A small one, as data."""
    (found,) = parse(vendor("worst"), "")
    return found.data


NUMBERS = [f"{n * 10}..{n * 10 + 7} by 3" for n in range(64)]
MEANT: dict[str, Any] = {"absent": {"devices": 1, "memory": "all", "cores": "unlimited"}}


def test_the_probes_of_many_forms() -> None:
    """Where nothing keeps their number down, every form is still tried."""
    data = {**document(), "forms": [{"name": "f", "when": {"gpu": 1}, **MEANT}]}
    problems = Problems()
    made = compile_vendor(Schema.model_validate(data).model_copy(update={"source": "x"}), (), problems)
    assert problems.found == []
    many = made.model_copy(update={"forms": made.forms * 1500})
    assert sum(1 for _ in combinations(many)) > 1500


def test_few_unknown_names_are_searched_for() -> None:
    """A search takes milliseconds, and a document has room for thousands of names."""
    forms = [{"deny": "no", "when": {f"Gpu{n}{m}": 1 for m in range(32)}} for n in range(64)]
    hints = [problem.hint for problem in problems(json.dumps({**document(), "forms": forms}))]
    assert len(hints) - hints.count(None) == MAX_PROBLEMS < 64 * 32 <= len(hints)


def test_documents_without_lines_are_reported() -> None:
    """Data that was not read from a text has no lines: nothing breaks."""
    with pytest.raises(MappingError):
        build_policy([Document("data", {"extends": "nvidia", "keys": 5}, {})])


def test_a_long_architecture_in_a_long_path() -> None:
    """Its name may be longer than what stands for it: the bound is one of the document."""
    path = f"/{'a' * 1000}/{{arch}}"
    delivery = f"[{{hostPath: {{volume: v, path: '{path}', mountPath: /x}}}}]"
    architectures = f"[amd64, {'b' * 100}]"
    shim = f"{{limit: plugin, architectures: {architectures}, delivery: {delivery}, libraryPath: {{prefix: [/x]}}}}"
    made = made_of(f"{ACME}shim: {shim}\n").shim
    assert made is not None
    assert made.by_architecture["b" * 100][0].volumes[0]["hostPath"]["path"] == path.format(arch="b" * 100)
