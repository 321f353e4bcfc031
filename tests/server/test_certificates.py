"""What is reported about a server's certificate, and whom it takes its callers to trust."""

import datetime as dt
import io
import json
from pathlib import Path
from typing import Any

from cryptography import x509

from certs.rotation import Rules
from certs.store import Directory, Serving
from certs.upkeep import CertificateMatter, ProvidedPair
from certs.x509 import Pair, StoreError, der, issue, make_ca
from tests.certs.made import Memory
from tests.waiting import alongside, until
from webhook.replica.run import Certificates
from webhook.server.logs import make_logger

RULES = Rules("test", ["localhost"])


class Scene:
    """Certificates, and what they reported."""

    def __init__(self, **options: Any) -> None:
        self._file = io.BytesIO()
        self.certificates = Certificates(Serving(), make_logger("debug", self._file), **options)

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
    """The first CA is served at once."""
    scene = Scene(settle=100.0)
    scene.certificates.keep(Directory(tmp_path), RULES)
    assert scene.certificates.failure() == "no certificate is served yet"
    assert scene.certificates.upkeep is not None
    await scene.certificates.upkeep.start()
    await scene.certificates.served()
    assert scene.certificates.failure() is None
    assert scene.certificates.bundle == (tmp_path / "ca.crt").read_bytes()
    samples = scene.samples()
    assert samples["vgpu_webhook_certificate_rotations_total", "serving"] == 0
    leaf = scene.certificates.tls.certificate
    assert leaf is not None
    assert samples["vgpu_webhook_certificate_not_after_seconds", "serving"] == leaf.not_valid_after_utc.timestamp()
    assert samples["vgpu_webhook_certificate_not_before_seconds", "serving"] == leaf.not_valid_before_utc.timestamp()


async def test_in_a_cluster_nothing_is_served_before_the_registration_was_read() -> None:
    """And it is reported; then it is served, and changes are counted."""
    scene = Scene(watched=True)
    published: list[bytes] = []
    scene.certificates.republished = published.append
    store = Memory()
    scene.certificates.keep(store, RULES)
    unread = "until the webhook configuration has been read"
    async with alongside(scene.certificates.run()):
        await until(scene.certificates.published.is_set)
        await until(lambda: unread in (scene.certificates.failure() or ""))
        scene.certificates.observe(None)
        await scene.certificates.served()
        scene.certificates.observe([[der(each) for each in x509.load_pem_x509_certificates(published[-1])]])
        store.put({**(store.files or {}), "rotate": b"certificate"})
        await until(lambda: scene.samples()["vgpu_webhook_certificate_rotations_total", "serving"] == 1)
        assert scene.samples()["vgpu_webhook_certificate_rotations_total", "ca"] == 0


async def test_what_was_deleted_is_reported_though_it_is_restored() -> None:
    """Deleted certificates are restored without a failure, and reported."""
    scene = Scene()
    troubles: list[CertificateMatter] = []
    scene.certificates.troubled = lambda notice: troubles.append(notice.matter)
    store = Memory()
    scene.certificates.keep(store, RULES)

    def checked() -> bool:
        assert scene.certificates.upkeep is not None
        scene.certificates.upkeep.check()
        return CertificateMatter.RESTORED in troubles

    async with alongside(scene.certificates.run()):
        await scene.certificates.served()
        await until(lambda: store.files)
        store.files = {}
        await until(checked)
    assert scene.samples()["vgpu_webhook_certificate_failures_total", "restored"] == 1
    [line] = [line for line in scene.log if line["kind"] == "restored"]
    assert (line["event"], line["level"]) == ("certificates", "warning")


async def test_trouble_is_counted_logged_and_handed_on() -> None:
    """Each sort for itself."""
    scene = Scene()
    troubles: list[str] = []
    scene.certificates.troubled = lambda notice: troubles.append(notice.message)
    store = Memory()
    store.trouble = StoreError("the store", "is on fire")
    scene.certificates.keep(store, RULES)
    async with alongside(scene.certificates.run()):
        await until(lambda: troubles)
    assert troubles == ["the store: is on fire"]
    assert scene.samples()["vgpu_webhook_certificate_failures_total", "store"] == 1
    assert scene.samples()["vgpu_webhook_certificate_failures_total", "invalid"] == 0
    [line] = scene.log
    assert (line["event"], line["level"], line["kind"]) == ("certificates", "error", "store")
    assert scene.certificates.failure() == "no certificate is served yet; the store: is on fire"


async def test_a_provided_pair_is_served_at_once(tmp_path: Path) -> None:
    """Without a cluster nobody shows what callers trust: they do not wait, and another CA is a rotation of its own."""
    moment = dt.datetime.now(dt.UTC)
    authority = make_ca("theirs", moment, dt.timedelta(days=8))
    scene = Scene(settle=100.0)
    scene.certificates.follow(Directory(tmp_path), ["localhost"])
    outside = scene.certificates.upkeep
    assert isinstance(outside, ProvidedPair)

    async def mounted(authority: Pair) -> list[float]:
        leaf = issue(authority, ["localhost"], moment)
        for name, content in (("ca.crt", authority.certificate_pem), ("tls.crt", leaf.certificate_pem)):
            (tmp_path / name).write_bytes(content)
        (tmp_path / "tls.key").write_bytes(leaf.key_pem)
        await outside.start()
        return [scene.samples()["vgpu_webhook_certificate_rotations_total", kind] for kind in ("serving", "ca")]

    assert await mounted(authority) == [0, 0]
    assert await mounted(authority) == [1, 0]
    assert await mounted(make_ca("other", moment)) == [2, 1]
