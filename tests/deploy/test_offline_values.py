"""`--values`: the documents that the program makes of values are those that Helm renders, and it rejects what Helm rejects."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.yaml_text import load_yaml, load_yaml_all
from webhook.cli.files import read_manifests
from webhook.cli.options import PolicyOptions
from webhook.cli.policy_source import documents_of_values, merged_values, sourced_policy
from webhook.cli.terminal import Failure
from webhook.mapping.document import parse

from .charts import VALUES, WHOLE, Chart
from .helm import HelmError

IMAGE = "image.repository=vgpu-webhook"
BASE = "settings: {bareDevices: whole}\nshim: {mode: plugin}\n"
_TABLES: dict[str, dict[str, list[str]]] = load_yaml((Path(__file__).parent / "offline_values.yaml").read_text())
RENDERED = {
    **{
        name: [yaml.safe_dump(values), "settings: {bareDevices: share}"]
        + ([] if "mode" in values.get("shim", {}) else ["shim: {mode: inject}"])
        for name, values in VALUES.items()
        if {"settings", "mappings", "shim"} & values.keys()
    },
    **_TABLES["rendered"],
}
REJECTED = _TABLES["rejected"]


def written(texts: list[str], folder: Path) -> list[Path]:
    """A file for each text."""
    files = [folder / f"{number}.yaml" for number in range(len(texts))]
    for file, text in zip(files, texts, strict=True):
        file.write_text(text.replace("BASE\n", "BASE").replace("BASE", BASE).replace("WHOLE", json.dumps(WHOLE)) + "\n")
    return files


def options(files: list[Path]) -> list[str]:
    """The files for Helm."""
    return [text for file in files for text in ("--values", str(file))]


def rendered(helm: Chart, files: list[Path]) -> tuple[dict[str, Any], Any]:
    """What Helm puts into the ConfigMaps: the mappings by vendor, and the settings."""
    objects = load_yaml_all(helm.template("--set", IMAGE, *options(files)))
    data = {each["metadata"]["name"]: each["data"] for each in objects if each["kind"] == "ConfigMap"}
    data.pop("vgpu-webhook-shim", None)
    settings = data.pop("vgpu-webhook-settings")["settings.yaml"]
    mappings = {
        name.removeprefix("vgpu-webhook-mapping-"): parse(each["mapping.yaml"], name)[0].data
        for name, each in data.items()
    }
    return mappings, parse(settings, "settings")[0].data


@pytest.mark.parametrize("name", RENDERED)
def test_documents_are_those_of_helm(name: str, tmp_path: Path, helm: Chart) -> None:
    """The same mappings and settings, whatever is merged, removed and written by the templates."""
    files = written(RENDERED[name], tmp_path)
    read = [manifest for file in files for manifest in read_manifests(file.read_bytes(), str(file))]
    mappings, settings = documents_of_values(merged_values(read), "values")
    expected, expected_settings = rendered(helm, files)
    assert [each.data for each in mappings] == [expected[vendor] for vendor in sorted(expected)]
    assert settings.data == expected_settings


@pytest.mark.long
@pytest.mark.parametrize("name", RENDERED)
def test_both_versions_of_helm_render_the_same(name: str, tmp_path: Path, helm: Chart, helm4: Chart) -> None:
    """So that there is one answer."""
    files = written(RENDERED[name], tmp_path)
    assert rendered(helm, files) == rendered(helm4, files)


@pytest.mark.parametrize("name", REJECTED)
def test_helm_rejects_the_same(name: str, tmp_path: Path, helm: Chart) -> None:
    """With these values there is no installation whose policy could be shown."""
    files = written(REJECTED[name], tmp_path)
    with pytest.raises(HelmError):
        helm.template("--set", IMAGE, *options(files))
    with pytest.raises(Failure) as failure:
        sourced_policy(PolicyOptions(values=tuple(files)))
    assert all(str(tmp_path) in message for message in failure.value.messages)
