"""promtool, built from Prometheus' Go modules: what the chart's alerts are tried with.

``PROMTOOL`` (the path of a program) comes first.
"""

from pathlib import Path

from tests.go_program import GoProgram

WITHOUT_GO = (
    "promtool is built with Go for the tests of the chart's alerts: install Go 1.26 from https://go.dev/dl/ (any from 1.21 "
    "on fetches what it lacks), or set PROMTOOL to the path of one of Prometheus 3"
)


def promtool() -> Path:
    """Return where the program is, built now if this machine has never built it.

    Raises:
        BinariesMissingError: it is not there, and cannot be built.
    """
    package = "github.com/prometheus/prometheus/cmd/promtool"
    # It looks for no targets: the clients of all clouds would be most of the program.
    program = GoProgram(
        "promtool", Path(__file__).parent, ("go.mod", "go.sum"), package, "-s -w", WITHOUT_GO, tags="remove_all_sd"
    )
    return program.program("PROMTOOL")
