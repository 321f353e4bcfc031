"""Build, or find, what ``make test-systems`` runs, ahead of the tests.

It says what is left out, and fails where a chosen one is missing.
"""

import os
import sys

from tests.go_program import BinariesMissingError
from tests.node.__main__ import main as build_node

from .programs import SYSTEMS, chosen


def main() -> None:
    """Build and find."""
    unknown = set(filter(None, os.environ.get("SYSTEMS", "").split(","))) - SYSTEMS.keys()
    if unknown:
        sys.exit(f"error: SYSTEMS: there is no {', '.join(sorted(unknown))}: write some of {','.join(SYSTEMS)}")
    names = chosen()
    try:
        for name in names:
            SYSTEMS[name].folder()
    except BinariesMissingError as error:
        sys.exit(f"error: {error}")
    if not os.environ.get("SYSTEMS"):
        for why in filter(None, (programs.left_out() for programs in SYSTEMS.values())):
            sys.stdout.write(f"left out: {why}\n")
    # tests/node/test_systems.py
    if {"hami", "volcano"} & set(names):
        build_node()


if __name__ == "__main__":
    main()
