"""Writes the webhook configuration: reads it after each change and from time to time, and writes what is missing.

Every replica does so, without a leader: each write is made against the version that was read, and if nothing differs,
nothing is written. If something keeps undoing repairs, they slow down to one per minute.
"""

import asyncio
import enum
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from math import inf
from typing import Final, TypeAlias

import msgspec
from msgspec.structs import replace
from structlog.typing import FilteringBoundLogger

from certs.upkeep import Backoff, Notice, Notices
from certs.x509 import by_der
from webhook import __version__
from webhook.cluster.client import (
    RETRY_PAUSES,
    Api,
    ApiError,
    NamedObject,
    Object,
    ObjectMetadata,
    UnreachableError,
    owner_reference,
)
from webhook.cluster.events import shortened
from webhook.cluster.reflector import Reflector
from webhook.cluster.registration.stored import (
    Change,
    Difference,
    Pass,
    Severity,
    Stored,
    bundle_of,
    differences,
    fails_open,
    harmless,
    is_injected,
    keeps_out,
    keeps_selectors,
    opted_in_as,
    other_writers,
    read_stored,
    sentences,
)
from webhook.cluster.registration.wanted import (
    API_VERSION,
    IGNORE,
    MUTATING,
    NAME,
    VALIDATING,
    ConfigurationKind,
    Labels,
    RegistrationMode,
    Site,
    Wanted,
    judged,
    terms_text,
)

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

ATTEMPTS: Final = 5
"""Attempts of one pass that may lose against other writers: that many replicas may start at once."""

LEAD: Final = 5.0
"""Seconds within which all API servers have learned of a webhook configuration."""

MOMENT: Final = 0.1
"""Seconds, so that a clock that is read again has surely gone on."""

CONTESTED: Final = 4
"""Repairs in a row after which it is clear that two writers undo each other's changes."""

MAX_MESSAGE: Final = 1000
"""The most bytes of a message, which may quote the configuration."""


class RegistrationMatter(enum.Enum):
    """What a notice is about; a warning unless it is `WRITTEN`, `FOREIGN` or `REMOVED`."""

    WRITTEN = "written"
    FOREIGN = "foreign terms kept"
    LACKING = "lacking"
    NEWER = "written by a newer version"
    REMOVED = "goes with its release"
    REPAIRED = "changed by others"
    CONTESTED = "repeatedly changed by others"
    UNOWNED = "stays after its release"
    FAILING_OPEN = "pods do not wait for an answer"
    FAILED = "failed"

    @property
    def warning(self) -> bool:
        return self not in {RegistrationMatter.WRITTEN, RegistrationMatter.FOREIGN, RegistrationMatter.REMOVED}


RegistrationNotice: TypeAlias = Notice[RegistrationMatter]
"""A log line, and for warnings an Event on the configuration."""


class RepairPace:
    """When the next repair of a kind may be made; seconds are monotonic.

    Pauses double up to the longest one, until none was needed for `calm` seconds, which is longer.
    """

    def __init__(self, shortest: float, longest: float, calm: float) -> None:
        self._pauses = Backoff(shortest, longest)
        self._calm = calm
        self._last = self._next = -inf

    def count_in_a_row(self, at: float) -> int:
        """The number of repairs without a calm period between them."""
        return 0 if at - self._last >= self._calm else self._pauses.failures

    def made(self, at: float) -> None:
        if not self.count_in_a_row(at):
            self._pauses.reset()
        self._last, self._next = at, at + self._pauses.failed()

    def wait(self, at: float) -> float:
        """Seconds until the next repair may be made; 0 if it may be made now."""
        return max(0.0, self._next - at)


@dataclass(eq=False)
class Writer:
    """Keeps one webhook configuration as one policy wants it; see `reconcile` for what it does and `run` for when.

    Attributes:
        owner: the ClusterRole of the release, which owns the webhook configuration.
        is_current: called before CAs are removed; returns whether other replicas can only be using those of `site`.
        opted_in: returns the labels of each namespace that has opted in, as far as is known.
        serving: returns whether callers that trust the CAs of `site` can be answered.
        follows: the writer of the mutating webhook configuration, for that of the validating one; see `judged`.
        follower: the other way round.
        as_desired: whether the webhook configuration lets through every pod that the policy requires; None if that is not
            known yet.
    """

    api: Api
    site: Site
    required: Wanted
    send: Callable[[RegistrationNotice], None]
    _: KW_ONLY
    mode: RegistrationMode = RegistrationMode.MANAGED
    owner: str | None = None
    version: str = __version__
    clock: Callable[[], float] = time.monotonic
    is_current: Callable[[], Awaitable[bool]] | None = None
    opted_in: Callable[[], Sequence[Labels]] = tuple
    serving: Callable[[], bool] = lambda: True
    follows: "Writer | None" = None

    def __post_init__(self) -> None:
        self.follower: Writer | None = None
        self.repairs = dict.fromkeys(Change, 0)
        self.as_desired: bool | None = None
        kind = self.required.kind
        self._subject = f"the {kind.noun} {NAME}"
        self._notices: Notices[RegistrationMatter] = Notices(
            lambda each: self.send(Notice(each.matter, shortened(each.message, MAX_MESSAGE)))
        )
        self._object = NamedObject(self.api, f"{kind.collection}/{NAME}")
        self._stored: Stored | None = None
        self._last: Pass | None = None
        self._failing_open = False
        self._changed_at = self.clock()
        self._widening = RepairPace(*REPAIR_PAUSES, CALM)
        # As long as replicas disagree, all names of all of them stay in the end.
        self._narrowing = RepairPace(QUIET, NARROW_AT_MOST, 2 * NARROW_AT_MOST)
        self._backoff = Backoff(*RETRY_PAUSES, random.random)
        self._owned = False
        self._wake = asyncio.Event()
        self._one = asyncio.Lock()
        if self.follows is not None:
            self.follows.follower = self

    @property
    def registered(self) -> Stored | None:
        """The webhook configuration when it was last read or written.

        None before that, and if others maintain it: then its digest does not tell what other replicas know.
        """
        return self._stored if self.mode is RegistrationMode.MANAGED else None

    def adopt(self, required: Wanted, site: Site | None = None) -> None:
        """Adopt another policy, or new CAs, and reconcile soon."""
        site = site or self.site
        if (required, site) != (self.required, self.site):
            self.required, self.site = required, site
            self._changed_at = self.clock()
            self.check()

    def namespaces_changed(self) -> None:
        """Reconcile soon if foreign terms may keep out a new namespace."""
        if self._stored is not None and self._stored.foreign:
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
        async with self._one:
            try:
                for _ in range(ATTEMPTS):
                    wait = await self._attempt()
                    if wait is not None:
                        break
                else:
                    wait = self._backoff.failed()
            except ApiError as error:
                if not isinstance(error, UnreachableError):
                    self.as_desired = False
                self._notices.tell_once(RegistrationMatter.FAILED, f"{self._subject} cannot be updated: {error}")
                return self._backoff.failed()
            self._backoff.reset()
            self._notices.forget(RegistrationMatter.FAILED)
            return wait

    async def _attempt(self) -> float | None:
        """Read, and write what is missing; return the seconds until the next pass, None if another writer came first."""
        stored = self._observe(await self._object.read())
        wanted = self._possible(stored)
        faults = differences(stored.object, wanted, self.site, self.opted_in())
        if self._is_left_alone(stored, faults):
            self.as_desired = not keeps_out(faults)
            return self._until_next_pass()
        # A policy may be adopted meanwhile: then another pass follows.
        now = Pass(stored, wanted, self.site, self.version, required=self.required, faults=faults)
        owner = await owner_reference(self.api, self.owner)
        if stored.object is None and owner is None and self._owned:
            # A configuration written now would outlive its release, and block pods forever.
            what = f"{self._subject} is not created again: the ClusterRole {self.owner} is gone"
            self._notices.tell_once(RegistrationMatter.REMOVED, what)
            self.as_desired = False
            return REPAIR_PAUSES[1]
        self._owned = self._owned or owner is not None
        what = f"{self._subject} has no owner, so that it stays when the release is removed: get is needed on clusterroles/"
        self._notices.tell_while(
            self.owner is not None and not self._owned, RegistrationMatter.UNOWNED, f"{what}{self.owner}"
        )
        now = replace(
            now,
            stored=self._to_keep(stored),
            owner=owner,
            # New CAs are no reason to replace a policy that another replica has announced.
            announced=self._last is not None and self._last.required == now.required,
            quiet=await self._may_narrow(now),
            serving=self.serving(),
        )
        update = now.update()
        return self._settle(now, stored.object or {}) if update is None else await self._write(now, *update)

    async def _write(self, now: Pass, configuration: Object, change: Change) -> float | None:
        """Write, unless repairs have to wait; as `_attempt`."""
        # Whatever is written: pods must not wait as long as names that are removed may.
        change = Change.REPAIRED if now.urgent and change.narrows else change
        pace = self._narrowing if change.narrows else self._widening
        repair = self._is_repair(now, configuration)
        if repair and (wait := pace.wait(self.clock())) > 0:
            self.as_desired = not now.urgent
            if pace.count_in_a_row(self.clock()) >= CONTESTED:
                self._tell_contested(now, change)
            return wait
        written = await (self._create if now.stored.object is None else self._object.replace)(configuration)
        if written is None:
            return None
        if repair:
            self.repairs[change] += 1
            pace.made(self.clock())
            self._tell_repaired(now, change, first=pace.count_in_a_row(self.clock()) == 1)
        self._observe(written)
        self._notices.forget(RegistrationMatter.WRITTEN, RegistrationMatter.REMOVED)
        deed = "brought up to date" if change is Change.REPAIRED and not repair else change.value
        self._notices.tell_once(RegistrationMatter.WRITTEN, f"{self._subject} was {deed}")
        return self._settle(now, written)

    async def _create(self, configuration: Object) -> Object | None:
        # After an apply that owns no field, the API server would not record managers of fields.
        metadata = {"name": NAME, "labels": {"app.kubernetes.io/managed-by": "vgpu-webhook"}}
        kind = self.required.kind.kind
        made = await self._object.create({"apiVersion": API_VERSION, "kind": kind, "metadata": metadata})
        if made is None or made.get("webhooks"):
            return None
        metadata = {**made["metadata"], **configuration["metadata"]}
        return await self._object.replace({**configuration, "metadata": metadata})

    def _is_repair(self, now: Pass, configuration: Object) -> bool:
        """Whether others have changed something, and not this replica's policy, CAs or ability to answer."""
        last = self._last
        if last is None or not now.announced or last.site != now.site:
            return False
        answered = self._failing_open and not fails_open(configuration, now.wanted)
        return not answered and not (last.held and not now.held)

    def _tell_repaired(self, now: Pass, change: Change, *, first: bool) -> None:
        """Report changes by others, but not those of replicas with different policies."""
        if change not in {Change.CREATED, Change.REPAIRED}:
            return
        if first:
            self._notices.forget(RegistrationMatter.REPAIRED, RegistrationMatter.CONTESTED)
        if deed := now.deed():
            self._notices.tell_once(RegistrationMatter.REPAIRED, f"{self._subject} was {deed} and has been repaired")

    def _tell_contested(self, now: Pass, change: Change) -> None:
        what = f"there is now a pause between repairs, of {REPAIR_PAUSES[1]:g} s at most"
        if change.narrows:
            what = "replicas have different policies: nothing is removed for now"
        self._notices.tell_once(
            RegistrationMatter.CONTESTED, f"{self._subject} was {now.deed() or 'changed'} repeatedly: {what}"
        )

    def _settle(self, now: Pass, standing: Object) -> float:
        """Note that everything possible is written; return the seconds until the next pass."""
        self._last, self._failing_open = now, fails_open(standing, now.wanted)
        self.as_desired = not self._failing_open
        how = "unchanged" if now.wanted.kind is MUTATING else "without a judgment"
        what = f"{self._subject} has failurePolicy {IGNORE}: pods are admitted {how} until a replica can answer"
        self._notices.tell_while(self._failing_open, RegistrationMatter.FAILING_OPEN, what)
        if now.held and self.follows is not None and self.follows.steady_in > 0:
            return self.follows.steady_in + MOMENT
        return self._until_next_pass()

    def _observe(self, found: Object | None) -> Stored:
        """Note the configuration that was found, and whether it has changed."""
        stored = read_stored(found, self.required.opt_in, self.required.kind)
        if stored != self._stored:
            self._changed_at = self.clock()
            if self.follower is not None:
                self.follower.check()
        self._stored = stored
        return stored

    def _possible(self, stored: Stored) -> Wanted:
        """What may be written now of what the policy requires."""
        if self.follows is None:
            return self.required
        sent = self.follows.registered
        steady = self.follows.steady_in <= 0
        return judged(self.required, None if sent is None else sent.made_from, stored.made_from, steady=steady)

    @property
    def steady_in(self) -> float:
        """Seconds until all API servers know the webhook configuration; 0 or less if they do."""
        return LEAD - (self.clock() - self._changed_at)

    @property
    def _quiet_in(self) -> float:
        """Seconds until neither the policy nor the webhook configuration has changed for a while; 0 or less if so."""
        return QUIET - (self.clock() - self._changed_at)

    def _to_keep(self, stored: Stored) -> Stored:
        """What was read, without foreign terms that keep pods out, and without a newer version's annotation."""
        foreign = stored.foreign
        if stored.object is not None and not keeps_selectors(stored.object):
            webhooks = {each.name: each for each in self.required.kind.webhooks}
            spaces = {name: opted_in_as(webhooks[name], self.required, self.opted_in()) for name in foreign}
            allowed = {name: harmless(terms, spaces[name]) for name, terms in foreign.items()}
            foreign = {name: terms for name, terms in allowed.items() if terms}
        text = "; ".join(f"{name}: {terms_text(terms)}" for name, terms in foreign.items())
        what = f"foreign terms in the namespace selectors of {NAME} are kept: {text}"
        self._notices.tell_while(text, RegistrationMatter.FOREIGN, what)
        if stored.is_newer(self.version):
            stored = replace(stored, version=None, digest=None, made_from=None)
        return replace(stored, foreign=foreign)

    def _is_left_alone(self, stored: Stored, faults: Sequence[Difference]) -> bool:
        """Whether people or a newer version maintain the webhook configuration; then what differs is only reported.

        The annotation of a newer version is ignored if the configuration contains something that no version writes, or if it
        differs and other programs own fields of it: everyone can write an annotation.
        """
        if self.mode is RegistrationMode.STATIC:
            what = f"{self._subject} is maintained by hand, and {sentences(faults)}"
            self._notices.tell_while(faults, RegistrationMatter.LACKING, what)
            return True
        if stored.object is None or not stored.is_newer(self.version):
            return False
        forged = any(fault.severity is Severity.NO_VERSION_WRITES for fault in faults)
        if forged or (faults and other_writers(stored.object)):
            return False
        what = f"{self._subject} is left to a newer version, but {sentences(faults)}"
        self._notices.tell_while(keeps_out(faults), RegistrationMatter.NEWER, what)
        return True

    async def _may_narrow(self, now: Pass) -> bool:
        """Whether nothing has changed for a while, and no replica needs a CA that is not known here.

        An urgent repair only adds, so that it need not wait for a quiet period. Without the webhook that judges, nobody waits:
        its repair may replace the policy of an older replica, which has switched judging off for good.
        """
        only_adds = now.urgent and (now.stored.object is None or now.wanted.kind is not VALIDATING)
        if only_adds or self._quiet_in > 0:
            return False
        return not self._has_others(now.stored) or self.is_current is None or await self.is_current()

    def _has_others(self, stored: Stored) -> bool:
        """Whether the bundles, if this program maintains them, contain CAs of others."""
        ours = by_der(self.site.ca_bundle).keys()
        others = any(bundle - ours for bundle in stored.bundles)
        return bool(ours) and others and not is_injected(stored.object or {})

    def _until_next_pass(self) -> float:
        """Seconds until the next pass, which is sooner if something is waiting for a quiet period."""
        present = self._stored
        pending = present is not None and (present.made_from != self.required or self._has_others(present))
        wait = PERIOD * random.uniform(0.8, 1.0)  # noqa: S311  (so that replicas do not read all at once)
        return min(wait, self._quiet_in) if pending and self._quiet_in > 0 else wait


class _Configuration(msgspec.Struct, frozen=True):
    """The version and the bundles of the webhook configuration; the writer reads the rest."""

    metadata: ObjectMetadata
    webhooks: tuple[Object, ...] | None = None


Watched: TypeAlias = tuple[str, tuple[frozenset[bytes], ...]]
"""The part of a webhook configuration that is stored: its version, and the CAs (DER) of each webhook."""


def watch_registration(
    api: Api, changed: Callable[[], None], log: FilteringBoundLogger, kind: ConfigurationKind = MUTATING
) -> Reflector[_Configuration, Watched]:
    """Make a reflector that calls `changed` whenever the webhook configuration changes; see also `bundles_in`."""
    return Reflector(
        api,
        kind.collection,
        _Configuration,
        _watched,
        log,
        changed=lambda _: changed(),
        query={"fieldSelector": f"metadata.name={NAME}"},
    )


def _watched(configuration: _Configuration) -> Watched:
    bundles = (frozenset(by_der(bundle_of(webhook))) for webhook in configuration.webhooks or ())
    return configuration.metadata.resource_version, tuple(bundles)


def bundles_in(reflector: Reflector[_Configuration, Watched]) -> tuple[frozenset[bytes], ...] | None:
    """The CAs (DER) of each webhook; None if there is no webhook configuration."""
    return next((bundles for _, bundles in reflector.objects.values()), None)
