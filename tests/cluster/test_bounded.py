"""Whatever is sent, a replica keeps its memory."""

from typing import Any

import msgspec
import pytest

from webhook.cluster.reflector import ENTRY, Bounded, deep_size


def of_tens(most: int) -> Bounded[str, int]:
    """A memory of numbers, each with ten bytes beside its key, by team."""
    return Bounded(most * (ENTRY + deep_size("t/00") + 10), lambda key: key.partition("/")[0], lambda _: 10)


def test_who_has_the_most_loses_the_oldest() -> None:
    """Until a tenth is free, and never who has little."""
    memory = of_tens(20)
    assert [memory.put(f"a/{each:02}", each) for each in range(3)] == [[]] * 3
    assert [memory.put(f"b/{each:02}", each) for each in range(17)] == [[]] * 17
    assert memory.put("b/17", 17) == ["b/00", "b/01", "b/02"]
    assert list(memory.values) == [f"a/{each:02}" for each in range(3)] + [f"b/{each:02}" for each in range(3, 18)]
    assert len(memory) == 18


def test_those_with_the_most_lose_in_turn() -> None:
    """Until none has more than another."""
    memory = of_tens(20)
    for owner, number in (("a", 2), ("b", 9), ("c", 9)):
        for each in range(number):
            assert memory.put(f"{owner}/{each:02}", each) == []
    assert memory.put("b/99", 99) == ["b/00", "b/01", "c/00"]


def test_what_is_put_again_is_the_newest_and_counts_once() -> None:
    """Likewise what is dropped no longer counts."""
    memory = of_tens(10)
    for each in (0, 1, 2, 0):
        assert memory.put(f"a/{each:02}", each) == []
    assert list(memory.values) == ["a/01", "a/02", "a/00"]
    one = memory.bytes // 3
    assert memory.drop("a/02")
    assert not memory.drop("a/02")
    assert memory.bytes == 2 * one


def test_what_alone_is_too_much_goes_at_once() -> None:
    """And nothing of others."""
    memory: Bounded[str, str] = Bounded(1000, lambda key: key)
    memory.put("small", "x")
    assert memory.put("large", "x" * 1000) == ["large"]
    assert list(memory.values) == ["small"]


class Part(msgspec.Struct):
    """As views are."""

    text: str


def nested(depth: int) -> Any:
    """Lists in lists."""
    found: Any = "x" * 1000
    for _ in range(depth):
        found = [found]
    return found


@pytest.mark.parametrize(
    "value",
    ["x" * 1000, ("x" * 1000,), {"x" * 1000: 1}, {1: "x" * 1000}, Part("x" * 1000), nested(9000)],
)
def test_all_parts_count(value: Any) -> None:
    """Of whatever is stored, however deep."""
    assert deep_size(value) > 1000
