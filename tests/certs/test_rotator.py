"""Rotators on one store: what they serve and write, while others change the store."""

import asyncio
import datetime as dt
import heapq
import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache, partial

import pytest
from cryptography import x509
from hypothesis import given, settings
from hypothesis import strategies as st

from certs.ca import StoreError, Trust, UnusablePairError, signed_by
from certs.plan import Rules
from certs.report import Report, ReportKind
from certs.rotator import Rotator, request_rotation
from certs.serving import Clocks, Serving
from certs.state import Retired, RotationRequest, State, completed_files, decode, der
from tests.certs.made import NAMES, NOW, Memory, state
from tests.waiting import alongside, until

pytestmark = pytest.mark.slow

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

    @property
    def registered(self) -> frozenset[bytes] | None:
        """What all webhooks of the webhook configuration hold; None if there is no webhook configuration."""
        return None if self.bundles is None else frozenset.intersection(*self.bundles)

    @registered.setter
    def registered(self, cas: frozenset[bytes] | None) -> None:
        self.bundles = None if cas is None else [cas, cas]

    def clocks(self) -> Clocks:
        """The clock of everybody here."""
        return Clocks(lambda: NOW + dt.timedelta(seconds=self.at), lambda: self.at)


class Replica:
    """One rotator, with what it reported and published."""

    def __init__(self, world: World, rules: Rules = RULES, *, publishes: bool = True) -> None:
        self.world = world
        self.reports: list[Report[ReportKind]] = []
        self.published: frozenset[bytes] = frozenset()
        self.serving = Serving()
        self.trust = Trust(SETTLE)
        self.publishes = publishes
        self.keeper = Rotator(
            world.store,
            self.serving,
            rules,
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


@dataclass(frozen=True)
class Delays:
    """Seconds after which each rotator, and each API server, sees what was written to the webhook configuration."""

    keepers: tuple[float, ...]
    servers: tuple[float, ...]


@cache
def trusted(leaf: x509.Certificate, bundle: frozenset[bytes]) -> bool:
    """Whether a bundle has the CA of a certificate."""
    return any(signed_by(leaf, x509.load_der_x509_certificate(each)) for each in bundle)


class Simulation:
    """Keepers, a webhook configuration that is seen late, and API servers that call whoever serves."""

    def __init__(self, delays: Delays) -> None:
        self.world = World()
        self.delays = delays
        self.replicas = [self._replica(number) for number in range(len(delays.keepers))]
        self.server_views: list[frozenset[bytes] | None] = [None for _ in delays.servers]
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._dues = [0.0 for _ in self.replicas]
        for number in range(len(self.replicas)):
            self.replicas[number].look()

    def _replica(self, number: int) -> Replica:
        return Replica(self.world, replace(RULES, lead=(number % 3 - 1) * 0.04))

    def later(self, delay: float, what: Callable[[], None]) -> None:
        """Do something after a delay."""
        heapq.heappush(self._queue, (self.world.at + delay, next(self._numbers), what))

    def restart(self, number: int) -> None:
        """A replica ends; another takes its place, remembers nothing and sees the webhook configuration as it is now."""
        self.replicas[number] = self._replica(number)
        self.replicas[number].look()
        self._dues[number] = self.world.at

    async def run(self, until: float, events: Iterable[tuple[float, Callable[["Simulation"], None]]]) -> None:
        """Let time pass, from one thing that is due to the next."""
        for moment, event in events:
            self.later(moment - self.world.at, partial(event, self))
        while self.world.at < until:
            moments = [*self._dues, *(moment for moment, _, _ in self._queue[:1])]
            self.world.at = max(self.world.at, min(moments))
            while self._queue and self._queue[0][0] <= self.world.at:
                heapq.heappop(self._queue)[2]()
                self._dues = [self.world.at for _ in self._dues]
            for number, replica in enumerate(self.replicas):
                if self._dues[number] <= self.world.at:
                    await self._keep(number, replica)
            self.check()

    async def _keep(self, number: int, replica: Replica) -> None:
        writes = self.world.store.writes
        self._dues[number] = self.world.at + max(await replica.keeper.reconcile(), 0.001)
        if self.world.store.writes != writes:
            # The others' watches on the store.
            self.later(0.0 if number % 2 else 5.0, lambda: None)
        wanted = replica.published | (self.world.registered or frozenset())
        if wanted != self.world.registered:
            self.world.registered = wanted
            for other, delay in enumerate(self.delays.keepers):
                self.later(delay, partial(self._keeper_sees, other, wanted))
            for server, delay in enumerate(self.delays.servers):
                self.later(delay, partial(self._server_sees, server, wanted))

    def _keeper_sees(self, number: int, bundle: frozenset[bytes]) -> None:
        replica = self.replicas[number]
        replica.trust = replica.trust.observed([bundle, bundle], self.world.at)

    def _server_sees(self, number: int, bundle: frozenset[bytes]) -> None:
        self.server_views[number] = bundle

    def check(self) -> None:
        """Whoever calls whomever trusts what is shown."""
        now = NOW + dt.timedelta(seconds=self.world.at)
        for replica in self.replicas:
            leaf = replica.serving.certificate
            if leaf is None:
                continue
            assert leaf.not_valid_before_utc <= now <= leaf.not_valid_after_utc
            for view in self.server_views:
                assert view is None or trusted(leaf, view), f"uncovered at {self.world.at}"


def requests(requested: RotationRequest) -> Callable[[Simulation], None]:
    """A rotation is requested."""

    def event(simulation: Simulation) -> None:
        found = decode(simulation.world.store.files).state
        if found is not None:
            simulation.world.store.put(replace(found, requested=requested).files())

    return event


def empties(simulation: Simulation) -> None:
    """Somebody deletes the store."""
    if any(replica.serving.certificate for replica in simulation.replicas):
        simulation.world.store.put(None)


def damages(simulation: Simulation) -> None:
    """Somebody writes garbage over the serving certificate."""
    if simulation.world.store.files:
        simulation.world.store.put({**simulation.world.store.files, "tls.crt": b"garbage"})


def restarts(number: int) -> Callable[[Simulation], None]:
    """A replica is replaced, unless it is the last to remember what an emptied store held."""

    def event(simulation: Simulation) -> None:
        index = number % len(simulation.replicas)
        others = [replica for at, replica in enumerate(simulation.replicas) if at != index]
        if simulation.world.store.files or any(replica.keeper.state is not None for replica in others):
            simulation.restart(index)

    return event


EVENTS = st.one_of(
    st.sampled_from([requests(RotationRequest.SERVING_CERTIFICATE), requests(RotationRequest.CA), empties, damages]),
    st.integers(0, 2).map(restarts),
)


@settings(max_examples=15, deadline=None)
@given(
    keepers=st.lists(st.sampled_from([0.0, 7.0, 60.0, 300.0]), min_size=1, max_size=3),
    servers=st.lists(st.sampled_from([0.0, SETTLE / 2, SETTLE - 1]), min_size=1, max_size=3),
    events=st.lists(st.tuples(st.floats(1000, 5000), EVENTS), max_size=8),
)
async def test_no_client_gets_a_certificate_that_it_does_not_trust(
    keepers: list[float], servers: list[float], events: list[tuple[float, Callable[[Simulation], None]]]
) -> None:
    """However late rotators and API servers see each other's writes, whoever is restarted, whatever is damaged.

    Only where the store is emptied while no replica remembers what it held, nobody can serve under a CA that is trusted.
    """
    simulation = Simulation(Delays(tuple(keepers), tuple(servers)))
    await simulation.run(6000, [(900.0, requests(RotationRequest.CA)), *events])
    assert all(replica.serving.certificate is not None for replica in simulation.replicas)
