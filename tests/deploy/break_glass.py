"""What lets pods through at once, as the pages say it."""

import re
import shlex
import subprocess
from typing import Final

from tests.controlplane.plane import ControlPlane

from .charts import ROOT

PAGES: Final = ("install.md", "runbook.md")
_BLOCK: Final = re.compile(r"```sh\n((?:kubectl delete --ignore-not-found .*\n)+)```")


def commands(page: str) -> list[str]:
    """The lines of the one block of a page."""
    [block] = _BLOCK.findall((ROOT / "docs" / page).read_text())
    return str(block).splitlines()


def break_glass(plane: ControlPlane) -> None:
    """Run what the documentation says."""
    for line in commands(PAGES[0]):
        kubectl, *arguments = shlex.split(line)
        command = [str(plane.binaries.path(kubectl)), "--kubeconfig", str(plane.kubeconfig), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr
