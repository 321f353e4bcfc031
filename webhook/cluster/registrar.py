"""Keeps the registration: looks at it when it changed and now and then, writes what is missing, and never fights.

Every replica does so, without a leader: each write is made against the version of the object that was read, and where
nothing differs nothing is written.
"""

import asyncio
import enum
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Final

import msgspec

from webhook import __version__
from webhook.cluster.amendment import Amendment, Writer, amendment
from webhook.cluster.api import FIELD_MANAGER, Answer, Api, StatusError, UnreachableError
from webhook.cluster.bundles import authorities
from webhook.cluster.notice import Kind, Notice
from webhook.cluster.owner import owner_reference
from webhook.cluster.registered import Registered, Version, lacks, read_registered
from webhook.cluster.registration import COLLECTION, NAME, Object, Site, Wanted
from webhook.cluster.repairs import Repairs

ATTEMPTS: Final = 5
"""Tries of one pass that lose against another writer: as many replicas as may start at once."""


class Mode(enum.Enum):
    """Who keeps the registration: this program, somebody else while it only looks, or nobody asks."""

    MANAGED = "managed"
    STATIC = "static"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds, and how many repairs are made in which time.

    Attributes:
        quiet: without any change before something is taken away: longer than any replica takes to learn of a ConfigMap.
        period: between looks when nothing is told; a watch tells of changes, so this only makes up for a missed one.
        retry, retry_at_most: the first and the longest wait after a failure.
        repairs, window: repairs in any such time.
    """

    quiet: float = 60.0
    period: float = 600.0
    retry: float = 1.0
    retry_at_most: float = 60.0
    repairs: int = 20
    window: float = 3600.0


class Registrar:
    """Keeps one registration as one policy wants it; see `once` for what it does and `run` for when."""

    def __init__(
        self,
        api: Api,
        site: Site,
        want: Wanted,
        tell: Callable[[Notice], None],
        *,
        mode: Mode = Mode.MANAGED,
        owner: str | None = None,
        version: str = __version__,
        timing: Timing | None = None,
        clock: Callable[[], float] = time.monotonic,
        sure: Callable[[], Awaitable[bool]] | None = None,
    ) -> None:
        """Nothing is asked of the API server yet.

        Args:
            api: the way to it.
            site: where the webhook is.
            want: what the policy in force wants.
            tell: called with what is to be told, at once; it must not block.
            mode: who keeps the registration.
            owner: a ClusterRole of the release: when that goes, the registration goes too.
            version: of this program.
            timing: other times, for tests.
            clock: seconds that never jump.
            sure: asked before authorities are taken away: whether those of `site` are all that others may be using.
        """
        self._api = api
        self._registered: Registered | None = None
        self._writer = Writer(Version(version), want, site)
        self._tell = tell
        self._mode = mode
        self._owner = owner
        self._timing = timing or Timing()
        self._clock = clock
        self._sure = sure
        self._moved = False
        self._changed = clock()
        self._repairs = Repairs(self._timing.repairs, self._timing.window)
        self._failures = 0
        self._owned = False
        self._told: dict[Kind, str] = {}
        self._wake = asyncio.Event()
        self._pass = asyncio.Lock()

    @property
    def want(self) -> Wanted:
        """What is kept."""
        return self._writer.want

    @property
    def registered(self) -> Registered | None:
        """What stood in the cluster when it was last read or written.

        None before that, and where the registration is kept by others: its digest would say nothing of other replicas.
        """
        return self._registered if self._mode is Mode.MANAGED else None

    def adopt(self, want: Wanted, site: Site | None = None) -> None:
        """Take over another policy, or new authorities, and see to it soon."""
        site = site or self._writer.site
        if (want, site) != (self._writer.want, self._writer.site):
            # Other authorities are no reason to write this policy over one that another replica knows already.
            announced = self._writer.announced and want == self._writer.want
            self._moved = self._moved or site != self._writer.site
            self._writer = replace(self._writer, want=want, site=site, announced=announced)
            self._changed = self._clock()
            self.check()

    def check(self) -> None:
        """Look soon: something may have changed. Cheap, and many calls at once come to one look."""
        self._wake.set()

    async def run(self) -> None:
        """Look now, at each `check` and now and then, until cancelled."""
        while True:
            self._wake.clear()
            rest = await self.once()
            with suppress(TimeoutError):
                async with asyncio.timeout(rest):
                    await self._wake.wait()

    async def once(self) -> float:
        """Read the registration and write it if it has to be; seconds until the next look.

        Nothing is raised: what goes wrong is told, and tried again.
        """
        if self._mode is Mode.OFF:
            return self._timing.period
        async with self._pass:
            try:
                rest = await self._look()
            except (UnreachableError, StatusError) as error:
                self._say(Kind.FAILED, f"the registration {NAME} cannot be kept: {error}")
                self._failures += 1
                return self._backoff()
            self._failures = 0
            self._told.pop(Kind.FAILED, None)
            return rest

    async def _look(self) -> float:
        for _ in range(ATTEMPTS):
            found = await self._read()
            read = self._observe(found)
            if self._mode is Mode.STATIC or self._newer(read):
                self._compare(found)
                return self._some_time()
            owner = await owner_reference(self._api, self._owner)
            if found is None and owner is None and self._owned:
                # Written now, it would outlive its release, and hold back pods for ever.
                self._say(
                    Kind.REMOVED, f"the registration {NAME} is not made again: the ClusterRole {self._owner} is gone"
                )
                return self._some_time()
            self._owned = self._owned or owner is not None
            writer = replace(self._writer, owner=owner)
            change = amendment(found, read, writer, quiet=await self._may_narrow(read))
            repair = writer.announced and not self._moved
            if change is not None and repair and not self._repairs.permitted(change.change, self._clock()):
                return self._give_up(change)
            if change is None or await self._write(change, new=found is None, repair=repair):
                # Only if no other policy was adopted meanwhile.
                if writer.want is self._writer.want and writer.site is self._writer.site:
                    self._writer = replace(self._writer, announced=True)
                    self._moved = False
                    return self._some_time()
                return 0.0
        return self._backoff()

    async def _read(self) -> Object | None:
        answer = await self._api.request("GET", f"{COLLECTION}/{NAME}")
        return None if answer.status == HTTPStatus.NOT_FOUND else _object(answer)

    def _observe(self, found: Object | None) -> Registered:
        """Takes notice of what stands there; that it changed, and what others have added."""
        read = Registered() if found is None else read_registered(found, self.want.opt_in)
        before, self._registered = self._registered, read
        if before is None or _state(before) != _state(read):
            self._changed = self._clock()
        terms = "; ".join(f"{name}: {terms}" for name, terms in read.foreign.items())
        if terms:
            self._say(Kind.FOREIGN, f"others narrow the namespaces of {NAME}, which is kept: {terms}")
        else:
            self._told.pop(Kind.FOREIGN, None)
        return read

    def _newer(self, read: Registered) -> bool:
        return read.version is not None and read.version > self._writer.version

    def _compare(self, found: Object | None) -> None:
        faults = lacks(found, self.want, self._writer.site)
        if self._mode is Mode.STATIC:
            kind, message = Kind.LACKING, f"the registration {NAME} is kept by hand, and {'; '.join(faults)}"
        else:
            kind = Kind.NEWER
            message = f"the registration {NAME} is a newer version's and left to it, but {'; '.join(faults)}"
        if faults:
            self._say(kind, message)
        else:
            self._told.pop(kind, None)

    async def _write(self, change: Amendment, *, new: bool, repair: bool) -> bool:
        """Writes; False if somebody else was quicker, so that it has to be thought over."""
        answer = await self._api.request(
            "POST" if new else "PUT",
            COLLECTION if new else f"{COLLECTION}/{NAME}",
            query={"fieldManager": FIELD_MANAGER},
            body=msgspec.json.encode(change.configuration),
        )
        if answer.status in {HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND}:
            return False
        written = _object(answer)
        if repair:
            self._repairs.made(self._clock())
        self._observe(written)
        self._told.pop(Kind.WRITTEN, None)
        self._told.pop(Kind.REMOVED, None)
        self._told.pop(Kind.GAVE_UP, None)
        self._say(Kind.WRITTEN, f"the registration {NAME} was {change.change.value}")
        return True

    async def _may_narrow(self, read: Registered) -> bool:
        """Whether all has been quiet, and nobody needs an authority that is not known here."""
        return self._quiet() and (not self._has_others(read) or self._sure is None or await self._sure())

    def _has_others(self, read: Registered) -> bool:
        """Whether the bundles hold authorities that are not ours, and are ours to keep."""
        ours = authorities(self._writer.site.ca_bundle).keys()
        return bool(ours) and not read.injected and any(bundle - ours for bundle in read.authorities)

    def _quiet(self) -> bool:
        return self._clock() - self._changed >= self._timing.quiet

    def _give_up(self, change: Amendment) -> float:
        self._say(
            Kind.GAVE_UP,
            f"the registration {NAME} was repaired {self._repairs} and is left as it is: "
            f"somebody keeps changing it, or replicas keep to different policies (it would be {change.change.value})",
        )
        return self._repairs.rest(self._clock())

    def _some_time(self) -> float:
        """Until the next look: something may be waiting for the quiet."""
        since = self._clock() - self._changed
        there = self._registered
        pending = there is not None and (there.wanted != self.want or self._has_others(there))
        waiting = pending and since < self._timing.quiet
        rest = self._timing.period * random.uniform(0.8, 1.0)  # noqa: S311  (replicas do not look all at once)
        return min(rest, self._timing.quiet - since) if waiting else rest

    def _backoff(self) -> float:
        longest = min(self._timing.retry * 2.0 ** min(self._failures, 16), self._timing.retry_at_most)
        return longest * random.uniform(0.5, 1.0)  # noqa: S311  (replicas do not come back all at once)

    def _say(self, kind: Kind, message: str) -> None:
        if self._told.get(kind) != message:
            self._told[kind] = message
            self._tell(Notice(kind, message))


def _state(read: Registered) -> tuple[object, ...]:
    """What has to be quiet before anything is taken away."""
    return read.version, read.digest, read.wanted, read.authorities


def _object(answer: Answer) -> Object:
    """The object in an answer.

    Raises:
        StatusError: the answer is another one.
    """
    body = answer.accepted()
    try:
        return msgspec.json.decode(body, type=Object)
    except msgspec.DecodeError as error:
        raise StatusError(answer.status, "", f"no JSON object: {error}") from None
