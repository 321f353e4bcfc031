"""Renews the certificates in a store and serves the serving certificate: one rotator per replica, without a leader.

Every rotator reads the store, decides by the same pure function (`plan.py`) and writes against the version that it read;
the loser of a race reads again and finds what the winner made. A serving certificate comes into force once callers are
known to trust its CA; until then the previous one stays. A store that was emptied or damaged is restored from memory.
"""

import asyncio
import datetime as dt
import random
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from cryptography import x509

from certs.ca import Pair, StoreError, Trust
from certs.plan import JITTER, Rules, step
from certs.report import Backoff, Report, Reporter, ReportKind, failure, recovered
from certs.serving import Clocks, Serving
from certs.state import STATE, Decoded, Retired, RotationRequest, State, completed_files, decode, der, fingerprint
from certs.store import Snapshot, Store, aged, first_wait


async def request_rotation(store: Store, requested: RotationRequest) -> State:
    """Leave a request in a store; the replica that fulfills it removes it.

    A new CA includes a new serving certificate, so a request for the latter does not replace one for a CA.

    Returns:
        The stored state before the request.

    Raises:
        StoreError: the store cannot be read or written, or is empty.
    """
    for _ in range(ATTEMPTS):
        snapshot = await store.read()
        state = decode(snapshot.files).state
        if state is None:
            raise StoreError("the store", "contains no certificates yet: start the webhook first")
        if state.requested is RotationRequest.CA:
            return state
        # Only the request changes: the replicas repair files that cannot be decoded.
        files = {**(snapshot.files or {}), STATE: replace(state, requested=requested).files()[STATE]}
        if await store.write(files, snapshot.version):
            return state
    raise StoreError("the store", f"was changed by other processes {ATTEMPTS} times in a row")


ATTEMPTS: Final = 10
"""Writes in a row that may lose against other replicas: that many may start at once."""

MAX_WAIT: Final = 3600.0
"""Seconds between two reads when nothing is due, to notice an adjusted clock or a missed change."""

RETRY_PAUSES: Final = (0.5, 30.0)
"""Seconds after the first failure, and the most after any."""

WRITES: Final = 60
"""The most writes of one replica per minute: replicas whose clocks are months apart undo each other's changes."""


@dataclass(frozen=True, slots=True)
class _Served:
    pair: Pair
    ca: x509.Certificate


class Rotator:
    """Rotates the certificates of one store and one `Serving`; see `reconcile` for what it does and `run` for when.

    Args:
        store: stores the certificates.
        serving: the TLS context that serves them.
        rules: how they are made; `spread` varies the rules between replicas.
        trust: returns which CAs callers trust now.
        publish: called with the CAs that callers must trust, PEM, whenever they may have changed.
        report: called with each report; it must not block.
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
        report: Callable[[Report[ReportKind]], None],
        clocks: Clocks | None = None,
    ) -> None:
        self.served = asyncio.Event()
        self._store = store
        self._serving = serving
        self._rules = rules
        self._trust = trust
        self._publish = publish
        self._reporter = Reporter(report)
        self._clocks = clocks or Clocks()
        self._state: State | None = None
        self._version = ""
        self._in_force: _Served | None = None
        self._wake = asyncio.Event()
        self._writes: deque[float] = deque(maxlen=WRITES)

    @property
    def state(self) -> State | None:
        """The stored state, as last read or written; None before that."""
        return self._state

    @property
    def ca(self) -> x509.Certificate | None:
        """The CA of the certificate in force."""
        return None if self._in_force is None else self._in_force.ca

    def check(self) -> None:
        """Reconcile soon: something may have changed, such as the CAs that callers trust."""
        self._wake.set()

    async def start(self) -> None:
        """Reconcile for the first time, unless the stored CA is unusable: then it is left as it is.

        Raises:
            StoreError: the store cannot be read or written.
            UnusablePairError: the CA cannot be used, or the serving certificate cannot be served.
        """
        found = decode((await self._store.read()).files)
        if found.problems and (found.state is None or found.state.ca is None):
            raise found.problems[0]
        await self.reconcile()

    async def run(self) -> None:
        """Reconcile now, at each change, and when something is due, until cancelled; no failure ends it."""
        backoff = Backoff(*RETRY_PAUSES)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow())
            while True:
                self._wake.clear()
                try:
                    wait = min(await self.reconcile(), MAX_WAIT)
                    backoff.reset()
                except Exception as error:  # noqa: BLE001  (renewal must not end)
                    self._reporter.report_once(*failure(error))
                    wait = backoff.failed()
                with suppress(TimeoutError):
                    async with asyncio.timeout(wait):
                        await self._wake.wait()

    async def reconcile(self) -> float:
        """Read the store, renew what is due, serve what callers trust; return the seconds until something is due again.

        Raises:
            StoreError: the store cannot be read or written.
            UnusablePairError: the stored certificate cannot be served; the one in force stays.
        """
        for _ in range(ATTEMPTS):
            snapshot = await self._store.read()
            found = decode(snapshot.files)
            for problem in found.problems:
                self._reporter.report_once(
                    ReportKind.INVALID, f"stored certificates cannot be used as they are: {problem}"
                )
            due = await self._update(snapshot, found)
            if due is not None:
                return min(due, self._serve_if_trusted())
        raise StoreError("the store", f"was changed by other replicas {ATTEMPTS} times in a row")

    async def is_current(self) -> bool:
        """Whether the store contains no CAs but those published last; to be checked before CAs are removed."""
        try:
            same = (await self._store.read()).version == self._version
        except StoreError:
            return False
        if not same:
            self.check()
        return same

    async def _update(self, snapshot: Snapshot, found: Decoded) -> float | None:
        """Renew what is due and write it; None if another replica was faster."""
        now, at = self._clocks.now(), self._clocks.seconds()
        restored = completed_files(found.state, self._state)
        before = restored if restored is None else self._with_ca_in_use(restored, now)
        planned = step(before, self._trust(), self._rules, now, at)
        files = planned.state.files()
        stale = found.state is None or bool(found.problems) or found.state.files() != files
        if stale and not await self._write(files, snapshot.version):
            return None
        if stale and restored is not None and restored is not found.state:
            self._reporter.report_once(
                ReportKind.RESTORED,
                "certificates that were missing in the store were written again from memory",
            )
        if planned.made:
            self._reporter.report(ReportKind.MADE, ", ".join(made.value for made in planned.made))
        lasting = {ReportKind.WAITING, ReportKind.UNTRUSTED} | ({ReportKind.INVALID} if found.problems else set())
        recovered(self._reporter, lasting)
        self._state = planned.state
        # The version after a write is unknown until the next read.
        self._version = "" if stale else snapshot.version
        self._publish(planned.state.bundle_pem)
        if stale:
            self.check()
        return planned.due

    async def _write(self, files: Mapping[str, bytes], version: str) -> bool:
        at = self._clocks.seconds()
        if len(self._writes) == WRITES and at - self._writes[0] < 60:  # noqa: PLR2004  (a minute)
            raise StoreError(
                "the store", "changes back after each write of this replica: compare the clocks of all replicas"
            )
        self._writes.append(at)
        return await self._store.write(files, version)

    def _with_ca_in_use(self, state: State, now: dt.datetime) -> State:
        """Keep the CA of this replica's certificate trusted, even if others have replaced it.

        The end of that certificate is stored, too: a replica that starts has to know under which CAs others serve.
        """
        served = self._in_force
        if served is None or now > served.pair.not_after:
            return state
        others = tuple(ca for ca in state.retired if not ca.abandoned or ca.certificate != served.ca)
        if served.ca in replace(state, retired=others).cas:
            return state
        until = served.pair.not_after.replace(microsecond=0)
        return replace(state, retired=(*others, Retired(served.ca, until, claimed=True)))

    def _serve_if_trusted(self) -> float:
        """Serve the stored certificate if callers trust it, or return the seconds until they may; infinite if none waits."""
        state = self._state
        pair = None if state is None else state.serving_pair
        served = self._in_force
        if state is None or pair is None or (served is not None and served.pair.certificate == pair.certificate):
            return float("inf")
        ca = state.issuer(pair.certificate)
        assert ca is not None  # noqa: S101  (ensured by decoding and planning)
        trust = self._trust()
        wait = self._wait(state, ca)
        if wait > 0:
            uncalled = served is None and trust.known and not trust.sees(der(ca))
            self._reporter.report_once(ReportKind.UNTRUSTED if uncalled else ReportKind.WAITING, _waiting(ca, trust))
            return wait
        self._serving.swap(pair.certificate_pem, pair.key_pem, self._clocks.now(), self._rules.names, state.cas)
        self._in_force = _Served(pair, ca)
        self.served.set()
        self._reporter.forget(ReportKind.WAITING, ReportKind.UNTRUSTED)
        self._reporter.report(
            ReportKind.SERVED,
            f"the certificate {fingerprint(pair.certificate)[:16]} is served until {pair.not_after:%Y-%m-%d %H:%M} UTC, "
            f"under the CA {fingerprint(ca)[:16]}",
        )
        return float("inf")

    def _wait(self, state: State, ca: x509.Certificate) -> float:
        """Seconds until a certificate may be served; infinite before the webhook configuration has been read."""
        served, trust, at, now = self._in_force, self._trust(), self._clocks.seconds(), self._clocks.now()
        # Another serving certificate under the same CA changes nothing for callers.
        same = served is not None and served.ca == ca
        if same or trust.servable(der(ca), at, first=served is None, aged=aged(ca, trust, now)):
            return 0.0
        wait = trust.seconds_until_settled(der(ca), at)
        return min(wait, first_wait(state, ca, trust, now)) if served is None else wait

    async def _follow(self) -> None:
        backoff = Backoff(*RETRY_PAUSES)
        while True:
            try:
                await self._store.changed()
                backoff.reset()
                self.check()
            except Exception as error:  # noqa: BLE001  (the store may come back)
                self._reporter.report_once(*failure(error))
                await asyncio.sleep(backoff.failed())


def spread(rules: Rules) -> Rules:
    """Vary rules for one replica of several: it renews a little earlier or later than others."""
    return replace(rules, lead=random.uniform(-JITTER, JITTER))  # noqa: S311  (no secret)


def _waiting(ca: x509.Certificate, trust: Trust) -> str:
    name = fingerprint(ca)[:16]
    if not trust.known:
        return (
            f"the serving certificate under the CA {name} is not served until the webhook configuration has been read"
        )
    if not trust.sees(der(ca)):
        return f"the certificate under the CA {name} is not served: the caBundle does not contain that CA yet"
    return f"the certificate under the CA {name} is served once every API server knows that CA, in at most {trust.settle:g} s"
