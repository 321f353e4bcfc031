"""Break-glass: while a replica lives, with the chart's rights, pods come through unchanged; the release again undoes it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controlplane import in_cluster, objects
from tests.controlplane.plane import ControlPlane
from tests.controlplane.processes import Process, free_ports
from tests.controlplane.written import STATUS
from webhook.cluster.registration.wanted import MUTATING, NAME, VALIDATING

from .break_glass import PAGES, break_glass, commands
from .charts import INJECT, RELEASE, REQUIRED, Chart

pytestmark = [pytest.mark.controlplane, pytest.mark.once("loss")]

NAMESPACE = "gpu-broken-glass"
TEAM = "broken-glass"


@pytest.fixture
def where(helm: Chart, control_plane: ControlPlane) -> Iterator[list[str]]:
    """Options that lead Helm to a release."""
    options = ["--namespace", NAMESPACE, "--kubeconfig", str(control_plane.kubeconfig)]
    helm.run("install", RELEASE, str(helm.folder), "--create-namespace", *REQUIRED, *options)
    yield options
    helm.run("uninstall", RELEASE, *options)


@pytest.fixture
def replica(control_plane: ControlPlane, where: list[str], tmp_path: Path) -> Iterator[Process]:
    """Its only replica, which the API server reaches by a URL."""
    token = control_plane.client.account_token(RELEASE, NAMESPACE)
    kubeconfig = control_plane.write_kubeconfig(tmp_path / "kubeconfig", token=token)
    (port,) = free_ports(1)
    options = ("--kubeconfig", str(kubeconfig), "--release-namespace", NAMESPACE, "--ca-settle", "1")
    with Process(in_cluster.serve_command(control_plane, port, *options), tmp_path / "replica.log") as process:
        in_cluster.wait_ready(control_plane, process)
        yield process


def test_while_a_replica_lives(helm: Chart, control_plane: ControlPlane, where: list[str], replica: Process) -> None:
    """What it writes at once otherwise, it may not write any more."""
    control_plane.create_namespace(objects.namespace(TEAM, {"vgpu-webhook.io/inject": "enabled"}))

    def configurations() -> list[int]:
        return [
            control_plane.client.get(objects.ADMISSION, kind.plural, NAME).status for kind in (MUTATING, VALIDATING)
        ]

    def touched() -> bool:
        answer = control_plane.client.create(objects.pod("share"), TEAM, dry_run=True)
        assert answer.status == 201, answer.body
        return STATUS in answer.body["metadata"].get("annotations", {})

    def refused() -> bool:
        replica.check()
        said = replica.log.read_text()[before:]
        return any(
            f"the {MUTATING.noun} {NAME} {what}" in said for what in ("cannot be updated", "is not created again")
        )

    control_plane.wait_until(touched, "treated")
    control_plane.wait_until(lambda: configurations() == [200, 200], "both written")
    before = len(replica.log.read_text())
    break_glass(control_plane)
    control_plane.wait_until(refused, "an attempt to write it again")
    assert configurations() == [404, 404]
    # The API server drops a webhook when its own watch has seen the deletion, which may be after the replica's.
    control_plane.wait_until(lambda: not touched(), "through unchanged")
    assert configurations() == [404, 404]
    helm.run("upgrade", RELEASE, str(helm.folder), *INJECT, "--reset-then-reuse-values", *where)
    control_plane.wait_until(touched, "treated again")
    replica.check()


def test_everybody_says_the_same(helm: Chart) -> None:
    """The pages, and what Helm prints; without what replicas do not write, or the chart does not grant."""
    first, second = commands(PAGES[0])
    assert commands(PAGES[1]) == [first, second]
    for more, expected in (
        ((), [first, second]),
        (("--set", "rbac.create=false"), [second]),
        (("--set", "registration.mode=static"), [second]),
    ):
        printed = helm.notes("{}", *REQUIRED, *more)
        assert [line.strip() for line in printed.splitlines() if "kubectl delete" in line] == expected
