"""`--values`: the documents that the program makes of values are those that Helm renders, and it rejects what Helm rejects."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.yaml_text import load_yaml_all
from webhook.cli.manifests.files import read_manifests
from webhook.cli.manifests.values import documents_of_values, merged_values
from webhook.cli.options import PolicyOptions
from webhook.cli.policy_source import sourced_policy
from webhook.cli.terminal import Failure
from webhook.mapping.document.strict_yaml import parse

from .charts import VALUES, WHOLE, Chart
from .helm import HelmError

IMAGE = "image.repository=vgpu-webhook"
BASE = "settings: {bareDevices: whole}\nshim: {mode: plugin}\n"

RENDERED: dict[str, list[str]] = {
    **{
        name: [yaml.safe_dump(values), "settings: {bareDevices: share}"]
        + ([] if "mode" in values.get("shim", {}) else ["shim: {mode: inject}"])
        for name, values in VALUES.items()
        if {"settings", "mappings", "shim"} & values.keys()
    },
    "plugin": [BASE],
    "inject": [BASE, "shim: {mode: inject}"],
    "the later file wins": [
        "settings: {target: volcano, served: [a, b], cards: {a100: 1Gi, b100: 2Gi}}",
        BASE + "mappings: {acme: {extends: nvidia, defaults: {memory: 1Gi}}}",
        "settings: {target: nvidia, served: [c], cards: {a100: 3Gi}}\nmappings: {acme: {defaults: {cores: 30}}}",
    ],
    "null removes": [
        BASE + "mappings: {vcuda: {shim: {mode: plugin}}, nvidia: {defaults: {memory: 1Gi}}}\nreplicaCount: null",
        "settings: {target: nvidia}",
        "settings: {target: null}\nmappings: {nvidia: {defaults: null}}\nshim: {vendors: null}",
    ],
    "other vendors": [BASE, "shim: {mode: plugin, vendors: [volcano, nvidia]}"],
    "no vendors": [BASE, "shim: {vendors: []}"],
    "shim is null": [BASE + "mappings: {nvidia: {shim: null}}"],
    "shim is empty": [BASE + "mappings: {nvidia: {shim: {}}}"],
    "no mode in the mapping": [BASE + "mappings: {nvidia: {shim: {mode: null, limit: null}}}"],
    "null, and later a map": ["settings: {bareDevices: whole}\nshim: null", "shim: {mode: plugin}"],
    "the mapping's mode": [BASE + "mappings: {nvidia: {shim: {mode: inject}}}"],
    "more of the shim": [BASE + "mappings: {nvidia: {shim: {limit: env}, inactive: false, guard: [], defaults: {}}}"],
    "a whole mapping": [BASE + yaml.safe_dump({"mappings": {"acme": WHOLE}})],
    "headers": [
        BASE + "mappings: {nvidia: {apiVersion: vgpu-webhook.io/v1alpha1, kind: Mapping, place: {scheduler: x}}}",
        "settings: {apiVersion: vgpu-webhook.io/v1alpha1, kind: Settings}",
    ],
    "text that looks like something else": [
        BASE + "mappings: {nvidia: {place: {labels: {a: 'yes', b: '1e3', c: '0x1f', d: '', e: 'null', f: '1.50'}}}}",
        "settings: {timeoutSeconds: 10, owners: {a.example/b: '010'}}",
    ],
    "the level of the settings": ["settings: {podSecurityDefault: restricted}", BASE, "shim: {mode: inject}"],
    "anchors": [BASE + "mappings: {nvidia: {defaults: &d {memory: 1Gi}}, volcano: {defaults: *d}}"],
    "global": [BASE + "global: {x: 1}"],
    "empty files": ["", BASE, "# nothing"],
}

REJECTED: dict[str, list[str]] = {
    "nothing": [""],
    "no mode": ["settings: {bareDevices: whole}"],
    "null for a map of settings": ["settings: {cards: {x: 1Gi}}", BASE, "settings: {cards: null}"],
    "null for a mapping": [BASE, "mappings: {nvidia: null}"],
    "no bareDevices": ["shim: {mode: plugin}"],
    "bareDevices removed": [BASE, "settings: {bareDevices: null}"],
    "settings is empty": [BASE, "settings:"],
    "another mode": [BASE, "shim: {mode: both}"],
    "an unknown value": [BASE + "setings: {target: nvidia}"],
    "an unknown value of the shim": [BASE, "shim: {vendor: [nvidia]}"],
    "settings is a list": ["shim: {mode: plugin}\nsettings: []"],
    "shim is null": [BASE, "shim: null"],
    "vendors is text": [BASE, "shim: {vendors: nvidia}"],
    "a name that is none": [BASE + "mappings: {Acme: {extends: nvidia}}"],
    "a mapping of another vendor": [BASE + yaml.safe_dump({"mappings": {"other": WHOLE}})],
    "a mapping that is text": [BASE + "mappings: {nvidia: x}"],
    "no YAML": [BASE + "x: ["],
    "a list": ["[]"],
}


def written(texts: list[str], folder: Path) -> list[Path]:
    """A file for each text."""
    files = [folder / f"{number}.yaml" for number in range(len(texts))]
    for file, text in zip(files, texts, strict=True):
        file.write_text(text + "\n")
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
