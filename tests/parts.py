"""Parts of the tests that need more than Python: skipped where a machine cannot run them, but never unnoticed in CI.

Where the environment variable ``CI`` is set, as by ``.ci/run`` and by most CI systems, such a skip is a failure, unless
``TESTS_MAY_SKIP`` lists the part.
"""

import os
from typing import Literal, NoReturn, TypeAlias

import pytest

Part: TypeAlias = Literal["node", "image", "release", "shells", "browser"]


def may_skip(part: Part) -> bool:
    """Return whether a part may be skipped here."""
    return not os.environ.get("CI") or part in os.environ.get("TESTS_MAY_SKIP", "").split(",")


def skip_part(part: Part, reason: str) -> NoReturn:
    """Skip the tests of a part that this machine cannot run, or fail them in CI."""
    if may_skip(part):
        pytest.skip(reason)
    pytest.fail(not_skipped(part, reason), pytrace=False)


def not_skipped(part: Part, reason: str) -> str:
    """Say what is missing in CI, and what permits it."""
    return f"{reason} (CI is set: TESTS_MAY_SKIP={part} permits to skip these tests)"
