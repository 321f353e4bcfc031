"""`extends`: only what differs from a built-in document is written."""

from importlib import resources
from typing import Any

from tests.mapping.vendors import policy
from tests.naming import each_of
from webhook.mapping.document import Document, parse
from webhook.mapping.load import builtin, load_policy, prepare
from webhook.mapping.strict import merge_documents
from webhook.request import Size

BASE = Document(
    "built-in",
    {"vendor": "base", "maps": {"a": 1, "b": {"c": [1, 2], "d": 3}}, "list": [1, {"x": 1}], "word": {"unit": 1}},
    {},
)


@each_of(
    "changes, expected",
    [
        ({}, {}),
        ({"maps": {"a": 2}}, {"maps": {"a": 2, "b": {"c": [1, 2], "d": 3}}}),
        ({"maps": {"b": {"c": [3]}}}, {"maps": {"a": 1, "b": {"c": [3], "d": 3}}}),
        ({"maps": {"b": None}}, {"maps": {"a": 1}}),
        ({"maps": {"b": {"e": 4}}}, {"maps": {"a": 1, "b": {"c": [1, 2], "d": 3, "e": 4}}}),
        ({"list": [2]}, {"list": [2]}),
        ({"new": {"k": 1}}, {"new": {"k": 1}}),
        ({"new": None}, {"new": None}),
        ({"maps": 5}, {"maps": 5}),
        ({"word": {"unit": None}}, {"word": {"unit": None}}),
    ],
)
def test_maps_merge_lists_are_replaced_null_removes(changes: dict[str, Any], expected: dict[str, Any]) -> None:
    """At every depth; a null unit stays, for it says that the unit is to be configured; the base is never changed."""
    before = repr(BASE.data)
    changed = merge_documents(Document("own", {"extends": "base", **changes}, {}), {"base": BASE})
    wanted = {**BASE.data, **expected}
    assert changed == wanted
    assert list(changed) == list(wanted)
    assert repr(BASE.data) == before


def test_built_in_documents_may_extend_others_as_users_do() -> None:
    """With other resource names under another vendor name, and variables that exist."""
    for file in (resources.files("webhook.mapping") / "builtin").iterdir():
        for document in parse(file.read_text(), file.name) if file.name.endswith(".yaml") else ():
            assert prepare(document).vendor.name == file.name.removesuffix(".yaml")


def test_three_lines_survive_an_upgrade() -> None:
    """Another default, renamed keys, another scheduler: the rest is the built-in document's."""
    text = "extends: nvidia\nkeys: {gpumem: {resource: corp.example/mem}}\ndefaults: {memory: 8000Mi}\n"
    changed = policy(text).vendors["nvidia"]
    plain = load_policy().vendors["nvidia"]
    assert changed.keys["gpumem"].spellings[0].text == "corp.example/mem"
    assert changed.keys["gpumem"].unit == plain.keys["gpumem"].unit
    assert changed.defaults["memory"].value == Size(8000 * 1024**2)
    assert changed.defaults["devices"] == plain.defaults["devices"]
    assert (changed.keys.keys(), changed.forms[0].when) == (plain.keys.keys(), plain.forms[0].when)
    assert changed.place == plain.place


def test_an_inherited_variable_may_lose_its_use() -> None:
    """As the only key with it has another name; of its own variables, a document says what they are for."""
    text = "extends: intel\nkeys:\n  gpus: {resource: gpu.example/any}\n"
    assert policy(text).vendors["intel"].variables["driver"].write


def test_a_removed_key_is_gone() -> None:
    """Under a name of its own a key may be renamed or removed."""
    text = (
        "extends: nvidia\nvendor: mine\nkeys: {gpu: {resource: a.b/g}, gpumem: {resource: a.b/m}, "
        "gpumem-percentage: null, gpucores: null, priority: null}\ndefaults: {cores: null}\n"
    )
    found = policy(text)
    resources = {key.name for key in found.vendors["mine"].keys.values() if key.place == "resource"}
    assert resources == {"gpu", "gpumem"}
    assert found.resources.owners("nvidia.com/gpumem-percentage")[0].vendor == "nvidia"


def test_built_in_documents_extend_nothing() -> None:
    """So that one level is all there is."""
    assert all("extends" not in document.data for document in builtin().values())
