"""krew, built from its Go modules: installs the plugin for kubectl as a user does.

``KREW`` (the path of a program) comes first.
"""

from pathlib import Path

from tests.go_program import GoProgram

WITHOUT_GO = (
    "krew is built with Go for the test of the plugin for kubectl: install Go 1.26 from https://go.dev/dl/ (any from 1.21 "
    "on fetches what it lacks), or set KREW to the path of one"
)


def krew() -> Path:
    """Return where the program is, built now if this machine has never built it.

    Raises:
        BinariesMissingError: it is not there, and cannot be built.
    """
    package = "sigs.k8s.io/krew/cmd/krew"
    return GoProgram("krew", Path(__file__).parent, ("go.mod", "go.sum"), package, "-s -w", WITHOUT_GO).program("KREW")
