"""``vgpu-webhook test``: cases that pass, fail, are recorded and cannot be read."""

import shutil
from pathlib import Path

from tests.cli.conftest import SHARES, Run

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
    as_built_in = {"mappings": tmp_path / "nvidia.yaml", "settings": tmp_path / "none.yaml"}
    as_built_in["mappings"].write_text("extends: nvidia\n")
    as_built_in["settings"].write_text("")
    options = [part for option, file in as_built_in.items() for part in (f"--{option}", str(file))]
    result = run("test", str(tmp_path), *options)
    assert (result.exit_code, result.stdout) == (0, f"{len(some)} cases: {len(some)} as expected, 0 not\n")


def test_recorded_and_compared(run: Run, tmp_path: Path) -> None:
    """`--update` writes what becomes of it; a later difference is shown as one."""
    case(
        tmp_path / "a",
        pod=f"{SHARE}---{DEPLOYMENT}".replace("gpu: 1", "gpumem: 3000"),
        namespace="apiVersion: v1\nkind: Namespace\nmetadata: {name: ns}",
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
    assert result.exit_code == 1
    assert "--- expected.yaml as recorded" in result.stdout
    assert "schedulerName: volcano" in result.stdout
    assert (tmp_path / "a/expected.yaml").read_text() == recorded


def test_what_is_denied_stores_nothing(run: Run, tmp_path: Path) -> None:
    """A record of before goes."""
    case(tmp_path / "a", pod=SHARE.replace("8", "8Gi"), expected="kind: Pod\n")
    assert "-kind: Pod" in run("test", str(tmp_path)).stdout
    assert run("test", str(tmp_path), "--update").exit_code == 0
    assert sorted(each.name for each in (tmp_path / "a").iterdir()) == ["pod.yaml", "report.txt"]


def test_folders_without_cases_are_a_mistake(run: Run, tmp_path: Path) -> None:
    """Otherwise a pipeline with a misspelled folder would be green."""
    for place, told in ((tmp_path, "no case"), (tmp_path / "none", "no such folder")):
        result = run("test", str(place))
        assert result.exit_code == 1
        assert f"{place}: {told}" in result.stderr


def test_what_a_person_wrote_is_not_recorded(run: Run, tmp_path: Path) -> None:
    """`--update` leaves a case alone that has only an expectation; the report has the format of annotations, too."""
    case(tmp_path / "a", pod=DEPLOYMENT, expect="warnings: []")
    result = run("test", str(tmp_path), "--update", "-o", "github", *SHARES)
    assert (result.exit_code, sorted(each.name for each in (tmp_path / "a").iterdir())) == (
        1,
        ["expect.yaml", "pod.yaml"],
    )
    assert result.stdout.startswith(f"::error file={tmp_path}/a/pod.yaml,line=1,title=case::warnings should be none")
