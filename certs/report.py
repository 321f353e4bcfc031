"""Failures: each reported once, and tried again after longer and longer pauses.

Everything that reports conditions and retries uses `Reporter` and `Backoff`, here and in `webhook`.
"""

import enum
from collections.abc import Callable, Collection
from typing import Generic, NamedTuple, TypeVar

from certs.x509 import CertificateError, UnusablePairError

Kind = TypeVar("Kind")


class ReportKind(enum.Enum):
    """What a report is about."""

    SERVED = "served"
    MADE = "made"
    RESTORED = "restored"
    """Certificates that had been deleted from the store were written again."""
    RECOVERED = "recovered"
    """A reported failure is over."""
    WAITING = "waiting"
    """A new serving certificate is not in force yet: not every caller trusts its CA."""
    CLIENTS = "clients"
    """Clients need a certificate under other CAs than before."""
    INVALID = "invalid"
    """A pair cannot be served or stored; the pair in force stays."""
    UNTRUSTED = "untrusted"
    """Nothing is served yet, and the webhook configuration lacks the CA of the stored certificate."""
    STORE = "store"
    """The store cannot be read or written."""
    BUG = "bug"


FAILURES = frozenset({ReportKind.INVALID, ReportKind.UNTRUSTED, ReportKind.STORE, ReportKind.BUG})
"""The kinds at which an operator should look."""

COUNTED = FAILURES | {ReportKind.RESTORED}
"""The kinds that are counted in metrics: an operator should learn of them even if they are over."""


class Report(NamedTuple, Generic[Kind]):
    """One report: what it is about, and a message for people, which never holds any part of a key."""

    kind: Kind
    message: str


class Reporter(Generic[Kind]):
    """Reports each lasting condition once, until it is over.

    Args:
        report: called with each report; it must not block.
    """

    def __init__(self, report: Callable[[Report[Kind]], None]) -> None:
        self._report = report
        self._lasting: dict[Kind, int] = {}

    def report(self, kind: Kind, message: str) -> None:
        """Report what happens once."""
        self._report(Report(kind, message))

    def report_once(self, kind: Kind, message: str) -> None:
        """Report a lasting condition, unless it was the last report of its kind."""
        number = hash(message)  # a message has any length
        if self._lasting.get(kind) != number:
            self._lasting[kind] = number
            self.report(kind, message)

    def report_while(self, condition: object, kind: Kind, message: str) -> None:
        """Report a condition if it lasts; otherwise consider it over."""
        if condition:
            self.report_once(kind, message)
        else:
            self.forget(kind)

    def only(self, kind: Kind, message: str) -> None:
        """Report a lasting condition, and consider all others over."""
        self.keep({kind})
        self.report_once(kind, message)

    def forget(self, *kinds: Kind) -> None:
        """Consider conditions over without a report; if they recur, they are reported again."""
        for kind in kinds:
            self._lasting.pop(kind, None)

    def keep(self, kinds: Collection[Kind]) -> set[Kind]:
        """Consider all conditions over except some, and return those that end."""
        ended = self._lasting.keys() - set(kinds)
        self.forget(*ended)
        return ended


def recovered(reporter: Reporter[ReportKind], lasting: Collection[ReportKind] = ()) -> None:
    """Consider all conditions over except the `lasting` ones, and report it if that ends a failure."""
    if reporter.keep(lasting) & FAILURES:
        reporter.report(ReportKind.RECOVERED, "the certificates are renewed again")


def failure(error: Exception) -> tuple[ReportKind, str]:
    """The kind and message that report a failure."""
    if isinstance(error, UnusablePairError):
        return ReportKind.INVALID, str(error)
    if isinstance(error, CertificateError):
        return ReportKind.STORE, str(error)
    # The text of an unforeseen error is not reported: it may contain a key.
    return ReportKind.BUG, f"renewing the certificates failed: {type(error).__name__}"


MAX_DOUBLINGS = 32
"""An exponent without a bound would, after days of retries, make a number too large for a float."""


class Backoff:
    """The pauses of one activity.

    Args:
        first: seconds after the first failure.
        longest: seconds that no pause exceeds.
        chance: returns a random number from 0 to 1. A pause then lasts between half and all of its length, so that
            replicas do not retry at the same moment. By default it lasts all of it.

    Attributes:
        failures: the number of failures since the last `reset`.
    """

    def __init__(self, first: float, longest: float, chance: Callable[[], float] = lambda: 1.0) -> None:
        self.failures = 0
        self._first = first
        self._longest = longest
        self._chance = chance

    def failed(self) -> float:
        """Count a failure, and return the seconds to wait before the next try."""
        pause = min(self._longest, self._first * 2.0 ** min(self.failures, MAX_DOUBLINGS))
        self.failures += 1
        return pause * (1 + self._chance()) / 2

    def reset(self) -> None:
        """Start over: the last try succeeded."""
        self.failures = 0
