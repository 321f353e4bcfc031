"""The writer: what it writes and when, beside other replicas, other versions and other writers."""

import asyncio
import base64
import itertools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.cluster.keeping import CONFIGURATION, Keeping
from tests.cluster.things import Clock
from tests.waiting import alongside, turns, until
from tests.yaml_text import hold
from webhook.cluster.client import Answer, UnreachableError
from webhook.cluster.registration.names import names_set
from webhook.cluster.registration.stored import Change, read_stored
from webhook.cluster.registration.wanted import (
    ENFORCE,
    NAMESPACE_NAME,
    RegistrationMode,
    ServiceReference,
    Site,
    Wanted,
    registration,
)
from webhook.cluster.registration.writer import QUIET, RegistrationMatter, RegistrationNotice, Writer
from webhook.labels import INJECT, KEEP_SELECTORS, MODE, WRITTEN_BY

SITE = Site(ServiceReference("gpu", "webhook"), b"-----BEGIN CERTIFICATE-----", "gpu")
OLD = Wanted("0" * 12, names_set(prefixes=["a.com/", "b.com/"], keys=["a.com/x"]))
NEW = Wanted("1" * 12, names_set(prefixes=["a.com/", "c.com/"], keys=["a.com/x", "c.com/y"]))
WRITER = f"metadata annotations {WRITTEN_BY}"
BOTH = OLD.matched_names | NEW.matched_names
TEAM = {NAMESPACE_NAME: "gpu-team", INJECT: "enabled", MODE: "enforce", "zone": "edge"}
CHANGES = Path(__file__).with_name("changes.yaml")
IGNORE = {"webhooks 0 failurePolicy": "Ignore"}
"""What a hand does: an outage holds nobody back."""
SELECTOR = "webhooks 0 namespaceSelector matchExpressions 3"
"""A term behind ours."""


class Replica:
    """A writer and its reports."""

    def __init__(self, api: Keeping, clock: Clock, want: Wanted = OLD, **options: Any) -> None:
        self.reports: list[RegistrationNotice] = []
        self.writer = Writer(api, options.pop("site", SITE), want, self.reports.append, clock=clock, **options)

    async def look(self) -> float:
        """One look; seconds until the next."""
        return await self.writer.reconcile()

    @property
    def kinds(self) -> list[RegistrationMatter]:
        """What was reported, without its keys."""
        return [notice.matter for notice in self.reports]


@pytest.fixture
def api() -> Keeping:
    """The API server."""
    return Keeping()


@pytest.fixture
def clock() -> Clock:
    """The clock of all replicas."""
    return Clock()


def standing(api: Keeping) -> Wanted:
    """What stands in the cluster was made from."""
    assert api.stored is not None
    found = read_stored(api.stored).made_from
    assert found is not None
    return found


async def test_it_is_created_and_then_left_alone(api: Keeping, clock: Clock) -> None:
    """One write; however often it is looked at afterwards, none."""
    replica = Replica(api, clock)
    for _ in range(5):
        await replica.look()
        clock.now += QUIET
    rest = await replica.look()
    assert api.writes == 1
    assert api.webhooks == registration(OLD, SITE)["webhooks"]
    assert api.metadata["annotations"][WRITTEN_BY].endswith(f" {OLD.digest}")
    assert replica.reports == [
        RegistrationNotice(RegistrationMatter.WRITTEN, "the webhook configuration 00-vgpu-webhook was created")
    ]
    assert 480 <= rest <= 600


async def changed(row: Mapping[str, Any]) -> str:
    """What is told of a change by others: where a configuration is only looked at, and by whom it is repaired."""
    api, clock = Keeping(), Clock()
    replica = Replica(api, clock, opted_in=lambda: [TEAM])
    await replica.look()
    api.set({**row["set"], "metadata labels": {"team": "a"}})
    static = Replica(api, clock, mode=RegistrationMode.STATIC, opted_in=lambda: [TEAM])
    await static.look()
    told = [f"{'treats' if static.writer.as_desired else 'does not treat'} all pods"]
    await replica.look()
    assert api.webhooks == registration(OLD, SITE)["webhooks"]
    assert api.metadata["labels"] == {"team": "a"}
    assert standing(api) == OLD
    await static.look()
    assert static.writer.as_desired
    told += [f"{each.matter.name}: {each.message}" for each in (*static.reports, *replica.reports[1:])]
    return "\n".join(told).replace("the webhook configuration 00-vgpu-webhook ", "")


def test_changed_by_others(*, update_golden: bool) -> None:
    """It is repaired at the next look, and reported, whoever claims to have written it; its other metadata stays."""
    hold(CHANGES, "changes", lambda row: asyncio.run(changed(row)), update=update_golden)


async def test_a_change_of_settings_is_no_repair(api: Keeping, clock: Clock) -> None:
    """Nor are new CAs: nobody else has changed anything."""
    replica = Replica(api, clock)
    await replica.look()
    replica.writer.adopt(replace(OLD, timeout=7, digest="c" * 12))
    await replica.look()
    replica.writer.adopt(replica.writer.required, replace(SITE, ca_bundle=B))
    await replica.look()
    deeds = [notice.message.partition(" was ")[2] for notice in replica.reports]
    assert deeds == ["created", "written for a new policy", "brought up to date"]


async def test_an_owner_that_may_not_be_read(api: Keeping, clock: Clock) -> None:
    """It is told once, with the right that is missing; without a release there is no owner to read."""
    replica = Replica(api, clock, owner="release")
    for _ in range(3):
        await replica.look()
    (message,) = (notice.message for notice in replica.reports if notice.matter is RegistrationMatter.UNOWNED)
    assert "get is needed on clusterroles/release" in message


async def test_a_foreign_selector_term_is_kept(api: Keeping, clock: Clock) -> None:
    """Nothing is written for it; it survives the next write; it is reported once."""
    replica = Replica(api, clock)
    await replica.look()
    term = {"key": "control-plane", "operator": "DoesNotExist"}
    api.set({SELECTOR: term})
    for _ in range(3):
        await replica.look()
    assert api.writes == 1
    assert replica.kinds == [RegistrationMatter.WRITTEN, RegistrationMatter.FOREIGN]
    assert not replica.reports[-1].matter.warning
    assert "control-plane DoesNotExist" in replica.reports[-1].message
    replica.writer.adopt(NEW)
    await replica.look()
    terms = [webhook["namespaceSelector"]["matchExpressions"] for webhook in api.webhooks]
    assert [each[-1] == term for each in terms] == [True, False]


async def test_widening_at_once_and_narrowing_after_quiet(api: Keeping, clock: Clock) -> None:
    """A new policy is written widened by the old one; what it gave up goes when all has been quiet at its digest."""
    replica = Replica(api, clock)
    await replica.look()
    clock.now += 500
    replica.writer.adopt(NEW)
    rest = await replica.look()
    assert standing(api) == replace(NEW, matched_names=BOTH)
    assert rest == QUIET
    clock.now += QUIET - 1
    assert await replica.look() == 1.0
    assert standing(api) == replace(NEW, matched_names=BOTH)
    clock.now += 1
    await replica.look()
    assert standing(api) == NEW
    assert replica.reports[-1].message.endswith("was narrowed")
    assert api.writes == 3


async def test_a_replica_behind_does_not_take_keys_away(api: Keeping, clock: Clock) -> None:
    """One that has yet to learn of the policy adds what it misses, in the other's name, and nothing else."""
    ahead, behind = Replica(api, clock, NEW), Replica(api, clock, OLD)
    await behind.look()
    api.stored = None
    await ahead.look()
    assert standing(api) == NEW
    await behind.look()
    assert standing(api) == replace(NEW, matched_names=BOTH)
    assert behind.reports[-1].message.endswith("was widened")


async def test_a_policy_that_nobody_holds_any_more_is_taken_over(api: Keeping, clock: Clock) -> None:
    """Its replicas are gone: after quiet the one that is left writes its own name, and after more quiet narrows."""
    left = Replica(api, clock, OLD)
    await left.look()
    await Replica(api, clock, NEW).look()
    await left.look()
    assert standing(api) == replace(NEW, matched_names=BOTH)
    clock.now += QUIET
    await left.look()
    assert standing(api) == replace(OLD, matched_names=BOTH)
    clock.now += QUIET
    await left.look()
    assert standing(api) == OLD


async def test_replicas_that_disagree_forever_end_wide(api: Keeping, clock: Clock) -> None:
    """They never take each other's keys away for good, stop writing, and say so."""
    replicas = [Replica(api, clock, want) for want in (OLD, NEW)]
    for _ in range(40):
        for replica in replicas:
            await replica.look()
        clock.now += QUIET
    assert standing(api).matched_names == BOTH
    # Within 40 minutes each narrows after 1, 2, 4, 8 and 16 of them, the other widens, and both take the name over.
    assert api.writes <= 30
    assert any(RegistrationMatter.CONTESTED in replica.kinds for replica in replicas)


async def test_an_older_version_leaves_a_newer_one_alone(api: Keeping, clock: Clock) -> None:
    """It only says what is missing; the newer one takes over what the older one wrote."""
    older, newer = Replica(api, clock, OLD, version="1.9.0"), Replica(api, clock, NEW, version="1.10.0")
    await older.look()
    await newer.look()
    assert api.metadata["annotations"][WRITTEN_BY] == f"1.10.0 {NEW.digest}"
    older.writer.adopt(replace(OLD, matched_names=names_set(prefixes=["d.com/"])))
    for _ in range(3):
        await older.look()
        clock.now += QUIET
    assert api.writes == 2
    assert older.kinds == [RegistrationMatter.WRITTEN, RegistrationMatter.NEWER]
    assert older.reports[-1].matter.warning
    assert "d.com/" in older.reports[-1].message
    api.stored = None
    await older.look()
    await newer.look()
    assert standing(api).digest == NEW.digest


async def test_a_lost_race_is_thought_over(api: Keeping, clock: Clock) -> None:
    """Somebody else wrote between reading and writing: the next write is made from the current object."""
    replica = Replica(api, clock)
    await replica.look()
    term = {"key": "late", "operator": "DoesNotExist"}

    def interfere() -> None:
        api.before_write = lambda: None
        api.set({SELECTOR: term})

    api.before_write = interfere
    replica.writer.adopt(NEW)
    await replica.look()
    assert api.webhooks[0]["namespaceSelector"]["matchExpressions"][-1] == term
    assert standing(api) == replace(NEW, matched_names=BOTH)


async def test_created_by_another_meanwhile(api: Keeping, clock: Clock) -> None:
    """Then there is nothing left to write."""
    other = registration(OLD, SITE, version="0.1.0")

    def interfere() -> None:
        api.before_write = lambda: None
        api.stored = {**other, "metadata": {**other["metadata"], "resourceVersion": "9"}}

    api.before_write = interfere
    replica = Replica(api, clock)
    await replica.look()
    assert api.calls == [f"GET {CONFIGURATION}", f"PATCH {CONFIGURATION}", f"GET {CONFIGURATION}"]


async def test_races_that_are_lost_again_and_again_end(api: Keeping, clock: Clock) -> None:
    """The look is put off, not spun."""
    replica = Replica(api, clock)
    await replica.look()
    api.before_write = lambda: api.set({})
    replica.writer.adopt(NEW)
    assert 0 < await replica.look() <= 1
    assert api.writes == 1 + 5


@pytest.mark.parametrize("deleted", [True, False])
async def test_somebody_who_keeps_changing_it_never_prevails(api: Keeping, clock: Clock, *, deleted: bool) -> None:
    """Repairs come slower and slower, and a minute apart at the longest; it is reported from the first, and as a fight."""
    replica = Replica(api, clock)
    await replica.look()
    repaired = []
    for _ in range(1200):
        if api.stored is not None and registration(OLD, SITE)["webhooks"] == api.stored["webhooks"]:
            repaired.append(clock.now)
            if deleted:
                api.stored = None
            else:
                api.set(IGNORE)
        rest = await replica.look()
        assert 0 < rest <= 600
        clock.now += min(rest, 0.8)
    pauses = [round(after - before, 1) for before, after in itertools.pairwise(repaired)]
    assert pauses[:4] == sorted(pauses[:4])
    assert pauses[5] > 10 > pauses[1]
    assert max(pauses) <= 61
    assert min(pauses[8:]) >= 59
    assert replica.kinds[:3] == [
        RegistrationMatter.WRITTEN,
        RegistrationMatter.REPAIRED,
        RegistrationMatter.WRITTEN,
    ]
    assert replica.kinds.count(RegistrationMatter.REPAIRED) == replica.kinds.count(RegistrationMatter.CONTESTED) == 1
    assert sum(replica.writer.repairs.values()) in {len(repaired) - 1, len(repaired)}


async def test_what_an_older_version_wrote_is_no_reason_to_wait(api: Keeping, clock: Clock) -> None:
    """However often a tool writes it, with additions, it is repaired within a minute, and reported as a change by others."""
    stored = {WRITER: f"0.0.1 {'2' * 12}", **IGNORE, "webhooks 0 objectSelector": {"matchLabels": {"x": "y"}}}
    replica = Replica(api, clock)
    await replica.look()
    for _ in range(12):
        api.set(stored)
        for _ in range(2):
            await replica.look()
            clock.now += 60
        assert api.webhooks == registration(OLD, SITE)["webhooks"]
    assert RegistrationMatter.REPAIRED in replica.kinds
    assert replica.writer.repairs[Change.REPAIRED] == 12


@pytest.mark.parametrize("deleted", [True, False])
async def test_as_desired_says_whether_pods_are_treated(api: Keeping, clock: Clock, *, deleted: bool) -> None:
    """Not while somebody's change waits for its repair."""
    replica = Replica(api, clock)
    assert replica.writer.as_desired is None
    await replica.look()
    assert replica.writer.as_desired
    for _ in range(2):
        if deleted:
            api.stored = None
        else:
            api.set(IGNORE)
        await replica.look()
    assert replica.writer.as_desired is False
    clock.now += 1
    await replica.look()
    assert replica.writer.as_desired


async def test_a_term_that_keeps_a_new_namespace_out_is_taken_out(api: Keeping, clock: Clock) -> None:
    """Until there was one, it could stay; who learns of a namespace looks again, but only where there is such a term."""
    spaces: list[dict[str, str]] = []
    replica = Replica(api, clock, opted_in=lambda: spaces)
    await replica.look()
    replica.writer.namespaces_changed()
    api.set({SELECTOR: {"key": "zone", "operator": "DoesNotExist"}})
    await replica.look()
    assert api.writes == 1
    spaces.append(TEAM)
    replica.writer.namespaces_changed()
    await replica.look()
    assert api.webhooks == registration(OLD, SITE)["webhooks"]


async def test_terms_that_an_administrator_wants_are_kept(api: Keeping, clock: Clock) -> None:
    """A documented annotation says so; they are reported, and no fault."""
    replica = Replica(api, clock, opted_in=lambda: [TEAM])
    await replica.look()
    labels = {"webhooks 0 namespaceSelector matchLabels": {"x": "y"}}
    api.set({**labels, f"metadata annotations {KEEP_SELECTORS}": "true"})
    await replica.look()
    assert api.writes == 1
    assert replica.kinds == [RegistrationMatter.WRITTEN, RegistrationMatter.FOREIGN]
    assert replica.writer.as_desired


async def test_the_owner_is_the_role_as_it_is_now(api: Keeping, clock: Clock) -> None:
    """A role created again has another uid: a reference to the old one would have the webhook configuration collected."""
    replica = Replica(api, clock, owner="release")
    await replica.look()
    assert "ownerReferences" not in api.metadata
    foreign = {"apiVersion": "v1", "kind": "Thing", "name": "x", "uid": "9"}
    api.set({"metadata ownerReferences": [foreign]})
    for uid in ("uid-1", "uid-1", "uid-2"):
        api.role = uid
        await replica.look()
        clock.now += 1
    assert api.metadata["ownerReferences"] == [
        foreign,
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "name": "release", "uid": "uid-2"},
    ]
    assert api.writes == 3


async def test_a_registration_that_went_with_its_release_stays_away(api: Keeping, clock: Clock) -> None:
    """A replica that still drains, and may still write, must not leave one behind that nobody collects."""
    replica = Replica(api, clock, owner="release")
    api.role = "uid-1"
    await replica.look()
    api.role = api.stored = None
    await replica.look()
    # The role may only be replaced.
    assert await replica.look() <= 60
    assert api.stored is None
    assert replica.writer.as_desired is False
    assert replica.kinds == [RegistrationMatter.WRITTEN, RegistrationMatter.REMOVED]
    assert not replica.reports[-1].matter.warning
    api.role = "uid-2"
    await replica.look()
    assert replica.kinds[-1] is RegistrationMatter.WRITTEN
    assert api.metadata["ownerReferences"][0]["uid"] == "uid-2"


async def test_trouble_is_reported_once_and_tried_again(api: Keeping, clock: Clock) -> None:
    """Refused or unreachable: the pauses grow up to a bound, and it continues when the trouble is over."""
    replica = Replica(api, clock)
    body = json.dumps({"kind": "Status", "reason": "Forbidden", "message": "may not", "code": 403}).encode()
    api.trouble = Answer(403, body)
    rests = [await replica.look() for _ in range(12)]
    assert replica.kinds == [RegistrationMatter.FAILED]
    assert "403 Forbidden: may not" in replica.reports[0].message
    assert 0.5 <= rests[0] <= 2
    assert 30 <= rests[-1] <= 60
    api.trouble = UnreachableError("nobody there")
    await replica.look()
    assert "nobody there" in replica.reports[-1].message
    api.trouble = None
    await replica.look()
    assert replica.kinds == [
        RegistrationMatter.FAILED,
        RegistrationMatter.FAILED,
        RegistrationMatter.WRITTEN,
    ]
    api.trouble = Answer(200, b"<html>")
    await replica.look()
    assert "not a JSON object" in replica.reports[-1].message


async def test_static_only_looks(api: Keeping, clock: Clock) -> None:
    """It says what is missing, once, and again when something else is."""
    replica = Replica(api, clock, mode=RegistrationMode.STATIC)
    await replica.look()
    await replica.look()
    assert [notice.message for notice in replica.reports] == [
        "the webhook configuration 00-vgpu-webhook is maintained by hand, and there is none"
    ]
    api.stored = registration(OLD, SITE)
    await replica.look()
    assert replica.kinds == [RegistrationMatter.LACKING]
    replica.writer.adopt(NEW)
    await replica.look()
    assert "does not let pods through for c.com/, c.com/y" in replica.reports[-1].message
    assert ENFORCE in replica.reports[-1].message
    assert api.writes == 0
    assert replica.writer.registered is None


async def test_it_runs_and_checks_on_request(api: Keeping) -> None:
    """At once, at every check, and not in between."""
    writer = Writer(api, SITE, OLD, lambda _: None)
    async with alongside(writer.run()):
        await until(lambda: api.writes == 1)
        await turns()
        seen = len(api.calls)
        await turns()
        assert len(api.calls) == seen
        api.stored = None
        for _ in range(10):
            writer.check()
        await until(lambda: api.writes == 2)
        writer.adopt(NEW)
        await until(lambda: api.writes == 3)
    assert standing(api) == replace(NEW, matched_names=BOTH)
    assert api.writes == 3


def pem(text: str) -> bytes:
    """A block that looks like a certificate's, for what is never verified here."""
    return b"-----BEGIN CERTIFICATE-----\n" + base64.b64encode(text.encode()) + b"\n-----END CERTIFICATE-----\n"


A, B, C = pem("a"), pem("b"), pem("c")


def bundles(api: Keeping) -> list[bytes]:
    """What stands in the webhooks."""
    return [base64.b64decode(webhook["clientConfig"].get("caBundle", "")) for webhook in api.webhooks]


def bundled(bundle: bytes) -> dict[str, str]:
    """What a hand does."""
    return {f"webhooks {number} clientConfig caBundle": base64.b64encode(bundle).decode() for number in range(2)}


async def test_a_new_ca_is_added_at_once_and_the_old_one_goes_after_quiet(api: Keeping, clock: Clock) -> None:
    """API servers learn of it at different moments, and so do replicas."""
    site = replace(SITE, ca_bundle=A)
    replica = Replica(api, clock, site=site)
    await replica.look()
    clock.now += 500
    replica.writer.adopt(OLD, replace(site, ca_bundle=B))
    rest = await replica.look()
    assert bundles(api) == [B + A, B + A]
    assert rest <= QUIET
    clock.now += QUIET - 1
    await replica.look()
    assert bundles(api) == [B + A, B + A]
    clock.now += 1
    await replica.look()
    assert bundles(api) == [B, B]
    assert replica.reports[-1].message.endswith("was narrowed")


async def test_who_is_not_sure_takes_nothing_out(api: Keeping, clock: Clock) -> None:
    """A replica that was cut off from the others may not know what they serve."""
    answers = [False, False, True]
    requests = 0

    async def is_current() -> bool:
        nonlocal requests
        requests += 1
        return answers[requests - 1]

    replica = Replica(api, clock, site=replace(SITE, ca_bundle=A), is_current=is_current)
    await replica.look()
    assert requests == 0, "there is nothing to be taken out"
    api.set(bundled(A + C))
    await replica.look()
    for left in (A + C, A + C, A):
        clock.now += QUIET
        await replica.look()
        assert bundles(api) == [left, left]
    assert requests == 3


@pytest.mark.parametrize("by_option", [True, False])
async def test_bundles_of_cert_manager_are_left_to_it(api: Keeping, clock: Clock, *, by_option: bool) -> None:
    """With cert-manager's annotation the caBundles stay; the rest is reconciled."""
    site = replace(SITE, ca_bundle=A, inject_ca_from="gpu/webhook" if by_option else None)
    replica = Replica(api, clock, site=site)
    await replica.look()
    assert bundles(api) == ([b"", b""] if by_option else [A, A])
    if not by_option:
        api.set({"metadata annotations cert-manager.io/inject-ca-from-secret": "gpu/x"})
    api.set({**bundled(C), **IGNORE})
    for _ in range(3):
        await replica.look()
        clock.now += QUIET
    assert bundles(api) == [C, C]
    assert api.webhooks[0]["failurePolicy"] == "Fail"


async def test_without_cas_of_our_own_the_bundle_is_left_alone(api: Keeping, clock: Clock) -> None:
    """Somebody else keeps the certificate, and does not say under which CA."""
    replica = Replica(api, clock, site=replace(SITE, ca_bundle=b""))
    await replica.look()
    api.set(bundled(C))
    clock.now += QUIET
    await replica.look()
    assert bundles(api) == [C, C]
    assert api.writes == 1


async def test_new_cas_are_no_repairs_and_no_new_policy(api: Keeping, clock: Clock) -> None:
    """They are always written, in the name of whoever's policy is there."""
    replica = Replica(api, clock, site=replace(SITE, ca_bundle=A))
    await replica.look()
    other = Replica(api, clock, NEW, site=replace(SITE, ca_bundle=A))
    await other.look()
    for number in range(5):
        replica.writer.adopt(OLD, replace(SITE, ca_bundle=pem(str(number))))
        await replica.look()
        assert pem(str(number)) in bundles(api)[0]
    assert standing(api).digest == NEW.digest
    assert RegistrationMatter.CONTESTED not in replica.kinds
