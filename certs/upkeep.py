"""Keeps up to date what is served: the server's own certificate, or one that another program renews.

There is one `Rotator` per replica, without a leader. Each reads the store, decides by the same pure function
(`certs.rotation.step`) and writes against the version that it read; the loser of a race reads again and finds what the
winner made. A store that was emptied or damaged is restored from memory.

Whoever works in the background, here and in `webhook`, tells each lasting matter once, by `Notices`, and tries again after
longer and longer pauses, by a `Backoff`.
"""

import asyncio
import datetime as dt
import enum
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar

from cryptography import x509
from msgspec import Struct
from msgspec.structs import replace

from certs.rotation import (
    BUNDLE,
    CERTIFICATE,
    KEY,
    RotationRequest,
    Rules,
    State,
    Trust,
    decode,
    seconds_to_serve,
    step,
)
from certs.store import Directory, Serving, Snapshot, Store
from certs.x509 import (
    SERVING_CERTIFICATE,
    CertificateError,
    StoreError,
    UnusablePairError,
    ca_of,
    der,
    fingerprint,
    in_order,
    load_certificates,
    pem,
)

Matter = TypeVar("Matter")


class Notice(NamedTuple, Generic[Matter]):
    """What it is about, and a message for people, which never holds any part of a key."""

    matter: Matter
    message: str


class Notices(Generic[Matter]):
    """Sends each notice about a lasting matter once, until that is over; `send` must not block."""

    def __init__(self, send: Callable[[Notice[Matter]], None]) -> None:
        self._send = send
        self._lasting: dict[Matter, int] = {}

    def tell(self, matter: Matter, message: str) -> None:
        self._send(Notice(matter, message))

    def tell_once(self, matter: Matter, message: str) -> None:
        """Tell what lasts, unless the last notice about it was the same."""
        number = hash(message)  # a message has any length
        if self._lasting.get(matter) != number:
            self._lasting[matter] = number
            self.tell(matter, message)

    def tell_while(self, condition: object, matter: Matter, message: str) -> None:
        """Tell it if it lasts; otherwise consider it over."""
        if condition:
            self.tell_once(matter, message)
        else:
            self.forget(matter)

    def only(self, matter: Matter, message: str) -> None:
        """Tell what lasts, and consider all others over."""
        self.keep({matter})
        self.tell_once(matter, message)

    def forget(self, *matters: Matter) -> None:
        """Consider matters over, without a notice; if they recur, they are told again."""
        for matter in matters:
            self._lasting.pop(matter, None)

    def keep(self, matters: Collection[Matter]) -> set[Matter]:
        """Consider all matters over except some, and return those that end."""
        ended = self._lasting.keys() - set(matters)
        self.forget(*ended)
        return ended


MAX_DOUBLINGS = 32
"""An exponent without a bound would, after days of retries, make a number too large for a float."""


class Backoff:
    """The pauses of one activity in seconds: the first one, doubled after each failure up to the longest one.

    A pause takes half of that and, with `chance`, up to all of it, so that replicas do not retry at the same moment.
    """

    def __init__(self, first: float, longest: float, chance: Callable[[], float] = lambda: 1.0) -> None:
        self.failures = 0
        self._first = first
        self._longest = longest
        self._chance = chance

    def failed(self) -> float:
        """Count a failure, and return the seconds to wait before the next try."""
        pause = min(self._longest, self._first * 2.0 ** min(self.failures, MAX_DOUBLINGS))
        self.failures += 1
        return pause * (1 + self._chance()) / 2

    def reset(self) -> None:
        """Start over: the last try succeeded."""
        self.failures = 0


ATTEMPTS: Final = 10
"""Writes in a row that may lose against other replicas: that many may start at once."""

MAX_WAIT: Final = 3600.0
"""Seconds between two reads when nothing is due, to notice an adjusted clock or a missed change."""

RETRY_PAUSES: Final = (0.5, 30.0)
"""Seconds after the first failure, and the most after any."""

WRITES: Final = 60
"""The most writes of one replica per minute: replicas whose clocks are months apart undo each other's changes."""

FAILURES_BEFORE_NOTICE: Final = 2
"""Failed reads in a row before that is told: files are replaced one after the other."""


class CertificateMatter(enum.Enum):
    """What a notice about certificates is about."""

    SERVED = "served"
    MADE = "made"
    RESTORED = "restored"
    """Certificates that had been deleted from the store were written again."""
    RECOVERED = "recovered"
    """A failure is over."""
    WAITING = "waiting"
    """A new serving certificate is not in force yet: not every caller trusts its CA."""
    INVALID = "invalid"
    """A pair cannot be served or stored; the pair in force stays."""
    UNTRUSTED = "untrusted"
    """Nothing is served yet, and the webhook configuration lacks the CA of the stored certificate."""
    STORE = "store"
    """The store cannot be read or written."""
    BUG = "bug"


CertificateNotice: TypeAlias = Notice[CertificateMatter]

FAILURES: Final = frozenset(CertificateMatter(each) for each in ("invalid", "untrusted", "store", "bug"))
"""At which an operator should look."""

COUNTED: Final = FAILURES | {CertificateMatter.RESTORED}
"""What metrics count: an operator should learn of it even if it is over."""


def failure(error: Exception) -> tuple[CertificateMatter, str]:
    """What to tell of a failure; the text of an unforeseen one may contain a key."""
    if isinstance(error, UnusablePairError):
        return CertificateMatter.INVALID, str(error)
    if isinstance(error, CertificateError):
        return CertificateMatter.STORE, str(error)
    return CertificateMatter.BUG, f"renewing the certificates failed: {type(error).__name__}"


def recovered(notices: Notices[CertificateMatter], lasting: Collection[CertificateMatter] = ()) -> None:
    """Consider all matters over except the `lasting` ones, and tell it if that ends a failure."""
    if notices.keep(lasting) & FAILURES:
        notices.tell(CertificateMatter.RECOVERED, "the certificates are renewed again")


async def request_rotation(store: Store, requested: RotationRequest) -> State | None:
    """Leave a request in a store, and return what it held; None if that is nothing, and so nothing was requested.

    The replica that fulfills it removes it. A new CA includes a new serving certificate, so a request for the latter does not
    replace one for a CA.
    """
    for _ in range(ATTEMPTS):
        snapshot = await store.read()
        state = decode(snapshot.files)
        if state is None or state.requested is RotationRequest.CA:
            return state
        if await store.write(replace(state, requested=requested).files(), snapshot.version):
            return state
    raise StoreError("the store", f"was changed by other processes {ATTEMPTS} times in a row")


class Surroundings(Struct, frozen=True):
    """What upkeep works with; nothing here may block.

    Attributes:
        publish: takes the CAs that callers must trust, PEM, whenever they may have changed; empty if they are unknown.
        seconds: monotonic, the clock of `trust`.
    """

    serving: Serving
    trust: Callable[[], Trust]
    publish: Callable[[bytes], None]
    send: Callable[[CertificateNotice], None]
    now: Callable[[], dt.datetime] = lambda: dt.datetime.now(dt.UTC)
    seconds: Callable[[], float] = time.monotonic


class Rotator:
    """Rotates the certificates of one store; `served` is set once one is served, and `ca` is the CA of that in force."""

    def __init__(self, store: Store, rules: Rules, around: Surroundings) -> None:
        self.served = asyncio.Event()
        self.ca: x509.Certificate | None = None
        self._store = store
        self._rules = rules
        self._around = around
        self._notices = Notices(around.send)
        self._state: State | None = None
        self._version = ""
        self._wake = asyncio.Event()
        self._writes: deque[float] = deque(maxlen=WRITES)

    def check(self) -> None:
        """Reconcile soon: something may have changed, such as the CAs that callers trust."""
        self._wake.set()

    async def start(self) -> None:
        """Reconcile for the first time; what is stored and unusable is left as it is, and raised."""
        decode((await self._store.read()).files)
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
                    self._notices.tell_once(*failure(error))
                    wait = backoff.failed()
                with suppress(TimeoutError):
                    async with asyncio.timeout(wait):
                        await self._wake.wait()

    async def _follow(self) -> None:
        backoff = Backoff(*RETRY_PAUSES)
        while True:
            try:
                await self._store.changed()
                backoff.reset()
                self.check()
            except Exception as error:  # noqa: BLE001  (the store may come back)
                self._notices.tell_once(*failure(error))
                await asyncio.sleep(backoff.failed())

    async def is_current(self) -> bool:
        """Whether the store contains no CAs but those published last; to be checked before CAs are removed."""
        same = await _is_at(self._store, self._version)
        if not same:
            self.check()
        return same

    async def reconcile(self) -> float:
        """Read the store, renew what is due, serve what callers trust; return the seconds until something is due again.

        A stored certificate that cannot be served is raised, and the one in force stays.
        """
        for _ in range(ATTEMPTS):
            due = await self._update(await self._store.read())
            if due is not None:
                return min(due, self._serve_if_trusted())
        raise StoreError("the store", f"was changed by other replicas {ATTEMPTS} times in a row")

    async def _update(self, snapshot: Snapshot) -> float | None:
        """Renew what is due and write it; None if another replica was faster."""
        around, notices, found, problem = self._around, self._notices, None, ""
        try:
            found = decode(snapshot.files)
        except UnusablePairError as error:
            problem = f"stored certificates cannot be used as they are: {error}"
        planned = step(self._completed(found), around.trust(), self._rules, around.now(), around.seconds())
        files = planned.state.files()
        same = files == snapshot.files
        if not same and not await self._write(files, snapshot.version):
            return None
        lasting = {CertificateMatter.WAITING, CertificateMatter.UNTRUSTED}
        if problem:
            lasting.add(CertificateMatter.INVALID)
            notices.tell_once(CertificateMatter.INVALID, problem)
        if found is None and self._state is not None:
            message = "certificates that were missing in the store were written again from memory"
            notices.tell_once(CertificateMatter.RESTORED, message)
        if planned.made:
            notices.tell(CertificateMatter.MADE, planned.made)
        recovered(notices, lasting)
        self._state = planned.state
        # After a write, that is not the version in the store: what was written counts when it is read.
        self._version = snapshot.version
        around.publish(planned.state.bundle)
        if not same:
            self.check()
        return planned.due

    def _completed(self, found: State | None) -> State | None:
        """What is stored, or else remembered; with the CA in use, even if others have replaced it.

        Callers must trust it as long, and a replica that starts has to know that another one serves under it.
        """
        state, served = found or self._state, self._around.serving.certificate
        if state is None or self.ca is None or served is None or self._around.now() > served.not_valid_after_utc:
            return state
        return state.trusting(self.ca)

    async def _write(self, files: Mapping[str, bytes], version: str) -> bool:
        at = self._around.seconds()
        if len(self._writes) == WRITES and at - self._writes[0] < 60:  # noqa: PLR2004  (a minute)
            why = "changes back after each write of this replica: compare the clocks of all replicas"
            raise StoreError("the store", why)
        self._writes.append(at)
        return await self._store.write(files, version)

    def _serve_if_trusted(self) -> float:
        """Serve the stored certificate if callers trust it, or return the seconds until they may; infinite if none waits."""
        state, trust, now, serving = self._state, self._around.trust(), self._around.now(), self._around.serving
        pair, ca = (None, None) if state is None else (state.pair, state.issuer)
        if state is None or pair is None or ca is None or pair.certificate == serving.certificate:
            return float("inf")
        wait = seconds_to_serve(state, self.ca, trust, now, self._around.seconds())
        if wait > 0:
            uncalled = self.ca is None and trust.known and der(ca) not in trust.since
            matter = CertificateMatter.UNTRUSTED if uncalled else CertificateMatter.WAITING
            self._notices.tell_once(matter, _waiting(ca, trust))
            return wait
        serving.swap(pair.certificate_pem, pair.key_pem, now, self._rules.names, state.cas)
        self.ca = ca
        self.served.set()
        self._notices.forget(CertificateMatter.WAITING, CertificateMatter.UNTRUSTED)
        message = f"{_served(pair.certificate)}, under the CA {fingerprint(ca)[:16]}"
        self._notices.tell(CertificateMatter.SERVED, message)
        return float("inf")


async def _is_at(store: Store, version: str) -> bool:
    try:
        return (await store.read()).version == version
    except CertificateError:
        return False


def _waiting(ca: x509.Certificate, trust: Trust) -> str:
    what = f"the serving certificate under the CA {fingerprint(ca)[:16]} is"
    if not trust.known:
        return f"{what} not served until the webhook configuration has been read"
    if der(ca) not in trust.since:
        return f"{what} not served: the caBundle does not contain that CA yet"
    return f"{what} served once every API server knows that CA, in at most {trust.settle:g} s"


def _served(certificate: x509.Certificate) -> str:
    end = f"{certificate.not_valid_after_utc:%Y-%m-%d %H:%M} UTC"
    return f"the serving certificate {fingerprint(certificate)[:16]} is served until {end}"


class ProvidedPair:
    """Serves a pair that another program renews: the mounted Secret of cert-manager, or files from a company's CA.

    The directory holds ``tls.crt`` (the serving certificate, then intermediates), ``tls.key`` (of any type that clients
    accept) and possibly ``ca.crt`` (the CAs that clients trust). Nothing is written to it. `served` and `ca` are as those of a
    `Rotator`, the latter as far as it is known.
    """

    def __init__(self, directory: Directory, names: Collection[str], around: Surroundings) -> None:
        self.served = asyncio.Event()
        self.ca: x509.Certificate | None = None
        self._directory = directory
        self._names = names
        self._around = around
        self._notices = Notices(around.send)
        self._version = ""

    def check(self) -> None:
        """Do nothing: the directory is read every two seconds anyway."""

    async def is_current(self) -> bool:
        return await _is_at(self._directory, self._version)

    async def run(self) -> None:
        """Read the directory every few seconds until cancelled; no failure ends it."""
        failures = 0
        while True:
            try:
                if await self.start():
                    recovered(self._notices)
                failures = 0
            except Exception as error:  # noqa: BLE001  (a later pair may work)
                failures += 1
                if failures >= FAILURES_BEFORE_NOTICE:
                    self._notices.only(*failure(error))
            await asyncio.sleep(self._directory.poll)

    async def start(self) -> bool:
        """Read the directory, serve its pair if callers trust it, and return whether it is served.

        A pair that cannot be served is raised, and the one in force stays.
        """
        snapshot = await self._directory.read()
        return snapshot.version == self._version or self._load(snapshot)

    def _load(self, snapshot: Snapshot) -> bool:
        files, now, before = snapshot.files or {}, self._around.now(), self.ca
        if CERTIFICATE not in files or KEY not in files:
            why = f"is missing: {self._directory.path} must contain {CERTIFICATE} and {KEY}"
            raise UnusablePairError(SERVING_CERTIFICATE, why)
        cas = load_certificates(files[BUNDLE], "the bundle") if files.get(BUNDLE, b"").strip() else []
        chain = load_certificates(files[CERTIFICATE], SERVING_CERTIFICATE)
        ca = ca_of(chain[0], chain[1:], cas, now) if cas else before
        self._around.publish(pem(in_order([*cas, before] if cas and before else cas)))
        if why_not := self._untrusted(chain, cas):
            self._notices.only(CertificateMatter.WAITING, f"the serving certificate is not served{why_not}")
            return False
        self._around.serving.swap(files[CERTIFICATE], files[KEY], now, self._names, cas or None)
        self.ca, self._version = ca, snapshot.version
        self.served.set()
        self._notices.tell(CertificateMatter.SERVED, _served(chain[0]))
        if before not in {None, ca}:
            self._around.publish(pem(in_order(cas)))
        return True

    def _untrusted(self, chain: Sequence[x509.Certificate], cas: Sequence[x509.Certificate]) -> str | None:
        """Why callers do not trust a chain; None if they do."""
        trust, at, first = self._around.trust(), self._around.seconds(), not self.served.is_set()
        if not trust.known or (trust.no_callers and not first):
            return " until the webhook configuration has been read"
        # Without any CA, API servers trust what their machines trust.
        if trust.no_callers or not (trust.all_cas or cas):
            return None
        # Where callers trust no other CA, no replica can answer successfully: waiting would only prolong the outage.
        alone = first and trust.only([der(ca) for ca in cas])
        usable = [ca for ca in trust.since if alone or trust.servable(ca, at, first=first)]
        try:
            ca_of(chain[0], chain[1:], [*map(x509.load_der_x509_certificate, usable)], self._around.now())
        except UnusablePairError:
            return ": no CA that signed it is in the webhook configuration's caBundle, or not for long enough"
        return None
