"""What is reported about certificates, and how often."""

from certs.report import Report, Reporter, ReportKind, failure, recovered
from certs.x509 import StoreError, UnusablePairError


def test_reported_once_until_it_changes_or_is_over() -> None:
    """The end of a failure is reported once; the end of other states is not."""
    reports: list[Report[ReportKind]] = []
    reporter = Reporter(reports.append)

    def news() -> list[str]:
        lines = [f"{notice.kind.value}: {notice.message}" for notice in reports]
        reports.clear()
        return lines

    for message in ("a", "a", "b"):
        reporter.report_once(ReportKind.STORE, message)
    reporter.report_once(ReportKind.WAITING, "c")
    assert news() == ["store: a", "store: b", "waiting: c"]
    recovered(reporter, {ReportKind.WAITING})
    recovered(reporter)
    assert news() == ["recovered: the certificates are renewed again"]
    reporter.report_once(ReportKind.WAITING, "c")
    reporter.forget(ReportKind.WAITING)
    reporter.report_once(ReportKind.WAITING, "c")
    assert news() == ["waiting: c"] * 2


def test_one_thing_at_a_time() -> None:
    """If one replaces the other, each is reported every time."""
    reports: list[Report[ReportKind]] = []
    reporter = Reporter(reports.append)
    for message in ("a", "a"):
        reporter.only(ReportKind.STORE, message)
    reporter.only(ReportKind.WAITING, "b")
    recovered(reporter)
    reporter.only(ReportKind.STORE, "a")
    assert [notice.message for notice in reports] == ["a", "b", "a"]


def test_failures() -> None:
    """Each by its kind; what is unknown without its text."""
    assert failure(UnusablePairError("the serving certificate", "is old")) == (
        ReportKind.INVALID,
        "the serving certificate is old",
    )
    assert failure(StoreError("there", "is gone")) == (ReportKind.STORE, "there: is gone")
    assert failure(ValueError("secret")) == (ReportKind.BUG, "renewing the certificates failed: ValueError")
