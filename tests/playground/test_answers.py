"""What the playground answers: the same as `mutate` and `explain`, and within bounds whatever is written."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from benchmarks.calls import count_calls
from webhook.cli import main
from webhook.cli.options import PolicyOptions
from webhook.cli.pages import MAX_OBJECTS, MAX_TEXT, PageState, Playground
from webhook.cli.policy_source import sourced_policy

ROOT = Path(__file__).parents[2]
SOURCED = sourced_policy(PolicyOptions())
PAGE = Playground(SOURCED)
EXAMPLES: list[dict[str, str]] = PAGE.start()["examples"]
POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: c, resources: {limits: {KEY: 1}}}]}\n"
SHARE, WRONG = POD.replace("KEY", "nvidia.com/gpumem"), POD.replace("KEY", "nvidia.com/gpumemory")


def answered(**texts: str) -> dict[str, Any]:
    """The answer for these texts, which JSON can carry."""
    found: dict[str, Any] = json.loads(json.dumps(PAGE.answer(PageState(**texts))))
    return found


def problems(**texts: str) -> list[str]:
    """The problems of these texts, with their tabs and lines."""
    return [f"{each['tab']}:{each['line']}: {each['text']}" for each in answered(**texts)["problems"]]


@pytest.mark.parametrize("example", [each for each in EXAMPLES if "manifest" in each], ids=lambda each: each["name"])
def test_as_the_commands_print_it(example: dict[str, str]) -> None:
    """Of every example: the explanation, the difference and the stored objects are those of the commands."""
    found = answered(manifest=example["manifest"], namespace=example.get("namespace", ""))
    texts = example.get("namespace", "") + "---\n" + example["manifest"]
    run = CliRunner()
    explained = json.loads(run.invoke(main, ["explain", "-f", "-", "-o", "json"], input=texts).stdout)["objects"]
    shown = found["objects"]
    for each in shown:
        for pod in each["pods"]:
            if pod["correction"] is not None:
                del pod["correction"]["text"]
    assert [each["pods"] for each in shown] == [each["pods"] for each in explained]
    mutated = run.invoke(main, ["mutate", "-f", "-", "-o", "diff"], input=texts)
    assert "".join(f"{line}\n" for each in shown for line in each["diff"]) == mutated.stdout
    stored = run.invoke(main, ["mutate", "-f", "-"], input=texts)
    assert "---\n".join(each["stored"] for each in shown if each["stored"] is not None) == stored.stdout
    assert ("denied" in {each["outcome"] for each in shown}) == (stored.exit_code == 2)
    for each in shown:
        assert all(found["text"] in stored.stderr for found in each["findings"])
        denied = [pod["denial"]["message"] for pod in each["pods"] if pod["sent"] and not pod["allowed"]]
        errors = [found["text"] for found in each["findings"] if found["level"] == "error"]
        assert all(message in text for message, text in zip(denied, errors, strict=True))


def test_namespace_target_mappings_and_settings() -> None:
    """Each of them counts."""
    (changed,) = answered(manifest=SHARE)["objects"]
    assert changed["outcome"] == "changed"
    out = "apiVersion: v1\nkind: Namespace\nmetadata: {name: default}\n"
    (unchanged,) = answered(manifest=SHARE, namespace=out)["objects"]
    assert (unchanged["outcome"], unchanged["diff"]) == ("unchanged", [])
    assert "lacks the label" in unchanged["notes"][0]
    count = POD.replace("KEY", "nvidia.com/gpu")
    assert answered(manifest=count)["objects"][0]["outcome"] == "unchanged"
    (share,) = answered(manifest=count, settings="bareDevices: share")["objects"]
    assert "gpumem" in share["stored"]
    mapping = (ROOT / "examples/mappings/acme.yaml").read_text()
    found = answered(manifest=POD.replace("KEY", "acme.example/vgpu-memory"), mappings=mapping)
    assert "acme" in found["targets"]
    assert found["policy"]["digest"] != SOURCED.policy.digest
    assert "acme.example/vgpu: '1'" in found["objects"][0]["stored"]
    (translated,) = answered(manifest=POD.replace("KEY", "aliyun.com/gpu-mem"), target="nvidia")["objects"]
    assert "nvidia.com/gpumem" in translated["stored"]


def test_a_denial_has_its_remedy() -> None:
    """With what to write instead, as YAML."""
    (denied,) = answered(manifest=WRONG)["objects"]
    assert (denied["outcome"], denied["stored"], denied["diff"]) == ("denied", None, [])
    (pod,) = denied["pods"]
    assert "nvidia.com/gpumem: 1" in pod["correction"]["text"]


@pytest.mark.parametrize(
    "texts, told",
    [
        ({"manifest": "a: [\n"}, "manifest:1: not YAML: "),
        ({"manifest": "- a\n"}, "manifest:1: the document is not a mapping"),
        ({"manifest": SHARE, "namespace": "a: {"}, "namespace:1: not YAML"),
        ({"manifest": "\ud800"}, "manifest:None: not Unicode text"),
        ({"mappings": "vendor: x\n"}, "mappings:1: "),
        ({"settings": "bareDevices: maybe\n"}, "settings:1: bareDevices"),
        ({"settings": "{}\n---\n{}\n"}, "settings:None: more than one document"),
        ({"target": "nvidai"}, "target:None: no vendor is called 'nvidai' (did you mean `nvidia`?)"),
    ],
)
def test_mistakes_have_their_place(texts: dict[str, str], told: str) -> None:
    """The tab, and the line where there is one."""
    assert told in problems(**texts)[0]


def test_findings_have_their_line() -> None:
    """Denials of several pods, requests outside of pods, keys in wrong places, and amounts without a value."""
    (job,) = answered(manifest=(Path(__file__).parent / "templates.yaml").read_text())["objects"]
    found = {(each["level"], each["line"]): each["text"] for each in job["findings"]}
    assert [line for level, line in found if level == "error"] == [16, 28]
    assert "spec.nvidia.com/gpu" in found["warning", 7]
    assert "nothing reads nvidia.com/gpu in spec" in found["warning", 20]
    assert "has no value: read as 0" in found["warning", 26]


def test_a_small_pod_takes_few_calls() -> None:
    """About 16,000 once a first one was answered: a twentieth of a second."""
    answered(manifest=SHARE)
    assert count_calls(lambda: answered(manifest=SHARE.replace("name: a", "name: b"))) < 24_000


def alias_bomb(levels: int) -> str:
    """Ten times as many values with each level."""
    names = "abcdefghij"
    first = f"a: &a [{', '.join(['x'] * 10)}]\n"
    return first + "".join(
        f"{names[at]}: &{names[at]} [{', '.join([f'*{names[at - 1]}'] * 10)}]\n" for at in range(1, levels)
    )


LONG = f"a: &a {'x' * 20_000}\n"


@pytest.mark.parametrize(
    "manifest, told",
    [
        pytest.param("a" * (MAX_TEXT + 1), f"longer than {MAX_TEXT // 1024} KiB", id="long"),
        pytest.param(alias_bomb(7), "more than 100000 values with aliases expanded", id="aliases"),
        pytest.param(
            LONG + f"b: [{'*a, ' * 10_000}]\n", ":2: aliases add more than 1024 KiB of text", id="long aliases"
        ),
        pytest.param(
            LONG + "".join(f"? *a\n: {at}\n" for at in range(10_000)), "aliases add more than 1024 KiB", id="alias keys"
        ),
        pytest.param('{"a":' * 50_000, "nested deeper than 150 levels", id="deep JSON"),
        pytest.param(
            "---\na: 1\n" * (MAX_OBJECTS + 1), f"only the first {MAX_OBJECTS} documents are read", id="documents"
        ),
        pytest.param("---\na: [\n" * 60, f"only the first {MAX_OBJECTS} documents are read", id="broken documents"),
    ],
)
def test_hostile_manifests_are_bounded(manifest: str, told: str) -> None:
    """Each of them is a problem, and takes no more than seconds."""
    assert told in "\n".join(problems(manifest=manifest))


def test_many_objects_are_bounded() -> None:
    """Only so many objects of a list, and pods of an object, are shown."""
    items = [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"a{at}"}, "spec": {"containers": []}}
        for at in range(60)
    ]
    found = answered(manifest=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    assert len(found["objects"]) == MAX_OBJECTS
    assert f"only the first {MAX_OBJECTS} objects are shown" in found["problems"][0]["text"]
    template = {"spec": {"containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpumem": 1}}}]}}
    many = {
        "apiVersion": "a/v1",
        "kind": "B",
        "spec": {f"a{at}": {"template": template} for at in range(MAX_OBJECTS + 9)},
    }
    (explained,) = answered(manifest=json.dumps(many))["objects"]
    assert (explained["outcome"], len(explained["pods"])) == ("changed", MAX_OBJECTS)
