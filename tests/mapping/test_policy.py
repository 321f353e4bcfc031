"""The policy: that the same documents are the same policy, and what is made of it beforehand."""

from tests.mapping.vendors import ACME, policy
from webhook.mapping.load import load_policy, vendors_with
from webhook.mapping.model.policy import compile_policy
from webhook.mapping.settings import Settings

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
