"""A pair that somebody else keeps, in a directory as the kubelet mounts it."""

import datetime as dt
import time
from functools import partial
from pathlib import Path

import pytest
from cryptography import x509

from certs.rotation import Trust
from certs.store import Directory, Serving, Snapshot
from certs.upkeep import CertificateMatter, CertificateNotice, ProvidedPair, Surroundings
from certs.x509 import Pair, StoreError, UnusablePairError, by_der, der, issue, make_ca
from tests.certs.made import intermediate_under, root, rsa_leaf
from tests.waiting import alongside, until

NOW = dt.datetime.now(dt.UTC)
NAMES = ["localhost"]
COMPANY = root(NOW)
INTERMEDIATE = intermediate_under(COMPANY, NOW)


class Mount:
    """A directory that is replaced as the kubelet does it, and what serves it; by default, callers trust what is published."""

    def __init__(self, path: Path, trust: Trust | None = None) -> None:
        self.path = path
        self.trust = trust or Trust(0)
        self.trusting = trust is None
        self.serving = Serving()
        self.reports: list[CertificateNotice] = []
        self.published: list[bytes] = []
        self.looks = 0
        self._generation = 0
        around = Surroundings(self.serving, self._trust, self._published, self.reports.append)
        self.outside = ProvidedPair(Directory(path, poll=0.01), NAMES, around)

    def _trust(self) -> Trust:
        self.looks += 1
        return self.trust

    def _published(self, bundle: bytes) -> None:
        self.published.append(bundle)
        if self.trusting:
            self.trust = self.trust.observed([by_der(bundle).keys()], 0)

    def mount(self, files: dict[str, bytes]) -> None:
        """Replace all files at once."""
        self._generation += 1
        generation = self.path / f"..{self._generation}"
        generation.mkdir()
        for name, data in files.items():
            (generation / name).write_bytes(data)
            if not (self.path / name).is_symlink():
                (self.path / name).symlink_to(f"..data/{name}")
        (self.path / "..new").symlink_to(generation.name)
        (self.path / "..new").replace(self.path / "..data")

    def serves(self, leaf: tuple[bytes, bytes]) -> bool:
        return self.serving.certificate == x509.load_pem_x509_certificate(leaf[0])

    def sees(self, *cas: Pair) -> None:
        """What the webhook configuration holds now, settled at once."""
        bundle = [der(each.certificate) for each in cas]
        self.trust = self.trust.observed([bundle, bundle], 0)


def files(leaf: tuple[bytes, bytes], ca: Pair | None, *intermediates: Pair) -> dict[str, bytes]:
    """As cert-manager writes them."""
    chain = leaf[0] + b"".join(intermediate.certificate_pem for intermediate in intermediates)
    bundle = {} if ca is None else {"ca.crt": ca.certificate_pem}
    return {"tls.crt": chain, "tls.key": leaf[1], **bundle}


def ours(ca: Pair) -> tuple[bytes, bytes]:
    """An EC serving certificate."""
    leaf = issue(ca, NAMES, NOW)
    return leaf.certificate_pem, leaf.key_pem


async def test_rsa_chain_with_an_intermediate(tmp_path: Path) -> None:
    """What companies have is served, and its CA published."""
    mount = Mount(tmp_path)
    leaf = rsa_leaf(INTERMEDIATE, NOW)
    mount.mount(files(leaf, COMPANY, INTERMEDIATE))
    assert await mount.outside.start()
    assert await mount.outside.start()
    assert mount.serving.certificate == x509.load_pem_x509_certificate(leaf[0])
    assert mount.published[-1] == COMPANY.certificate_pem
    assert mount.outside.ca == COMPANY.certificate
    assert [notice.matter for notice in mount.reports] == [CertificateMatter.SERVED]
    assert await mount.outside.is_current()


async def test_a_change_is_noticed(tmp_path: Path) -> None:
    """Within seconds, by content; an invalid pair is reported, and the old one stays in use."""
    mount = Mount(tmp_path)
    ca = make_ca("outside", NOW)
    mount.mount(files(ours(ca), ca))
    async with alongside(mount.outside.run()):
        await until(mount.outside.served.is_set)
        for _ in range(3):
            leaf = ours(ca)
            mount.mount(files(leaf, ca))
            await until(partial(mount.serves, leaf))
        served = mount.serving.certificate
        mount.mount(files((ours(ca)[0], ours(ca)[1]), ca))
        await until(lambda: mount.reports[-1].matter is CertificateMatter.INVALID)
        assert mount.reports[-1].message == "the serving certificate has a key that belongs to another certificate"
        assert mount.serving.certificate == served
        assert not await mount.outside.is_current()


@pytest.mark.parametrize(
    "content, message",
    [
        ({}, "the serving certificate is missing: .* must contain tls.crt and tls.key"),
        (files(ours(COMPANY), COMPANY) | {"ca.crt": b"x"}, "the bundle has a certificate that is not valid PEM"),
    ],
)
async def test_what_cannot_be_served_stops_the_start(tmp_path: Path, content: dict[str, bytes], message: str) -> None:
    """And says why."""
    mount = Mount(tmp_path)
    mount.mount(content)
    with pytest.raises(UnusablePairError, match=message):
        await mount.outside.start()


async def test_a_new_ca_waits_until_it_is_trusted(tmp_path: Path) -> None:
    """It is published beside the old one, and its serving certificate served when the webhook configuration holds it."""
    mount = Mount(tmp_path, Trust(0))
    old, new = make_ca("old", NOW), make_ca("new", NOW)
    mount.mount(files(ours(old), old))
    await mount.outside.start()
    assert mount.serving.certificate is None, "nobody has looked yet"
    mount.trust = Trust(0).observed(None, 0)
    await mount.outside.start()
    first = mount.serving.certificate
    assert first is not None
    mount.sees(old)
    mount.mount(files(ours(new), new))
    await mount.outside.start()
    assert mount.serving.certificate == first
    assert mount.reports[-1].matter is CertificateMatter.WAITING
    assert set(x509.load_pem_x509_certificates(mount.published[-1])) == {old.certificate, new.certificate}
    mount.sees(old, new)
    await mount.outside.start()
    assert mount.serving.certificate != first
    assert mount.outside.ca == new.certificate
    assert mount.published[-1] == new.certificate_pem


async def test_waiting_is_told_once(tmp_path: Path) -> None:
    """However often the directory is read meanwhile."""
    mount = Mount(tmp_path, Trust(0))
    mount.mount(files(ours(COMPANY), COMPANY))
    async with alongside(mount.outside.run()):
        await until(lambda: mount.looks > 5)
    assert [notice.matter for notice in mount.reports] == [CertificateMatter.WAITING]


async def test_one_failed_read_is_not_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are replaced one after the other."""
    mount, real, reads = Mount(tmp_path), Directory.read, []

    async def read(directory: Directory) -> Snapshot:
        reads.append(directory)
        if len(reads) == 2:
            raise StoreError("tls.crt", "is being replaced")
        return await real(directory)

    monkeypatch.setattr(Directory, "read", read)
    mount.mount(files(ours(COMPANY), COMPANY))
    async with alongside(mount.outside.run()):
        await until(lambda: len(reads) > 4)
    assert [notice.matter for notice in mount.reports] == [CertificateMatter.SERVED]


async def test_without_cas_of_its_own_the_registration_counts(tmp_path: Path) -> None:
    """A webhook configuration without any leaves it to the machines of the API servers."""
    mount = Mount(tmp_path, Trust(0).observed([[]], 0))
    mount.mount(files(ours(COMPANY), None))
    await mount.outside.start()
    assert mount.serving.certificate is not None
    assert mount.published == [b""]
    other = Mount(tmp_path, Trust(0))
    other.sees(make_ca("another", NOW))
    await other.outside.start()
    assert other.serving.certificate is None
    other.sees(COMPANY)
    await other.outside.start()
    assert other.serving.certificate is not None


async def test_the_first_one_waits_for_nobody_where_callers_trust_nobody_else(tmp_path: Path) -> None:
    """Whoever fills the bundle in did so just now: there is no other replica that could be answering."""
    company, stranger = make_ca("company", NOW), make_ca("stranger", NOW)
    mount = Mount(tmp_path, Trust(600).observed([[], []], time.monotonic()))
    mount.mount(files(ours(company), company))
    await mount.outside.start()
    assert mount.serving.certificate is None, "nobody could call"
    mount.trust = mount.trust.observed([[der(company.certificate)]], time.monotonic())
    await mount.outside.start()
    assert mount.serving.certificate is not None
    both = [der(company.certificate), der(stranger.certificate)]
    other = Mount(tmp_path, Trust(600).observed([[], []], time.monotonic()).observed([both], time.monotonic()))
    await other.outside.start()
    assert other.serving.certificate is None, "another replica may be serving under the other one"
