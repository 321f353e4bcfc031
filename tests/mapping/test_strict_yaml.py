"""Strict YAML: what it reads, and what it refuses with line and hint."""

from importlib import resources
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.naming import each_of
from tests.yaml_text import load_yaml
from webhook.mapping.document import MAX_BYTES, MAX_PROBLEMS, MappingError, Problem, parse


@pytest.fixture(params=["fast", "pure"], autouse=True)
def loader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test holds for the C parser and for the pure one."""
    if request.param == "pure":
        monkeypatch.setattr("webhook.mapping.document._LOADER", yaml.SafeLoader)


def problems(text: str) -> list[Problem]:
    """What is wrong with a text."""
    with pytest.raises(MappingError) as caught:
        parse(text, "a.yaml")
    return list(caught.value.problems)


@each_of(
    "written, read",
    [
        ("true", True),
        ("false", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("0", 0),
        ("5000", 5000),
        ("-3", -3),
        ("+3", "+3"),
        ("010", "010"),
        ("0x1f", "0x1f"),
        ("0o17", "0o17"),
        ("1:30", "1:30"),
        ("1_000", "1_000"),
        ("0.01", "0.01"),
        ("1e3", "1e3"),
        ("5.", "5."),
        (".inf", ".inf"),
        ("2024-01-01", "2024-01-01"),
        ("256Mi", "256Mi"),
        ("5..100 by 5", "5..100 by 5"),
        ("6.25%", "6.25%"),
        ('"yes"', "yes"),
        ("'5'", "5"),
        ("[a, 1]", ["a", 1]),
        ("{b: 1.}", {"b": "1."}),
        ("|\n  off\n", "off\n"),
    ],
)
def test_scalars_are_what_they_look_like(written: str, read: object) -> None:
    """Booleans, null and plain whole numbers are typed; everything else is text exactly as written."""
    (document,) = parse(f"a: {written}", "a.yaml")
    assert document.data == {"a": read}
    assert type(document.data["a"]) is type(read)


@each_of("scalar", ["yes", "no", "on", "off", "y", "n", "YES", "Off", "True", "FALSE", "Null", "N"])
def test_ambiguous_scalars_are_errors(scalar: str) -> None:
    """What some parsers take for a boolean or null has to be quoted or written plainly."""
    (problem,) = problems(f"a:\n- x\n- {scalar}\n")
    assert (problem.line, problem.path) == (3, ("a", 1))
    assert scalar in problem.message
    assert problem.hint is not None
    assert f'"{scalar}"' in problem.hint


@each_of("scalar", ["yes", "on", "n", "true", "null", "~"])
def test_mistakable_keys_are_errors(scalar: str) -> None:
    """Neither may a key turn into a boolean."""
    (problem,) = problems(f"a: 1\n{scalar}: 2\n")
    assert problem.line == 2
    assert problem.hint == f'quote it: "{scalar}"'


def test_keys_that_look_like_numbers_are_text() -> None:
    """A key is always text."""
    (document,) = parse('1: a\n2.5: b\n"on": c\n', "a.yaml")
    assert document.data == {"1": "a", "2.5": "b", "on": "c"}


def test_lines_of_every_key_and_element() -> None:
    """Each key and element is found again."""
    text = "# comment\nkeys:\n  gpu: {is: devices,\n    unit: 1}\nforms:\n- name: share\n  when: {}\n- deny: x\n"
    (document,) = parse(text, "a.yaml")
    assert document.source == "a.yaml"
    assert document.lines == {
        (): 2,
        ("keys",): 2,
        ("keys", "gpu"): 3,
        ("keys", "gpu", "is"): 3,
        ("keys", "gpu", "unit"): 4,
        ("forms",): 5,
        ("forms", 0): 6,
        ("forms", 0, "name"): 6,
        ("forms", 0, "when"): 7,
        ("forms", 1): 8,
        ("forms", 1, "deny"): 8,
    }


def test_several_documents_and_empty_ones() -> None:
    """A stream is read whole, and documents without content are left out."""
    documents = parse("---\na: 1\n---\n# nothing\n---\nb: 2\n...\n", "a.yaml")
    assert [document.data for document in documents] == [{"a": 1}, {"b": 2}]
    assert documents[1].lines["b",] == 6
    assert parse("", "a.yaml") == []


def test_json_is_read_too() -> None:
    """JSON is YAML."""
    (document,) = parse('{"a": [1, "yes", null, true]}', "a.json")
    assert document.data == {"a": [1, "yes", None, True]}


@each_of(
    "text, line, part",
    [
        ("a: 1\nb: 2\na: 3\n", 3, "duplicate key"),
        ("1: a\n'1': b\n", 2, "duplicate key"),
        ("a: &anchor 1\n", 1, "anchors and aliases"),
        ("a: 1\nb: *anchor\n", 2, "anchors and aliases"),
        ("&k a: 1\n", 1, "anchors and aliases"),
        ("a: !!str 1\n", 1, "tags are not supported"),
        ("a: !python/object:os.system {}\n", 1, "tags are not supported"),
        ("!x a: 1\n", 1, "tags are not supported"),
        ("a:\n  <<: {b: 1}\n", 2, "merge keys"),
        ("a: 1\n[b]: 1\n", 2, "a key is a list or mapping"),
        ("? {b: c}\n: 1\n", 1, "a key is a list or mapping"),
        ("?\n: 1\n", 1, "a key is missing"),
        ("- a\n", 1, "not a mapping"),
        ("text\n", 1, "not a mapping"),
        ("a: [\n", 1, "not YAML"),
        ("a: b\n c: d\n", 2, "not YAML"),
        ("a: 1\n\tb: 1\n", 2, "a tab: indent with spaces"),
        ("a: b\nc: \x00", 2, "a character"),
        ("a: 1\nb: \udc80", 2, "not UTF-8"),
        (f"a: {'9' * 5000}", 1, "5000 digits"),
        ("a: " + "[" * 100, 1, "nested deeper"),
        ("a: " + "[" * 100 + "]" * 100, 1, "nested deeper"),
    ],
)
def test_what_is_refused(text: str, line: int, part: str) -> None:
    """Everything that could be misread, or is not YAML, is reported with its line."""
    problem = problems(text)[0]
    assert problem.source == "a.yaml"
    assert problem.line == line
    assert part in problem.message


def test_several_problems_at_once_but_not_endlessly() -> None:
    """All mistakes are reported together, up to a bound."""
    assert [problem.line for problem in problems("a: yes\nb: 1\nc: off\nb: 2\n")] == [1, 3, 4]
    assert len(problems("a:\n" + "- yes\n" * 1000)) == MAX_PROBLEMS


def test_values_of_a_list_as_key_do_not_hide_what_follows() -> None:
    """A list as a key is reported, and so is what comes after it."""
    assert [problem.line for problem in problems("? [a, [b]]\n: c\nd: off\n")] == [1, 3]


def test_size_is_bounded() -> None:
    """More than a ConfigMap can hold is not read."""
    (problem,) = problems("a: " + "x" * MAX_BYTES)
    assert "1024 KiB" in problem.message


def test_problems_read_like_a_compiler_says_them() -> None:
    """source:line: path: message (hint)."""
    assert str(problems("a:\n  b: yes\n")[0]) == (
        'a.yaml:2: a.b: yes is a boolean to some parsers and text to others (write true or "yes")'
    )


def test_built_in_documents_mean_the_same_to_a_plain_parser() -> None:
    """Nothing in our own documents depends on this reader, decimals apart."""
    folder = resources.files("webhook.mapping") / "builtin"
    files = [file for file in folder.iterdir() if file.name.endswith(".yaml")]
    assert files
    for file in files:
        text = file.read_text()
        (document,) = parse(text, file.name)
        assert document.data == as_text(load_yaml(text))


def as_text(value: Any) -> Any:
    """The same with decimals as they are written."""
    if isinstance(value, dict):
        return {key: as_text(item) for key, item in value.items()}
    if isinstance(value, list):
        return [as_text(each) for each in value]
    return str(value) if isinstance(value, float) else value


@given(st.text(alphabet="ab01:-[]{},&*!|>'\"#?%@` \n\tyesno~<\x00é\udc80"))
def test_any_text_is_read_or_refused(text: str) -> None:
    """No text ends in anything but documents or a MappingError."""
    try:
        documents = parse(text, "a.yaml")
    except MappingError as error:
        assert error.problems  # noqa: PT017
    else:
        assert all(isinstance(document.data, dict) for document in documents)
