"""Helm, built from its Go modules: both versions that are in use; and a program that renders again and again.

``HELM`` (the path of a program) comes first, for the first of them. ``python -m tests.deploy.helm`` builds that ahead of a
test run and prints where it is.
"""

import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from tests.go_program import BinariesMissingError, GoProgram

VERSIONS = ("v3", "v4")
WITHOUT_GO = (
    "helm is built with Go for the tests of the chart: install Go 1.26 from https://go.dev/dl/ (any from 1.21 on fetches "
    "what it lacks)"
)
OR_HELM = ", or set HELM to the path of Helm 3.14 or newer"


@dataclass(frozen=True, slots=True)
class Helm:
    """One version of Helm: `v3` or `v4`."""

    version: str

    def program(self) -> Path:
        """Return where the program is, built now if this machine has never built it."""
        source = Path(__file__).parent / self.version
        module = f"helm.sh/helm/{self.version}"
        text = (source / "go.mod").read_text()
        name = f"helm-{self.version}"
        flags = " ".join(_link_flags(module, text))
        package = f"{module}/cmd/helm"
        helm = GoProgram(name, source, ("go.mod", "go.sum"), package, flags, WITHOUT_GO + OR_HELM)
        return helm.program("HELM" if self.version == VERSIONS[0] else "")


class HelmError(Exception):
    """Helm failed; the text is its message."""


Renderer: TypeAlias = Callable[..., tuple[str, str]]
"""Takes what `helm template` does, and returns what it prints, and the notes that `helm install` prints."""


def renderer() -> Path:
    """Return the program that renders with Helm 3's library, built now if this machine has never built it."""
    inputs = ("go.mod", "go.sum", "main.go")
    return GoProgram("helm-renderer", Path(__file__).parent / "v3", inputs, ".", "-s -w", WITHOUT_GO).program()


@contextmanager
def rendering(program: Path) -> Iterator[Renderer]:
    """Render in one process, in a tenth of the time of a process for each; a rejection is a HelmError."""
    environment = {**os.environ, "GOGC": "400", "GOMAXPROCS": "1"}
    pipe = subprocess.PIPE
    with subprocess.Popen([program], stdin=pipe, stdout=pipe, text=True, env=environment) as process:
        requests, answers = process.stdin, process.stdout
        assert requests is not None
        assert answers is not None

        def render(*arguments: str, text: str) -> tuple[str, str]:
            requests.write(json.dumps({"arguments": arguments, "text": text}) + "\n")
            requests.flush()
            answer: dict[str, str] = json.loads(answers.readline())
            if answer["error"]:
                raise HelmError(answer["error"])
            return answer["printed"], answer["notes"]

        yield render


def _link_flags(module: str, text: str) -> list[str]:
    """Tell the linker what Helm's own build does: without it the cluster of `helm template` is Kubernetes 1.20."""
    helm = re.search(rf"{module} (v\S+)", text)
    client = re.search(r"k8s\.io/client-go v0\.(\d+)\.", text)
    if helm is None or client is None:
        raise BinariesMissingError(f"go.mod requires neither {module} nor k8s.io/client-go")
    rooms = [f"{module}/pkg/chartutil", f"{module}/pkg/lint/rules"] if module.endswith("/v3") else []
    versions = [f"-X {room}.k8sVersion{part}" for room in rooms for part in ("Major=1", f"Minor={client[1]}")]
    return ["-s -w", f"-X {module}/internal/version.version={helm[1]}", *versions]
