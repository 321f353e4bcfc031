"""Manifests as Kubernetes reads them, and YAML output: order, quotes, no surprises."""

import itertools

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from webhook.cli.manifests.files import MAX_DEPTH, ManifestError, read_manifests, read_stream, yaml_stream, yaml_text
from webhook.mapping.document import strict_yaml
from webhook.mapping.document.problem import path_text
from webhook.mapping.document.strict_yaml import parse


@pytest.fixture(params=["fast", "pure"])
def _loader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The C parser and the pure one."""
    if request.param == "pure":
        monkeypatch.setattr(strict_yaml, "_LOADER", yaml.SafeLoader)


def read(text: str) -> list[dict[str, object]]:
    """The documents of a text."""
    return [manifest.data for manifest in read_manifests(text.encode(), "a.yaml")]


# What `kubectl create -o json --dry-run` makes of these: sigs.k8s.io/yaml, goyaml.v2/resolve.go.
@pytest.mark.usefixtures("_loader")
@pytest.mark.parametrize(
    "written, value",
    [
        ("yes", True),
        ("On", True),
        ("y", True),
        ("TRUE", True),
        ("no", False),
        ("N", False),
        ("off", False),
        ("yEs", "yEs"),
        ("null", None),
        ("~", None),
        ("Null", None),
        ("", None),
        ("1", 1),
        ("-1", -1),
        ("+1", 1),
        ("010", 8),
        ("0o10", 8),
        ("0x1F", 31),
        ("0b11", 3),
        ("-0b11", -3),
        ("08", 8),
        ("1_000", 1000),
        ("1e3", 1000),
        ("1.5e3", 1500),
        ("0.5", 0.5),
        (".5", 0.5),
        ("5.", 5),
        ("1:30", "1:30"),
        ("1.2.3", "1.2.3"),
        ("2024-01-01", "2024-01-01"),
        ("2024-01-01T00:00:00Z", "2024-01-01T00:00:00Z"),
        ("18446744073709551615", 2**64 - 1),
        ("1e30", 1e30),
        ("256Mi", "256Mi"),
        ('"yes"', "yes"),
        ("'1'", "1"),
        ("!!str 1", "1"),
        ("! 1", "1"),
        ("!!int 1", 1),
        ("!!float 1", 1),
        ("!!bool yes", True),
        ("!!map {b: 1}", {"b": 1}),
        ("=", "="),
    ],
)
def test_scalars(written: str, value: object) -> None:
    """YAML 1.1 as go-yaml reads it: its booleans and octals, neither base 60 nor dates."""
    (document,) = read(f"a: {written}")
    assert document == {"a": value}
    assert type(document["a"]) is type(value)


def test_keys_become_text() -> None:
    """As Kubernetes makes them text again."""
    assert read("1: a\nyes: b\n1.5: c\n") == [{"1": "a", "true": "b", "1.5": "c"}]


def test_anchors_and_merge_keys() -> None:
    """They are read; what is used twice is not shared, and what a mapping says itself wins."""
    text = "a: &x {p: [1], q: 2}\nb: *x\nc:\n  q: 3\n  <<: *x\nd: {<<: [*x, {r: 4}]}\n"
    (document,) = read(text)
    assert document == {
        "a": {"p": [1], "q": 2},
        "b": {"p": [1], "q": 2},
        "c": {"q": 3, "p": [1]},
        "d": {"p": [1], "q": 2, "r": 4},
    }
    assert document["a"] is not document["b"]


def test_streams() -> None:
    """Many documents, empty ones left out; JSON too, one after the other."""
    assert read("---\na: 1\n---\n# only a comment\n---\nb: 2\n...\n") == [{"a": 1}, {"b": 2}]
    assert read('{"a": 1}\n{"b": "\\ud83d\\ude00"}\n') == [{"a": 1}, {"b": "😀"}]
    assert read('{\n\t"a": 1}') == [{"a": 1}]
    assert read('{"a": 1}\n---\n{"b": yes}\n') == [{"a": 1}, {"b": True}]
    assert read("{a: b}") == [{"a": "b"}]
    assert read("\ufeffa: 1") == [{"a": 1}]
    assert read("") == []


def test_json_numbers_stay() -> None:
    """JSON numbers stay as written, except integers beyond 64 bits."""
    (document,) = read('{"a": [1, 1.0, 1e3, 18446744073709551616]}')
    assert list(map(repr, document["a"])) == ["1", "1.0", "1000.0", "1.8446744073709552e+19"]  # type: ignore[call-overload]


@pytest.mark.usefixtures("_loader")
@pytest.mark.parametrize(
    "text, line, part",
    [
        ("a: 1\n- b\n", 2, "not YAML"),
        ("a: [1\n", 1, "not YAML"),
        ("a: 1\n---\n- b\n", 3, "the document is not a mapping of keys"),
        ("text", 1, "the document is not a mapping of keys"),
        ("a: 1\nb: \x01\n", 2, "a character that YAML does not permit"),
        ("a:\n  b: *c\n", 2, "no anchor"),
        ("a: &x [*x]\n", 1, "no anchor"),
        ("a: !!binary aGk=\n", 1, "a tag that Kubernetes does not read"),
        ("a: !!set {b}\n", 1, "a tag that Kubernetes does not read"),
        ("a: !!int b\n", 1, "b is no int"),
        ("a: .inf\n", 1, "not a number that JSON can represent"),
        ("a: 1e999\n", 1, "not a number that JSON can represent"),
        ("[a]: 1\n", 1, "a key is not a string"),
        ("~: 1\n", 1, "a key is not a string"),
        ("a: {{ b }}\n", 1, "a key is not a string: quote it, or render a template of Helm by `helm template` first"),
        ("a: {<<: 1}\n", 1, "only mappings can be merged with <<"),
        ("a: " + "[" * 1000, 1, f"nested deeper than {MAX_DEPTH} levels"),
    ],
)
def test_what_cannot_be_read(text: str, line: int, part: str) -> None:
    """Named with file and line."""
    with pytest.raises(ManifestError) as caught:
        read(text)
    assert caught.value.problem.source == "a.yaml"
    assert caught.value.problem.line == line
    assert part in caught.value.problem.message
    assert str(caught.value).startswith(f"a.yaml:{line}: ")


@pytest.mark.parametrize(
    "text, line, part",
    [
        ('{"a": 1e999}', 1, "1e999 is not a number"),
        ('{"a": NaN}', 1, "NaN is not a number"),
        ('{"a": "\\ud800"}', 1, "half of a surrogate pair"),
        ('{"a":' * 20_000, 1, "nested deeper"),
        ('{"a":' * 200 + "1" + "}" * 200, 1, "nested deeper"),
        ('{"a": 1', 1, "not YAML"),
    ],
)
def test_what_json_cannot_be_read(text: str, line: int, part: str) -> None:
    """As for YAML; the line is that of the document."""
    with pytest.raises(ManifestError) as caught:
        read(text)
    assert caught.value.problem.line == line
    assert part in caught.value.problem.message


@pytest.mark.parametrize(
    "text, data, warnings",
    [
        (
            "a: 1\nb: 1\na: 2\n",
            {"a": 2, "b": 1},
            ["a.yaml:3: the key a occurs twice in one mapping, first in line 1: the last one counts"],
        ),
        (
            "b:\n  c: {x: 1, y: 2}\n  'c':\n    x: 3\n",
            {"b": {"c": {"x": 3}}},
            ["a.yaml:3: b: the key c occurs twice in one mapping, first in line 2: the last one counts"],
        ),
        ("a: &a {x: 1}\nb: {<<: *a, x: 2}\n", {"a": {"x": 1}, "b": {"x": 2}}, []),
        (
            '{"b": 1, "b": 2, "c": {"d": 1, "d": 2}}',
            {"b": 2, "c": {"d": 2}},
            [f"a.yaml:1: the key {key} occurs twice in one mapping: the last one counts" for key in "db"],
        ),
    ],
)
def test_of_a_key_that_occurs_twice_the_last_one_counts(text: str, data: object, warnings: list[str]) -> None:
    """As for kubectl (sigs.k8s.io/yaml, not strict), with a warning; a merge is no second one."""
    (manifest,) = read_manifests(text.encode(), "a.yaml")
    assert manifest.data == data
    assert [str(warning) for warning in manifest.warnings] == warnings
    if "\n    x" in text:
        assert manifest.line(("b", "c", "x")) == 4
    (first, second) = read_manifests(f"{text}\n---\na: 1\n".encode(), "a.yaml") if text[0] != "{" else (manifest, None)
    if text[0] == "{":
        first, second = read_manifests(f'{text}\n{{"a": 1}}'.encode(), "a.yaml")
    assert len(first.warnings) == len(warnings)
    assert second is None or second.warnings == ()


STREAM = """\
a: 1
---
b: [
---
c: 1
c: 2
--- # no mapping
- d
---
e: |
  ---
  f
---
g: *h
"""


def test_a_stream_goes_on_behind_what_cannot_be_read() -> None:
    """Each bad document has its line, and the good ones have theirs."""
    found, problems = read_stream(STREAM.encode(), "a.yaml")
    assert [(manifest.data, manifest.lines[()]) for manifest in found] == [
        ({"a": 1}, 1),
        ({"c": 2}, 5),
        ({"e": "---\nf\n"}, 10),
    ]
    assert [str(each).partition(" occurs")[0] for each in found[1].warnings] == ["a.yaml:6: the key c"]
    assert [problem.line for problem in problems] == [3, 8, 14]
    assert [str(problem).partition(":")[0] for problem in problems] == ["a.yaml"] * 3
    good, none = read_stream(b"a: 1\n---\nb: 2\n", "a.yaml")
    assert (len(good), none) == (2, [])


@pytest.mark.parametrize(
    "body, found, message",
    [
        (b'{"a": 1}\n{"b": 1e999}\n{"c": 1}', 1, "a.yaml:2: 1e999 is not a number"),
        (b'{"a": 1}\n{"b": \n', 1, "a.yaml:"),
        (b'{"a": 1}\n---\nb: [\n---\n{"c": 1}', 2, "a.yaml:3: not YAML"),
        (b'{"a": 1', 0, "a.yaml:1: not YAML"),
        (b"a: 1\n---\nb: \xff\n", 0, "a.yaml:3: not UTF-8 text"),
    ],
)
def test_streams_that_end_early(body: bytes, found: int, message: str) -> None:
    """JSON behind a mistake is not read; what stands before it is."""
    manifests, problems = read_stream(body, "a.yaml")
    assert len(manifests) == found
    assert [str(problem)[: len(message)] for problem in problems] == [message]


def test_the_deepest_nesting_is_read() -> None:
    """It ends with a message at `MAX_DEPTH`, not before, where Python's stack ends."""
    lists = MAX_DEPTH - 1
    assert len(read(f"a: {'[' * lists}1{']' * lists}\n")) == 1


def test_bytes_that_are_no_text() -> None:
    """The line is that of the first wrong byte."""
    with pytest.raises(ManifestError, match=r"^a\.yaml:2: not UTF-8 text$"):
        read_manifests(b"a: 1\nb: \xff\n", "a.yaml")


def test_a_billion_laughs_end_soon() -> None:
    """Aliases of aliases are bounded, in number and in depth: the billions would not end within any test's time."""
    names = "abcdefghij"
    lines = ["a: &a [x, x, x, x, x, x, x, x, x]"]
    lines += [f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]" for old, new in itertools.pairwise(names)]
    with pytest.raises(ManifestError, match="with aliases expanded"):
        read("\n".join(lines))
    nested = "a0: &a0 x\n" + "".join(f"a{i}: &a{i} {'[' * 100}*a{i - 1}{']' * 100}\n" for i in range(1, 30))
    with pytest.raises(ManifestError, match="nested deeper"):
        read(nested)


def test_lines() -> None:
    """An error names the line of the nearest thing above what is wrong."""
    (manifest,) = read_manifests(b"# x\na:\n  b:\n  - c: 1\n    d: 2\n", "a.yaml")
    assert str(manifest.error(("a", "b", 0, "d"), "wrong")) == "a.yaml:5: a.b[0].d: wrong"
    assert str(manifest.error(("a", "b", 0, "z", "y"), "wrong")) == "a.yaml:4: a.b[0].z.y: wrong"
    assert str(manifest.error((), "wrong")) == "a.yaml:2: wrong"
    assert path_text(("spec", "containers", 0, "name")) == "spec.containers[0].name"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(st.characters(exclude_categories=["Cs"])),
    lambda children: st.lists(children) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), children),
    max_leaves=20,
)


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), json_values, min_size=1))
def test_what_is_written_reads_the_same(data: dict[str, object]) -> None:
    """YAML output survives every text and key, for this reader and for PyYAML's."""
    text = yaml_text(data)
    assert read(text) == [data]
    assert yaml.safe_load(text) == data
    assert list(yaml.safe_load(text)) == list(data)


@given(st.binary() | st.text(alphabet="ab01:-[]{},&*!|>'\"#?%@` \n\tyn~<é").map(str.encode))
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    """No file ends in anything but documents or a ManifestError."""
    try:
        manifests = read_manifests(body, "a.yaml")
    except ManifestError as error:
        assert error.problem.source == "a.yaml"  # noqa: PT017
    else:
        assert all(isinstance(manifest.data, dict) for manifest in manifests)


MISTAKABLE = (
    "y N yes Off true Null ~ << = 1 -1 +1 010 08 0o17 0x1f 0b1 "
    "1e3 1.5E3 1_000 .5 5. .inf .NaN 1:30 2024-01-01 2024-01-01T00:00:00Z"
)


@pytest.mark.parametrize("text", ["", *MISTAKABLE.split()])
def test_mistakable_text_is_quoted(text: str) -> None:
    """What some YAML parser takes for something else than text stands in quotes, as a key too."""
    written = yaml_text({"a": text, text: "b"})
    assert f"a: '{text}'\n" in written
    assert f"'{text}': b\n" in written
    assert yaml.safe_load(written) == read_manifests(written.encode(), "a")[0].data == {"a": text, text: "b"}
    assert parse(written, "a")[0].data == {"a": text, text: "b"}


@pytest.mark.parametrize(
    "text", ["a", "3k", "256Mi", "10.0.0.1", "1.2.3", "nvidia.com/gpu", "/usr/lib:/lib", "yess", "v1"]
)
def test_plain_text_is_not_quoted(text: str) -> None:
    """What every parser takes for text stands plainly."""
    assert yaml_text({"a": text}) == f"a: {text}\n"


def test_order_and_shape() -> None:
    """Keys keep their order, lists stand under their key, long lines are not folded, nothing is an alias."""
    shared = {"z": 1, "a": [1.5, None, True]}
    text = yaml_text({"kind": "Pod", "apiVersion": "v1", "b": shared, "c": [shared, "x" * 90 + " " + "y" * 90]})
    assert text == (
        "kind: Pod\napiVersion: v1\nb:\n  z: 1\n  a:\n  - 1.5\n  - null\n  - true\n"
        f"c:\n- z: 1\n  a:\n  - 1.5\n  - null\n  - true\n- {'x' * 90} {'y' * 90}\n"
    )


def test_several_lines_stand_as_a_block() -> None:
    """A script in a manifest stays readable."""
    assert yaml_text({"a": "set -e\ntrain\n"}) == "a: |\n  set -e\n  train\n"


def test_written_streams() -> None:
    """Documents are set apart by marks."""
    assert yaml_stream([{"a": 1}, {"b": 2}]) == "a: 1\n---\nb: 2\n"
    assert yaml_stream([]) == ""
