"""Calls of functions: a measure of work that is the same on every machine and in every run."""

import gc
import sys
import sysconfig
from collections.abc import Callable
from functools import cache
from types import CodeType, FrameType
from typing import Any, Final

INLINED: Final = frozenset({"<listcomp>", "<dictcomp>", "<setcomp>"})
"""Functions of Python 3.11 only: from 3.12 on, comprehensions are part of the function around them (PEP 709)."""

_STANDARD_LIBRARY: Final = (sysconfig.get_path("stdlib"), "<frozen ")
_PACKAGES: Final = "site-packages"
"""Of an interpreter without a virtual environment they are inside the standard library."""


def count_calls(work: Callable[[], object], *, built_in: bool = True) -> int:
    """Return how many calls some work makes, of functions in Python and, if asked for, in C; a resumed generator is a call.

    Calls to and within Python code of the standard library are left out, for they differ between versions of Python.
    """
    count = 0

    def profile(frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal count
        if event == "c_call":
            count += built_in and not _standard(frame.f_code)
        elif event == "call":
            count += frame.f_code.co_name not in INLINED and not _standard(frame.f_code)

    collects = gc.isenabled()
    gc.disable()  # it calls the finalizers of whatever else has run in the process
    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(None)
        if collects:
            gc.enable()
    return count


@cache
def _standard(code: CodeType) -> bool:
    file = code.co_filename
    return file.startswith(_STANDARD_LIBRARY) and _PACKAGES not in file
