"""What is told about certificates, and how often."""

from certs.upkeep import CertificateMatter, CertificateNotice, Notices, failure, recovered
from certs.x509 import StoreError, UnusablePairError


def test_told_once_until_it_changes_or_is_over() -> None:
    """The end of a failure is told once; the end of other states is not."""
    sent: list[CertificateNotice] = []
    notices = Notices(sent.append)

    def news() -> list[str]:
        lines = [f"{notice.matter.value}: {notice.message}" for notice in sent]
        sent.clear()
        return lines

    for message in ("a", "a", "b"):
        notices.tell_once(CertificateMatter.STORE, message)
    notices.tell_once(CertificateMatter.WAITING, "c")
    assert news() == ["store: a", "store: b", "waiting: c"]
    recovered(notices, {CertificateMatter.WAITING})
    recovered(notices)
    assert news() == ["recovered: the certificates are renewed again"]
    notices.tell_once(CertificateMatter.WAITING, "c")
    notices.forget(CertificateMatter.WAITING)
    notices.tell_once(CertificateMatter.WAITING, "c")
    assert news() == ["waiting: c"] * 2


def test_one_thing_at_a_time() -> None:
    """If one replaces the other, each is told every time."""
    sent: list[CertificateNotice] = []
    notices = Notices(sent.append)
    for message in ("a", "a"):
        notices.only(CertificateMatter.STORE, message)
    notices.only(CertificateMatter.WAITING, "b")
    recovered(notices)
    notices.only(CertificateMatter.STORE, "a")
    assert [notice.message for notice in sent] == ["a", "b", "a"]


def test_failures() -> None:
    """Each by its kind; what is unknown without its text."""
    assert failure(UnusablePairError("the serving certificate", "is old")) == (
        CertificateMatter.INVALID,
        "the serving certificate is old",
    )
    assert failure(StoreError("there", "is gone")) == (CertificateMatter.STORE, "there: is gone")
    assert failure(ValueError("secret")) == (CertificateMatter.BUG, "renewing the certificates failed: ValueError")
