"""What names hold by model of the card: the cluster names its models once, and rows are of them alone."""

import json
from typing import Any

import pytest

from tests.mapping.vendors import ACME, LARGEST, policy, problems, reading, vendor
from tests.unprobed import built_in_policy
from webhook.mapping.document.problem import path_text
from webhook.mapping.document.strict_yaml import parse
from webhook.mapping.load import builtin
from webhook.mapping.model.vendor import Row, Vendor
from webhook.mapping.requests.reading import read
from webhook.mapping.requests.values import KeyValue
from webhook.mapping.requests.writing import NoEquivalent, write
from webhook.reasons import Denied
from webhook.request import UNLIMITED, Percent, Request, Size

MIB = 1024**2
MODELS = {
    model: None for row in builtin()["mig"].data["variables"]["profile"]["rows"].values() for model in row["memory"]
}
SLICES = """\
vendor: slices
family: nvidia
variables:
  size:
    rows:
      a: {memory: {one: 4Gi, two: [5Gi, 6Gi]}, cores: {one: 50, two: 25}}
      b: {memory: {two: 8Gi}, cores: 50}
      c: {memory: 10Gi, cores: 100}
keys: {slice: {resource: "slices.example/{size}", is: devices}}
forms: [{name: slice, when: {slice: present}}]
"""


def slices(**variable: Any) -> str:
    """The document of slices in a cluster that says this of its devices."""
    lines = "".join(f"    {key}: {json.dumps(value)}\n" for key, value in variable.items())
    return SLICES.replace("  size:\n", f"  size:\n{lines}")


def vendor_of_slices(**variable: Any) -> Vendor:
    """The same, compiled."""
    return policy(slices(**variable)).vendors["slices"]


def configured(vendor: str, **variable: Any) -> Vendor:
    """A built-in vendor of slices in a cluster that says this of its profiles."""
    return policy(json.dumps({"extends": vendor, "variables": {"profile": variable}})).vendors[vendor]


def held(row: Row) -> tuple[Any, ...]:
    """What a row says: memory and cores, the most and the least."""
    return row.memory, row.least, row.cores, row.least_cores


def size(number: int) -> Size:
    """So many GiB."""
    return Size(number * 1024**3)


@pytest.mark.parametrize(
    "variable, expected",
    [
        (
            {},
            {
                "a": (size(6), size(4), Percent(50), Percent(25)),
                "b": (size(8), size(8), Percent(50), Percent(50)),
                "c": (size(10), size(10), Percent(100), Percent(100)),
            },
        ),
        (
            {"model": "one"},
            {
                "a": (size(4), size(4), Percent(50), Percent(50)),
                "c": (size(10), size(10), Percent(100), Percent(100)),
            },
        ),
        ({"model": "two", "write": ["b"]}, {"a": (size(6), size(5), Percent(25), Percent(25))}),
        ({"model": ["two", "one"], "write": "b"}, {"a": (size(6), size(4), Percent(50), Percent(25))}),
    ],
)
def test_rows_are_of_the_models(variable: dict[str, Any], expected: dict[str, Any]) -> None:
    """The least and the most over the models that the cluster has, or over all; names of others are known without a size."""
    rows = vendor_of_slices(**variable).variables["size"].rows
    assert {name: held(rows[name]) for name in expected} == expected
    assert ("b" in rows) == (variable.get("model") != "one")


def test_names_of_other_models_are_known() -> None:
    """They are the vendor's still: refused where they have to be understood, and not taken for a misspelled key."""
    in_force = policy(json.dumps({"extends": "mig", "variables": {"profile": {"model": "A30"}}}))
    (owner,) = in_force.resources.owners("nvidia.com/mig-3g.71gb")
    assert owner.vendor == "mig"
    assert "3g.71gb" not in in_force.vendors["mig"].variables["profile"].rows


def test_what_is_written_holds_the_request_on_every_model() -> None:
    """Without a model the least counts, of memory and of cores; with one its own."""
    requested = Request(1, size(4), Percent(50))
    assert (
        next(iter(write(vendor_of_slices(write=["a", "c"]), requested, {}, LARGEST, "main").keys.values())).key
        == "slices.example/c"
    )
    with_model = write(vendor_of_slices(write=["a", "c"], model="one"), requested, {}, LARGEST, "main")
    assert next(iter(with_model.keys.values())).key == "slices.example/a"
    assert with_model.reading.request == requested


@pytest.mark.parametrize("model", MODELS)
def test_models_of_slices(model: str) -> None:
    """Every model of devices is cut in sevenths or in fourths, and more memory never comes with a smaller profile of it."""
    rows = configured("mig", model=model).variables["profile"].rows
    parts = {name: int(name[0]) for name in rows}
    whole = 4 if max(parts.values()) == 4 and model in {"A30", "RTX-PRO-6000"} else 7
    for name, row in rows.items():
        assert row.cores == row.least_cores == Percent(parts[name] * 100 // whole), name
        assert isinstance(row.memory, Size)
        assert isinstance(row.least, Size)
        nominal = int(name.partition(".")[2].partition("gb")[0]) * 1024 * MIB
        assert 0.8 * nominal < row.least.bytes <= row.memory.bytes < nominal, name
        assert row.memory.bytes % (128 * MIB) in {0, 64 * MIB}, name


def test_every_profile_of_a_model_may_be_written() -> None:
    """And each is the least that holds what it holds."""
    for model in MODELS:
        names = list(configured("mig", model=model).variables["profile"].rows)
        plain = [name for name in names if not name.endswith(("me", "gfx", "all"))]
        vendor = configured("mig", model=model, write=plain)
        for name in plain:
            row = vendor.variables["profile"].rows[name]
            assert isinstance(row.least, Size)
            found = write(vendor, Request(1, row.least, row.cores), {}, LARGEST, "main")
            assert [key.key for key in found.keys.values()] == [f"nvidia.com/mig-{name}"]


MISTAKES = [
    ({"model": "three"}, "variables.size.model", "no row knows the model 'three'", "known are one, two"),
    ({"model": ["one", "twoo"]}, "variables.size.model", "no row knows the model 'twoo'", "did you mean `two`?"),
    ({"model": "one", "write": "b"}, "variables.size.write", "'b' is not available on one", "available are a, c"),
    ({"model": "one", "write": ["a", "d"]}, "variables.size.write", "'d' has no row", "rows are a, b, c"),
]


@pytest.mark.parametrize("variable, path, message, hint", MISTAKES)
def test_mistakes_of_a_cluster(variable: dict[str, Any], path: str, message: str, hint: str) -> None:
    """A model that no row knows, and a profile that the model has not."""
    (problem,) = problems(slices(**variable))
    assert (".".join(map(str, problem.path)), problem.message, problem.hint) == (path, message, hint)
    assert problem.line is not None


@pytest.mark.parametrize(
    "old, new, path, message",
    [
        (
            "one: 4Gi, two: [5Gi, 6Gi]",
            "one: 4Gi, two: [6Gi, 5Gi]",
            "variables.size.rows.a.memory.two",
            "the larger size is first",
        ),
        (
            "one: 4Gi, two: [5Gi, 6Gi]",
            "one: all, two: 4Gi",
            "variables.size.rows.a.memory",
            "cannot be compared",
        ),
        ("one: 4Gi, two: [5Gi, 6Gi]", "one: 4Zi, two: 4Gi", "variables.size.rows.a.memory.one", "4Zi"),
        ("one: 4Gi, two: [5Gi, 6Gi]", "one: [4Gi, 5Gi, 6Gi]", "variables.size.rows.a.memory.one", "lists 3 amounts"),
        ("{one: 4Gi, two: [5Gi, 6Gi]}", "{}", "variables.size.rows.a.memory", "is an empty map"),
        ("one: 50, two: 25", "one: 50, two: 250", "variables.size.rows.a.cores.two", "250 is not a percentage"),
        (
            "one: 50, two: 25",
            "one: 50",
            "variables.size.rows.a",
            "`memory` and `cores` name different models: only one has two",
        ),
        ("memory: 10Gi", "memory: [12Gi, 10Gi]", "variables.size.rows.c.memory", "the larger size is first"),
        ("slices.example/{size}", "slices.example/gpu", "variables.size.write", "only one value is allowed"),
    ],
)
def test_mistakes_in_rows(old: str, new: str, path: str, message: str) -> None:
    """Each is reported at its place."""
    text = slices(write=["a", "c"])
    assert old in text
    found = [problem for problem in problems(text.replace(old, new)) if ".".join(map(str, problem.path)) == path]
    assert found
    assert message in found[0].message
    assert found[0].line is not None


def test_model_without_rows_by_model() -> None:
    """Said where nothing depends on it, it would be believed to matter."""
    (problem,) = problems("extends: ascend\nvariables: {chip: {model: big}}\n")
    assert (problem.message, problem.hint) == ("no row has amounts by model", "remove `model`")


@pytest.mark.parametrize(
    "model, hint",
    [
        ("H100", "did you mean `H100-80` or `H100-94`?"),
        ("a100", "did you mean `A100-40` or `A100-80`?"),
        ("RTX-PRO", "did you mean `RTX-PRO-6000`?"),
        ("A100-40GB", "did you mean `A100-40`?"),
        ("H20", f"known are {', '.join(sorted(MODELS))}"),
        ("B100", f"known are {', '.join(sorted(MODELS))}"),
        ("", f"known are {', '.join(sorted(MODELS))}"),
    ],
)
def test_a_model_is_never_taken_for_another(model: str, hint: str) -> None:
    """What begins so is meant; a name with another number is another device, whose slices hold something else."""
    (problem,) = problems(json.dumps({"extends": "mig", "variables": {"profile": {"model": model}}}))
    assert (problem.message, problem.hint) == (f"no row knows the model {model!r}", hint)


@pytest.mark.parametrize(
    "old, new, path, message, hint",
    [
        (
            "one: 4Gi, two: [5Gi, 6Gi]",
            "one: all, two: 4Gi",
            "memory",
            "cannot be compared: one: all, two: 4Gi",
            "write sizes for all models, or `all` for all models",
        ),
        (
            "one: 4Gi, two: [5Gi, 6Gi]",
            "one: unlimited, two: [5Gi, 6Gi]",
            "memory",
            "cannot be compared: one: unlimited, two: [5Gi, 6Gi]",
            "write sizes for all models, or `all` for all models",
        ),
        (
            "one: 4Gi, two: [5Gi, 6Gi]",
            "one: [all, 4Gi]",
            "memory.one",
            "cannot be compared: [all, 4Gi]",
            "write [least, most] as two sizes",
        ),
        (
            "one: 50, two: 25",
            "one: 50, two: unlimited",
            "cores",
            "cannot be compared: one: 50, two: unlimited",
            "write percentages for all models, or `unlimited` for all models",
        ),
    ],
)
def test_amounts_that_cannot_be_compared(old: str, new: str, path: str, message: str, hint: str) -> None:
    """Which of them is the least, nobody can say."""
    found = problems(slices().replace(old, new))
    reported = [problem for problem in found if path_text(problem.path) == f"variables.size.rows.a.{path}"]
    assert [(report.message, report.hint) for report in reported] == [(message, hint)]


@pytest.mark.parametrize(
    "variable, path, message, hint",
    [
        ({"model": []}, "model", "is an empty list", "write one entry or more"),
        ({"model": 100}, "model", "100 is not text", 'write "100" in quotes'),
        ({"model": True}, "model", "true is not text", 'write "true" in quotes'),
        ({"model": [100]}, "model[0]", "100 is not text", 'write "100" in quotes'),
        ({"write": []}, "write", "is an empty list", "write one entry or more"),
        ({"rows": {"a": {"memory": {}}}}, "rows.a.memory", "is an empty map", "write one entry or more"),
        (
            {"rows": {"a": {"memory": ["1Gi", "2Gi", "3Gi"]}}},
            "rows.a.memory",
            "lists 3 amounts",
            "write one, or [least, most]",
        ),
        (
            {"rows": {"a": {"memory": {"one": ["1Gi", "2Gi", "3Gi"]}}}},
            "rows.a.memory.one",
            "lists 3 amounts",
            "write one, or [least, most]",
        ),
    ],
)
def test_mistakes_of_type(variable: dict[str, Any], path: str, message: str, hint: str) -> None:
    """In our keys, with what to write, and once."""
    document = json.loads(json.dumps(parse(SLICES, "")[0].data))
    document["variables"]["size"] |= variable
    (problem,) = problems(json.dumps(document))
    assert (path_text(problem.path), problem.message, problem.hint) == (f"variables.size.{path}", message, hint)


def test_a_profile_of_other_models() -> None:
    """Told with the models that have it, and those that the cluster has."""
    vendor = configured("mig", model=["H100-80", "A30"])
    with pytest.raises(Denied) as caught:
        reading(vendor, {"nvidia.com/mig-1g.18gb": 1})
    assert caught.value.finding.message.startswith(
        "nvidia.com/mig-1g.18gb: 1: 1g.18gb is not available on H100-80, A30, but on H200, GH200-144: "
        "if the cluster has such a device, add it to `model`; otherwise write one of "
    )
    unknown = KeyValue("slices", "nvidia.com/mig-1g.34gb", "1", 1, (("profile", "1g.34gb"),))
    with pytest.raises(Denied, match="its size is not known: write one of"):
        read(vendor, {"slices": unknown}, {}, LARGEST, "main")


def test_a_size_of_ones_own() -> None:
    """A cluster whose driver says otherwise writes its own, for all models or for one; models can be added."""
    own = {"rows": {"1g.10gb": {"memory": "9500Mi"}, "3g.90gb": {"memory": {"B200": "90000Mi"}, "cores": 42}}}
    rows = configured("mig", model="B200", **own).variables["profile"].rows
    assert rows["3g.90gb"].memory == Size(90000 * MIB)
    assert rows["1g.10gb"].least == Size(9500 * MIB)  # said for all models


def test_one_profile_for_every_device() -> None:
    """A variable that stands in no key: what is configured is what each device holds, read and written."""
    vendor = configured("mig-single", write="3g.40gb", model="H100-80")
    assert reading(vendor, {"nvidia.com/gpu": 1}).request == Request(1, Size(40448 * MIB), Percent(42))
    found = write(vendor, Request(1, Size(40192 * MIB), UNLIMITED), {}, LARGEST, "main")
    assert [str(key) for key in found.keys.values()] == ["nvidia.com/gpu: 1"]
    for requested in (
        Request(1, Size(40193 * MIB), UNLIMITED),  # more than the least that was seen
        Request(1, Size(MIB), Percent(43)),
        Request(2, Size(MIB), UNLIMITED),  # two slices may lie on one device
    ):
        with pytest.raises(NoEquivalent):
            write(vendor, requested, {}, LARGEST, "main")


def test_the_profile_of_every_device_has_to_be_configured() -> None:
    """Until then nothing is guessed, and what to write is reported."""
    vendor = built_in_policy().vendors["mig-single"]
    with pytest.raises(NoEquivalent, match=r"the size of its devices is not configured: .*`extends: mig-single`"):
        write(vendor, Request(1, Size(MIB), UNLIMITED), {}, LARGEST, "main")


def test_the_single_and_the_mixed_names_share_their_sizes() -> None:
    """The built-in document of the one extends that of the other."""
    mixed, single = (built_in_policy().vendors[name].variables["profile"].rows for name in ("mig", "mig-single"))
    assert mixed == single


def test_a_row_without_numbers_for_a_form_leaves_it_those_of_the_key() -> None:
    """`values` of a row may be by form; a form that is not among them has what the key itself permits."""
    text = ACME.replace(
        "acme.com/mem, is: memory, unit: 1Mi", '"acme.com/{chip}-mem", is: memory, unit: 1Mi, values: 1..9'
    )
    text = text.replace("acme.com/gpu", '"acme.com/{chip}"').replace(
        "- {name: share", "- {name: many, when: {gpu: 2..}, absent: {memory: all, cores: unlimited}}\n- {name: share"
    )
    made = vendor(f"{text}variables: {{chip: {{rows: {{a: {{values: {{mem: {{share: [2, 4]}}}}}}}}}}}}\n")
    mem, row = made.keys["mem"], made.variables["chip"].rows["a"]
    assert {form.name: str(form.values(mem, row)) for form in made.forms} == {"many": "1 to 9", "share": "2, 4"}
