"""``python -m tests.trap_list`` prints, of each test that holds a trap, the trap's number and where the test is.

It imports nothing of the tests, for pytest has to be the first to do so.
"""

import sys

import pytest

COLLECTED = pytest.StashKey[list[pytest.Item]]()
"""All tests of a run that were collected, before any of them were deselected."""


class Printer:
    """Prints a line for each trap of each test that is collected."""

    @staticmethod
    def pytest_collection_finish(session: pytest.Session) -> None:
        """Print them."""
        for item in session.items:
            for mark in item.iter_markers("trap"):
                print(f"trap {mark.kwargs['number']} {item.nodeid}")  # noqa: T201


if __name__ == "__main__":
    sys.exit(pytest.main(["--collect-only", "-q", "-m", "trap"], plugins=[Printer()]))
