"""Finds the binaries of a control plane, and builds them from Go modules where there are none.

``KUBEBUILDER_ASSETS`` (a folder with ``etcd``, ``kube-apiserver``, ``kubectl``) comes first. Otherwise the program of
this folder is built once: of the pinned version of Kubernetes, or of the release that ``KUBERNETES`` names.
``python -m tests.controlplane.build`` does that ahead of a test run and prints the folder.
"""

import os
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.go_program import BinariesMissingError, GoProgram, kubernetes_link_flags

from .modules import modules_of

__all__ = ["Binaries", "BinariesMissingError", "find"]

SOURCE = Path(__file__).parent
PROGRAM = "controlplane"
COMPONENTS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
REQUIRED = ("etcd", "kube-apiserver", "kubectl")
WITHOUT_GO = (
    "the control plane for tests is built with Go: install Go 1.26 from https://go.dev/dl/ (any from 1.21 "
    "on fetches what it lacks), or set KUBEBUILDER_ASSETS to a folder with etcd, kube-apiserver and kubectl "
    "(`setup-envtest use` makes one)"
)


@dataclass(frozen=True, slots=True)
class Binaries:
    """A folder that holds the components of a control plane, each under its own name."""

    folder: Path

    def path(self, component: str) -> Path:
        """Return where a component is, or fail saying why this folder does not have it."""
        path = self.folder / component
        if not path.exists():
            raise BinariesMissingError(
                f"{component} is not in {self.folder}: "
                f"unset KUBEBUILDER_ASSETS to have all of {', '.join(COMPONENTS)} built"
            )
        return path


def find() -> Binaries:
    """Return the components of a control plane, built now if this machine has never built them."""
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if assets:
        binaries = Binaries(Path(assets))
        for component in REQUIRED:
            binaries.path(component)
        return binaries
    inputs = ("go.mod", "go.sum", "main.go")
    source = _source()
    flags = kubernetes_link_flags(source / "go.mod")
    return Binaries(GoProgram(PROGRAM, source, inputs, ".", flags, WITHOUT_GO, COMPONENTS).folder())


def expansion() -> Path:
    """Return a program that expands references as the pinned release's kubelet does, built now if this machine never has."""
    inputs = ("go.mod", "go.sum", "expansion/main.go")
    return GoProgram("expansion", SOURCE, inputs, "./expansion", "-s -w", WITHOUT_GO).program()


def version() -> str:
    """The release of Kubernetes that is built: the pinned one, unless ``KUBERNETES`` names another."""
    return os.environ.get("KUBERNETES") or pinned()


def pinned() -> str:
    """The release of Kubernetes in the go.mod of this folder."""
    found = re.search(r"k8s\.io/kubernetes v(\S+)", (SOURCE / "go.mod").read_text())
    assert found is not None
    return found[1]


def _source() -> Path:
    if version() == pinned():
        return SOURCE
    go = shutil.which("go")
    if go is None:
        raise BinariesMissingError(WITHOUT_GO)
    return modules_of(version(), go, SOURCE / "main.go")


if __name__ == "__main__":
    try:
        sys.stdout.write(f"{find().folder}\n")
    except BinariesMissingError as error:
        sys.exit(f"error: {error}")
