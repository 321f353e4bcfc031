"""The first certificate of a replica: at once where nobody else can be answering, else not before the others."""

import datetime as dt
from collections.abc import Collection, Sequence

import pytest

from certs.rotation import CA_KEY, CERTIFICATE, KEY, RETURN_TIME, State
from certs.upkeep import FAILURES, CertificateMatter
from certs.x509 import Pair, der, issue, make_ca
from tests.certs.made import DAY, NAMES, NOW
from tests.certs.made import stored as holding
from tests.certs.test_upkeep import SETTLE, Replica, World, stored

STRANGER = make_ca("stranger", NOW - 100 * DAY)
OLD = make_ca("old", NOW - 100 * DAY)


def used(ca: Pair = OLD, since: dt.datetime = NOW - DAY) -> State:
    """A CA that all replicas have served under for a day."""
    return holding(ca, pair=issue(ca, NAMES, since))


def world(state: State | None, *bundles: Collection[Pair]) -> World:
    """A store, and what each webhook of the webhook configuration holds."""
    made = World()
    made.store.files = None if state is None else state.files()
    made.bundles = [frozenset(der(each.certificate) for each in bundle) for bundle in bundles]
    return made


async def seconds(replicas: Sequence[Replica], longest: float = 2 * SETTLE) -> list[float | None]:
    """Seconds after which each replica serves, while its reconciler writes the webhook configuration."""
    lost = replicas[0].world
    served: list[float | None] = [None for _ in replicas]
    begin = lost.at
    while lost.at - begin <= longest and None in served:
        for number, replica in enumerate(replicas):
            await replica.reconcile()
            if served[number] is None and replica.keeper.served.is_set():
                served[number] = lost.at - begin
        lost.at += 1
    return served


@pytest.mark.parametrize(
    "bundles",
    [([], []), ([OLD], []), ([STRANGER], [STRANGER]), ([STRANGER], []), ([OLD], [STRANGER]), ([OLD], [OLD])],
    ids=["both empty", "one empty", "a stranger's", "a stranger's and none", "one a stranger's", "as it should be"],
)
async def test_what_all_serve_is_served_as_soon_as_it_is_in_the_bundle(bundles: Sequence[Collection[Pair]]) -> None:
    """Whatever the bundles hold: no replica is left that waiting would be for."""
    [after] = await seconds([Replica(world(used(), *bundles))])
    assert after is not None
    assert after <= 1, "the reconciler has to write first"


async def test_lost_together_with_the_bundle() -> None:
    """Who trusts nobody can be served, by all replicas alike, whenever they start."""
    lost = world(None, [], [])
    first, second = Replica(lost), Replica(lost)
    assert await seconds([first]) == [1]
    assert await seconds([second]) == [0]
    assert first.leaf == second.leaf


async def test_lost_while_the_bundle_holds_what_nobody_can_serve() -> None:
    """A CA that no replica writes back within seconds counts as unused; all replicas conclude this together."""
    lost = world(None, [OLD], [OLD])
    first = Replica(lost)
    await first.reconcile()
    lost.at += 3
    assert await seconds([first, Replica(lost)]) == [RETURN_TIME - 3, RETURN_TIME - 3]


@pytest.mark.parametrize("lost", [(CA_KEY, CERTIFICATE, KEY), (CA_KEY, KEY), (CA_KEY, CERTIFICATE)])
async def test_keys_that_are_lost_for_all(lost: tuple[str, ...]) -> None:
    """Nobody can serve under the CA: it counts as lost."""
    damaged = world(used(), [OLD], [OLD])
    assert damaged.store.files is not None
    damaged.store.files = {name: b"garbage" if name in lost else text for name, text in damaged.store.files.items()}
    assert await seconds([Replica(damaged), Replica(damaged)]) == [RETURN_TIME, RETURN_TIME]


async def test_lost_while_another_replica_serves() -> None:
    """It says so, and the new one waits until what it made has settled."""
    lost = world(used(), [OLD], [OLD])
    running = Replica(lost)
    await running.reconcile()
    assert running.keeper.served.is_set()
    lost.store.files = None
    new = Replica(lost)
    await new.reconcile()
    assert not new.keeper.served.is_set()
    lost.at += 1
    await running.reconcile()
    assert OLD.certificate in stored(lost).cas
    after = await seconds([running, new])
    assert after[1] is not None
    assert after[1] >= SETTLE - 1
    third = Replica(lost)
    assert await seconds([third]) == [0], "by now it has settled"


async def test_a_replica_that_starts_while_another_one_moves() -> None:
    """What is in the bundle at its first look is too young to have settled: it waits as the others do."""
    lost = world(used(), [OLD], [OLD])
    running = Replica(lost)
    await running.reconcile()
    lost.store.files = None
    new = Replica(lost)
    await new.reconcile()
    await running.reconcile()
    lost.at += 20
    late = Replica(lost)
    await late.reconcile()
    assert not late.keeper.served.is_set()


async def test_a_ca_in_use_is_written_back() -> None:
    """Whoever deletes it: a replica serves under it, and moves to another one only when callers know that."""
    lost = world(used(), [OLD], [OLD])
    running = Replica(lost)
    await running.reconcile()
    leaf = running.leaf
    lost.store.put(used(make_ca("other", NOW - 10 * DAY)).files())
    await running.reconcile()
    assert OLD.certificate in stored(lost).cas
    assert running.leaf == leaf


async def test_a_registration_that_nobody_mends() -> None:
    """A replica that nobody could call does not become ready, or a rolling update would stop those that are called."""
    for bundle in ([STRANGER], []):
        replica = Replica(world(None, bundle, bundle), publishes=False)
        assert await seconds([replica]) == [None]
        assert replica.kinds[-1] is CertificateMatter.UNTRUSTED


async def test_a_report_says_that_no_caller_trusts_it() -> None:
    """Once, and as a failure."""
    lost = world(used(), [], [])
    replica = Replica(lost)
    await replica.reconcile()
    await replica.keeper.reconcile()
    assert replica.kinds == [CertificateMatter.UNTRUSTED, CertificateMatter.SERVED]
    assert "caBundle does not contain" in replica.reports[0].message
    assert replica.reports[0].matter in FAILURES
