"""Follows a file with the authorities of clients (PEM): a plain one, or one that the kubelet mounts. Nothing is written."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Final

from certs.directory import MAX_BYTES, POLL
from certs.problem import StoreError, UnusablePairError
from certs.report import Report, ReportKind
from certs.reporter import Reporter, failure
from certs.serving import Serving

UNREAD: Final = b""
"""What a file that cannot be read comes to: it names no authority."""

STAYS: Final = "the authorities that were read before go on counting"


class Clients:
    """Has clients asked for certificates under the authorities in a file, whatever they are now.

    Args:
        file: where they are.
        serving: what asks for them.
        tell: called with what is to be told; it must not block.
        poll: seconds between looks.
    """

    def __init__(self, file: Path, serving: Serving, *, tell: Callable[[Report], None], poll: float = POLL) -> None:
        self._file = file
        self._serving = serving
        self._telling = Reporter(tell)
        self._poll = poll
        self._seen: bytes | None = None

    async def run(self) -> None:
        """Look every other second until cancelled; no failure ends it."""
        while True:
            try:
                await self.reconcile()
            except UnusablePairError as error:
                self._telling.only(ReportKind.REFUSED, str(error))
            except Exception as error:  # noqa: BLE001  (a later file may do)
                self._telling.only(*failure(error))
            await asyncio.sleep(self._poll)

    async def reconcile(self) -> None:
        """Look, and take what is there if it was the same at the look before: a file may be half written.

        Raises:
            StoreError: it cannot be read, for the second time; what counted goes on counting.
            UnusablePairError: it holds something else than authorities; the same.
        """
        found, why = await asyncio.to_thread(self._look)
        settled, self._seen = found == self._seen, found
        if not settled:
            return
        if why:
            raise StoreError(str(self._file), f"{why}: {STAYS}")
        if found == self._serving.client_authorities:
            self._telling.over()
            return
        try:
            self._serving.ask_clients(found)
        except UnusablePairError as error:
            raise UnusablePairError(error.what, f"{error.why} in {self._file}: {STAYS}") from None
        self._telling.forget(*ReportKind)
        self._telling.tell(
            Report(ReportKind.CLIENTS, f"clients have to show a certificate under what is now in {self._file}")
        )

    def _look(self) -> tuple[bytes, str]:
        """What the file holds, and why it cannot be read."""
        try:
            with self._file.open("rb") as file:
                return file.read(MAX_BYTES), ""
        except OSError as error:
            return UNREAD, error.strerror or type(error).__name__
