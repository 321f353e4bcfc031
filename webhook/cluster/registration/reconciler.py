"""Reconciles the webhook configuration: reads it after each change and from time to time, and writes what is missing.

Every replica does so, without a leader: each write is made against the version that was read, and if nothing differs,
nothing is written. If something keeps undoing repairs, they slow down to one per minute.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from math import inf
from typing import Final, NamedTuple

import msgspec
from structlog.typing import FilteringBoundLogger

from certs.ca import by_der
from certs.report import Backoff
from webhook import __version__
from webhook.cluster.client import (
    RETRY_PAUSES,
    Api,
    ApiError,
    Object,
    ObjectMetadata,
    UnreachableError,
    owner_reference,
)
from webhook.cluster.reflector import Reflector
from webhook.cluster.registration.desired import (
    MUTATING,
    NAME,
    VALIDATING,
    ConfigurationKind,
    Desired,
    RegistrationMode,
    Site,
    judged,
)
from webhook.cluster.registration.match_conditions import MatchedNames
from webhook.cluster.registration.observed import (
    Observed,
    StoredConfiguration,
    Version,
    bundle_of,
    keeps_selectors,
    read_observed,
)
from webhook.cluster.registration.reporter import RegistrationReport, RegistrationReporter
from webhook.cluster.registration.update import (
    Change,
    Difference,
    Labels,
    Severity,
    Writer,
    differences,
    fails_open,
    harmless,
    keeps_out,
    opted_in_as,
    other_writers,
    update_for,
)
from webhook.mapping.model.policy import Policy

QUIET: Final = 60.0
"""Seconds for which nothing must have changed before something is removed: longer than any replica takes to learn of a
ConfigMap."""

PERIOD: Final = 600.0
"""Seconds between two passes if nothing changes. A watch reports changes, so this only makes up for missed ones."""

REPAIR_PAUSES: Final = (1.0, 60.0)
"""The first and the longest pause between repairs in a row, in seconds."""

NARROW_AT_MOST: Final = 3600.0
"""Seconds between repairs that remove names, at most."""

CALM: Final = 600.0
"""Seconds for which no repair must have been made for the next one to count as the first in a row."""


class RepairPace:
    """When the next repair of a kind may be made; seconds are monotonic.

    Args:
        shortest: the pause after the first repair; it doubles with each further one.
        longest: the longest pause.
        calm: seconds without a repair after which the next one counts as the first; longer than `longest`.
    """

    def __init__(self, shortest: float, longest: float, calm: float) -> None:
        self._pauses = Backoff(shortest, longest)
        self._calm = calm
        self._last = self._next = -inf

    def count_in_a_row(self, at: float) -> int:
        """The number of repairs without a calm period between them."""
        return 0 if at - self._last >= self._calm else self._pauses.failures

    def made(self, at: float) -> None:
        """Count a repair."""
        if not self.count_in_a_row(at):
            self._pauses.reset()
        self._last, self._next = at, at + self._pauses.failed()

    def wait(self, at: float) -> float:
        """Seconds until the next repair may be made; 0 if it may be made now."""
        return max(0.0, self._next - at)


ATTEMPTS: Final = 5
"""Attempts of one pass that may lose against other writers: that many replicas may start at once."""

LEAD: Final = 5.0
"""Seconds within which all API servers have learned of a webhook configuration."""

MOMENT: Final = 0.1
"""Seconds, so that a clock that is read again has surely gone on."""

CONTESTED: Final = 4
"""Repairs in a row after which it is clear that two writers undo each other's changes."""


class Reconciler:
    """Reconciles one webhook configuration with one policy; see `reconcile` for what it does and `run` for when.

    Attributes:
        repairs: the number of repairs, by kind.
        follower: the reconciler of the configuration that may grow only after this one.
        as_desired: whether the webhook configuration lets through every pod that the policy requires; None if that is not
            known yet.
    """

    def __init__(
        self,
        api: Api,
        site: Site,
        desired: Desired,
        report: Callable[[RegistrationReport], None],
        *,
        mode: RegistrationMode = RegistrationMode.MANAGED,
        owner: str | None = None,
        version: str = __version__,
        clock: Callable[[], float] = time.monotonic,
        is_current: Callable[[], Awaitable[bool]] | None = None,
        opted_in: Callable[[], Sequence[Labels]] = tuple,
        serving: Callable[[], bool] = lambda: True,
        everywhere: Callable[[], bool] = lambda: True,
        follows: "Reconciler | None" = None,
    ) -> None:
        """Make a reconciler; no request is made yet.

        Args:
            api: the API server.
            site: where the webhook is.
            desired: what the policy in force requires.
            report: called with each report; it must not block.
            mode: who maintains the webhook configuration.
            owner: the ClusterRole of the release, which owns the webhook configuration.
            version: the version of this program.
            clock: monotonic seconds.
            is_current: called before CAs are removed; returns whether other replicas can only be using those of `site`.
            opted_in: returns the labels of each namespace that has opted in, as far as is known.
            serving: returns whether callers that trust the CAs of `site` can be answered.
            everywhere: returns whether every replica answers these calls, also those of other versions.
            follows: the reconciler of the mutating webhook configuration, for that of the validating one; see `judged`.
        """
        self._api = api
        self._registered: Observed | None = None
        self._writer = Writer(Version(version), desired, site)
        self._reporter = RegistrationReporter(report, desired.kind)
        self._stored = StoredConfiguration(api, desired.kind)
        self._mode = mode
        self._owner = owner
        self._clock = clock
        self._is_current = is_current
        self._opted_in = opted_in
        self._serving = serving
        self._everywhere = everywhere
        self._follows = follows
        self.follower: Reconciler | None = None
        if follows is not None:
            follows.follower = self
        self._failing_open = False
        self._moved = False
        self._held = False
        self._changed_at = clock()
        self._seen: tuple[object, ...] | None = None
        self.repairs = dict.fromkeys(Change, 0)
        self._widening = RepairPace(*REPAIR_PAUSES, CALM)
        # As long as replicas disagree, all names of all of them stay in the end.
        self._narrowing = RepairPace(QUIET, NARROW_AT_MOST, 2 * NARROW_AT_MOST)
        self.as_desired: bool | None = None
        self._backoff = Backoff(*RETRY_PAUSES, random.random)
        self._owned = False
        self._wake = asyncio.Event()
        self._pass = asyncio.Lock()

    @property
    def desired(self) -> Desired:
        """What the policy in force requires."""
        return self._writer.desired

    @property
    def registered(self) -> Observed | None:
        """The webhook configuration when it was last read or written.

        None before that, and if others maintain it: then its digest does not tell what other replicas know.
        """
        return self._registered if self._mode is RegistrationMode.MANAGED else None

    def adopt(self, desired: Desired, site: Site | None = None) -> None:
        """Adopt another policy, or new CAs, and reconcile soon."""
        site = site or self._writer.site
        if (desired, site) != (self._writer.desired, self._writer.site):
            # New CAs are no reason to replace a policy that another replica has announced.
            announced = self._writer.announced and desired == self._writer.desired
            self._moved = self._moved or site != self._writer.site
            self._writer = replace(self._writer, desired=desired, site=site, announced=announced)
            self._changed_at = self._clock()
            self.check()

    def namespaces_changed(self) -> None:
        """Reconcile soon if foreign terms may keep out a new namespace."""
        if self._registered is not None and self._registered.foreign:
            self.check()

    def check(self) -> None:
        """Reconcile soon: something may have changed. Many calls at once cause a single pass."""
        self._wake.set()

    async def run(self) -> None:
        """Reconcile now, after each `check`, and from time to time, until cancelled."""
        while True:
            self._wake.clear()
            wait = await self.reconcile()
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._wake.wait()

    async def reconcile(self) -> float:
        """Read the webhook configuration, update it if needed, and return the seconds until the next pass.

        Nothing is raised: failures are reported and retried.
        """
        async with self._pass:
            try:
                wait = await self._attempt()
            except ApiError as error:
                if not isinstance(error, UnreachableError):
                    self.as_desired = False
                self._reporter.passed(error)
                return self._backoff.failed()
            self._backoff.reset()
            self._reporter.passed()
            return wait

    async def _attempt(self) -> float:
        for _ in range(ATTEMPTS):
            found = await self._stored.read()
            read = self._observe(found)
            wanted, desired = self.desired, self._possible(read)
            faults = differences(found, desired, self._writer.site, self._opted_in())
            if self._is_left_alone(found, read, faults):
                self.as_desired = not keeps_out(faults)
                return self._until_next_pass()
            owner = await owner_reference(self._api, self._owner)
            if found is None and owner is None and self._owned:
                # A configuration written now would outlive its release, and block pods forever.
                self._reporter.removed(self._owner)
                self.as_desired = False
                return REPAIR_PAUSES[1]
            self._owned = self._owned or owner is not None
            writer = replace(
                self._writer, desired=desired, owner=owner, serving=self._serving(), everywhere=self._everywhere()
            )
            # Pods of opted-in namespaces are created without a call, or without an answer.
            urgent = found is None or keeps_out(faults) or fails_open(found, writer.desired)
            # An urgent repair only adds, so that it need not wait for a quiet period. Without the webhook that judges, nobody
            # waits: its repair may replace the policy of an older replica, which has switched judging off for good.
            only_adds = urgent and (found is None or writer.desired.kind is not VALIDATING)
            quiet = not only_adds and await self._may_narrow(read)
            update = update_for(found, self._to_keep(found, read), writer, quiet=quiet)
            written = found
            if update is not None:
                # Whatever is written: pods must not wait as long as names that are removed may.
                change = Change.REPAIRED if urgent and update.change.narrows else update.change
                # It is not a repair if the webhook has just become able to answer, or to judge more, or a replica is not able.
                answered = self._failing_open and not fails_open(update.configuration, writer.desired)
                released = self._held and desired == wanted
                repair = writer.announced and not (self._moved or released or answered) and writer.everywhere
                pace = self._narrowing if change.narrows else self._widening
                if repair and (wait := pace.wait(self._clock())) > 0:
                    self.as_desired = not urgent
                    if pace.count_in_a_row(self._clock()) >= CONTESTED:
                        self._reporter.contested(change, found, faults, REPAIR_PAUSES[1])
                    return wait
                store = self._stored.create if found is None else self._stored.replace
                written = await store(update.configuration)
                if written is None:
                    continue
                if repair:
                    self.repairs[change] += 1
                    pace.made(self._clock())
                    first = pace.count_in_a_row(self._clock()) == 1
                    self._reporter.repaired(change, found, faults, first=first)
                self._observe(written)
                self._reporter.written(change)
            self._failing_open = written is not None and fails_open(written, writer.desired)
            self.as_desired = not self._failing_open
            self._reporter.failing_open(failing_open=self._failing_open)
            # Only if no other policy was adopted in the meantime.
            if wanted is not self._writer.desired or writer.site is not self._writer.site:
                return 0.0
            return self._done(held=desired != wanted)
        return self._backoff.failed()

    def _done(self, *, held: bool) -> float:
        """Note that everything possible is written; return the seconds until the next pass."""
        self._moved = False
        self._held = held
        self._writer = replace(self._writer, announced=True)
        if held and self._follows is not None and self._follows.steady_in > 0:
            return self._follows.steady_in + MOMENT
        return self._until_next_pass()

    def _observe(self, found: Object | None) -> Observed:
        """Note the configuration that was found, and whether it has changed."""
        read = Observed() if found is None else read_observed(found, self.desired.opt_in, self.desired.kind)
        self._registered = read
        seen = read.version, read.digest, read.desired, read.bundles
        if seen != self._seen:
            self._seen = seen
            self._changed_at = self._clock()
            if self.follower is not None:
                self.follower.check()
        return read

    def _possible(self, read: Observed) -> Desired:
        """What may be written now of what the policy requires."""
        if self._follows is None:
            return self.desired
        sent = self._follows.registered
        steady = self._follows.steady_in <= 0
        return judged(self.desired, None if sent is None else sent.desired, read.desired, steady=steady)

    @property
    def steady_in(self) -> float:
        """Seconds until all API servers know the webhook configuration; 0 or less if they do."""
        return LEAD - (self._clock() - self._changed_at)

    @property
    def _quiet_in(self) -> float:
        """Seconds until neither the policy nor the webhook configuration has changed for a while; 0 or less if so."""
        return QUIET - (self._clock() - self._changed_at)

    def _to_keep(self, found: Object | None, read: Observed) -> Observed:
        """What was read, without foreign terms that keep pods out, and without a newer version's annotation."""
        if found is None or keeps_selectors(found):
            foreign = read.foreign
        else:
            opted_in = self._opted_in() if read.foreign else ()
            allowed = {
                each.name: harmless(read.foreign[each.name], opted_in_as(each, self.desired, opted_in))
                for each in self.desired.kind.webhooks
                if each.name in read.foreign
            }
            foreign = {name: terms for name, terms in allowed.items() if terms}
        self._reporter.foreign_terms(foreign)
        if read.version is not None and read.version > self._writer.version:
            return Observed(foreign=foreign, bundles=read.bundles, injected=read.injected)
        return replace(read, foreign=foreign)

    def _is_left_alone(self, found: Object | None, read: Observed, faults: Sequence[Difference]) -> bool:
        """Whether people or a newer version maintain the webhook configuration; then what differs is only reported.

        The annotation of a newer version is ignored if the configuration contains something that no version writes, or if it
        differs and other programs own fields of it: everyone can write an annotation.
        """
        if self._mode is RegistrationMode.STATIC:
            self._reporter.static(faults)
            return True
        if found is None or read.version is None or not read.version > self._writer.version:
            return False
        forged = any(fault.severity is Severity.NO_VERSION_WRITES for fault in faults)
        if forged or (faults and other_writers(found)):
            return False
        self._reporter.newer(faults)
        return True

    async def _may_narrow(self, read: Observed) -> bool:
        """Whether nothing has changed for a while, and no replica needs a CA that is not known here."""
        return self._quiet_in <= 0 and (
            not self._has_others(read) or self._is_current is None or await self._is_current()
        )

    def _has_others(self, read: Observed) -> bool:
        """Whether the bundles, if this program maintains them, contain CAs of others."""
        ours = by_der(self._writer.site.ca_bundle).keys()
        return bool(ours) and not read.injected and any(bundle - ours for bundle in read.bundles)

    def _until_next_pass(self) -> float:
        """Seconds until the next pass, which is sooner if something is waiting for a quiet period."""
        present = self._registered
        pending = present is not None and (present.desired != self.desired or self._has_others(present))
        wait = PERIOD * random.uniform(0.8, 1.0)  # noqa: S311  (so that replicas do not read all at once)
        return min(wait, self._quiet_in) if pending and self._quiet_in > 0 else wait


def known_to_peers(
    resources: Iterable[str], keys: Iterable[str], policy: Policy, own: MatchedNames, registered: Observed | None
) -> bool:
    """Whether a pod has a name that the webhook configuration lets through and this replica's policy does not know.

    The answer is then 503 with ``Retry-After: 1``, and the API server retries within the same call. A configuration with this
    replica's own digest, or without one (because it is maintained by hand), never has such a name.

    Args:
        resources: all resource names of the pod's containers.
        keys: all keys of its labels and annotations.
        policy: the replica's own policy.
        own: the matched names of that policy.
        registered: the webhook configuration, as last seen.
    """
    if registered is None or registered.digest is None or registered.digest == policy.digest:
        return False
    if registered.desired is None:
        return not own.has_pod(resources, keys)
    theirs = registered.desired.matched_names
    return any(theirs.has_resource(name) and not _known(name, policy) for name in resources) or any(
        theirs.has_key(key) and not own.has_key(key) for key in keys
    )


def _known(name: str, policy: Policy) -> bool:
    """Whether a policy knows a resource name as a key, as one of an inactive vendor, or as one of another system."""
    return bool(policy.resources.owners(name)) or name in policy.inactive or name in policy.near.known


class Configuration(msgspec.Struct, frozen=True):
    """The version and the bundles of the webhook configuration; the reconciler reads the rest."""

    metadata: ObjectMetadata
    webhooks: tuple[Object, ...] | None = None


class Watched(NamedTuple):
    """The part of a webhook configuration that is stored: its version, and the CAs (DER) of each webhook."""

    version: str
    bundles: tuple[frozenset[bytes], ...]


def watch_registration(
    api: Api, changed: Callable[[], None], log: FilteringBoundLogger, kind: ConfigurationKind = MUTATING
) -> Reflector[Configuration, Watched]:
    """Make a reflector that calls `changed` whenever the webhook configuration changes; see also `bundles_in`."""
    return Reflector(
        api,
        kind.collection,
        Configuration,
        _watched,
        log,
        changed=lambda _: changed(),
        query={"fieldSelector": f"metadata.name={NAME}"},
    )


def bundles_in(reflector: Reflector[Configuration, Watched]) -> tuple[frozenset[bytes], ...] | None:
    """The CAs (DER) of each webhook; None if there is no webhook configuration."""
    found = next(iter(reflector.objects.values()), None)
    return None if found is None else found.bundles


def _watched(configuration: Configuration) -> Watched:
    bundles = (frozenset(by_der(bundle_of(webhook))) for webhook in configuration.webhooks or ())
    return Watched(configuration.metadata.resource_version, tuple(bundles))
