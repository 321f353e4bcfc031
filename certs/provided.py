"""A pair that somebody else keeps: cert-manager's mounted Secret, or files of a company's authority. Nothing is written.

The directory has ``tls.crt`` (the leaf, then intermediates), ``tls.key`` (of any type that clients take) and perhaps
``ca.crt`` (the authorities that clients trust). It is looked at by content, whole generations at a time.
"""

import asyncio
from collections.abc import Callable, Collection
from typing import Final

from cryptography import x509

from certs.chain import path_to
from certs.directory import Directory
from certs.problem import CertificateError, UnusablePairError
from certs.report import Report, ReportKind
from certs.reporter import Reporter, failure
from certs.rotator import Clocks
from certs.serving import Requirements, Serving
from certs.state import BUNDLE, CERTIFICATE, KEY, LEAF, der, fingerprint, in_order, pem
from certs.store import Snapshot
from certs.trust import Trust

FAILURES_BEFORE_REPORT: Final = 2
"""Looks in a row at which a pair has to be wrong before that is told: plain files are replaced one after the other."""


class Outside:
    """Serves the pair in a directory for as long as it is asked to.

    Args:
        directory: where it is.
        serving: what serves it.
        names: DNS names and IP addresses that it has to be for.
        trust: what callers are known to trust; None where that cannot be known.
        publish: called with the authorities that callers have to trust, PEM; empty if the directory does not say.
        tell: called with what is to be told; it must not block.
        clocks: the time.
    """

    def __init__(
        self,
        directory: Directory,
        serving: Serving,
        names: Collection[str],
        *,
        trust: Callable[[], Trust] | None,
        publish: Callable[[bytes], None],
        tell: Callable[[Report], None],
        clocks: Clocks | None = None,
    ) -> None:
        self.served = asyncio.Event()
        self._directory = directory
        self._serving = serving
        self._names = names
        self._trust = trust
        self._publish = publish
        self._telling = Reporter(tell)
        self._clocks = clocks or Clocks()
        self._version = ""
        self._wrong = 0
        self._authority: x509.Certificate | None = None

    @property
    def ca(self) -> x509.Certificate | None:
        """The authority of the leaf that is served, as far as that is known."""
        return self._authority

    def check(self) -> None:
        """Nothing: it looks every other second anyway."""

    async def sure(self) -> bool:
        """Whether what was published last is all that the directory holds."""
        try:
            return (await self._directory.read()).version == self._version
        except CertificateError:
            return False

    async def start(self) -> None:
        """A first look.

        Raises:
            StoreError: the directory cannot be read.
            UnusablePairError: the pair cannot be served.
        """
        self._take(await self._directory.read())

    async def run(self) -> None:
        """Look every other second until cancelled; no failure ends it."""
        while True:
            try:
                await self.reconcile()
            except Exception as error:  # noqa: BLE001  (a later pair may do)
                self._failed(error)
            await asyncio.sleep(self._directory.poll)

    async def reconcile(self) -> None:
        """Look, and serve what is there if it may be served.

        Raises:
            StoreError: the directory cannot be read.
            UnusablePairError: the pair cannot be served; what is served stays.
        """
        snapshot = await self._directory.read()
        if snapshot.version != self._version:
            self._take(snapshot)
        elif self._wrong:
            self._wrong = 0
            self._telling.over()

    def _take(self, snapshot: Snapshot) -> None:
        files = snapshot.files or {}
        if CERTIFICATE not in files or KEY not in files:
            raise UnusablePairError(LEAF, f"is not there: {self._directory.path} has to hold {CERTIFICATE} and {KEY}")
        authorities = _certificates(files[BUNDLE], "the bundle") if files.get(BUNDLE, b"").strip() else None
        old = [] if self._authority is None else [self._authority]
        self._publish(b"" if authorities is None else pem(in_order([*authorities, *old])))
        chain = _certificates(files[CERTIFICATE], LEAF)
        if not self._may_serve(chain, authorities):
            return
        self._serving.swap(files[CERTIFICATE], files[KEY], self._clocks.now(), Requirements(self._names, authorities))
        leaf, before = chain[0], self._authority
        if authorities is not None:
            self._authority = path_to(leaf, chain[1:], authorities, self._clocks.now(), LEAF)[-1]
        self._version = snapshot.version
        self._wrong = 0
        self._telling.forget(*ReportKind)
        self.served.set()
        end = f"{leaf.not_valid_after_utc:%Y-%m-%d %H:%M} UTC"
        changed = before is not None and before != self._authority
        self._telling.tell(
            Report(ReportKind.SERVED, f"the leaf {fingerprint(leaf)[:16]} is served until {end}", ca=changed)
        )
        if changed and authorities is not None:
            self._publish(pem(in_order(authorities)))

    def _may_serve(self, chain: list[x509.Certificate], authorities: list[x509.Certificate] | None) -> bool:
        """Whether callers trust a chain, as far as that can be known; says so if not."""
        if self._trust is None:
            return True
        trust, at, first = self._trust(), self._clocks.seconds(), not self.served.is_set()
        if not trust.looked or (trust.nobody and not first):
            self._telling.only(ReportKind.WAITING, "the leaf is not served before there is a registration to be read")
            return False
        if trust.nobody or (trust.bare and authorities is None):
            return True
        # Where callers trust nobody else, no replica can be answering with success: waiting would only prolong the outage.
        alone = first and trust.only([der(one) for one in authorities or ()])
        usable = [
            x509.load_der_x509_certificate(one) for one in trust.since if alone or trust.servable(one, at, first=first)
        ]
        try:
            path_to(chain[0], chain[1:], usable, self._clocks.now(), LEAF)
        except UnusablePairError:
            self._telling.only(
                ReportKind.WAITING,
                "the leaf is not served: no authority of it stands in the registration's caBundle, or not for long enough",
            )
            return False
        return True

    def _failed(self, error: Exception) -> None:
        self._wrong += 1
        if self._wrong >= FAILURES_BEFORE_REPORT:
            self._telling.only(*failure(error))


def _certificates(text: bytes, what: str) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(text)
    except (ValueError, x509.InvalidVersion):
        raise UnusablePairError(what, "has a certificate that is no PEM") from None
