"""Build, or find built, what ``make test-systems`` runs: ahead of the tests, which do not wait for compilers."""

import os
import sys

from tests.go_program import BinariesMissingError
from tests.node.__main__ import main as build_node

from .sources import sources

if __name__ == "__main__":
    chosen = os.environ.get("SYSTEMS", "").split(",")
    try:
        for name, source in sources().items():
            if not any(chosen) or any(name.startswith(each.partition("-with-")[0]) for each in chosen):
                source.folder()
    except BinariesMissingError as error:
        sys.exit(f"error: {error}")
    # tests/node/test_systems.py
    if not any(chosen) or {"hami", "volcano"} & set(chosen):
        build_node()
