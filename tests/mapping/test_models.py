"""What names hold by model of the card: the cluster names its models once, and rows are of them alone."""

import json
from typing import Any

import pytest

from tests.mapping.vendors import ACME, LARGEST, policy, reading, vendor
from tests.naming import each_of
from webhook.mapping.load import builtin, load_policy
from webhook.mapping.model.keys import Row
from webhook.mapping.model.vendor import Vendor
from webhook.mapping.requests.reading import read
from webhook.mapping.requests.values import KeyValue
from webhook.mapping.requests.writing import NoEquivalent, write
from webhook.reasons import Denied
from webhook.request import UNLIMITED, Percent, Request, Size

BUILT_IN = load_policy()

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


@each_of(
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


@each_of("model", MODELS)
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
    vendor = BUILT_IN.vendors["mig-single"]
    with pytest.raises(NoEquivalent, match=r"the size of its devices is not configured: .*`extends: mig-single`"):
        write(vendor, Request(1, Size(MIB), UNLIMITED), {}, LARGEST, "main")


def test_the_single_and_the_mixed_names_share_their_sizes() -> None:
    """The built-in document of the one extends that of the other."""
    mixed, single = (BUILT_IN.vendors[name].variables["profile"].rows for name in ("mig", "mig-single"))
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
