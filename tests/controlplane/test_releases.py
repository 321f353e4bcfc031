"""Other releases of Kubernetes than the pinned one: what is built for them, and which were run."""

from pathlib import Path

import yaml

from . import build, releases

ROOT = Path(__file__).parents[2]


def test_recorded_releases_are_those_of_the_workflow() -> None:
    """What is run nightly is listed, oldest first; the oldest that the chart installs on and the pinned one are recorded."""
    nightly = releases.nightly()
    assert [version for version in nightly if version in releases.recorded()] == list(releases.recorded())
    oldest = yaml.safe_load((ROOT / "deploy/chart/Chart.yaml").read_text())["kubeVersion"]
    assert nightly[0].startswith(oldest.removeprefix(">=").partition("-")[0].rpartition(".")[0])
    assert {nightly[0], build.pinned()} <= releases.recorded().keys()


def test_skipped_tests_say_which_release_they_need() -> None:
    """Nothing else keeps a test from running on an older release, and a release is not older than itself."""
    for version, row in releases.recorded().items():
        for test, reason in row["skipped"].items():
            needed = reason.removeprefix(releases.NEEDS).partition(":")[0]
            assert releases.older(version, needed), f"{test} on {version}: {reason}"
