"""Builds Helm if it has to be, and prints where it is."""

import sys

from tests.go_program import BinariesMissingError

from . import VERSIONS, Helm

if __name__ == "__main__":
    try:
        sys.stdout.write(f"{Helm(VERSIONS[0]).program()}\n")
    except BinariesMissingError as error:
        sys.exit(f"error: {error}")
