"""``python -m tests.programs`` builds the Go programs that tests on a control plane need, so that no test waits for it.

``--all`` builds also what only long tests need: the other Helm and promtool.
"""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.controlplane import build
from tests.deploy.helm import VERSIONS, Helm, renderer
from tests.deploy.promtool import promtool
from tests.go_program import BinariesMissingError


def programs(*, every: bool) -> Iterator[Callable[[], Path]]:
    """Give what builds, or finds built, each program."""
    yield lambda: build.find().folder
    yield build.expansion
    yield Helm(VERSIONS[0]).program
    yield renderer
    if every:
        yield from (Helm(version).program for version in VERSIONS[1:])
        yield promtool


def main() -> None:
    """Print where each program is; end with what to install where one cannot be built."""
    try:
        for program in programs(every="--all" in sys.argv[1:]):
            sys.stdout.write(f"{program()}\n")
    except BinariesMissingError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
