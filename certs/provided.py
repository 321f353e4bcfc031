"""Serves a pair that another program renews: the mounted Secret of cert-manager, or files from a company's CA.

The directory holds ``tls.crt`` (the serving certificate, then intermediates), ``tls.key`` (of any type that clients
accept) and possibly ``ca.crt`` (the CAs that clients trust). Nothing is written to it. The files are read and
compared together, so that a certificate is never combined with another one's key.
"""

import asyncio
from collections.abc import Callable, Collection
from typing import Final

from cryptography import x509

from certs.ca import CertificateError, Trust, UnusablePairError, path_to
from certs.report import Report, Reporter, ReportKind, failure
from certs.rotator import Clocks
from certs.serving import Requirements, Serving
from certs.state import BUNDLE, CERTIFICATE, KEY, SERVING_CERTIFICATE, der, fingerprint, in_order, pem
from certs.store import Directory, Snapshot

FAILURES_BEFORE_REPORT: Final = 2
"""Failed reads in a row before the failure is reported: plain files are replaced one after the other."""


class ProvidedPair:
    """Serves the pair in a directory, and follows the directory.

    Args:
        directory: the directory.
        serving: the TLS context that serves the pair.
        names: the DNS names and IP addresses that the certificate must have.
        trust: returns which CAs callers trust; None if that is unknown.
        publish: called with the CAs that callers must trust, PEM; empty if the directory has none.
        report: called with each report; it must not block.
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
        report: Callable[[Report], None],
        clocks: Clocks | None = None,
    ) -> None:
        self.served = asyncio.Event()
        self._directory = directory
        self._serving = serving
        self._names = names
        self._trust = trust
        self._publish = publish
        self._reporter = Reporter(report)
        self._clocks = clocks or Clocks()
        self._version = ""
        self._failures = 0
        self._ca: x509.Certificate | None = None

    @property
    def ca(self) -> x509.Certificate | None:
        """The CA of the certificate in force, as far as it is known."""
        return self._ca

    def check(self) -> None:
        """Do nothing: the directory is read every two seconds anyway."""

    async def is_current(self) -> bool:
        """Whether the directory contains no CAs but those published last."""
        try:
            return (await self._directory.read()).version == self._version
        except CertificateError:
            return False

    async def start(self) -> None:
        """Read the directory for the first time.

        Raises:
            StoreError: the directory cannot be read.
            UnusablePairError: the pair cannot be served.
        """
        self._load(await self._directory.read())

    async def run(self) -> None:
        """Read the directory every two seconds until cancelled; no failure ends it."""
        while True:
            try:
                await self.reconcile()
            except Exception as error:  # noqa: BLE001  (a later pair may work)
                self._failed(error)
            await asyncio.sleep(self._directory.poll)

    async def reconcile(self) -> None:
        """Read the directory, and serve its pair if callers trust it.

        Raises:
            StoreError: the directory cannot be read.
            UnusablePairError: the pair cannot be served; the pair in force stays.
        """
        snapshot = await self._directory.read()
        if snapshot.version != self._version:
            self._load(snapshot)
        elif self._failures:
            self._failures = 0
            self._reporter.resolve()

    def _load(self, snapshot: Snapshot) -> None:
        files = snapshot.files or {}
        if CERTIFICATE not in files or KEY not in files:
            raise UnusablePairError(
                SERVING_CERTIFICATE, f"is missing: {self._directory.path} must contain {CERTIFICATE} and {KEY}"
            )
        cas = _certificates(files[BUNDLE], "the bundle") if files.get(BUNDLE, b"").strip() else None
        old = [] if self._ca is None else [self._ca]
        self._publish(b"" if cas is None else pem(in_order([*cas, *old])))
        chain = _certificates(files[CERTIFICATE], SERVING_CERTIFICATE)
        if not self._may_serve(chain, cas):
            return
        self._serving.swap(files[CERTIFICATE], files[KEY], self._clocks.now(), Requirements(self._names, cas))
        certificate, before = chain[0], self._ca
        if cas is not None:
            self._ca = path_to(certificate, chain[1:], cas, self._clocks.now(), SERVING_CERTIFICATE)[-1]
        self._version = snapshot.version
        self._failures = 0
        self._reporter.forget(*ReportKind)
        self.served.set()
        end = f"{certificate.not_valid_after_utc:%Y-%m-%d %H:%M} UTC"
        changed = before is not None and before != self._ca
        self._reporter.report(
            Report(
                ReportKind.SERVED,
                f"the serving certificate {fingerprint(certificate)[:16]} is served until {end}",
                ca=changed,
            )
        )
        if changed and cas is not None:
            self._publish(pem(in_order(cas)))

    def _may_serve(self, chain: list[x509.Certificate], cas: list[x509.Certificate] | None) -> bool:
        """Whether callers trust a chain, as far as is known; if they do not, report it."""
        if self._trust is None:
            return True
        trust, at, first = self._trust(), self._clocks.seconds(), not self.served.is_set()
        if not trust.known or (trust.no_callers and not first):
            self._reporter.only(
                ReportKind.WAITING,
                "the serving certificate is not served until the webhook configuration has been read",
            )
            return False
        if trust.no_callers or (trust.bare and cas is None):
            return True
        # Where callers trust no other CA, no replica can answer successfully: waiting would only prolong the outage.
        alone = first and trust.only([der(ca) for ca in cas or ()])
        usable = [
            x509.load_der_x509_certificate(ca) for ca in trust.since if alone or trust.servable(ca, at, first=first)
        ]
        try:
            path_to(chain[0], chain[1:], usable, self._clocks.now(), SERVING_CERTIFICATE)
        except UnusablePairError:
            self._reporter.only(
                ReportKind.WAITING,
                "the serving certificate is not served: no CA that signed it is in the webhook configuration's caBundle, or "
                "not for long enough",
            )
            return False
        return True

    def _failed(self, error: Exception) -> None:
        self._failures += 1
        if self._failures >= FAILURES_BEFORE_REPORT:
            self._reporter.only(*failure(error))


def _certificates(text: bytes, what: str) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(text)
    except (ValueError, x509.InvalidVersion):
        raise UnusablePairError(what, "has a certificate that is not valid PEM") from None
