"""The start of a server: when it says that it is ready."""

import asyncio
import io
import sys
from collections.abc import Iterator

import pytest

from certs.store import Serving
from tests.server.harness import ANY, LEAF, NOW, POLICY, engine
from tests.waiting import turns, until
from webhook.replica import run
from webhook.replica.run import Addresses, Background, Certificates, Options, Service, serve_until_stopped
from webhook.server.logs import make_logger
from webhook.server.reviews import Current, Described, Knowledge


class Around:
    """What a server needs of a cluster to start."""

    def __init__(self) -> None:
        self.known = asyncio.Event()
        self.followed = False

    def closed(self) -> str | None:
        """Nothing holds reviews up."""
        return None

    def bugs(self) -> int:
        """None."""
        return 0

    def metrics(self) -> Iterator[None]:
        """None."""
        return iter(())

    async def run(self, _: Background) -> None:
        """Follow it, until cancelled."""
        self.followed = True
        try:
            await asyncio.Event().wait()
        finally:
            self.followed = False

    async def synced(self) -> None:
        """Wait until the test says so."""
        await self.known.wait()


async def test_it_is_ready_once_all_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not before; what goes on beside reviews ends with it."""
    monkeypatch.setattr(run, "settle_memory", lambda: None)
    monkeypatch.setattr(sys, "setswitchinterval", lambda _: None)
    monkeypatch.setattr(run, "raise_descriptors", lambda: 1024)
    log, tls, around = make_logger("debug", io.BytesIO()), Serving(None), Around()
    tls.swap(LEAF.certificate_pem, LEAF.key_pem, NOW)
    known = Knowledge(Current(POLICY), Described({}), "privileged", around)  # type: ignore[arg-type]
    service = Service(engine, known, Certificates(tls, log), log, cluster=around)  # type: ignore[arg-type]
    announced: list[Addresses] = []
    serving = asyncio.create_task(serve_until_stopped(service, Options(ANY, ANY), announced.append))
    await until(lambda: around.followed)
    await turns()
    assert not announced
    around.known.set()
    await until(lambda: announced)
    service.lifecycle.stop(hurry=True)
    await serving
    assert not around.followed
