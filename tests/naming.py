"""One test item for many values: one for each of hundreds would cost more to collect and to report than the work."""

import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

Test = Callable[..., None]


@contextmanager
def naming(value: object) -> Iterator[None]:
    """Add the value to what is reported of an exception."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"of {value}")
        raise


def each_of(names: str, values: Iterable[Any]) -> Callable[[Test], Test]:
    """Call a test with each of the values, as `parametrize` does, but within one item."""
    parameters = names.replace(" ", "").split(",")
    rows = [value if len(parameters) > 1 else (value,) for value in values]

    def decorate(test: Test) -> Test:
        @wraps(test)
        def looped(**fixtures: Any) -> None:
            assert rows
            for row in rows:
                with naming(row):
                    test(**dict(zip(parameters, row, strict=True)), **fixtures)

        signature = inspect.signature(test)
        left = [each for each in signature.parameters.values() if each.name not in parameters]
        looped.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        return looped

    return decorate
