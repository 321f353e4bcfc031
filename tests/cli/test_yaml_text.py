"""YAML output: order, quotes, no surprises."""

import pytest
import yaml

from webhook.cli.manifests.files import read_manifests, yaml_stream, yaml_text
from webhook.mapping.document.strict_yaml import parse


@pytest.mark.parametrize(
    "text",
    [
        *(
            "y",
            "N",
            "yes",
            "Off",
            "true",
            "Null",
            "~",
            "",
            "<<",
            "=",
            "1",
            "-1",
            "+1",
            "010",
            "08",
            "0o17",
            "0x1f",
            "0b1",
        ),
        *("1e3", "1.5E3", "1_000", ".5", "5.", ".inf", ".NaN", "1:30", "2024-01-01", "2024-01-01T00:00:00Z"),
    ],
)
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


def test_streams() -> None:
    """Documents are set apart by marks."""
    assert yaml_stream([{"a": 1}, {"b": 2}]) == "a: 1\n---\nb: 2\n"
    assert yaml_stream([]) == ""
