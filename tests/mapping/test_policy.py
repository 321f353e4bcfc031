"""The policy: the same documents are the same one, what is made of it beforehand, and what it remembers is bounded."""

from dataclasses import replace

from tests.mapping.vendors import ACME, policy
from webhook.admission.decision import denied, size_of
from webhook.mapping.load import load_policy, vendors_with
from webhook.mapping.model.policy import ENTRY, MAX_BYTES, MAX_MET, Memo, compile_policy
from webhook.mapping.settings import Settings
from webhook.reasons import Finding, Reason

OTHER = ACME.replace("vendor: acme", "vendor: other").replace("acme.com", "other.com")


def test_what_takes_long_is_made_before_the_first_pod() -> None:
    """In a policy for use; of the many that are only tried while documents are combined, it is never made."""
    assert {"near", "read_keys"} <= vars(policy(ACME)).keys()
    assert "near" not in vars(compile_policy(vendors_with({}), Settings(), ""))


def test_digest_is_that_of_the_documents() -> None:
    """12 hex digits; the same for the same documents in any order, another for any change, built-in ones included."""
    plain, again = load_policy().digest, policy(settings="{}").digest
    assert plain == again
    assert len(plain) == 12
    assert set(plain) <= set("0123456789abcdef")
    assert policy(ACME, OTHER).digest == policy(OTHER, ACME).digest
    digests = {
        plain,
        policy(ACME).digest,
        policy("extends: vcuda\nabout: x\n").digest,
        policy(settings="target: nvidia\n").digest,
    }
    assert len(digests) == 4


def test_usual_settings_say_nothing_new() -> None:
    """A setting written as it is anyway does not change the policy's digest."""
    assert policy(settings="nodeName: deny\nsmallestMemory: 256Mi\n").digest == load_policy().digest


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
