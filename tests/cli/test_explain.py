"""``explain``: what becomes of manifests and why, and what keys mean, for people."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
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


def pods_of(output: str) -> Iterator[dict[str, Any]]:
    """The pods in a JSON output."""
    for shown in json.loads(output)["objects"]:
        yield from shown["pods"]


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


def test_whole_devices_that_are_denied(run: Run, tmp_path: Path) -> None:
    """A denied count alone means what was decided on: whole devices, and no default that is not filled in."""
    settings, manifest = tmp_path / "settings.yaml", tmp_path / "pod.yaml"
    settings.write_text("{bareDevices: whole, target: nvidia}")
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "annotations": {"vgpu-webhook.io/target": "kai"}},
    }
    container = {"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": 1}}}
    manifest.write_text(json.dumps({**pod, "spec": {"containers": [container]}}))
    printed = run("explain", "-f", str(manifest), "--settings", str(settings)).stdout
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


def test_json(run: Run) -> None:
    """The same as data: outcome, keys, meaning with where it comes from, what is written, shim, placement."""
    result = run("explain", "-f", str(ROOT / "examples/pods/10-vcuda-to-nvidia.yaml"), "-o", "json")
    assert result.exit_code == 0
    (pod,) = pods_of(result.stdout)
    assert (pod["code"], pod["allowed"], pod["mode"], pod["namespace"]) == ("VGW009", True, "enforce", "default")
    entry = pod["status"]["containers"]["train"]
    assert entry["request"] == {"devices": 1, "memory": "4096Mi", "cores": "50%"}
    assert (entry["target"], entry["shim"]) == ("nvidia", "hostPath")
    (container,) = pod["containers"]
    rows = container["rows"]
    assert (container["name"], container["title"]) == ("train", "container train, in the keys of vcuda (share)")
    meaning = "16 x 256 MiB = 4096 MiB (4 GiB) of memory per device"
    assert rows["keys"][1] == ["tencent.com/vcuda-memory: 16", meaning]
    assert rows["target"] == [["nvidia", "because: the pod's annotation vgpu-webhook.io/target"]]
    assert rows["removed"] == [["tencent.com/vcuda-core", ""], ["tencent.com/vcuda-memory", ""]]
    assert pod["rows"]["pod"] == [["schedulerName: hami-scheduler", "instead of default-scheduler"]]
    assert (pod["denial"], pod["correction"]) == (None, None)


def test_json_of_a_refusal(run: Run) -> None:
    """The finding with its field and value, the status, and the correction."""
    result = run("explain", "-f", "-", "-o", "json", stdin=DENIED)
    assert result.exit_code == 2
    (pod,) = pods_of(result.stdout)
    denial = pod["denial"]
    assert (pod["allowed"], denial["code"], denial["status"]) == (False, "VGW305", 422)
    assert (denial["field"], denial["value"]) == ("aliyun.com/gpu-mem", "8")
    assert pod["correction"]["manifest"]["spec"]["containers"][0]["name"] == "main"


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
        "iluvatar.ai/MR-V100.vMem",
        "nvidia.com/gpumem-percentage",
        "nvidia.com/mig-1g.10gb",
        "nvidia.com/priority",
        "nvidia.com/use-gputype",
        "tencent.com/vcuda-core",
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


def test_parts_of_one_card(run: Run) -> None:
    """A count of what one device is cut into is reported as such, never as devices."""
    pod = (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n  - name: main\n    image: i\n"
        "    resources: {limits: {enflame.com/drs-gcu: 2}}\n"
    )
    printed = run("explain", "-f", "-", stdin=pod).stdout
    assert "enflame.com/drs-gcu: 2  2 parts of one device" in printed
    assert "means     1 device " in printed
    named = run("explain", "--name", "enflame.com/drs-gcu").stdout
    assert "1 is      a part of one device\n" in named
    assert "it has no effect" not in named
    assert "missing " not in named
    assert "1 is      a device\n" in run("explain", "--name", "enflame.com/gcu").stdout


@pytest.mark.parametrize(
    "limits, instead",
    [
        (
            {"nvidia.com/gpu": "500m"},
            {"nvidia.com/gpu": 1, "nvidia.com/gpumem-percentage": 50, "nvidia.com/gpucores": 50},
        ),
        ({"nvidia.com/gpu": "0.5", "nvidia.com/gpumem": 3000}, {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 3000}),
        ({"nvidia.com/gpu": 1, "nvidia.com/gpucores": "0.3"}, {"nvidia.com/gpu": 1, "nvidia.com/gpucores": 30}),
        ({"nvidia.com/gpu": 1, "nvidia.com/gpumem": 8.5}, {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 8704}),
        ({"nvidia.com/gpu": 1, "nvidia.com/gpumem": 40000000}, {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 39063}),
    ],
    ids=str,
)
def test_what_was_probably_meant(run: Run, limits: dict[str, object], instead: dict[str, object]) -> None:
    """A fraction of one is a share, and a size beyond any GPU was counted in another unit."""
    containers = [{"name": "main", "resources": {"limits": limits}}]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": containers}}
    text = run("explain", "-f", "-", stdin=yaml.safe_dump(pod)).stdout
    snippet = load_yaml(text.partition("is not denied:\n")[2])
    assert snippet["spec"]["containers"][0]["resources"]["limits"] == instead


def test_a_retired_key(run: Run) -> None:
    """A key that current versions no longer read is reported as such."""
    printed = " ".join(run("explain", "--name", "gpu.intel.com/millicores").stdout.split())
    assert "Retired: Intel's GPU plugin offers it up to 0.33 only" in printed


def test_a_row_without_sizes(run: Run) -> None:
    """A name whose row says legal numbers only holds what the keys beside it say."""
    assert "1 is      1 MiB, per device\n" in run("explain", "--name", "huawei.com/Ascend310P-memory").stdout
    assert "1 is      a device called 310P\n" in run("explain", "--name", "huawei.com/Ascend310P").stdout


def test_marks_of_a_name_are_distinguished(run: Run) -> None:
    """What only a scheduler writes is an annotation or a label; another system's name is a resource."""
    printed = run("explain", "--name", "huawei.com/Ascend910").stdout
    assert "as an annotation or label written by its scheduler only" in printed
    assert "a name of another system" in printed
    assert "scheduler only" not in run("explain", "--name", "huawei.com/Ascend910B").stdout
    assert "written to pods that run in its keys" in run("explain", "--name", "tensor-fusion.ai/enabled").stdout


def test_one_key_or_several_beside(run: Run) -> None:
    """The verb follows their number."""
    assert "if nvidia.com/gpumem is missing too" in " ".join(
        run("explain", "--name", "nvidia.com/gpumem-percentage").stdout.split()
    )
    assert "if enflame.com/drs-gcu and enflame.com/vgcu are missing too" in " ".join(
        run("explain", "--name", "enflame.com/gcu").stdout.split()
    )


def test_no_other_hardware_instead(run: Run) -> None:
    """A chip that nobody knows is refused with those that are known, and none of them is written instead."""
    pod = (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n  - name: main\n    image: i\n"
        "    resources: {limits: {huawei.com/Ascend910B5: 1, huawei.com/Ascend910B5-memory: 2000}}\n"
    )
    printed = " ".join(run("explain", "-f", "-", stdin=pod).stdout.split())
    assert "VGW313" in printed
    assert "known are huawei.com/Ascend{chip}, with 910A, 910B, 910B2," in printed
    assert "did you mean" not in printed
    assert "this instead" not in printed


def test_a_refusal_names_every_way(run: Run) -> None:
    """Where a text of the pod is misspelled, the text that was meant is in the refusal."""
    pod = (
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\n  annotations: {tke.cloud.tencent.com/app-class: onlin}\n"
        "spec:\n  containers:\n  - name: main\n    image: i\n"
        "    resources: {limits: {tke.cloud.tencent.com/qgpu-memory: 4}}\n"
    )
    printed = " ".join(run("explain", "-f", "-", stdin=pod).stdout.split())
    assert "needs the annotation tke.cloud.tencent.com/app-class: online" in printed


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
        ("deviceclass.resource.kubernetes.io/", "is not a key of any vendor"),
        ("example.com/fpga", "`vgpu-webhook vendors` lists the keys"),
    ],
)
def test_unknown_keys(run: Run, name: str, near: str) -> None:
    """Exit 1, with what was probably meant."""
    result = run("explain", "--name", name)
    assert (result.exit_code, result.stdout) == (1, "")
    assert near in result.stderr
