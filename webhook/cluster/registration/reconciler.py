"""Reconciles the webhook configuration: reads it when it has changed and now and then, and writes what is missing.

Every replica does so, without a leader: each write is made against the version that was read, and if nothing differs,
nothing is written. If something keeps undoing repairs, these slow down, to one a minute.
"""

import asyncio
import enum
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
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
from webhook.cluster.registration.desired import IGNORE, NAME, Desired, Site
from webhook.cluster.registration.observed import Observed, Version, read_observed
from webhook.cluster.registration.repairs import RepairPace, Repairs
from webhook.cluster.registration.report import Notices, Report, ReportKind
from webhook.cluster.registration.stored import StoredConfiguration
from webhook.cluster.registration.update import Change, Update, Writer, spares, update_for

ATTEMPTS: Final = 5
"""Tries of one pass that may lose against other writers; as many replicas may start at once."""

CONTESTED: Final = 4
"""Repairs in a row after which it is clear that two writers undo each other's work."""


class Mode(enum.Enum):
    """Who maintains the webhook configuration: this program, somebody else with this program only comparing, or neither."""

    MANAGED = "managed"
    STATIC = "static"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class ReconcileConfig:
    """The times of a reconciler, in seconds.

    Attributes:
        quiet: without any change before something is removed: longer than any replica takes to learn of a ConfigMap.
        period: between two passes without a change; a watch reports changes, so this only makes up for a missed one.
        retry, retry_at_most: the first and the longest pause after a failure.
        repair, repair_at_most: the first and the longest pause between repairs in a row.
        narrow_at_most: the longest pause between repairs that remove names.
        calm: without a repair, after which the next one is the first in a row.
    """

    quiet: float = 60.0
    period: float = 600.0
    retry: float = 1.0
    retry_at_most: float = 60.0
    repair: float = 1.0
    repair_at_most: float = 60.0
    narrow_at_most: float = 3600.0
    calm: float = 600.0


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
        sure: Callable[[], Awaitable[bool]] | None = None,
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
            sure: called before CAs are removed: whether other replicas can be using none but those of `site`.
            opted_in: returns the labels of each namespace that has opted in, as far as is known.
            serving: whether callers that trust the CAs of `site` can be answered.
        """
        self._api = api
        self._registered: Observed | None = None
        self._writer = Writer(Version(version), want, site)
        self._notices = Notices(tell)
        self._stored = StoredConfiguration(api)
        self._mode = mode
        self._owner = owner
        self._timing = timing or ReconcileConfig()
        self._clock = clock
        self._sure = sure
        self._opted_in = opted_in
        self._serving = serving
        self._sparing = False
        self._moved = False
        self._changed = clock()
        pace = self._timing
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
            self._changed = self._clock()
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
                self._notices.say(ReportKind.FAILED, f"the webhook configuration {NAME} cannot be updated: {error}")
                return self._backoff.failed()
            self._backoff.reset()
            self._notices.over(ReportKind.FAILED)
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
                message = (
                    f"the webhook configuration {NAME} is not created again: the ClusterRole {self._owner} is gone"
                )
                self._notices.say(ReportKind.REMOVED, message)
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
        if self._sparing:
            message = f"the webhook configuration {NAME} admits pods untreated until a replica can answer: {IGNORE}"
            self._notices.say(ReportKind.SPARING, message)
        else:
            self._notices.over(ReportKind.SPARING)

    def _observe(self, found: Object | None) -> Observed:
        """Note the configuration that was found, and whether it has changed."""
        read = Observed() if found is None else read_observed(found, self.want.opt_in)
        before, self._registered = self._registered, read
        if before is None or _state(before) != _state(read):
            self._changed = self._clock()
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
        terms = "; ".join(f"{name}: {terms}" for name, terms in kept.items())
        if terms:
            self._notices.say(
                ReportKind.FOREIGN, f"foreign terms in the namespace selectors of {NAME} are kept: {terms}"
            )
        else:
            self._notices.over(ReportKind.FOREIGN)
        if read.version is not None and read.version > self._writer.version:
            return Observed(foreign=kept, authorities=read.authorities, injected=read.injected)
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
        self._as_desired = all(one.severity is Severity.SLIGHT for one in faults)
        sentences = "; ".join(map(str, faults))
        if self._mode is Mode.STATIC:
            kind, message = (
                ReportKind.LACKING,
                f"the webhook configuration {NAME} is maintained by hand, and {sentences}",
            )
        else:
            kind = ReportKind.NEWER
            message = f"the webhook configuration {NAME} is left to a newer version, but {sentences}"
            faults = [one for one in faults if one.severity is not Severity.SLIGHT]
        if faults:
            self._notices.say(kind, message)
        else:
            self._notices.over(kind)

    async def _write(self, change: Update, found: Object | None, *, repair: bool) -> bool:
        """Write an update; False if another writer was faster, and it has to be computed again."""
        store = self._stored
        written = await (store.create if found is None else store.replace)(change.configuration)
        if written is None:
            return False
        if repair:
            self._repairs.made(change.change, self._clock())
            self._report_repair(change, found)
        self._observe(written)
        self._notices.over(ReportKind.WRITTEN, ReportKind.REMOVED)
        self._notices.say(ReportKind.WRITTEN, f"the webhook configuration {NAME} was {change.change.value}")
        return True

    def _report_repair(self, change: Update, found: Object | None) -> None:
        """Report what others did; not what replicas with different policies add and remove."""
        if change.change not in {Change.CREATED, Change.REPAIRED}:
            return
        if self._repairs.pace(change.change).in_a_row(self._clock()) == 1:
            self._notices.over(ReportKind.REPAIRED, ReportKind.CONTESTED)
        if done := self._done(found):
            self._notices.say(ReportKind.REPAIRED, f"the webhook configuration {NAME} was {done}, and was repaired")

    def _done(self, found: Object | None) -> str:
        """What others did to the configuration; empty if that does not show."""
        if found is None:
            return "deleted"
        by = ", ".join(other_writers(found))
        what = "; ".join(map(str, self._differences(found)))
        return f"changed{f' by {by}' if by else ''}{f' ({what})' if what else ''}" if by or what else ""

    def _put_off(self, change: Update, found: Object | None, rest: float) -> float:
        faults = self._differences(found)
        self._as_desired = all(one.severity is Severity.SLIGHT for one in faults)
        if self._repairs.pace(change.change).in_a_row(self._clock()) >= CONTESTED:
            pace = f"repairs now wait, {self._timing.repair_at_most:g} s at most"
            if change.change in {Change.NARROWED, Change.TAKEN_OVER}:
                pace = "replicas have different policies: nothing is removed for now"
            done = self._done(found) or "changed"
            self._notices.say(
                ReportKind.CONTESTED, f"the webhook configuration {NAME} was {done} again and again: {pace}"
            )
        return rest

    async def _may_narrow(self, read: Observed) -> bool:
        """Whether nothing has changed for a while, and no replica needs a CA that is not known here."""
        return self._quiet() and (not self._has_others(read) or self._sure is None or await self._sure())

    def _has_others(self, read: Observed) -> bool:
        """Whether the bundles, if this program maintains them, hold CAs that are not ours."""
        ours = by_der(self._writer.site.ca_bundle).keys()
        return bool(ours) and not read.injected and any(bundle - ours for bundle in read.authorities)

    def _quiet(self) -> bool:
        return self._clock() - self._changed >= self._timing.quiet

    def _some_time(self) -> float:
        """Seconds until the next pass: something may be waiting for a quiet period."""
        since = self._clock() - self._changed
        there = self._registered
        pending = there is not None and (there.desired != self.want or self._has_others(there))
        waiting = pending and since < self._timing.quiet
        rest = self._timing.period * random.uniform(0.8, 1.0)  # noqa: S311  (replicas do not look all at once)
        return min(rest, self._timing.quiet - since) if waiting else rest


def _state(read: Observed) -> tuple[object, ...]:
    """What must not change for a while before anything is removed."""
    return read.version, read.digest, read.desired, read.authorities
