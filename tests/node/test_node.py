"""The node of these tests: nothing of it is left, however the run ends."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.controlplane.client import wait_until
from tests.parts import skip_part

from . import programs
from .guard import CGROUPS

pytestmark = [pytest.mark.node, pytest.mark.long]

ROOT = Path(__file__).parents[2]
RUN = """
import pathlib
import sys
from tests.node import programs, small_images
from tests.node.cluster import Cluster, NODE
cluster = Cluster(programs.find(), pathlib.Path(sys.argv[2]))
for archive in small_images.all_images():
    cluster.load(archive)
cluster.create_namespace({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
container = {"name": "main", "image": small_images.GPU, "args": ["hold"]}
pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "held"}, "spec": {"containers": [container], "nodeName": NODE}}
cluster.client.create(pod, "team").accepted()
cluster.wait_until(lambda: cluster.client.get("v1", "pods", "held", "team").body["status"]["phase"] == "Running", "runs")
if sys.argv[1] == "end":
    cluster.__exit__()
print(cluster.pid if sys.argv[1] == "crash" else 0, cluster.folder, flush=True)
if sys.argv[1] == "crash":
    sys.stdin.read()
"""


def left(folder: Path) -> list[str]:
    """What there is of a node: control groups, mounts, processes, files."""
    # In version 2 a control group is in the root, in version 1 in the folder of each hierarchy.
    groups = [str(each) for each in (CGROUPS / folder.name, *CGROUPS.glob(f"*/{folder.name}")) if each.exists()]
    mounts = [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(folder) in line]
    processes = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line, group = each.read_text(), (each.parent / "cgroup").read_text()
        except OSError:
            continue
        if str(folder) in line or f"/{folder.name}/" in group:
            processes.append(line.replace("\0", " "))
    files = [str(folder)] if folder.exists() else []
    return groups + mounts + processes + files


@pytest.mark.parametrize("how", ["end", "crash"])
def test_nothing_is_left(how: str, tmp_path: Path) -> None:
    """A node with a running container ends, or the process that started it is killed: nothing of it is left."""
    reason = programs.why_not()
    if reason:
        skip_part("node", f"no node can be started here: {reason}")
    interfaces = {each.name for each in Path("/sys/class/net").iterdir()}
    kernel = [Path("/proc/sys", name).read_text() for name in ("vm/overcommit_memory", "kernel/panic")]
    with subprocess.Popen(
        [sys.executable, "-c", RUN, how, str(tmp_path)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as run:
        assert run.stdout is not None
        pid, text = run.stdout.readline().split()
        folder = Path(text)
        if how == "crash":
            assert len(left(folder)) > 5
            assert Path(f"/proc/{pid}").exists()
            os.kill(run.pid, signal.SIGKILL)
    wait_until(lambda: not left(folder), "everything ended", 60)
    assert {each.name for each in Path("/sys/class/net").iterdir()} == interfaces
    assert [Path("/proc/sys", name).read_text() for name in ("vm/overcommit_memory", "kernel/panic")] == kernel
