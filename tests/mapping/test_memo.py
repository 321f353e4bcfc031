"""What a policy remembers is bounded."""

from webhook.mapping.model.memo import MAX_BYTES, MAX_RESULTS, MAX_SEEN, MAX_SEEN_ONCE, Memo


def test_too_many_results_are_dropped_at_once() -> None:
    """There are never more than the bound, and what was seen goes with them."""
    memo = Memo()
    for number in range(MAX_RESULTS):
        memo.keep(number, -number, 100)
        memo.see(number, (b"x",))
    assert (len(memo), memo.get(7), memo.seen(7)) == (MAX_RESULTS, -7, (b"x",))
    memo.keep("one more", 1, 100)
    assert (len(memo), memo.get(7), memo.seen(7), memo.get("one more")) == (1, None, None, 1)


def test_too_large_results_are_dropped_at_once() -> None:
    """Few large results are as many as small ones."""
    memo = Memo()
    for number in range(8):
        memo.keep(number, number, MAX_BYTES // 8)
    assert len(memo) == 8
    memo.keep("one more", 1, 1)
    assert len(memo) == 1


def test_what_was_seen_first_makes_room() -> None:
    """The newest parts are kept, once for each result, as many bytes as there is room for."""
    memo = Memo()
    part = bytes(MAX_SEEN_ONCE)
    keys = range(MAX_SEEN // MAX_SEEN_ONCE)
    for key in (*keys, 0, 0):
        memo.see(key, (part,))
    assert all(memo.seen(key) == (part,) for key in keys)
    memo.see("one more", (part[1:], b"x"))
    assert [key for key in (*keys, "one more") if memo.seen(key) is None] == [1]
    memo.see(2, (part, b"too large"))
    assert [key for key in (*keys, "one more") if memo.seen(key) is None] == [1, 2]
