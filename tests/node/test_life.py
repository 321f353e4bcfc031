"""The release's life on a real node, while pods are created all the time: none is left untreated, and none refused."""

import pytest

from tests.deploy.charts import RELEASE

from .processes import process_of
from .releases import Release

pytestmark = [pytest.mark.node, pytest.mark.once("loss")]


def test_installed_as_the_chart_says(release: Release) -> None:
    """Two replicas by the defaults, each as its user, without rights, with a root that nobody can write to."""
    assert len(release.ready()) == 2
    [pod, _] = release.replicas()
    process = process_of(pod, "webhook")
    status = dict(line.split(":\t", 1) for line in (process / "status").read_text().splitlines() if ":\t" in line)
    assert status["Uid"].split() == ["65532"] * 4
    assert set(status["CapEff"]) == set(status["CapBnd"]) == {"0"}
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    fields = [line.split() for line in (process / "mountinfo").read_text().splitlines()]
    mounts = {each[4]: each[5].split(",")[0] for each in fields}
    assert mounts["/"] == "ro"
    assert mounts["/tmp"] == "rw"
    assert (process / "cmdline").read_text().split("\0")[1].endswith("vgpu-webhook")
    registration = release.registration()
    assert registration is not None
    assert {each["clientConfig"]["service"]["name"] for each in registration["webhooks"]} == {RELEASE}


def test_helm_test_passes(release: Release) -> None:
    """The doctor in a pod of its own, with its own rights, finds nothing broken; Helm shows what it says."""
    release.plane.wait_until(release.shim_ready, "shim on the node", 120)
    printed = release.run("test", "--logs")
    assert "Phase:          Succeeded" in printed
    for check in ("api-server", "replicas", "registration", "bundle", "shim"):
        assert f"✓ {check}" in printed
