"""Which value of a loop an assertion failed for: an item of its own for each of hundreds would cost more than the work."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def naming(value: object) -> Iterator[None]:
    """Add the value to what is reported of an exception."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"of {value}")
        raise
