"""``explain``: what becomes of manifests and why, and what keys mean, for people."""

import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from tests.cli.conftest import Run
from tests.explanation.test_pods import FOLDERS, explained_case
from tests.yaml_text import load_yaml
from webhook.cli.commands.explain import object_text
from webhook.cli.terminal import WIDTH

ROOT = Path(__file__).parents[2]
PODS = sorted((ROOT / "examples" / "pods").glob("*.yaml"))
EXAMPLES_IN_FORCE = ("-f", "examples/namespaces.yaml", "--mappings", "examples/mappings")
DEFAULT = "policy: built-in mappings and default settings\n"
DENIED = """\
apiVersion: v1
kind: Pod
metadata:
  name: wrong
  labels: {aliyun.com/gpu-count: "3"}
spec:
  containers:
  - name: main
    image: example
    resources:
      limits: {aliyun.com/gpu-mem: 8, cpu: 1}
"""


@pytest.mark.parametrize("file", PODS, ids=lambda file: file.stem)
def test_examples(run: Run, golden: Callable[[str, str], None], file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every example as a person reads it; denied ones exit with 2."""
    monkeypatch.chdir(ROOT)
    result = run("explain", *EXAMPLES_IN_FORCE, "-f", str(file))
    assert result.stderr == ""
    assert result.exit_code == (2 if ": denied, " in result.stdout else 0)
    golden(f"explain/{file.stem}.txt", result.stdout)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_text_of_a_case(folder: Path) -> None:
    """It fits the terminal, holds nothing that would command it, and lists each finding once."""
    explained = explained_case(folder)
    text = object_text({"title": "pod/demo", "notes": (), "pods": [{"path": "", **explained}]})
    plain = [line.replace("\x1b[0m", "") for line in text.splitlines()]
    for line in plain:
        shown = "".join(part.partition("m")[2] if number else part for number, part in enumerate(line.split("\x1b[")))
        assert len(shown) <= WIDTH, shown
        assert shown.isprintable()
        assert shown == shown.rstrip()
    words = " ".join(click.unstyle(text).split())
    listed = Counter(" ".join(f"{each['code']} {each['message']}".split()) for each in explained["findings"])
    assert {line: words.count(line) for line in listed} == dict(listed)


def test_whole_devices_that_are_denied(run: Run) -> None:
    """A denied count alone means what was decided on: whole devices, and no default that is not filled in."""
    labels, whole = "labels: {vgpu-webhook.io/inject: enabled}", "annotations: {vgpu-webhook.io/bare-devices: whole}"
    space = f"apiVersion: v1\nkind: Namespace\nmetadata: {{name: default, {labels}, {whole}}}\n"
    pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p, annotations: {vgpu-webhook.io/target: kai}}\n"
    pod += "spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: 1}}}]}\n"
    printed = run("explain", "-f", "-", stdin=f"{space}---\n{pod}").stdout
    assert "VGW402" in printed
    assert "all memory per device" in printed
    assert "5000" not in printed


def test_refused_with_a_snippet(run: Run) -> None:
    """Why, what it means, and YAML that can be pasted: with the GPU keys of the container, and no others."""
    result = run("explain", "-f", "-", stdin=DENIED)
    assert result.exit_code == 2
    _, _, snippet = result.stdout.partition("with it the pod is not denied:\n")
    assert load_yaml(snippet) == {
        "spec": {"containers": [{"name": "main", "resources": {"limits": {"aliyun.com/gpu-mem": 9}}}]}
    }
    assert "not divisible by 3: write 6 or 9" in " ".join(result.stdout.split())


@pytest.mark.parametrize("name, status", [("vcuda-to-nvidia", 0), ("denied", 2)])
def test_json(run: Run, golden: Callable[[str, str], None], name: str, status: int) -> None:
    """The same as data: outcome, keys, meaning with where it comes from, what is written, the finding, the correction."""
    manifest = DENIED if name == "denied" else (ROOT / f"examples/pods/10-{name}.yaml").read_text()
    result = run("explain", "-f", "-", "-o", "json", stdin=manifest)
    assert result.exit_code == status
    golden(f"explain/{name}.json", re.sub('"policy": "[0-9a-f]{12}"', '"policy": "DIGEST"', result.stdout))


def test_colour_only_on_a_terminal(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Elsewhere, and with NO_COLOR, plain text of the same keys."""
    plain = run("explain", "-f", "-", stdin=DENIED).stdout
    colored = run("explain", "-f", "-", stdin=DENIED, color=True).stdout
    assert "\x1b[" not in plain
    assert "\x1b[31m" in colored
    monkeypatch.setenv("NO_COLOR", "1")
    assert run("explain", "-f", "-", stdin=DENIED, color=True).stdout == plain


def test_nothing_in_a_manifest_commands_the_terminal(run: Run) -> None:
    """Control characters of names and values are replaced."""
    pod = DENIED.replace("name: main", 'name: "ma\\x1b[2Jin"').replace("name: wrong", 'name: "wr\\x07ong"')
    output = run("explain", "-f", "-", stdin=pod, color=True).stdout
    assert "\x1b[2J" not in output
    assert "\x07" not in output


def test_a_target_by_option(run: Run) -> None:
    """``--to`` is named as what ordered it; roundings are reported with their difference."""
    output = run("explain", "-f", str(ROOT / "examples/pods/02-sizes-given.yaml"), "--to", "vcuda").stdout
    assert "because: --to vcuda" in output
    assert "memory per device: 3000 MiB became 3072 MiB, +72 MiB  VGW201" in output


def test_modes_that_only_tell(run: Run) -> None:
    """What would be done is explained, and that it isn't; what would be denied is no denial."""
    space = "kind: Namespace\napiVersion: v1\nmetadata:\n  name: default\n  labels:\n"
    space += "    vgpu-webhook.io/inject: enabled\n    vgpu-webhook.io/mode: audit\n---\n"
    result = run("explain", "-f", "-", stdin=space + DENIED)
    assert result.exit_code == 0
    assert "(mode audit): allowed" in result.stdout
    assert "would be  denied: VGW305" in result.stdout


def test_other_kinds_and_templates(run: Run) -> None:
    """Kinds without pods are named; of others, pods are found, or named by their path."""
    service = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\n"
    result = run("explain", "-f", "-", stdin=service)
    assert (result.exit_code, result.stdout) == (0, f"{DEFAULT}service/web: no pod found in it\n")
    job = "apiVersion: x/v1\nkind: Train\nmetadata: {name: t}\nspec: {podTemplate: {spec: "
    job += "{containers: [{name: a, resources: {limits: {nvidia.com/gpu: 1}}}]}}}\n"
    treated = run("explain", "-f", "-", stdin=job).stdout
    assert treated == run("explain", "-f", "-", "--template-path", "spec.podTemplate", stdin=job).stdout
    assert treated.startswith(f"{DEFAULT}train/t, spec.podTemplate in namespace default: allowed, changed")


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("-f", "-", "--name", "nvidia.com/gpu"),
        ("--name", "nvidia.com/gpu", "--to", "nvidia"),
        ("--name", "nvidia.com/gpu", "-n", "x"),
        ("-f", "/nowhere/pod.yaml"),
        ("-f", "-", "--to", "nobody"),
    ],
)
def test_usage_errors(run: Run, arguments: tuple[str, ...]) -> None:
    """Manifests or a key, and one that can be read: else exit 1."""
    result = run("explain", *arguments, stdin=DENIED)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr


@pytest.mark.parametrize(
    "name",
    [
        "aliyun.com/gpu-mem",
        "aliyun.com/gpu-count",
        "enflame.com/drs-gcu",
        "enflame.com/gcu",
        "gpu.intel.com/millicores",
        "huawei.com/Ascend310P",
        "huawei.com/Ascend310P-memory",
        "huawei.com/Ascend910",
        "huawei.com/Ascend910B",
        "iluvatar.ai/MR-V100.vMem",
        "nvidia.com/gpumem-percentage",
        "nvidia.com/mig-1g.10gb",
        "nvidia.com/priority",
        "nvidia.com/use-gputype",
        "tencent.com/vcuda-core",
        "tensor-fusion.ai/enabled",
    ],
)
def test_keys(run: Run, golden: Callable[[str, str], None], name: str) -> None:
    """Which vendors use a key, where, what 1 of it is, what it means that it is missing, and its traps."""
    result = run("explain", "--name", name)
    assert (result.exit_code, result.stderr) == (0, "")
    assert all(len(line) <= WIDTH for line in result.stdout.splitlines())
    golden(f"explain/name-{name.replace('/', '-')}.txt", result.stdout)


def test_who_owns_a_key(run: Run, tmp_path: Path) -> None:
    """The owner follows the settings."""
    (tmp_path / "settings.yaml").write_text("owners: {aliyun.com/gpu-mem: gpushare}\n")
    here = json.loads(run("explain", "--name", "aliyun.com/gpu-mem", "-o", "json").stdout)
    answer = json.loads(
        run(
            "explain", "--name", "aliyun.com/gpu-mem", "-o", "json", "--settings", str(tmp_path / "settings.yaml")
        ).stdout
    )
    assert (here["owner"], here["choice"]) == ("aliyun", "owners: {aliyun.com/gpu-mem: gpushare}")
    assert (answer["owner"], answer["choice"]) == ("gpushare", "owners: {aliyun.com/gpu-mem: aliyun}")
    assert [(use["vendor"], use["in_force"], use["rows"]["1 is"]) for use in here["uses"]] == [
        ("aliyun", True, ["1 GiB, over all devices together"]),
        ("gpushare", False, ["1 GiB, per device"]),
    ]


UNKNOWN_CHIP = {"huawei.com/Ascend910B5": 1, "huawei.com/Ascend910B5-memory": 2000}
ONLINE = {"tke.cloud.tencent.com/app-class": "onlin"}


@pytest.mark.parametrize(
    "metadata, limits, said, unsaid",
    [
        # What one device is cut into is never reported as devices.
        ({}, {"enflame.com/drs-gcu": 2}, ["enflame.com/drs-gcu: 2 2 parts of one device", "means 1 device "], []),
        # Of a chip that nobody knows, no other is written instead.
        ({}, UNKNOWN_CHIP, ["VGW313", "Ascend{chip}, with 910A, 910B, 910B2,"], ["did you mean", "this instead"]),
        # Where a text is misspelled, the text that was meant is named.
        (
            {"annotations": ONLINE},
            {"tke.cloud.tencent.com/qgpu-memory": 4},
            ["needs the annotation tke.cloud.tencent.com/app-class: online"],
            [],
        ),
    ],
)
def test_what_is_said_of_a_pod(
    run: Run, metadata: dict[str, Any], limits: dict[str, int], said: list[str], unsaid: list[str]
) -> None:
    """And what is not."""
    containers = [{"name": "main", "image": "i", "resources": {"limits": limits}}]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", **metadata}, "spec": {"containers": containers}}
    printed = " ".join(run("explain", "-f", "-", stdin=yaml.safe_dump(pod)).stdout.split())
    assert all(text in printed for text in said), printed
    assert not any(text in printed for text in unsaid), printed


def test_a_name_with_its_variables(run: Run) -> None:
    """A pattern as the mapping writes it is found like a name that it matches."""
    named = run("explain", "--name", "iluvatar.ai/MR-V100.vMem").stdout
    assert run("explain", "--name", "iluvatar.ai/{chip}.vMem").stdout.splitlines()[2:] == named.splitlines()[2:]


@pytest.mark.parametrize(
    "name, near",
    [
        ("nvidia.com/gpumme", "did you mean nvidia.com/gpumem"),
        ("aliyun.com/gpu-men", "did you mean aliyun.com/gpu-mem"),
        ("gpumem", "nvidia.com/gpumem?"),
        ("iluvatar.ai/MR-V200.vMem", "did you mean iluvatar.ai/{chip}.vMem?"),
        ("example.com/fpga", "`vgpu-webhook vendors` lists the keys"),
    ],
)
def test_unknown_keys(run: Run, name: str, near: str) -> None:
    """Exit 1, with what was probably meant."""
    result = run("explain", "--name", name)
    assert (result.exit_code, result.stdout) == (1, "")
    assert near in result.stderr
