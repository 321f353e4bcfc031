"""What a policy remembers is bounded."""

from webhook.mapping.model.memo import MAX_BYTES, MAX_MET, MAX_RESULTS, Memo


def test_too_many_results_are_dropped_at_once() -> None:
    """There are never more than the bound."""
    memo = Memo()
    for number in range(MAX_RESULTS):
        memo.keep(number, -number, 100)
    assert (len(memo), memo.get(7)) == (MAX_RESULTS, -7)
    memo.keep("one more", 1, 100)
    assert (len(memo), memo.get(7), memo.get("one more")) == (1, None, 1)


def test_too_large_results_are_dropped_at_once() -> None:
    """Few large results are as many as small ones."""
    memo = Memo()
    for number in range(8):
        memo.keep(number, number, MAX_BYTES // 8)
    assert len(memo) == 8
    memo.keep("one more", 1, 1)
    assert len(memo) == 1


def test_what_occurs_once_is_only_noted() -> None:
    """So that pods that are all different do not push out those of templates; what is noted is bounded, too."""
    memo = Memo()
    assert [memo.met(key) for key in ("a", "b", "a", "b", "c")] == [False, False, True, True, False]
    for number in range(MAX_MET):
        memo.met(number)
    assert not memo.met("a")
