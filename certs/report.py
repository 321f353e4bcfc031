"""Reports about certificates."""

import enum
from dataclasses import dataclass


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
COUNTED = FAILURES | {ReportKind.RESTORED}
"""The kinds that are counted in metrics: an operator should learn of them even if they are over."""


@dataclass(frozen=True, slots=True)
class Report:
    """One report; it never holds any part of a key.

    Attributes:
        kind: what it is about.
        message: for people.
        ca: for `ReportKind.SERVED`: whether the certificate is under another CA than the previous one.
    """

    kind: ReportKind
    message: str
    ca: bool = False

    @property
    def failure(self) -> bool:
        """Whether an operator should look at it."""
        return self.kind in FAILURES
