"""Lines out of chunks of any size."""

import itertools
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.cluster.client.api import UnreachableError
from webhook.cluster.client.whole_lines import whole_lines


async def chunks(*parts: bytes) -> AsyncIterator[bytes]:
    """Give a stream as it comes from the network."""
    for part in parts:
        yield part


async def read(*parts: bytes, longest: int = 100) -> list[bytes]:
    """Read all lines of a stream."""
    return [line async for line in whole_lines(chunks(*parts), longest)]


@given(text=st.text("ab\n", max_size=40), cuts=st.lists(st.integers(0, 40)))
async def test_wherever_it_is_cut(text: str, cuts: list[int]) -> None:
    """The same lines come out however the stream is cut."""
    whole = text.encode() + b"\n"
    places = sorted({0, len(whole), *(cut for cut in cuts if cut < len(whole))})
    parts = [whole[begin:end] for begin, end in itertools.pairwise(places)]
    assert await read(*parts) == [line for line in whole.split(b"\n") if line]


async def test_half_a_line() -> None:
    """A line that breaks off is no line."""
    with pytest.raises(UnreachableError, match="ended within a line"):
        await read(b'{"a": 1}\n{"b"')


async def test_a_line_without_end() -> None:
    """Reading stops at a line beyond the bound, before all of it is in memory."""
    with pytest.raises(UnreachableError, match="more than 100 bytes"):
        await read(*[b"x" * 30] * 5)
    assert await read(b"x" * 100 + b"\n", b"y" * 60, b"y" * 40, b"\n" + b"z" * 90, b"\n") == [
        b"x" * 100,
        b"y" * 100,
        b"z" * 90,
    ]
