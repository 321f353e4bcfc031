"""``python -m tests.programs`` builds the Go programs that the tests need, so that no test has to wait for it."""

import sys

from tests.controlplane import build
from tests.deploy.grafana import dashboard_schema
from tests.deploy.helm import VERSIONS, Helm, renderer
from tests.deploy.krew import krew
from tests.deploy.promtool import promtool
from tests.go_program import BinariesMissingError


def main() -> None:
    """Print where each program is; end with what to install where one cannot be built."""
    try:
        helms = (Helm(version).program() for version in VERSIONS)
        for place in (build.find().folder, *helms, renderer(), promtool(), dashboard_schema(), krew()):
            sys.stdout.write(f"{place}\n")
    except BinariesMissingError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
