"""Rotators on one store: what they serve and write, while others change the store; how often they try, and what they tell."""

import asyncio
import datetime as dt

import pytest
from cryptography import x509

from certs.rotation import RotationRequest, Rules, State, Trust, decode
from certs.store import Serving
from certs.upkeep import (
    Backoff,
    CertificateMatter,
    CertificateNotice,
    Notice,
    Notices,
    Rotator,
    Surroundings,
    failure,
    recovered,
    request_rotation,
)
from certs.x509 import StoreError, UnusablePairError, by_der, signed_by
from tests.certs.made import NAMES, NOW, Memory, state
from tests.waiting import alongside, until

RULES = Rules("test", NAMES)
SETTLE = 120.0


class World:
    """A webhook configuration that rotators write and watch, and one clock; seconds since `NOW`."""

    def __init__(self) -> None:
        self.at = 0.0
        self.store = Memory()
        self.bundles: list[frozenset[bytes]] | None = None


class Replica:
    """One rotator, with what it reported and published."""

    def __init__(self, world: World, *, publishes: bool = True) -> None:
        self.world = world
        self.reports: list[CertificateNotice] = []
        self.published: frozenset[bytes] = frozenset()
        self.serving = Serving()
        self.trust = Trust(SETTLE)
        self.publishes = publishes
        self.keeper = Rotator(
            world.store,
            RULES,
            Surroundings(
                self.serving,
                lambda: self.trust,
                self._publish,
                self.reports.append,
                now=lambda: NOW + dt.timedelta(seconds=world.at),
                seconds=lambda: world.at,
            ),
        )

    def _publish(self, bundle: bytes) -> None:
        self.published = frozenset(by_der(bundle))

    def register(self) -> None:
        """Write its CAs into the webhook configuration as a reconciler does, without removing those of others."""
        if self.publishes and self.published:
            found = self.world.bundles or [frozenset(), frozenset()]
            self.world.bundles = [self.published | bundle for bundle in found]

    def look(self) -> None:
        self.trust = self.trust.observed(self.world.bundles, self.world.at)

    async def reconcile(self) -> float:
        self.look()
        due = await self.keeper.reconcile()
        self.register()
        self.look()
        return due

    @property
    def kinds(self) -> list[CertificateMatter]:
        return [notice.matter for notice in self.reports]

    @property
    def leaf(self) -> x509.Certificate:
        assert self.serving.certificate is not None
        return self.serving.certificate


def stored(world: World) -> State:
    """What the store holds; there is something, and it can be used."""
    found = decode(world.store.files)
    assert found is not None
    return found


async def test_ten_at_once_end_with_one_ca() -> None:
    """Whoever loses reads again and serves what the winner made."""
    world = World()
    replicas = [Replica(world) for _ in range(10)]
    await asyncio.gather(*(replica.reconcile() for replica in replicas))
    [ca] = stored(world).cas
    assert {replica.leaf for replica in replicas} == {replicas[0].leaf}
    assert signed_by(replicas[0].leaf, ca)
    assert world.store.writes == 1


@pytest.mark.parametrize("name", ["tls.crt", "tls.key", "ca.crt", "ca.key"])
async def test_a_damaged_store_is_repaired_from_memory(name: str) -> None:
    """It is reported, the old serving certificate stays in use, and none is created."""
    world = World()
    replica = Replica(world)
    await replica.reconcile()
    leaf, before = replica.leaf, dict(world.store.files or {})
    world.store.put({**before, name: b"garbage"})
    await replica.reconcile()
    assert world.store.files == before
    assert replica.leaf == leaf
    assert {CertificateMatter.INVALID, CertificateMatter.RESTORED} <= set(replica.kinds)
    assert CertificateMatter.RECOVERED not in replica.kinds
    assert all("PRIVATE" not in notice.message for notice in replica.reports)
    await replica.reconcile()
    assert replica.kinds[-1] is CertificateMatter.RECOVERED


async def test_a_new_ca_is_served_once_callers_know_it() -> None:
    """Asked for, it is published at once; each replica moves when it has settled, and the old CA stays."""
    world = World()
    replicas = [Replica(world), Replica(world)]
    for replica in replicas:
        await replica.reconcile()
    old = replicas[0].leaf
    world.at += 1
    await request_rotation(world.store, RotationRequest.CA)
    for _ in range(int(SETTLE)):
        for replica in replicas:
            await replica.reconcile()
            assert replica.leaf == old
        world.at += 1
    for _ in range(2):
        for replica in replicas:
            await replica.reconcile()
        world.at += 1
    assert replicas[0].leaf == replicas[1].leaf != old
    first, second = stored(world).cas
    assert signed_by(old, first)
    assert signed_by(replicas[0].leaf, second)


async def test_trouble_with_the_store_changes_nothing_that_is_served() -> None:
    """`reconcile` raises it; the serving certificate stays, and does not count as current."""
    world = World()
    replica = Replica(world)
    await replica.reconcile()
    leaf = replica.leaf
    world.store.trouble = StoreError("the store", "is on fire")
    with pytest.raises(StoreError):
        await replica.reconcile()
    assert not await replica.keeper.is_current()
    assert replica.leaf == leaf


async def test_nothing_kills_the_keeper() -> None:
    """An unexpected error is reported once, without its text, which may be confidential; work continues when it is over."""
    world = World()
    replica = Replica(world)
    replica.look()
    world.store.trouble = RuntimeError("s3cr3t")
    async with alongside(replica.keeper.run()):
        await until(lambda: CertificateMatter.BUG in replica.kinds)
        world.store.trouble = None
        await until(replica.keeper.served.is_set)
        assert CertificateMatter.RECOVERED in replica.kinds
    assert all("s3cr3t" not in notice.message for notice in replica.reports)
    assert replica.kinds.count(CertificateMatter.BUG) == 1


async def test_a_ca_that_cannot_be_used_stops_the_start() -> None:
    """It is left as it is, for somebody trusts it."""
    world = World()
    files = {**state().files(), "ca.key": b"garbage"}
    world.store.put(files)
    with pytest.raises(UnusablePairError, match="the CA has no key"):
        await Replica(world).keeper.start()
    assert world.store.files == files


async def test_replicas_whose_clocks_are_far_apart_do_not_write_forever() -> None:
    """Each finds the other's serving certificate invalid: the error says so; the right clock's one is valid."""
    world, ahead = World(), World()
    ahead.store = world.store
    ahead.at = 200 * 86400.0
    ours, theirs = Replica(world), Replica(ahead)
    for _ in range(200):
        for replica in (ours, theirs):
            try:
                await replica.keeper.reconcile()
                replica.look()
            except (StoreError, UnusablePairError) as error:
                replica.reports.append(Notice(CertificateMatter.STORE, str(error)))
    assert world.store.writes <= 130
    assert any("compare the clocks of all replicas" in notice.message for notice in (*ours.reports, *theirs.reports))
    assert ours.leaf.not_valid_before_utc <= NOW <= ours.leaf.not_valid_after_utc


@pytest.mark.parametrize(
    "first, second, left",
    [("certificate", "ca", b"ca"), ("ca", "certificate", b"ca"), ("certificate", "certificate", b"certificate")],
)
async def test_requests(first: str, second: str, left: bytes) -> None:
    """One for a CA stays, for it includes a new serving certificate; nothing else changes, and nothing is nothing to renew."""
    store = Memory()
    assert await request_rotation(store, RotationRequest(first)) is None
    assert not store.writes
    store.put(files := state().files())
    for requested in (first, second):
        assert await request_rotation(store, RotationRequest(requested))
    assert store.files == {**files, "rotate": left}


async def test_sure_only_of_what_was_read_last() -> None:
    """Before anything is taken away from callers."""
    world = World()
    replica = Replica(world)
    await replica.reconcile()
    assert not await replica.keeper.is_current(), "its own write has not been read again"
    await replica.reconcile()
    assert await replica.keeper.is_current()
    world.store.put(state().files())
    assert not await replica.keeper.is_current()


def test_pauses_double_up_to_the_longest() -> None:
    """Each failure doubles the pause, up to the longest one; a success starts over."""
    backoff = Backoff(0.5, 3.0)
    assert [backoff.failed() for _ in range(5)] == [0.5, 1.0, 2.0, 3.0, 3.0]
    backoff.reset()
    assert (backoff.failures, backoff.failed()) == (0, 0.5)


def test_chance_takes_away_up_to_half() -> None:
    """Replicas that fail together do not retry together."""
    assert Backoff(2.0, 60.0, lambda: 0.0).failed() == 1.0
    assert Backoff(2.0, 60.0, lambda: 1.0).failed() == 2.0


def test_days_of_failures() -> None:
    """The exponent is bounded."""
    backoff = Backoff(1.0, 60.0)
    assert {backoff.failed() for _ in range(3000)} == {1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0}


def test_told_once_until_it_changes_or_is_over() -> None:
    """The end of a failure is told once; the end of other states is not."""
    sent: list[CertificateNotice] = []
    notices = Notices(sent.append)

    def news() -> list[str]:
        lines = [f"{notice.matter.value}: {notice.message}" for notice in sent]
        sent.clear()
        return lines

    for message in ("a", "a", "b"):
        notices.tell_once(CertificateMatter.STORE, message)
    notices.tell_once(CertificateMatter.WAITING, "c")
    assert news() == ["store: a", "store: b", "waiting: c"]
    recovered(notices, {CertificateMatter.WAITING})
    recovered(notices)
    assert news() == ["recovered: the certificates are renewed again"]
    notices.tell_once(CertificateMatter.WAITING, "c")
    notices.forget(CertificateMatter.WAITING)
    notices.tell_once(CertificateMatter.WAITING, "c")
    assert news() == ["waiting: c"] * 2


def test_one_thing_at_a_time() -> None:
    """If one replaces the other, each is told every time."""
    sent: list[CertificateNotice] = []
    notices = Notices(sent.append)
    for message in ("a", "a"):
        notices.only(CertificateMatter.STORE, message)
    notices.only(CertificateMatter.WAITING, "b")
    recovered(notices)
    notices.only(CertificateMatter.STORE, "a")
    assert [notice.message for notice in sent] == ["a", "b", "a"]


def test_failures() -> None:
    """Each by its kind; what is unknown without its text."""
    assert failure(UnusablePairError("the serving certificate", "is old")) == (
        CertificateMatter.INVALID,
        "the serving certificate is old",
    )
    assert failure(StoreError("there", "is gone")) == (CertificateMatter.STORE, "there: is gone")
    assert failure(ValueError("secret")) == (CertificateMatter.BUG, "renewing the certificates failed: ValueError")
