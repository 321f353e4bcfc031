"""Namespaces that files describe, for a webhook without a cluster."""

from pathlib import Path

import pytest

from webhook.cli.simulate import load_namespaces
from webhook.cli.terminal import Failure
from webhook.labels import INJECT

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
