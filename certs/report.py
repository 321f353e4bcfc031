"""What those who keep certificates have to tell."""

import enum
from dataclasses import dataclass


class ReportKind(enum.Enum):
    """What a notice is about."""

    SERVED = "served"
    MADE = "made"
    RESTORED = "restored"
    """What is kept was gone, and was written again: somebody had deleted it."""
    RECOVERED = "recovered"
    """What was told as a failure is over."""
    WAITING = "waiting"
    """A new leaf is not served yet, for not everybody trusts its authority."""
    CLIENTS = "clients"
    """Clients have to show a certificate under other authorities than before."""
    REFUSED = "refused"
    """A pair that cannot be served, or kept; what is served stays."""
    UNTRUSTED = "untrusted"
    """Nothing is served yet, and the registration does not hold the authority under which something could be."""
    STORE = "store"
    """The store cannot be read or written."""
    BUG = "bug"


FAILURES = frozenset({ReportKind.REFUSED, ReportKind.UNTRUSTED, ReportKind.STORE, ReportKind.BUG})
COUNTED = FAILURES | {ReportKind.RESTORED}
"""What somebody should hear of, whether it is over or not."""


@dataclass(frozen=True, slots=True)
class Report:
    """Something to tell; it never holds any part of a key.

    Attributes:
        kind: what it is about.
        message: for people.
        authority: for `ReportKind.SERVED`: what is served is under another authority than before.
    """

    kind: ReportKind
    message: str
    ca: bool = False

    @property
    def failure(self) -> bool:
        """Whether somebody should look at it."""
        return self.kind in FAILURES
