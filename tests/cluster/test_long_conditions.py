"""Two policies that would let through more than match conditions can say: writing continues all the same."""

from dataclasses import replace

import pytest

from webhook.cluster.client import Answer, StatusError
from webhook.cluster.events import MAX_MESSAGE, shortened
from webhook.cluster.registration.names import MAX_EXPRESSION, MatchedNames, fits, match_expression, names_set
from webhook.cluster.registration.stored import Pass, read_stored
from webhook.cluster.registration.wanted import ServiceReference, Site, Wanted, registration

SITE = Site(ServiceReference("gpu", "webhook"), b"", "gpu")


def long(domain: str) -> MatchedNames:
    """One that fits alone, and not beside another one of the kind."""
    return names_set(keys=[f"{domain}/{'k' * 40}{number:04}" for number in range(1200)])


OLD, NEW = Wanted("0" * 12, long("old.example")), Wanted("1" * 12, long("new.example"))


def test_alone_each_fits() -> None:
    """The API server would refuse both."""
    assert fits(OLD.matched_names)
    assert fits(NEW.matched_names)
    assert not fits(OLD.matched_names | NEW.matched_names)
    assert len(match_expression(OLD.matched_names | NEW.matched_names)) > MAX_EXPRESSION


@pytest.mark.parametrize("quiet", [False, True])
def test_a_new_policy_is_written_alone(*, quiet: bool) -> None:
    """What was let through before goes at once, for the two cannot stand beside each other."""
    found = registration(OLD, SITE, version="1.0.0")
    change = Pass(read_stored(found), NEW, SITE, "1.0.0", quiet=quiet).update()
    assert change is not None
    assert read_stored(change[0]).made_from == NEW


def test_a_replica_behind_leaves_the_newer_policy_alone() -> None:
    """It does not write its own over it, nor something that would be refused."""
    found = registration(NEW, SITE, version="1.0.0")
    assert Pass(read_stored(found), OLD, SITE, "1.0.0", announced=True).update() is None


def test_the_same_policy_is_narrowed_to_itself() -> None:
    """One digest with the names of a policy before: what cannot be added to is replaced."""
    found = registration(replace(OLD, digest=NEW.digest), SITE, version="1.0.0")
    change = Pass(read_stored(found), NEW, SITE, "1.0.0", announced=True).update()
    assert change is not None
    assert read_stored(change[0]).made_from == NEW


def test_a_refusal_is_reported_with_its_reason() -> None:
    """A Status quotes the whole expression before it says what is wrong; an Event has little room."""
    message = f"{'x' * 298_000}: exceeds 100000 code points"
    body = f'{{"kind": "Status", "code": 422, "reason": "Invalid", "message": "{message}"}}'
    with pytest.raises(StatusError) as raised:
        Answer(422, body.encode()).accepted()
    message = str(raised.value)
    assert message.startswith("422 Invalid: xxx")
    assert message.endswith("exceeds 100000 code points")
    assert len(raised.value.message) < 1100
    assert shortened(f"the webhook configuration 00-vgpu-webhook cannot be updated: {message}", MAX_MESSAGE).endswith(
        "code points"
    )
