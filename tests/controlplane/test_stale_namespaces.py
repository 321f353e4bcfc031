"""The watch of namespaces is behind: whoever has just opted in is treated all the same."""

import threading
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from tests.waiting import PATIENCE

from .held_back import held_back
from .in_cluster import installed
from .objects import namespace
from .plane import ControlPlane
from .processes import Process, free_ports
from .test_cluster_mode import create, memory_of

pytestmark = [pytest.mark.controlplane, pytest.mark.once("loss")]

LABEL = "vgpu-webhook.io/inject"
PLACES = [f"stale-{number}" for number in range(4)]


class Behind:
    """A webhook of which the namespaces can be held back."""

    def __init__(self, plane: ControlPlane, through: threading.Event, process: Process, plain: int) -> None:
        self.plane = plane
        self.through = through
        self.process = process
        self._plain = plain

    def opt_in(self, name: str, value: str | None = "enabled") -> None:
        """Label a namespace."""
        patch: dict[str, Any] = {"metadata": {"labels": {LABEL: value}}}
        self.plane.client.patch("v1", "namespaces", name, patch).accepted()

    def count(self, found: str) -> float:
        """How often a doubt ended so."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._plain}/metrics", timeout=PATIENCE) as response:
            lines = response.read().decode().splitlines()
        [line] = [
            line for line in lines if line.startswith(f'vgpu_webhook_namespace_rechecks_total{{result="{found}"}}')
        ]
        return float(line.rpartition(" ")[2])


@pytest.fixture(scope="module")
def behind(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Behind]:
    """It knows the namespaces, none of which has opted in but the one that shows that it is called."""
    folder = tmp_path_factory.mktemp("stale")
    for name in PLACES:
        control_plane.create_namespace(namespace(name))
    control_plane.create_namespace(namespace("stale-called", {LABEL: "enabled"}))
    [plain] = free_ports(1)
    with held_back(control_plane, "/api/v1/namespaces", folder) as (through, kubeconfig):
        options = ("--kubeconfig", str(kubeconfig), "--plain-listen", f"127.0.0.1:{plain}")
        with installed(control_plane, folder, "stale-webhook", "bareDevices: share\n", *options) as process:

            def called() -> bool:
                return memory_of(create(control_plane.client, "probe", where="stale-called")) is not None

            control_plane.wait_until(called, "called")
            yield Behind(control_plane, through, process, plain)


def test_each_pod_of_who_has_just_opted_in_is_treated(behind: Behind) -> None:
    """Nothing is let through because of a stale watch, and the staleness is reported."""
    behind.through.clear()
    try:
        for name in PLACES:
            assert "nvidia.com/gpumem" not in str(create(behind.plane.client, "before", where=name).accepted())
        for name in PLACES[:3]:
            behind.opt_in(name)
        behind.plane.wait_until(lambda: all(called(behind, name) for name in PLACES[:3]), "API servers know the labels")
        for _ in range(3):
            for name in PLACES[:3]:
                assert memory_of(create(behind.plane.client, "treated", where=name)) is not None
        assert behind.count("stale") >= 9
        assert "namespace_stale" in behind.process.log.read_text()
    finally:
        behind.through.set()


def test_a_label_taken_away_again(behind: Behind) -> None:
    """Once the watch has caught up, no call is stale any more."""
    name = PLACES[-1]
    behind.opt_in(name)
    behind.plane.wait_until(lambda: called(behind, name), "treated")
    behind.opt_in(name, None)
    behind.plane.wait_until(lambda: not called(behind, name), "let through")
    before = behind.count("stale")
    for _ in range(5):
        create(behind.plane.client, "plain", where="stale-called").accepted()
    assert behind.count("stale") == before


def called(behind: Behind, name: str) -> bool:
    """Whether a pod is treated."""
    answer = create(behind.plane.client, "called", where=name)
    return answer.status < 300 and memory_of(answer) is not None
