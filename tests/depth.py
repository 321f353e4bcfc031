"""How much of a long loop the ordinary run takes, and what `make test-deep` takes."""

import sys
from collections.abc import Sequence

import pytest
from hypothesis import settings

few_or_all = pytest.mark.parametrize(
    "most", [pytest.param(4, id="few"), pytest.param(sys.maxsize, marks=pytest.mark.deep, id="all")]
)
"""Of the partners of each vendor four; and, marked `deep`, all of them."""

costly = settings(max_examples=settings().max_examples // 4)
"""For a property of which each example takes tenths of a second."""


def partners(of: str, names: Sequence[str], most: int) -> list[str]:
    """So many other names for one of them, spread evenly: taken for each, every name is a partner as often as any other."""
    at, others = names.index(of), len(names) - 1
    count = min(most, others)
    return [names[(at + 1 + number * others // count) % len(names)] for number in range(count)]
