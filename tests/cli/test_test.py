"""``vgpu-webhook test``: cases that pass, fail, are recorded and cannot be read."""

import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import Run

GOLDEN = Path(__file__).parents[1] / "cases"
SHARE = """
apiVersion: v1
kind: Pod
metadata: {name: train}
spec:
  containers:
  - {name: main, image: app, resources: {limits: {aliyun.com/gpu-mem: 8}}}
"""
DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: train, namespace: other}
spec:
  template:
    spec:
      containers:
      - {name: main, image: app, resources: {limits: {nvidia.com/gpu: 1}}}
"""


def case(folder: Path, **files: str) -> Path:
    """Write a case; ``pod`` stands for ``pod.yaml``."""
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / f"{name}.yaml").write_text(text)
    return folder


def test_this_projects_own_cases(run: Run, tmp_path: Path) -> None:
    """All of them, with folders of mappings and settings among them; the summary counts them."""
    some = [each for each in GOLDEN.iterdir() if each.name.startswith(("guard", "shim", "inactive"))]
    for each in some:
        shutil.copytree(each, tmp_path / each.name)
    result = run("test", str(tmp_path))
    assert (result.exit_code, result.stdout) == (0, f"{len(some)} cases: {len(some)} as expected, 0 not\n")


def test_what_a_person_expects(run: Run, tmp_path: Path) -> None:
    """Codes, and a part of what is stored; maps may have more keys, containers are found by name."""
    expect = "denied: VGW303\n"
    case(tmp_path / "denied", pod=SHARE.replace("8", "8Gi"), expect=expect)
    expect = """
    warnings: [VGW101, VGW509]
    stored:
      spec:
        template:
          spec:
            schedulerName: hami-scheduler
            containers: [{name: main, resources: {limits: {nvidia.com/gpu: "1"}}}]
    """
    case(tmp_path / "workload", pod=DEPLOYMENT, expect=expect)
    assert run("test", str(tmp_path)).exit_code == 0


@pytest.mark.parametrize(
    "expect, told",
    [
        ("denied: VGW401", "should be denied with VGW401: allowed: changed"),
        ("warnings: []", "warnings should be none, and are VGW101, VGW509"),
        (
            "stored: {spec: {template: {spec: {schedulerName: mine}}}}",
            "spec.template.spec.schedulerName should be 'mine', and is 'hami-scheduler'",
        ),
        (
            "stored: {spec: {template: {spec: {containers: [{name: other}]}}}}",
            "spec.template.spec.containers.other should be {'name': 'other'}, and is None",
        ),
        ("stored: {spec: {replicas: 2}}", "spec.replicas should be 2, and is None"),
        ("deny: VGW401", "expect.yaml:1: deny: unknown key"),
        ("denied: VGW999", "expect.yaml:1: denied: should be a code of a reason"),
        ("- denied", "expect.yaml:1: "),
        ("", "expect.yaml: contains 0 documents, not one"),
    ],
)
def test_what_differs_is_told(run: Run, tmp_path: Path, expect: str, told: str) -> None:
    """In a line below the case; the exit code is neither that of success nor that of a usage error."""
    result = run("test", str(case(tmp_path / "case", pod=DEPLOYMENT, expect=expect)))
    assert result.exit_code == 2
    assert result.stdout.startswith(f"× {tmp_path}/case\n")  # noqa: RUF001
    assert told in result.stdout
    assert result.stdout.endswith("1 cases: 0 as expected, 1 not\n")


def test_recorded_and_compared(run: Run, tmp_path: Path) -> None:
    """`--update` writes what becomes of it; a later difference is shown as one."""
    case(
        tmp_path / "a", pod=f"{SHARE}---{DEPLOYMENT}", namespace="apiVersion: v1\nkind: Namespace\nmetadata: {name: ns}"
    )
    assert "nothing is expected: write expect.yaml" in run("test", str(tmp_path)).stdout
    assert run("test", str(tmp_path), "--update").exit_code == 0
    recorded = (tmp_path / "a/expected.yaml").read_text()
    assert (tmp_path / "a/report.txt").read_text().startswith("pod/train:\nallowed: namespace not opted in\n")
    assert '"policy":"000000000000"' in recorded
    assert run("test", str(tmp_path)).exit_code == 0
    settings = tmp_path / "settings.yaml"
    settings.write_text("target: volcano\n")
    result = run("test", str(tmp_path), "--settings", str(settings))
    assert result.exit_code == 2
    assert "--- expected.yaml as recorded" in result.stdout
    assert "schedulerName: volcano" in result.stdout
    assert (tmp_path / "a/expected.yaml").read_text() == recorded


def test_what_is_denied_stores_nothing(run: Run, tmp_path: Path) -> None:
    """A record of before goes."""
    case(tmp_path / "a", pod=SHARE.replace("8", "8Gi"), expected="kind: Pod\n")
    assert "-kind: Pod" in run("test", str(tmp_path)).stdout
    assert run("test", str(tmp_path), "--update").exit_code == 0
    assert sorted(each.name for each in (tmp_path / "a").iterdir()) == ["pod.yaml", "report.txt"]


@pytest.mark.parametrize(
    "files, told",
    [
        ({"pod": "a: ["}, "pod.yaml:1: "),
        ({"pod": "apiVersion: v1\nkind: Pod\nspec: {containers: 1}\n"}, "pod.yaml:3: spec.containers"),
        ({"pod": SHARE, "settings": "tarqet: nvidia"}, "settings.yaml:1: tarqet: unknown key"),
        ({"pod": SHARE, "expect": "denied: VGW303", "exspected": ""}, "is not read: exspected.yaml"),
        ({"expect": "warnings: []"}, "pod.yaml: No such file or directory"),
        ({"pod": "", "expect": "warnings: []"}, "pod.yaml: contains no pod, and nothing with pods"),
        ({"pod": "{apiVersion: v1, kind: Service, metadata: {name: a}}", "expect": "{}"}, "pod.yaml: contains no pod"),
        ({"pod": SHARE, "namespace": "{apiVersion: v1, kind: Namespace, metadata: 1}"}, "namespace.yaml:1: metadata"),
    ],
)
def test_a_case_that_cannot_be_read_fails(run: Run, tmp_path: Path, files: dict[str, str], told: str) -> None:
    """The others are run."""
    case(tmp_path / "bad", **files)
    case(tmp_path / "good", pod=DEPLOYMENT, expect="warnings: [VGW101, VGW509]")
    result = run("test", str(tmp_path))
    assert result.exit_code == 2
    assert told in result.stdout
    assert "2 cases: 1 as expected, 1 not" in result.stdout


def test_folders_without_cases_are_a_mistake(run: Run, tmp_path: Path) -> None:
    """Otherwise a pipeline with a misspelled folder would be green."""
    for place, told in ((tmp_path, "no case"), (tmp_path / "none", "no such folder")):
        result = run("test", str(place))
        assert result.exit_code == 1
        assert f"{place}: {told}" in result.stderr


def test_what_a_person_wrote_is_not_recorded(run: Run, tmp_path: Path) -> None:
    """`--update` leaves a case alone that has only an expectation; the report has the format of annotations, too."""
    case(tmp_path / "a", pod=DEPLOYMENT, expect="warnings: []")
    result = run("test", str(tmp_path), "--update", "-o", "github")
    assert (result.exit_code, sorted(each.name for each in (tmp_path / "a").iterdir())) == (
        2,
        ["expect.yaml", "pod.yaml"],
    )
    assert result.stdout.startswith(f"::error file={tmp_path}/a/pod.yaml,line=1,title=case::warnings should be none")


def test_an_unreadable_mapping_fails_its_case(run: Run, tmp_path: Path) -> None:
    """With file, line and path."""
    (case(tmp_path / "a", pod=DEPLOYMENT, expect="{}") / "mappings").mkdir()
    (tmp_path / "a/mappings/ours.yaml").write_text("vendor: ours\nkeyz: {}\n")
    result = run("test", str(tmp_path))
    assert result.exit_code == 2
    assert "mappings/ours.yaml:2: keyz: unknown key" in result.stdout
