"""actionlint, built from its Go modules: what the workflows of .github/ are checked with.

``ACTIONLINT`` (the path of a program) comes first. ``python -m tests.actionlint`` checks them.
"""

from pathlib import Path

from tests.go_program import GoProgram

WITHOUT_GO = (
    "actionlint is built with Go: install Go 1.26 from https://go.dev/dl/ (any from 1.21 on fetches what it lacks), or set "
    "ACTIONLINT to the path of version 1.7 or newer"
)


def actionlint() -> Path:
    """Return where the program is, built now if this machine has never built it.

    Raises:
        BinariesMissingError: it is not there, and cannot be built.
    """
    package = "github.com/rhysd/actionlint/cmd/actionlint"
    return GoProgram("actionlint", Path(__file__).parent, ("go.mod", "go.sum"), package, "-s -w", WITHOUT_GO).program(
        "ACTIONLINT"
    )
