"""How much of a long loop the ordinary run takes, and what `make test-all PART=long` takes."""

import sys
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import pytest
from _pytest.mark import ParameterSet
from hypothesis import settings

Option = TypeVar("Option")

few_or_all = pytest.mark.parametrize(
    "most", [pytest.param(1, id="few"), pytest.param(sys.maxsize, marks=pytest.mark.long, id="all")]
)
"""Of the partners of each vendor, or the options of each value, one; and, marked `long`, all of them."""

costly = settings(max_examples=settings().max_examples // 4)
"""For a property of which each example takes tenths of a second."""


def one_in(count: int, values: Iterable[Any]) -> list[ParameterSet]:
    """The values of which the ordinary run takes every `count`-th; the others are marked `long`."""
    return [pytest.param(value, marks=[pytest.mark.long] if at % count else []) for at, value in enumerate(values)]


def in_turn(options: Sequence[Option], at: int, most: int) -> Sequence[Option]:
    """So many of the options for the value at a place: over a loop of values, each option is taken as often as any other."""
    return [options[(at + number) % len(options)] for number in range(min(most, len(options)))]


def partners(of: str, names: Sequence[str], most: int) -> list[str]:
    """So many other names for one of them, spread evenly: taken for each, every name is a partner as often as any other."""
    at, others = names.index(of), len(names) - 1
    count = min(most, others)
    return [names[(at + 1 + number * others // count) % len(names)] for number in range(count)]
