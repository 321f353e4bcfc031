"""Keeps a store's certificates up and serves its leaf: one keeper for each replica, without a leader.

Every keeper reads, decides by the same pure function (`plan.py`) and writes against the version that it read; whoever loses
a race reads again and finds what the winner made. A serving certificate is served only once its CA is known to be
trusted; until then the one before stays. What was read last is remembered: a store that was emptied or damaged is filled from
memory.
"""

import asyncio
import datetime as dt
import random
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from cryptography import x509

from certs.backoff import Backoff
from certs.bootstrap import aged, rest_of_first
from certs.pair import Pair
from certs.plan import JITTER, Rules, step
from certs.problem import StoreError
from certs.report import Report, ReportKind
from certs.reporter import Reporter, failure
from certs.serving import Requirements, Serving
from certs.state import Decoded, Retired, RotationRequest, State, decode, der, fingerprint
from certs.store import Snapshot, Store
from certs.trust import Trust

ATTEMPTS: Final = 10
"""Writes in a row that lose against another replica; as many may start at once."""

LONGEST_REST: Final = 3600.0
"""Seconds between looks when nothing is due: a clock that was set is noticed, and a change that was missed."""

RETRY_PAUSES: Final = (0.5, 30.0)
"""Seconds after the first failure, and at most."""

WRITES: Final = 60
"""Writes of one replica within a minute. Replicas whose clocks are months apart undo each other's work forever."""


@dataclass(frozen=True, slots=True)
class Clocks:
    """The time, twice: as certificates count it, and as a clock does that never jumps."""

    now: Callable[[], dt.datetime] = lambda: dt.datetime.now(dt.UTC)
    seconds: Callable[[], float] = time.monotonic


@dataclass(frozen=True, slots=True)
class _Served:
    leaf: Pair
    ca: x509.Certificate


class Rotator:
    """Keeps one store and one `Serving`; see `once` for what it does and `run` for when.

    Args:
        store: where certificates are kept.
        serving: what serves them.
        rules: what they are made like; `spread` gives replicas rules that differ a little.
        trust: what callers are known to trust, asked anew each time.
        publish: called with the CAs that callers have to trust, PEM, whenever they may have changed.
        tell: called with what is to be told; it must not block.
        clocks: the time.
    """

    def __init__(
        self,
        store: Store,
        serving: Serving,
        rules: Rules,
        *,
        trust: Callable[[], Trust],
        publish: Callable[[bytes], None],
        tell: Callable[[Report], None],
        clocks: Clocks | None = None,
    ) -> None:
        self.served = asyncio.Event()
        self._store = store
        self._serving = serving
        self._rules = rules
        self._trust = trust
        self._publish = publish
        self._telling = Reporter(tell)
        self._clocks = clocks or Clocks()
        self._kept: State | None = None
        self._version = ""
        self._in_force: _Served | None = None
        self._wake = asyncio.Event()
        self._writes: deque[float] = deque(maxlen=WRITES)

    @property
    def kept(self) -> State | None:
        """What was kept when it was last looked at; None before that."""
        return self._kept

    @property
    def ca(self) -> x509.Certificate | None:
        """The CA of the serving certificate that is served."""
        return None if self._in_force is None else self._in_force.ca

    def check(self) -> None:
        """Look soon: something may have changed, such as what callers trust."""
        self._wake.set()

    async def start(self) -> None:
        """A first look that takes no chances: a CA that cannot be used is left as it is.

        Raises:
            StoreError: the store cannot be read or written.
            UnusablePairError: the CA cannot be used, or the serving certificate cannot be served.
        """
        found = decode((await self._store.read()).files)
        if found.problems and (found.kept is None or found.kept.ca is None):
            raise found.problems[0]
        await self.reconcile()

    async def run(self) -> None:
        """Look now, at each change, and when something is due, until cancelled; no failure ends it."""
        backoff = Backoff(*RETRY_PAUSES)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow())
            while True:
                self._wake.clear()
                try:
                    rest = min(await self.reconcile(), LONGEST_REST)
                    backoff.reset()
                except Exception as error:  # noqa: BLE001  (what is served must go on being renewed)
                    self._telling.say(*failure(error))
                    rest = backoff.failed()
                with suppress(TimeoutError):
                    async with asyncio.timeout(rest):
                        await self._wake.wait()

    async def reconcile(self) -> float:
        """Read, make what is due, serve what may be served; seconds until something is due again.

        Raises:
            StoreError: the store cannot be read or written.
            UnusablePairError: what is kept cannot be served; what is served stays.
        """
        for _ in range(ATTEMPTS):
            snapshot = await self._store.read()
            found = decode(snapshot.files)
            for problem in found.problems:
                self._telling.say(ReportKind.REFUSED, f"what is kept cannot be used as it is: {problem}")
            due = await self._brought_up_to_date(snapshot, found)
            if due is not None:
                return min(due, self._offer())
        raise StoreError("the store", "is being written all the time")

    async def sure(self) -> bool:
        """Whether what was published last is still all that is kept: before anything is taken away from callers."""
        try:
            same = (await self._store.read()).version == self._version
        except StoreError:
            return False
        if not same:
            self.check()
        return same

    async def _brought_up_to_date(self, snapshot: Snapshot, found: Decoded) -> float | None:
        """Makes what is due and writes it; None if somebody else was quicker."""
        now, at = self._clocks.now(), self._clocks.seconds()
        restored = completed(found.kept, self._kept)
        before = restored if restored is None else self._with_served(restored, now)
        planned = step(before, self._trust(), self._rules, now, at)
        files = planned.kept.files()
        stale = found.kept is None or bool(found.problems) or found.kept.files() != files
        if stale and not await self._write(files, snapshot.version):
            return None
        if stale and restored is not None and restored is not found.kept:
            self._telling.say(
                ReportKind.RESTORED, "certificates that were missing in the store were written again from memory"
            )
        if planned.made:
            self._telling.tell(Report(ReportKind.MADE, ", ".join(one.value for one in planned.made)))
        lasting = {ReportKind.WAITING, ReportKind.UNTRUSTED} | ({ReportKind.REFUSED} if found.problems else set())
        self._telling.over(lasting=lasting)
        self._kept = planned.kept
        # After a write the version is not known; the next read tells it.
        self._version = "" if stale else snapshot.version
        self._publish(planned.kept.bundle_pem)
        if stale:
            self.check()
        return planned.due

    async def _write(self, files: Mapping[str, bytes], version: str) -> bool:
        at = self._clocks.seconds()
        if len(self._writes) == WRITES and at - self._writes[0] < 60:  # noqa: PLR2004  (a minute)
            raise StoreError(
                "the store", "is changed against this replica all the time: is the clock right everywhere?"
            )
        self._writes.append(at)
        return await self._store.write(files, version)

    def _with_served(self, kept: State, now: dt.datetime) -> State:
        """The CA that this replica's serving certificate depends on stays trusted, whatever others have put in its place.

        It is said until when, too: a replica that starts has to know under which CAs others serve.
        """
        served = self._in_force
        if served is None or now > served.leaf.not_after:
            return kept
        others = tuple(one for one in kept.retired if not one.abandoned or one.certificate != served.ca)
        if served.ca in replace(kept, retired=others).authorities:
            return kept
        until = served.leaf.not_after.replace(microsecond=0)
        return replace(kept, retired=(*others, Retired(served.ca, until, claimed=True)))

    def _offer(self) -> float:
        """Serve the stored certificate, if callers trust it; seconds until they may, infinite if nothing is waiting."""
        kept = self._kept
        leaf = None if kept is None else kept.leaf
        served = self._in_force
        if kept is None or leaf is None or (served is not None and served.leaf.certificate == leaf.certificate):
            return float("inf")
        authority = kept.issuer(leaf.certificate)
        assert authority is not None  # noqa: S101  (decoding and planning see to that)
        trust = self._trust()
        rest = self._rest(kept, authority)
        if rest > 0:
            nobody_calls = served is None and trust.looked and not trust.sees(der(authority))
            self._telling.say(ReportKind.UNTRUSTED if nobody_calls else ReportKind.WAITING, _waiting(authority, trust))
            return rest
        demands = Requirements(self._rules.names, kept.authorities)
        self._serving.swap(leaf.certificate_pem, leaf.key_pem, self._clocks.now(), demands)
        self._in_force = _Served(leaf, authority)
        self.served.set()
        self._telling.forget(ReportKind.WAITING, ReportKind.UNTRUSTED)
        self._telling.tell(
            Report(
                ReportKind.SERVED,
                f"the certificate {fingerprint(leaf.certificate)[:16]} is served until {leaf.not_after:%Y-%m-%d %H:%M} UTC, "
                f"under the CA {fingerprint(authority)[:16]}",
                ca=served is not None and served.ca != authority,
            )
        )
        return float("inf")

    def _rest(self, kept: State, authority: x509.Certificate) -> float:
        """Seconds until a certificate may be served; infinite before the webhook configuration was read."""
        served, trust, at, now = self._in_force, self._trust(), self._clocks.seconds(), self._clocks.now()
        # Another serving certificate under the same CA changes nothing for anybody.
        same = served is not None and served.ca == authority
        if same or trust.servable(der(authority), at, first=served is None, aged=aged(authority, trust, now)):
            return 0.0
        rest = trust.rest(der(authority), at)
        return min(rest, rest_of_first(kept, authority, trust, now)) if served is None else rest

    async def _follow(self) -> None:
        backoff = Backoff(*RETRY_PAUSES)
        while True:
            try:
                await self._store.changed()
                backoff.reset()
                self.check()
            except Exception as error:  # noqa: BLE001  (the store may be there again later)
                self._telling.say(*failure(error))
                await asyncio.sleep(backoff.failed())


def spread(rules: Rules) -> Rules:
    """The same rules for one replica of several: it makes things anew a little earlier or later than others."""
    return replace(rules, lead=random.uniform(-JITTER, JITTER))  # noqa: S311  (no secret)


def completed(found: State | None, remembered: State | None) -> State | None:
    """What was found, and from memory what is missing in it."""
    if found is None or remembered is None:
        return found or remembered
    authority = remembered.ca
    if found.ca is None and authority is not None and authority.certificate in found.authorities:
        left = tuple(one for one in found.retired if one.certificate != authority.certificate)
        found = replace(found, ca=authority, retired=left)
    if found.ca is None and found.coming is None:
        # Nothing of it can sign, and what is remembered can; what it trusts stays trusted.
        known = set(remembered.authorities)
        others = tuple(one for one in found.retired if one.certificate not in known)
        found = replace(remembered, retired=(*remembered.retired, *others), asked=found.asked)
    leaf = remembered.leaf
    if (
        found.leaf is None
        and leaf is not None
        and found.asked is not RotationRequest.LEAF
        and _under_current(leaf, found)
    ):
        found = replace(found, leaf=leaf)
    return found


def _under_current(leaf: Pair, kept: State) -> bool:
    return kept.ca is not None and kept.issuer(leaf.certificate) == kept.ca.certificate


def _waiting(authority: x509.Certificate, trust: Trust) -> str:
    name = fingerprint(authority)[:16]
    if not trust.looked:
        return f"the serving certificate under the CA {name} is not served before the webhook configuration was read"
    if not trust.sees(der(authority)):
        return f"the certificate under the CA {name} is not served: the webhook configuration's caBundle does not hold it yet"
    return f"the certificate under the CA {name} is served once its caBundle has settled, in {trust.settle:g} s at most"
