"""The validating webhook configuration beside the mutating one; and policies of more names than match conditions hold."""

from typing import Any

import pytest
from msgspec.structs import replace

from tests.cluster.keeping import Keeping
from tests.cluster.things import Clock
from webhook.cluster.client import Answer, StatusError
from webhook.cluster.events import MAX_MESSAGE, shortened
from webhook.cluster.registration.names import MAX_EXPRESSION, MatchedNames, fits, match_expression, names_set
from webhook.cluster.registration.stored import Pass, Severity, differences, read_stored
from webhook.cluster.registration.wanted import (
    KINDS,
    MUTATING,
    PODS,
    VALIDATING,
    WORKLOADS,
    ServiceReference,
    Site,
    Wanted,
    judged,
    registration,
    wanted_by,
)
from webhook.cluster.registration.writer import LEAD, Writer
from webhook.mapping.load import load_policy

SITE = Site(ServiceReference("gpu", "webhook"), b"", "gpu")
WANT = wanted_by(load_policy(), VALIDATING)


def made(desired: Wanted = WANT, **changes: Any) -> dict[str, Any]:
    """The configuration, with changes in each webhook."""
    found = registration(desired, SITE, version="1.2.0")
    return found | {"webhooks": [webhook | changes for webhook in found["webhooks"]]}


def test_further_kinds() -> None:
    """A replica that does not know them yet leaves them; one that knows them adds them at once, with their group."""
    further = replace(WANT, digest="1" * 12, workloads=WANT.workloads | {"example.com/TrainJob"})
    configuration = made(further)
    read = read_stored(configuration, kind=VALIDATING)
    assert read.made_from is not None
    assert read.made_from.workloads == further.workloads
    assert Pass(read, replace(WANT, digest="0" * 12), SITE, "1.2.0", announced=True).update() is None
    ahead = Pass(read_stored(made(), kind=VALIDATING), further, SITE, "1.2.0")
    assert replace(ahead, announced=True).update() is None  # not quiet: the other policy may be the newer one
    update = ahead.update()
    assert update is not None
    written = {each["name"]: each for each in update[0]["webhooks"]}[WORKLOADS]
    assert "example.com" in written["rules"][-1]["apiGroups"]
    assert "'example.com/TrainJob'" in written["matchConditions"][0]["expression"]
    assert [fault.webhook for fault in differences(made(), further, SITE, [])] == [WORKLOADS, WORKLOADS]


def test_switched_on_and_off() -> None:
    """One that is missing is added, also where others maintain the rest; one that is not wanted is removed."""
    none, pods = (
        replace(WANT, digest=digits, subjects=frozenset(some))
        for digits, some in (("0" * 12, ()), ("1" * 12, {"pods"}))
    )
    (missing,) = differences(made(none), pods, SITE, [])
    assert (missing.webhook, missing.severity) == (PODS, Severity.KEEPS_OUT)
    for found, desired, names in ((none, pods, [PODS]), (pods, none, [])):
        configuration = made(found)
        read = read_stored(configuration, kind=VALIDATING)
        update = Pass(read, desired, SITE, "1.2.0").update()
        assert update is not None
        assert [webhook["name"] for webhook in update[0]["webhooks"]] == names


NARROW, WIDE = (replace(WANT, matched_names=names_set(prefixes=prefixes)) for prefixes in (["a/"], ["a/", "b/"]))
NOT_PODS = WANT.subjects - {"pods", "ephemeralContainers"}


@pytest.mark.parametrize(
    "wanted, sent, present, steady, expected",
    [
        (WIDE, WIDE, WIDE, True, WIDE),
        (WIDE, WIDE, None, True, WIDE),
        # A mapping comes: first the mutating configuration gets its names, then all API servers know that.
        (WIDE, NARROW, NARROW, True, NARROW),
        (WIDE, WIDE, NARROW, False, NARROW),
        (WIDE, WIDE, NARROW, True, WIDE),
        # It goes: at once, and the mutating one a minute later.
        (NARROW, WIDE, WIDE, False, NARROW),
        (NARROW, WIDE, WIDE, True, NARROW),
        (NARROW, NARROW, NARROW, False, NARROW),
        # Another replica has taken names out of the mutating one.
        (WIDE, NARROW, WIDE, False, NARROW),
        (WIDE, NARROW, WIDE, True, NARROW),
        # Pods are to be judged: not before all API servers know where new ones are sent.
        (WIDE, WIDE, None, False, replace(WIDE, subjects=NOT_PODS)),
        (WIDE, WIDE, replace(WIDE, subjects=NOT_PODS), False, replace(WIDE, subjects=NOT_PODS)),
        (replace(WIDE, subjects=NOT_PODS), WIDE, WIDE, False, replace(WIDE, subjects=NOT_PODS)),
        # Namespaces opt in by another label.
        (replace(WIDE, opt_in="x"), WIDE, WIDE, True, WIDE),
        (replace(WIDE, opt_in="x"), replace(WIDE, opt_in="x"), WIDE, False, WIDE),
        (replace(WIDE, opt_in="x"), replace(WIDE, opt_in="x"), WIDE, True, replace(WIDE, opt_in="x")),
        # The mutating one is deleted, or changed by others: what was judged still is, and no more.
        (WIDE, None, WIDE, True, WIDE),
        (WIDE, None, NARROW, True, NARROW),
        (WIDE, None, None, True, replace(WIDE, subjects=NOT_PODS)),
    ],
)
def test_what_is_judged_is_sent_to_be_changed(
    wanted: Wanted, sent: Wanted | None, present: Wanted | None, expected: Wanted, *, steady: bool
) -> None:
    """Every transition: it grows after the mutating configuration, and shrinks before it."""
    assert judged(wanted, sent, present, steady=steady) == expected


async def test_the_two_configurations_change_in_order() -> None:
    """As two writers write them: the new name is judged five seconds after it is sent; the old one no longer at once."""
    mutating_api, validating_api, clock = Keeping(), Keeping(VALIDATING), Clock()
    old, new = (
        {
            kind: replace(WANT, kind=kind, digest=digest * 12, matched_names=names_set(prefixes=prefixes))
            for kind in KINDS
        }
        for digest, prefixes in (("0", ["a/", "b/"]), ("1", ["b/", "c/"]))
    )
    first = Writer(mutating_api, SITE, old[MUTATING], lambda _: None, clock=clock)
    second = Writer(validating_api, SITE, old[VALIDATING], lambda _: None, clock=clock, follows=first)
    writers = first, second

    async def names() -> list[list[str]]:
        for _ in range(2):
            for each in reversed(writers):
                await each.reconcile()
        found = [read_stored(api.stored or {}, kind=kind).made_from for api, kind in zip(apis, KINDS, strict=True)]
        return [sorted(prefix[:-1] for prefix in each.matched_names.prefixes) for each in found if each]

    apis = mutating_api, validating_api
    assert await names() == [["a", "b"], ["a", "b"]]
    assert PODS not in str(validating_api.stored)
    clock.now += LEAD
    assert await names() == [["a", "b"], ["a", "b"]]
    assert PODS in str(validating_api.stored)
    for each in writers:
        each.adopt(new[each.required.kind])
    assert await names() == [["a", "b", "c"], ["b"]]
    clock.now += LEAD
    assert await names() == [["a", "b", "c"], ["b", "c"]]
    clock.now += 60
    assert await names() == [["b", "c"], ["b", "c"]]
    assert not any(second.repairs.values())


def test_both_are_kinds_of_one_table() -> None:
    """Their resources are named as the API names them."""
    assert [kind.plural for kind in KINDS] == ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"]
    assert MUTATING.collection.endswith("/v1/mutatingwebhookconfigurations")


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
