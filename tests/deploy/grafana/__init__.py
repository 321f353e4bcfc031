"""Grafana's schema of dashboards, from the Go module that Grafana generates of it: what the chart's dashboard is read with.

Grafana's server is no part of the tests: its licence is the AGPL. The schema's is Apache 2.0.
"""

from pathlib import Path

from tests.go_program import GoProgram

WITHOUT_GO = (
    "Grafana's schema is built with Go for the test of the chart's dashboard: install Go 1.26 from https://go.dev/dl/ (any "
    "from 1.21 on fetches what it lacks)"
)


def dashboard_schema() -> Path:
    """Return a program that prints what of a dashboard does not fit, built now if this machine has never built it.

    Raises:
        BinariesMissingError: it is not there, and cannot be built.
    """
    inputs = ("go.mod", "go.sum", "main.go")
    return GoProgram("dashboard-schema", Path(__file__).parent, inputs, ".", "-s -w", WITHOUT_GO).program()
