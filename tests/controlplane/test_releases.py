"""Other releases of Kubernetes than the pinned one: what is built for them, and which were run."""

from pathlib import Path

import pytest
import yaml

from . import build, releases
from .modules import consumer

ROOT = Path(__file__).parents[2]

OWN = """\
module k8s.io/kubernetes

go 1.22.0

require (
	github.com/blang/semver/v4 v4.0.0
	k8s.io/api v0.0.0
	k8s.io/sample-apiserver v0.0.0
)

replace (
	k8s.io/api => ./staging/src/k8s.io/api
	k8s.io/sample-apiserver => ./staging/src/k8s.io/sample-apiserver
)
"""
CONSUMER = """\
module vgpu-webhook/tests/controlplane

go 1.22.0

require (
	github.com/blang/semver/v4 v4.0.0
	k8s.io/api v0.0.0
)

replace (
	k8s.io/api => k8s.io/api v0.30.14
)

require k8s.io/kubernetes v1.30.14
exclude k8s.io/sample-apiserver v0.0.0
"""


def test_modules_of_another_release() -> None:
    """Staging modules have the published version, dependencies those of the release, and the examples are left out."""
    assert consumer(OWN, "1.30.14", "v0.30.14") == CONSUMER


@pytest.mark.parametrize("version", ["1.30", "v1.30.14", "latest"])
def test_no_release(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is no release is an error that shows how one is written."""
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setenv("KUBERNETES", version)
    with pytest.raises(build.BinariesMissingError, match=r"write a release, as in KUBERNETES=1\.30\.14"):
        build.find()


def test_older_releases_are_known() -> None:
    """Versions are compared as numbers, and those of vendors too."""
    assert releases.older("v1.9.3", "1.30")
    assert releases.older("v1.30.14-eks-1a2b", "1.31")
    assert not releases.older("v1.31.0", "1.31")


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
