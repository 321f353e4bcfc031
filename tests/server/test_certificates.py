"""What is reported about a server's certificate, and whom it takes its callers to trust."""

import asyncio
import datetime as dt
import io
import json
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from certs.ca import issue, make_ca
from certs.directory import Directory
from certs.plan import Rules
from certs.problem import StoreError
from certs.provided import ProvidedPair
from certs.report import ReportKind
from certs.serving import Serving
from certs.state import der
from tests.certs.made import Memory
from webhook.replica.certificates import Certificates
from webhook.server.logs import make_logger

RULES = Rules("test", ["localhost"])


class Told:
    """Certificates, and what they told."""

    def __init__(self, clients: bytes | None = None, **options: Any) -> None:
        self._file = io.BytesIO()
        self.certificates = Certificates(Serving(clients), make_logger("debug", self._file), **options)

    @property
    def log(self) -> list[dict[str, Any]]:
        """The log lines."""
        return [json.loads(line) for line in self._file.getvalue().splitlines()]

    def samples(self) -> dict[tuple[str, str], float]:
        """The metrics by name and label."""
        return {
            (sample.name, next(iter(sample.labels.values()))): sample.value
            for metric in self.certificates.metrics()
            for sample in metric.samples
            if not sample.name.endswith("_created")
        }


async def test_without_a_cluster_those_who_call_trust_what_is_published(tmp_path: Path) -> None:
    """The first CA is served at once, and shown."""
    told = Told(settle=100.0)
    told.certificates.keep(Directory(tmp_path), RULES)
    assert told.certificates.failure() == "no certificate is served yet"
    assert told.certificates.upkeep is not None
    await told.certificates.upkeep.start()
    await told.certificates.served()
    assert told.certificates.failure() is None
    assert told.certificates.bundle == (tmp_path / "ca.crt").read_bytes()
    assert [line.split(" ")[1] for line in told.certificates.lines()] == ["serving", "ca"]
    samples = told.samples()
    assert samples["vgpu_webhook_certificate_rotations_total", "serving"] == 0
    leaf = told.certificates.tls.certificate
    assert leaf is not None
    assert samples["vgpu_webhook_certificate_not_after_seconds", "serving"] == leaf.not_valid_after_utc.timestamp()
    assert samples["vgpu_webhook_certificate_not_before_seconds", "serving"] == leaf.not_valid_before_utc.timestamp()


async def test_in_a_cluster_nothing_is_served_before_the_registration_was_read() -> None:
    """And it is reported; then it is served, and changes are counted."""
    told = Told(watched=True)
    published: list[bytes] = []
    told.certificates.republished = published.append
    store = Memory()
    told.certificates.keep(store, RULES)
    running = asyncio.create_task(told.certificates.run())
    try:
        async with asyncio.timeout(60):
            await told.certificates.published.wait()
            while "until the webhook configuration has been read" not in (told.certificates.failure() or ""):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            told.certificates.observe(None)
            await told.certificates.served()
            told.certificates.observe([[der(one) for one in x509.load_pem_x509_certificates(published[-1])]])
            store.put({**(store.files or {}), "state.json": b'{"requested": "serving certificate"}'})
            key = "vgpu_webhook_certificate_rotations_total", "serving"
            while told.samples()[key] != 1:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert told.samples()["vgpu_webhook_certificate_rotations_total", "ca"] == 0
        assert await told.certificates.is_current() in {True, False}
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_what_was_deleted_is_reported_though_it_is_restored() -> None:
    """Somebody deletes what is kept: nothing fails, and somebody hears of it."""
    told = Told()
    troubles: list[ReportKind] = []
    told.certificates.troubled = lambda notice: troubles.append(notice.kind)
    store = Memory()
    told.certificates.keep(store, RULES)
    running = asyncio.create_task(told.certificates.run())
    try:
        async with asyncio.timeout(60):
            await told.certificates.served()
            while not store.files:  # noqa: ASYNC110  (there is no event)
                await asyncio.sleep(0.01)
            store.files = {}
            while ReportKind.RESTORED not in troubles:
                assert told.certificates.upkeep is not None
                told.certificates.upkeep.check()
                await asyncio.sleep(0.01)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert told.samples()["vgpu_webhook_certificate_failures_total", "restored"] == 1
    [line] = [line for line in told.log if line["kind"] == "restored"]
    assert (line["event"], line["level"]) == ("certificates", "warning")


async def test_trouble_is_counted_logged_and_handed_on() -> None:
    """Each sort for itself."""
    told = Told()
    troubles: list[str] = []
    told.certificates.troubled = lambda notice: troubles.append(notice.message)
    store = Memory()
    store.trouble = StoreError("the store", "is on fire")
    told.certificates.keep(store, RULES)
    running = asyncio.create_task(told.certificates.run())
    async with asyncio.timeout(60):
        while not troubles:  # noqa: ASYNC110  (there is no event)
            await asyncio.sleep(0.01)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert troubles == ["the store: is on fire"]
    assert told.samples()["vgpu_webhook_certificate_failures_total", "store"] == 1
    assert told.samples()["vgpu_webhook_certificate_failures_total", "invalid"] == 0
    [line] = told.log
    assert (line["event"], line["level"], line["kind"]) == ("certificates", "error", "store")
    assert told.certificates.failure() == "no certificate is served yet; the store: is on fire"


@pytest.mark.parametrize("days, warned", [(60, False), (74, False), (77, True), (95, True)])
async def test_the_end_is_warned_of(tmp_path: Path, days: int, *, warned: bool) -> None:
    """From two weeks before, once a day."""
    told = Told()
    told.certificates.keep(Directory(tmp_path), RULES)
    assert told.certificates.upkeep is not None
    await told.certificates.upkeep.start()
    moment = dt.datetime.now(dt.UTC) + dt.timedelta(days=days)
    for hours in (0, 1, 25):
        told.certificates.remind(moment + dt.timedelta(hours=hours))
    warnings = [line for line in told.log if line["event"] == "certificate_ending"]
    assert len(warnings) == (2 if warned else 0)
    assert all(line["level"] == "warning" and line["kind"] == "serving" for line in warnings)


async def test_each_certificate_is_warned_of_for_itself(tmp_path: Path) -> None:
    """A certificate that ends keeps nobody from hearing that its CA does; another one reports its own end only."""
    moment = dt.datetime.now(dt.UTC)
    authority = make_ca("theirs", moment, dt.timedelta(days=8))
    told = Told()
    told.certificates.follow(Directory(tmp_path), ["localhost"], trusting=True)
    outside = told.certificates.upkeep
    assert isinstance(outside, ProvidedPair)

    def warned_after(days: float) -> list[str]:
        before = len(told.log)
        told.certificates.remind(moment + dt.timedelta(days=days))
        return [line["kind"] for line in told.log[before:] if line["event"] == "certificate_ending"]

    for hours in (0, 1):
        leaf = issue(authority, ["localhost"], moment, dt.timedelta(days=8, hours=-hours))
        for name, content in (("ca.crt", authority.certificate_pem), ("tls.crt", leaf.certificate_pem)):
            (tmp_path / name).write_bytes(content)
        (tmp_path / "tls.key").write_bytes(leaf.key_pem)
        await outside.reconcile()
        if hours == 0:
            assert warned_after(5) == []
            assert warned_after(6.5) == ["serving", "ca"]
            assert warned_after(7) == []
    assert warned_after(7.1) == ["serving"]
    assert warned_after(7.6) == ["ca"]


async def test_trouble_with_cas_of_clients_stands_for_itself(tmp_path: Path) -> None:
    """It is counted and shown beside that of the pair, and takes nobody's certificate for bad."""
    file, first = tmp_path / "clients.pem", make_ca("clients", dt.datetime.now(dt.UTC)).certificate_pem
    file.write_bytes(first)
    told = Told(clients=first)
    told.certificates.follow_clients(file)
    running = asyncio.create_task(told.certificates.run())
    try:
        async with asyncio.timeout(60):
            file.write_bytes(b"garbage")
            while not told.log:  # noqa: ASYNC110  (there is no event)
                await asyncio.sleep(0.01)
            [line] = told.certificates.lines()
            assert line.startswith("certificates of clients: the CAs of clients are not valid PEM in")
            assert told.certificates.failure() == "no certificate is served yet"
            assert told.samples()["vgpu_webhook_certificate_failures_total", "invalid"] == 1
            file.write_bytes(first)
            while told.certificates.lines():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert [line["kind"] for line in told.log] == ["invalid", "recovered"]
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
