"""Manifests as Kubernetes reads them, described namespaces, and YAML output: order, quotes, no surprises."""

import itertools
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from webhook.cli.files import MAX_DEPTH, ManifestError, read_manifests, yaml_text
from webhook.cli.simulate import load_namespaces
from webhook.cli.terminal import Failure
from webhook.labels import INJECT
from webhook.mapping.document import parse


def read(text: str) -> list[dict[str, object]]:
    """The documents of a text."""
    return [manifest.data for manifest in read_manifests(text.encode(), "a.yaml")]


def test_the_deepest_nesting_is_read() -> None:
    """It ends with a message at `MAX_DEPTH`, not before, where Python's stack ends."""
    lists = MAX_DEPTH - 1
    assert len(read(f"a: {'[' * lists}1{']' * lists}\n")) == 1
    for deeper in ("a: " + "[" * 1000, '{"a":' * 20_000, '{"a":' * 200 + "1" + "}" * 200):
        with pytest.raises(ManifestError, match="nested deeper"):
            read(deeper)


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


ONE_NAMESPACE = """\
apiVersion: v1
kind: Namespace
metadata:
  name: one
  labels:
    vgpu-webhook.io/inject: enabled
    kubernetes.io/metadata.name: one
  annotations:
    vgpu-webhook.io/target: acme
  creationTimestamp: null
spec:
  finalizers:
  - kubernetes
"""
TWO = "apiVersion: v1\nkind: Namespace\nmetadata: {name: two}\n"
LIST = """\
{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "two"}}]}
"""
ONE_POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: one}\n"


def test_file_of_namespaces(tmp_path: Path) -> None:
    """A described namespace is what its document says; other kinds are passed over."""
    (tmp_path / "all.yaml").write_text(f"{ONE_NAMESPACE}---\n{ONE_POD}---\n{TWO}")
    namespaces = load_namespaces(tmp_path / "all.yaml", INJECT)
    assert namespaces.lookup("one").annotations == {"vgpu-webhook.io/target": "acme"}
    assert namespaces.lookup("one").labels["vgpu-webhook.io/inject"] == "enabled"
    assert namespaces.lookup("two").labels == {}


def test_folder_of_namespaces(tmp_path: Path) -> None:
    """A folder's YAML and JSON files are read, also what kubectl prints for several."""
    (tmp_path / "a.yaml").write_text(ONE_NAMESPACE)
    (tmp_path / "b.json").write_text(LIST)
    (tmp_path / "notes.txt").write_text("not: [read")
    namespaces = load_namespaces(tmp_path, INJECT)
    assert set(namespaces.known) == {"one", "two"}


@pytest.mark.parametrize("content", [None, b"\xff\xfe"])
def test_file_that_cannot_be_read(tmp_path: Path, content: bytes | None) -> None:
    """A missing file, or one that is no text, is named."""
    path = tmp_path / "file.yaml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(Failure, match=r"file\.yaml"):
        load_namespaces(path, INJECT)
