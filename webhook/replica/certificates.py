"""The certificate of a server: its renewal, the CAs that callers trust, and reports and metrics about both."""

import asyncio
import datetime as dt
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TypeAlias

from cryptography import x509
from prometheus_client.metrics_core import Metric
from structlog.typing import FilteringBoundLogger

from certs.rotation import Rules, Trust
from certs.serving import Serving
from certs.store import Directory, Store
from certs.upkeep import (
    COUNTED,
    FAILURES,
    CertificateMatter,
    CertificateNotice,
    ProvidedPair,
    Rotator,
    Surroundings,
)
from certs.x509 import by_der
from webhook.server.metrics import counter, gauge

Upkeep: TypeAlias = Rotator | ProvidedPair
"""What renews the certificate."""


class Certificates:
    """The certificates of a server.

    If `watched`, the webhook configuration shows what callers trust; else they trust the published CAs.

    Attributes:
        upkeep: what renews the certificate; None if the pair never changes.
        bundle: the CAs that were published last, PEM.
        published: set once there are any, or something else is known to distribute them.
        republished: called with the CAs whenever they change.
        troubled: called with notices that an operator should see.
    """

    def __init__(self, tls: Serving, log: FilteringBoundLogger, *, settle: float = 0.0, watched: bool = False) -> None:
        self.tls = tls
        self.upkeep: Upkeep | None = None
        self.bundle = b""
        self.published = asyncio.Event()
        self.republished: Callable[[bytes], None] = lambda _: None
        self.troubled: Callable[[CertificateNotice], None] = lambda _: None
        self._log = log
        self._trust = Trust(settle)
        self._watched = watched
        self._rotations = {"serving": 0, "ca": 0}
        self._failures = dict.fromkeys(COUNTED, 0)
        self._trouble = ""
        self._served_before = False
        self._ca: x509.Certificate | None = None
        self._around = Surroundings(tls, lambda: self._trust, self._publish, self._tell)

    def keep(self, store: Store, rules: Rules) -> None:
        self.upkeep = Rotator(store, rules, self._around)

    def follow(self, directory: Directory, names: Collection[str]) -> None:
        """Serve a provided pair in a directory; at once, where nobody shows what callers trust."""
        if not self._watched:
            self._trust = Trust(0.0)
        self.upkeep = ProvidedPair(directory, names, self._around)

    def observe(self, bundles: Iterable[Collection[bytes]] | None) -> None:
        """Note the CAs (DER) of each webhook of the webhook configuration; None if there is no configuration."""
        before, self._trust = self._trust, self._trust.observed(bundles, time.monotonic())
        if self.upkeep is not None and before != self._trust:
            self.upkeep.check()

    async def run(self) -> None:
        if self.upkeep is not None:
            await self.upkeep.run()

    async def served(self) -> None:
        if self.upkeep is not None:
            await self.upkeep.served.wait()

    async def is_current(self) -> bool:
        """Whether other replicas can be using no other CAs than those published last."""
        return self.upkeep is None or await self.upkeep.is_current()

    def failure(self) -> str | None:
        """Why no caller can be served now; None if callers can be."""
        found = self.tls.failure(_now())
        return found if found is None or not self._trouble else f"{found}; {self._trouble}"

    def metrics(self) -> Iterator[Metric]:
        shown = list(self._shown())
        ends = ((kind, certificate.not_valid_after_utc.timestamp()) for kind, certificate in shown)
        what = "Until when a certificate is valid, as Unix time."
        yield gauge("vgpu_webhook_certificate_not_after_seconds", what, ("kind",), ends)
        begins = ((kind, certificate.not_valid_before_utc.timestamp()) for kind, certificate in shown)
        what = "From when on a certificate is valid, as Unix time."
        yield gauge("vgpu_webhook_certificate_not_before_seconds", what, ("kind",), begins)
        what = "How often another certificate was served than before, and how often under another CA."
        yield counter("vgpu_webhook_certificate_rotations", what, ("kind",), self._rotations.items())
        failures = sorted((kind.value, count) for kind, count in self._failures.items())
        what = "Invalid pairs, and stores that could not be read or written, or were deleted."
        yield counter("vgpu_webhook_certificate_failures", what, ("reason",), failures)

    def _shown(self) -> Iterator[tuple[str, x509.Certificate]]:
        if self.tls.certificate is not None:
            yield "serving", self.tls.certificate
        if self.upkeep is not None and self.upkeep.ca is not None:
            yield "ca", self.upkeep.ca

    def _publish(self, bundle: bytes) -> None:
        if not self._watched:
            self.observe([frozenset(by_der(bundle))])
        if bundle != self.bundle or not self.published.is_set():
            self.bundle = bundle
            self.published.set()
            self.republished(bundle)

    def _tell(self, notice: CertificateNotice) -> None:
        if notice.matter is CertificateMatter.SERVED:
            ca = None if self.upkeep is None else self.upkeep.ca
            if self._served_before:
                self._rotations["serving"] += 1
                self._rotations["ca"] += self._ca not in {None, ca}
            self._served_before, self._ca, self._trouble = True, ca, ""
        elif notice.matter is CertificateMatter.RECOVERED:
            self._trouble = ""
        elif notice.matter in FAILURES or notice.matter is CertificateMatter.WAITING:
            self._trouble = notice.message
        counted = notice.matter in COUNTED
        log = self._log.error if notice.matter in FAILURES else self._log.warning if counted else self._log.info
        log("certificates", kind=notice.matter.value, message=notice.message)
        if counted:
            self._failures[notice.matter] += 1
            self.troubled(notice)


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)
