"""Calls of functions: a measure of work that is the same on every machine and in every run."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, Final

INLINED: Final = frozenset({"<listcomp>", "<dictcomp>", "<setcomp>"})
"""Functions of Python 3.11 only: from 3.12 on, comprehensions are part of the function around them (PEP 709)."""


def count_calls(work: Callable[[], object]) -> int:
    """Return how many calls some work makes, of functions in Python and in C; a resumed generator counts as one."""
    count = 0

    def profile(frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal count
        if event == "c_call" or (event == "call" and frame.f_code.co_name not in INLINED):
            count += 1

    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count
