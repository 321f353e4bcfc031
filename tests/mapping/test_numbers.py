"""Sets of legal numbers: parsed from documents, and their nearest members."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.naming import each_of
from webhook.mapping.notation import Numbers, parse_numbers
from webhook.request import Number

Written = str | int | list[str | int]


@each_of(
    "written, inside, outside, text",
    [
        (2, [2], [1, 3, 0], "2"),
        ("2", [2], [Fraction(3, 2)], "2"),
        ("1..", [1, 2, 10**9, Fraction(3, 2)], [0, Fraction(1, 2)], "1 and up"),
        ("0..", [0, 1], [-1], "0 and up"),
        ("5..100 by 5", [5, 10, 100], [0, 6, 105, Fraction(11, 2)], "5 to 100 by 5"),
        ("7..20 by 5", [7, 12, 17], [5, 10, 20], "7 to 20 by 5"),
        ("100.. by 100", [100, 300], [0, 150], "100 and up by 100"),
        ("1..9 by 1", [1, 9], [Fraction(3, 2)], "1 to 9"),
        ([2, 4, "8..9"], [2, 4, 8, 9], [3, 10], "2, 4, 8 to 9"),
        ("0.0001..0.9999", [Fraction(1, 4), Fraction(1, 10**4)], [0, 1], "0.0001 to 0.9999"),
        (" 3 ", [3], [4], "3"),
    ],
)
def test_members(written: Written, inside: list[Number], outside: list[Number], text: str) -> None:
    """A set holds what it says, and says it in keys."""
    numbers = parse_numbers(written)
    assert [number for number in inside if number not in numbers] == []
    assert [number for number in outside if number in numbers] == []
    assert str(numbers) == text


@each_of(
    "written, number, below, above",
    [
        ("5..100 by 5", 33, 30, 35),
        ("5..100 by 5", 35, 35, 35),
        ("5..100 by 5", 3, None, 5),
        ("5..100 by 5", 101, 100, None),
        ("7..20 by 5", 18, 17, None),
        ([8192, 16384, 32768], 10000, 8192, 16384),
        ([8192, 16384], 20000, 16384, None),
        (["1..99", "100.. by 100"], 150, 100, 200),
        ("1..", Fraction(1, 2), None, 1),
        ("1..", Fraction(5, 2), Fraction(5, 2), Fraction(5, 2)),
        ("100", 99, None, 100),
    ],
)
def test_nearest(written: Written, number: Number, below: Number | None, above: Number | None) -> None:
    """The nearest members on both sides, where there are any."""
    numbers = parse_numbers(written)
    assert (numbers.floor(number), numbers.ceil(number)) == (below, above)


@each_of("written", ["", "x", "5...9", "..5", "1..2..3", "5 by 5 by 5", "-1", "9..5", "1..5 by 0", "1 to 5", [[1]]])
def test_what_is_no_set(written: Written) -> None:
    """It is an error, not an empty set."""
    with pytest.raises(ValueError, match=r"not a set of numbers|contains no number"):
        parse_numbers(written)


SPANS = st.tuples(st.integers(0, 50), st.integers(0, 50), st.one_of(st.none(), st.integers(1, 9))).map(
    lambda each: f"{each[0]}..{each[0] + each[1]}" + (f" by {each[2]}" if each[2] else "")
)


@given(st.lists(SPANS, min_size=1, max_size=3), st.integers(0, 120))
def test_nearest_is_the_nearest(spans: list[str | int], number: int) -> None:
    """Floor and ceiling are what a search through all numbers finds."""
    numbers: Numbers = parse_numbers(spans)
    members = [each for each in range(160) if each in numbers]
    assert numbers.ceil(number) == min((member for member in members if member >= number), default=None)
    assert numbers.floor(number) == max((member for member in members if member <= number), default=None)


@given(st.lists(SPANS, min_size=1, max_size=3))
def test_corners_show_every_border(spans: list[str | int]) -> None:
    """What probes try holds a member of each span, and no negative number."""
    numbers = parse_numbers(spans)
    corners = set(numbers.corners())
    assert min(corners) >= 0
    assert all(any(corner in span for corner in corners) for span in numbers.spans)
