"""Follows a file with the CAs of clients (PEM): a plain file, or one that the kubelet mounts. Nothing is written."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Final

from certs.directory import MAX_BYTES, POLL
from certs.problem import StoreError, UnusablePairError
from certs.report import Report, ReportKind
from certs.reporter import Reporter, failure
from certs.serving import Serving

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

    def __init__(self, file: Path, serving: Serving, *, report: Callable[[Report], None], poll: float = POLL) -> None:
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
            self._reporter.resolve()
            return
        try:
            self._serving.require_client_certificates(content)
        except UnusablePairError as error:
            raise UnusablePairError(error.what, f"{error.why} in {self._file}: {STAYS}") from None
        self._reporter.forget(*ReportKind)
        self._reporter.report(
            Report(ReportKind.CLIENTS, f"clients need a certificate under one of the CAs that are now in {self._file}")
        )

    def _read(self) -> tuple[bytes, str]:
        """The content of the file, and why it cannot be read."""
        try:
            with self._file.open("rb") as file:
                return file.read(MAX_BYTES), ""
        except OSError as error:
            return UNREADABLE, error.strerror or type(error).__name__
