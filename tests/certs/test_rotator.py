"""Rotators on one store: what they serve and write, while others change the store."""

import asyncio
import datetime as dt

import pytest
from cryptography import x509

from certs.ca import StoreError, Trust, UnusablePairError, signed_by
from certs.plan import Rules
from certs.report import Report, ReportKind
from certs.rotator import Rotator, request_rotation
from certs.serving import Clocks, Serving
from certs.state import Retired, RotationRequest, State, completed_files, decode, der
from tests.certs.made import NAMES, NOW, Memory, state
from tests.waiting import alongside, until

RULES = Rules("test", NAMES)
SETTLE = 120.0


def ders(bundle: bytes) -> frozenset[bytes]:
    """The certificates in a PEM bundle."""
    return frozenset(der(certificate) for certificate in x509.load_pem_x509_certificates(bundle))


class World:
    """A webhook configuration that rotators write and watch, and one clock; seconds since `NOW`."""

    def __init__(self) -> None:
        self.at = 0.0
        self.store = Memory()
        self.bundles: list[frozenset[bytes]] | None = None

    def clocks(self) -> Clocks:
        """The clock of everybody here."""
        return Clocks(lambda: NOW + dt.timedelta(seconds=self.at), lambda: self.at)


class Replica:
    """One rotator, with what it reported and published."""

    def __init__(self, world: World, *, publishes: bool = True) -> None:
        self.world = world
        self.reports: list[Report[ReportKind]] = []
        self.published: frozenset[bytes] = frozenset()
        self.serving = Serving()
        self.trust = Trust(SETTLE)
        self.publishes = publishes
        self.keeper = Rotator(
            world.store,
            self.serving,
            RULES,
            trust=lambda: self.trust,
            publish=self._publish,
            report=self.reports.append,
            clocks=world.clocks(),
        )

    def _publish(self, bundle: bytes) -> None:
        self.published = ders(bundle)

    def register(self) -> None:
        """Write its CAs into the webhook configuration as a reconciler does, without removing those of others."""
        if self.publishes and self.published:
            found = self.world.bundles or [frozenset(), frozenset()]
            self.world.bundles = [self.published | bundle for bundle in found]

    def look(self) -> None:
        """See what is registered now."""
        self.trust = self.trust.observed(self.world.bundles, self.world.at)

    async def reconcile(self) -> float:
        """Look, keep, register, look again."""
        self.look()
        due = await self.keeper.reconcile()
        self.register()
        self.look()
        return due

    @property
    def kinds(self) -> list[ReportKind]:
        """What was reported, without its keys."""
        return [notice.kind for notice in self.reports]

    @property
    def leaf(self) -> x509.Certificate:
        """What is served."""
        assert self.serving.certificate is not None
        return self.serving.certificate


def stored(world: World) -> State:
    """What the store holds; there is something, and all of it can be used."""
    found = decode(world.store.files)
    assert found.state is not None
    assert not found.problems
    return found.state


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
    assert ReportKind.INVALID in replica.kinds
    assert all("PRIVATE" not in notice.message for notice in replica.reports)


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
        await until(lambda: ReportKind.BUG in replica.kinds)
        world.store.trouble = None
        await until(replica.keeper.served.is_set)
        assert ReportKind.RECOVERED in replica.kinds
    assert all("s3cr3t" not in notice.message for notice in replica.reports)
    assert replica.kinds.count(ReportKind.BUG) == 1


async def test_a_ca_that_cannot_be_used_stops_the_start() -> None:
    """It is left as it is, for somebody trusts it."""
    world = World()
    files = {**state().files(), "ca.key": b"garbage"}
    world.store.put(files)
    with pytest.raises(UnusablePairError, match="the CA has a key that is not valid PEM"):
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
                replica.reports.append(Report(ReportKind.STORE, str(error)))
    assert world.store.writes <= 130
    assert any("compare the clocks of all replicas" in notice.message for notice in (*ours.reports, *theirs.reports))
    assert ours.leaf.not_valid_before_utc <= NOW <= ours.leaf.not_valid_after_utc


async def test_asking_an_empty_store() -> None:
    """There is nothing to renew."""
    with pytest.raises(StoreError, match="contains no certificates yet"):
        await request_rotation(Memory(), RotationRequest.SERVING_CERTIFICATE)


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


def test_memory_fills_what_is_missing_and_nothing_else() -> None:
    """What others have changed since stays."""
    remembered, other = state(), state()
    assert completed_files(None, remembered) == remembered
    assert completed_files(remembered, None) == remembered
    assert completed_files(other, remembered) == other
    assert remembered.ca is not None
    certificate = remembered.ca.certificate
    keyless = State(None, retired=(Retired(certificate, NOW),), serving_pair=remembered.serving_pair)
    assert completed_files(keyless, remembered) == remembered
    moved = State(other.ca, serving_pair=None)
    assert completed_files(moved, remembered) == moved
