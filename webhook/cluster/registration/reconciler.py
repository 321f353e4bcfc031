"""Reconciles the webhook configuration: reads it when it has changed and now and then, and writes what is missing.

Every replica does so, without a leader: each write is made against the version that was read, and if nothing differs,
nothing is written. If something keeps undoing repairs, these slow down, to one a minute.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

from certs.backoff import Backoff
from certs.pem import by_der
from webhook import __version__
from webhook.cluster.client.api import Api, Object, StatusError, UnreachableError
from webhook.cluster.client.owner import owner_reference
from webhook.cluster.registration.comparison import (
    Difference,
    Labels,
    Severity,
    differences,
    harmless,
    keeps_selectors,
    opted_in_as,
    other_writers,
)
from webhook.cluster.registration.config import Mode, ReconcileConfig
from webhook.cluster.registration.desired import Desired, Site
from webhook.cluster.registration.observed import Observed, Version, read_observed
from webhook.cluster.registration.quiet import QuietPeriod
from webhook.cluster.registration.repairs import RepairPace, Repairs
from webhook.cluster.registration.report import Report
from webhook.cluster.registration.reporter import Reporter
from webhook.cluster.registration.stored import StoredConfiguration
from webhook.cluster.registration.update import Change, Update, Writer, spares, update_for

ATTEMPTS: Final = 5
"""Tries of one pass that may lose against other writers; as many replicas may start at once."""

CONTESTED: Final = 4
"""Repairs in a row after which it is clear that two writers undo each other's work."""


class Reconciler:
    """Reconciles one webhook configuration with one policy; see `reconcile` for what it does and `run` for when."""

    def __init__(
        self,
        api: Api,
        site: Site,
        want: Desired,
        tell: Callable[[Report], None],
        *,
        mode: Mode = Mode.MANAGED,
        owner: str | None = None,
        version: str = __version__,
        timing: ReconcileConfig | None = None,
        clock: Callable[[], float] = time.monotonic,
        is_current: Callable[[], Awaitable[bool]] | None = None,
        opted_in: Callable[[], Sequence[Labels]] = tuple,
        serving: Callable[[], bool] = lambda: True,
    ) -> None:
        """Make a reconciler; no request is made yet.

        Args:
            api: the API server.
            site: where the webhook is.
            want: what the policy in force requires.
            tell: called with each report; it must not block.
            mode: who maintains the webhook configuration.
            owner: the ClusterRole of the release, which owns the webhook configuration.
            version: of this program.
            timing: other times, for tests.
            clock: monotonic seconds.
            is_current: called before CAs are removed: whether other replicas can be using none but those of `site`.
            opted_in: returns the labels of each namespace that has opted in, as far as is known.
            serving: whether callers that trust the CAs of `site` can be answered.
        """
        self._api = api
        self._registered: Observed | None = None
        self._writer = Writer(Version(version), want, site)
        self._reporter = Reporter(tell)
        self._stored = StoredConfiguration(api)
        self._mode = mode
        self._owner = owner
        self._timing = timing or ReconcileConfig()
        self._clock = clock
        self._is_current = is_current
        self._opted_in = opted_in
        self._serving = serving
        self._sparing = False
        self._moved = False
        pace = self._timing
        self._quiet = QuietPeriod(pace.quiet, clock)
        self._repairs = Repairs(
            RepairPace(pace.repair, pace.repair_at_most, pace.calm),
            RepairPace(pace.quiet, pace.narrow_at_most, 2 * pace.narrow_at_most),
        )
        self._as_desired: bool | None = None
        self._backoff = Backoff(pace.retry, pace.retry_at_most, random.random)
        self._owned = False
        self._wake = asyncio.Event()
        self._pass = asyncio.Lock()

    @property
    def want(self) -> Desired:
        """What the policy in force requires."""
        return self._writer.want

    @property
    def registered(self) -> Observed | None:
        """The webhook configuration when it was last read or written.

        None before that, and if others maintain it: its digest would say nothing about other replicas.
        """
        return self._registered if self._mode is Mode.MANAGED else None

    @property
    def repairs(self) -> Mapping[Change, int]:
        """The number of repairs, by kind."""
        return self._repairs.counts

    @property
    def as_desired(self) -> bool | None:
        """Whether the webhook configuration lets through every pod that the policy requires; None before that is known."""
        return self._as_desired

    def adopt(self, want: Desired, site: Site | None = None) -> None:
        """Adopt another policy, or new CAs, and reconcile soon."""
        site = site or self._writer.site
        if (want, site) != (self._writer.want, self._writer.site):
            # New CAs are no reason to replace a policy that another replica has announced.
            announced = self._writer.announced and want == self._writer.want
            self._moved = self._moved or site != self._writer.site
            self._writer = replace(self._writer, want=want, site=site, announced=announced)
            self._quiet.restart()
            self.check()

    def namespaces_changed(self) -> None:
        """Reconcile soon if foreign terms may keep out a new namespace."""
        if self._registered is not None and self._registered.foreign:
            self.check()

    def check(self) -> None:
        """Reconcile soon: something may have changed. Cheap; many calls at once cause one pass."""
        self._wake.set()

    async def run(self) -> None:
        """Reconcile now, at each `check`, and now and then, until cancelled."""
        while True:
            self._wake.clear()
            rest = await self.reconcile()
            with suppress(TimeoutError):
                async with asyncio.timeout(rest):
                    await self._wake.wait()

    async def reconcile(self) -> float:
        """Read the webhook configuration and update it if needed; seconds until the next pass.

        Nothing is raised: failures are reported, and retried.
        """
        if self._mode is Mode.OFF:
            return self._timing.period
        async with self._pass:
            try:
                rest = await self._look()
            except (UnreachableError, StatusError) as error:
                if isinstance(error, StatusError):
                    self._as_desired = False
                self._reporter.failed(error)
                return self._backoff.failed()
            self._backoff.reset()
            self._reporter.succeeded()
            return rest

    async def _look(self) -> float:
        for _ in range(ATTEMPTS):
            found = await self._stored.read()
            read = self._observe(found)
            if self._mode is Mode.STATIC or self._left_to_newer(found, read):
                self._compare(found)
                return self._some_time()
            owner = await owner_reference(self._api, self._owner)
            if found is None and owner is None and self._owned:
                # Written now, it would outlive its release, and block pods for good.
                self._reporter.removed(self._owner)
                return self._some_time()
            self._owned = self._owned or owner is not None
            writer = replace(self._writer, owner=owner, serving=self._serving())
            change = update_for(found, self._kept(found, read), writer, quiet=await self._may_narrow(read))
            # Becoming able to answer is no repair.
            answered = self._sparing and change is not None and not spares(change.configuration)
            repair = writer.announced and not self._moved and not answered
            if change is not None and repair:
                rest = self._repairs.pace(change.change).rest(self._clock())
                if rest > 0:
                    return self._put_off(change, found, rest)
            if change is None or await self._write(change, found, repair=repair):
                self._spared(found if change is None else change.configuration)
                # Only if no other policy was adopted meanwhile.
                if writer.want is self._writer.want and writer.site is self._writer.site:
                    self._writer = replace(self._writer, announced=True)
                    self._moved = False
                    return self._some_time()
                return 0.0
        return self._backoff.failed()

    def _spared(self, configuration: Object | None) -> None:
        """Note whether pods wait for an answer, under a configuration that was found or written."""
        self._sparing = configuration is not None and spares(configuration)
        self._as_desired = not self._sparing
        self._reporter.sparing(sparing=self._sparing)

    def _observe(self, found: Object | None) -> Observed:
        """Note the configuration that was found, and whether it has changed."""
        read = Observed() if found is None else read_observed(found, self.want.opt_in)
        self._registered = read
        self._quiet.see(read)
        return read

    def _kept(self, found: Object | None, read: Observed) -> Observed:
        """What was read, without what must not be kept: foreign terms that keep pods out, a newer version's annotation."""
        if found is None or keeps_selectors(found):
            kept = read.foreign
        else:
            opted_in = self._opted_in() if read.foreign else ()
            left = {
                name: harmless(terms, opted_in_as(name, self.want, opted_in)) for name, terms in read.foreign.items()
            }
            kept = {name: terms for name, terms in left.items() if terms}
        self._reporter.kept(kept)
        if read.version is not None and read.version > self._writer.version:
            return Observed(foreign=kept, bundles=read.bundles, injected=read.injected)
        return replace(read, foreign=kept)

    def _left_to_newer(self, found: Object | None, read: Observed) -> bool:
        """Whether a newer version maintains the webhook configuration.

        Its annotation is ignored if the configuration has something that no version writes, or if it differs and other
        programs own fields of it: anybody can write an annotation.
        """
        if found is None or read.version is None or not read.version > self._writer.version:
            return False
        faults = self._differences(found)
        forged = any(one.severity is Severity.NO_VERSION_WRITES for one in faults)
        return not forged and not (faults and other_writers(found))

    def _differences(self, found: Object | None) -> list[Difference]:
        return differences(found, self.want, self._writer.site, self._opted_in())

    def _compare(self, found: Object | None) -> None:
        faults = self._differences(found)
        self._as_desired = all(fault.severity is Severity.SLIGHT for fault in faults)
        if self._mode is Mode.STATIC:
            self._reporter.by_hand(faults)
        else:
            self._reporter.newer(faults)

    async def _write(self, change: Update, found: Object | None, *, repair: bool) -> bool:
        """Write an update; False if another writer was faster, and it has to be computed again."""
        store = self._stored
        written = await (store.create if found is None else store.replace)(change.configuration)
        if written is None:
            return False
        if repair:
            self._repairs.made(change.change, self._clock())
            first = self._repairs.pace(change.change).in_a_row(self._clock()) == 1
            self._reporter.repaired(change.change, found, self._differences(found), first=first)
        self._observe(written)
        self._reporter.written(change.change)
        return True

    def _put_off(self, change: Update, found: Object | None, rest: float) -> float:
        faults = self._differences(found)
        self._as_desired = all(one.severity is Severity.SLIGHT for one in faults)
        if self._repairs.pace(change.change).in_a_row(self._clock()) >= CONTESTED:
            self._reporter.contested(change.change, found, faults, self._timing.repair_at_most)
        return rest

    async def _may_narrow(self, read: Observed) -> bool:
        """Whether nothing has changed for a while, and no replica needs a CA that is not known here."""
        return self._quiet.over and (not self._has_others(read) or self._is_current is None or await self._is_current())

    def _has_others(self, read: Observed) -> bool:
        """Whether the bundles, if this program maintains them, hold CAs that are not ours."""
        ours = by_der(self._writer.site.ca_bundle).keys()
        return bool(ours) and not read.injected and any(bundle - ours for bundle in read.bundles)

    def _some_time(self) -> float:
        """Seconds until the next pass: something may be waiting for a quiet period."""
        there = self._registered
        pending = there is not None and (there.desired != self.want or self._has_others(there))
        rest = self._timing.period * random.uniform(0.8, 1.0)  # noqa: S311  (replicas do not look all at once)
        return min(rest, self._quiet.left) if pending and not self._quiet.over else rest
