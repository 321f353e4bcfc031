"""Loading: files and folders of documents over the built-in ones."""

import subprocess
import sys
from importlib import resources
from pathlib import Path

import pytest

from tests.mapping.vendors import ACME
from webhook.mapping.document import MappingError, Problems
from webhook.mapping.load import builtin, documents_in, load_policy, probe, settings_in
from webhook.mapping.model.guard import compile_guards, guard_lists


def test_a_folder_in_the_order_of_its_names(tmp_path: Path) -> None:
    """Every YAML file, each possibly with several documents; other files are left alone."""
    (tmp_path / "b.yaml").write_text("extends: vcuda\nabout: b\n---\nextends: aliyun\nabout: b2\n")
    (tmp_path / "a.yml").write_text(ACME)
    (tmp_path / "notes.txt").write_text("not: [yaml")
    (tmp_path / "empty.yaml").write_text("# nothing yet\n")
    assert [each.data.get("about") for each in documents_in(tmp_path)] == [None, "b", "b2"]
    policy = load_policy(tmp_path)
    assert "acme" in policy.vendors
    assert policy.vendors["aliyun"].about == "b2"


def test_a_single_file(tmp_path: Path) -> None:
    """One file will do."""
    path = tmp_path / "acme.yaml"
    path.write_text(ACME)
    assert "acme" in load_policy(path).vendors


def test_settings_of_a_file(tmp_path: Path) -> None:
    """One document or none."""
    path = tmp_path / "settings.yaml"
    path.write_text("target: aliyun\nneverTouched: [x]\n")
    policy = load_policy(None, path)
    assert policy.settings.target == "aliyun"
    assert {"x", "kube-system", "kube-node-lease"} == policy.never_touched
    path.write_text("\n")
    assert settings_in(path) is None
    path.write_text("target: aliyun\n---\ntarget: vcuda\n")
    with pytest.raises(MappingError, match="more than one document"):
        settings_in(path)


def test_mistakes_name_the_file_and_line(tmp_path: Path) -> None:
    """As a compiler says them."""
    path = tmp_path / "acme.yaml"
    path.write_text(ACME.replace("unit: 1Mi", "unit: 0"))
    with pytest.raises(MappingError) as caught:
        load_policy(tmp_path)
    assert str(caught.value) == f"{path}:5: keys.mem.unit: 0 is not above 0"


def test_unreadable_files_are_the_callers_business(tmp_path: Path) -> None:
    """A missing file is no mistake of a document."""
    with pytest.raises(FileNotFoundError):
        load_policy(tmp_path / "nowhere")


def test_built_in_documents() -> None:
    """Each under its own name; those in force own their names alone."""
    folder = resources.files("webhook.mapping") / "builtin"
    assert {file.name for file in folder.iterdir() if file.is_file()} == {f"{vendor}.yaml" for vendor in builtin()}
    assert {file.name for file in (folder / "guards").iterdir()} == {f"{name}.yaml" for name in guard_lists()}
    problems = Problems()
    for each in guard_lists().values():
        compile_guards(each.guard, None, problems)
    assert problems.found == []
    standby = [vendor.name for vendor in load_policy().vendors.values() if vendor.inactive]
    assert standby == ["gpushare", "mig-single", "mps", "whole"]


def test_built_in_documents_pass_their_probes() -> None:
    """They are probed here, once and for all, not at every start."""
    loaded = load_policy()
    for vendor in loaded.vendors.values():
        assert probe(vendor, loaded.most_memory) == []


def test_an_import_builds_no_schema() -> None:
    """Each takes milliseconds of every command, and is built again as a part of the schema of documents."""
    built = "(each.__name__ for each in Strict.__subclasses__() if each.__pydantic_complete__)"
    code = f"import webhook.mapping.load; from webhook.mapping.strict import Strict; print(*{built})"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "\n"
