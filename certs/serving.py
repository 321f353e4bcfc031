"""The TLS context of a server, whose certificate can be replaced while it serves.

Loading a new pair into a live context is unsafe: a mismatched pair breaks every later handshake, and a pair of another
key type leaves the old one in its slot. So a new pair is loaded into a context of its own, checked, and put into
force by one assignment; the front context, which the listener has, hands each handshake over to it. Its callback is
called for clients that send no server name, too.
`ProvidedPair` serves one that another program renews, `ClientCAs` follows those under which clients need one.
"""

import asyncio
import datetime as dt
import os
import ssl
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from cryptography import x509

from certs.ca import CertificateError, StoreError, Trust, UnusablePairError, check_time, check_use, path_to
from certs.report import Report, Reporter, ReportKind, failure, recovered
from certs.state import BUNDLE, CERTIFICATE, KEY, SERVING_CERTIFICATE, der, fingerprint, in_order, pem
from certs.store import MAX_BYTES, POLL, Directory, Snapshot

ALPN: Final = ["http/1.1"]
"""Never h2: clients use it if it is offered, and the server behind does not support it. API servers request 1.1."""

CIPHERS: Final = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""For TLS 1.2 only: forward secrecy and authenticated encryption, as in Mozilla's intermediate profile."""


@dataclass(frozen=True, slots=True)
class Clocks:
    """Two clocks: the time in UTC, for certificates, and monotonic seconds, for waits."""

    now: Callable[[], dt.datetime] = lambda: dt.datetime.now(dt.UTC)
    seconds: Callable[[], float] = time.monotonic


@dataclass(slots=True)
class _InForce:
    context: ssl.SSLContext
    certificate: x509.Certificate
    chain_pem: bytes
    key_pem: bytes = field(repr=False)


class Serving:
    """A server's TLS context (`context`) and the pair that it serves.

    Until the first `swap` there is no pair, and every handshake fails.

    Args:
        client_cas: PEM; clients need a certificate under one of these. None: no client certificates are required.
    """

    def __init__(self, client_cas: bytes | None = None) -> None:
        """Make the front context, without a pair.

        Raises:
            UnusablePairError: the CAs of clients are not PEM.
        """
        self._in_force: _InForce | None = None
        self._client_cas = client_cas
        # The front context needs no pair: its callback is called before a certificate is chosen.
        self.context = _context(client_cas)
        self.context.sni_callback = self._hand_over

    def _hand_over(self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> int | None:
        if self._in_force is None:
            return ssl.ALERT_DESCRIPTION_INTERNAL_ERROR
        connection.context = self._in_force.context
        return None

    def swap(
        self,
        chain_pem: bytes,
        key_pem: bytes,
        now: dt.datetime,
        names: Collection[str] = (),
        cas: Sequence[x509.Certificate] | None = None,
    ) -> None:
        """Serve another pair from the next handshake on; open connections are not affected.

        Args:
            chain_pem: the serving certificate, then intermediates if there are any.
            key_pem: the serving certificate's key, unencrypted, of any type that clients accept.
            now: the current time, in UTC.
            names: the DNS names and IP addresses that clients use.
            cas: the CAs that clients trust; None if they are unknown.

        Raises:
            UnusablePairError: the two do not match, cannot be decoded, are not valid now, or not for these names or CAs; the
                previous pair stays in force.
        """
        context = _context(self._client_cas)
        _load(context, chain_pem, key_pem)
        certificate, *intermediates = x509.load_pem_x509_certificates(chain_pem)
        check_time(certificate, now, SERVING_CERTIFICATE)
        check_use(certificate, names, SERVING_CERTIFICATE)
        if cas is not None:
            path_to(certificate, intermediates, cas, now, SERVING_CERTIFICATE)
        self._in_force = _InForce(context, certificate, chain_pem, key_pem)

    def require_client_certificates(self, cas: bytes) -> None:
        """Require client certificates under other CAs from the next handshake on.

        Args:
            cas: PEM; they replace the previous ones.

        Raises:
            UnusablePairError: they are not PEM; the previous ones stay in force.
            ValueError: no client certificates were required at the start: a live context cannot be changed to.
        """
        if self._client_cas is None:
            raise ValueError("client certificates are not required")
        context = _context(cas)
        if self._in_force is not None:
            _load(context, self._in_force.chain_pem, self._in_force.key_pem)
            self._in_force = replace(self._in_force, context=context)
        self._client_cas = cas

    @property
    def client_cas(self) -> bytes | None:
        """The CAs under which clients need a certificate, PEM; None if none is required."""
        return self._client_cas

    @property
    def certificate(self) -> x509.Certificate | None:
        """The serving certificate in force; None if there is none yet."""
        return None if self._in_force is None else self._in_force.certificate

    def failure(self, now: dt.datetime) -> str | None:
        """Why no client can be served at a moment; None if clients can be."""
        if self._in_force is None:
            return "no certificate is served yet"
        try:
            check_time(self._in_force.certificate, now, SERVING_CERTIFICATE)
        except UnusablePairError as error:
            return str(error)
        return None


def _context(client_cas: bytes | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(CIPHERS)
    context.set_alpn_protocols(ALPN)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    if client_cas is not None:
        # In the front context, too: a handshake keeps its verify mode when it is handed over.
        context.verify_mode = ssl.CERT_REQUIRED
        # A resumed session would not be verified again, although its CA may have been removed.
        context.num_tickets = 0
        context.options |= ssl.OP_NO_TICKET
        try:
            context.load_verify_locations(cadata=client_cas.decode("ascii"))
        except (ssl.SSLError, ValueError):
            raise UnusablePairError("the CAs of clients", "are not valid PEM") from None
    return context


def _load(context: ssl.SSLContext, chain_pem: bytes, key_pem: bytes) -> None:
    # Python passes only files to OpenSSL. A memory file leaves no key on disk, needs no writable disk, and never blocks.
    file = os.memfd_create("pair")
    try:
        os.pwrite(file, key_pem + b"\n" + chain_pem, 0)
        context.load_cert_chain(f"/proc/self/fd/{file}", password=_no_password)
    except ssl.SSLError as error:
        # A key of another type goes into another slot of the context, which then has no certificate.
        mismatch = error.reason in {"KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH", "NO_CERTIFICATE_ASSIGNED"}
        why = "a key that belongs to another certificate" if mismatch else "a certificate or key that is not valid PEM"
        raise UnusablePairError(SERVING_CERTIFICATE, f"has {why}") from None
    finally:
        os.close(file)


def _no_password() -> str:
    # Without this, OpenSSL would prompt on the terminal.
    raise UnusablePairError(SERVING_CERTIFICATE, "has an encrypted key")


UNREADABLE: Final = b""
"""The content assumed for a file that cannot be read."""

STAYS: Final = "the previous CAs stay in force"


class ClientCAs:
    """Requires client certificates under the CAs in a file, and follows the file.

    Args:
        file: the CAs, PEM.
        serving: the TLS context that requires client certificates.
        report: called with each report; it must not block.
        poll: seconds between two reads.
    """

    def __init__(
        self, file: Path, serving: Serving, *, report: Callable[[Report[ReportKind]], None], poll: float = POLL
    ) -> None:
        self._file = file
        self._serving = serving
        self._reporter = Reporter(report)
        self._poll = poll
        self._seen: bytes | None = None

    async def run(self) -> None:
        """Read the file every `poll` seconds until cancelled; no failure ends it."""
        while True:
            try:
                await self.reconcile()
            except UnusablePairError as error:
                self._reporter.only(ReportKind.INVALID, str(error))
            except Exception as error:  # noqa: BLE001  (a later file may work)
                self._reporter.only(*failure(error))
            await asyncio.sleep(self._poll)

    async def reconcile(self) -> None:
        """Read the file, and use its content if it has not changed since the last read: it may have been half written.

        Raises:
            StoreError: the file could not be read twice in a row; the CAs in force stay.
            UnusablePairError: the file holds something other than CAs; the CAs in force stay.
        """
        content, why = await asyncio.to_thread(self._read)
        settled, self._seen = content == self._seen, content
        if not settled:
            return
        if why:
            raise StoreError(str(self._file), f"{why}: {STAYS}")
        if content == self._serving.client_cas:
            recovered(self._reporter)
            return
        try:
            self._serving.require_client_certificates(content)
        except UnusablePairError as error:
            raise UnusablePairError(error.what, f"{error.why} in {self._file}: {STAYS}") from None
        self._reporter.keep(())
        self._reporter.report(
            ReportKind.CLIENTS, f"clients need a certificate under one of the CAs that are now in {self._file}"
        )

    def _read(self) -> tuple[bytes, str]:
        """The content of the file, and why it cannot be read."""
        try:
            with self._file.open("rb") as file:
                return file.read(MAX_BYTES), ""
        except OSError as error:
            return UNREADABLE, error.strerror or type(error).__name__


FAILURES_BEFORE_REPORT: Final = 2
"""Failed reads in a row before the failure is reported: plain files are replaced one after the other."""


class ProvidedPair:
    """Serves a pair that another program renews: the mounted Secret of cert-manager, or files from a company's CA.

    The directory holds ``tls.crt`` (the serving certificate, then intermediates), ``tls.key`` (of any type that clients
    accept) and possibly ``ca.crt`` (the CAs that clients trust). Nothing is written to it. The files are read and
    compared together, so that a certificate is never combined with another one's key.

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
        report: Callable[[Report[ReportKind]], None],
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
            recovered(self._reporter)

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
        self._serving.swap(files[CERTIFICATE], files[KEY], self._clocks.now(), self._names, cas)
        certificate, before = chain[0], self._ca
        if cas is not None:
            self._ca = path_to(certificate, chain[1:], cas, self._clocks.now(), SERVING_CERTIFICATE)[-1]
        self._version = snapshot.version
        self._failures = 0
        self._reporter.keep(())
        self.served.set()
        end = f"{certificate.not_valid_after_utc:%Y-%m-%d %H:%M} UTC"
        self._reporter.report(
            ReportKind.SERVED, f"the serving certificate {fingerprint(certificate)[:16]} is served until {end}"
        )
        if cas is not None and before not in {None, self._ca}:
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
