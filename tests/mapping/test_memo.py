"""What a policy remembers is bounded."""

from dataclasses import replace

from webhook.admission.decision import denied, size_of
from webhook.mapping.load import load_policy
from webhook.mapping.model.policy import ENTRY, MAX_BYTES, MAX_MET, Memo
from webhook.reasons import Finding, Reason


def test_too_much_is_dropped_at_once() -> None:
    """Results are counted with their places in the table, and there are never more than the bound."""
    memo = Memo()
    for number in range(8):
        memo.keep(number, -number, MAX_BYTES // 8 - ENTRY)
    assert (len(memo), memo.size, memo.get(7)) == (8, MAX_BYTES, -7)
    memo.keep("one more", 1, 0)
    assert (len(memo), memo.size, memo.get(7), memo.get("one more")) == (1, ENTRY, None, 1)


def test_what_alone_is_too_much_drops_nothing() -> None:
    """It is not kept, and what is kept stays."""
    memo = Memo()
    memo.keep("small", 1, 100)
    memo.keep("large", 2, MAX_BYTES - ENTRY + 1)
    assert (len(memo), memo.get("small"), memo.get("large")) == (1, 1, None)


def test_what_occurs_once_is_only_noted() -> None:
    """So that pods that are all different do not push out those of templates; what is noted is bounded, too."""
    memo = Memo()
    assert [memo.met(key) for key in ("a", "b", "a", "b", "c")] == [False, False, True, True, False]
    for number in range(MAX_MET):
        memo.met(number)
    assert not memo.met("a")


def test_the_message_of_a_denial_counts() -> None:
    """It is held, and encoded in the response."""
    short, long = (size_of(denied(Finding(Reason.PRIVILEGED, "x" * length))) for length in (1, 4001))
    assert long - short >= 2 * 4000


def test_a_policy_shares_no_memory() -> None:
    """A copy with other settings decides otherwise, so that it remembers nothing of the original."""
    original = load_policy()
    original.memo.keep("key", 1, 1)
    copy = replace(original, settings=original.settings.model_copy(update={"hide_devices": True}))
    assert (len(original.memo), len(copy.memo)) == (1, 0)
