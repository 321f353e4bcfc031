"""What whoever keeps the webhook configuration has to report."""

import enum
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from webhook.cluster.client.events import shortened

LONGEST: Final = 1000
"""Bytes of a message: what others have written into a configuration is repeated in it."""


class ReportKind(enum.Enum):
    """What a notice is about; a warning unless it is `WRITTEN`, `FOREIGN` or `REMOVED`."""

    WRITTEN = "written"
    FOREIGN = "foreign terms kept"
    LACKING = "lacking"
    NEWER = "written by a newer version"
    REMOVED = "goes with its release"
    REPAIRED = "changed by others"
    CONTESTED = "changed by others again and again"
    SPARING = "pods do not wait for an answer"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Report:
    """Something to report: a log line, and an Event on the configuration for warnings."""

    kind: ReportKind
    message: str

    @property
    def warning(self) -> bool:
        """Whether somebody should look at it."""
        return self.kind not in {ReportKind.WRITTEN, ReportKind.FOREIGN, ReportKind.REMOVED}


@dataclass(frozen=True, slots=True)
class Notices:
    """Passes notices on; nothing twice in a row.

    Attributes:
        report: called with each notice; it must not block.
    """

    report: Callable[[Report], None]
    _last: dict[ReportKind, str] = field(default_factory=dict)

    def say(self, kind: ReportKind, message: str) -> None:
        """Report it, unless the same was the last of its kind."""
        message = shortened(message, LONGEST)
        if self._last.get(kind) != message:
            self._last[kind] = message
            self.report(Report(kind, message))

    def over(self, *kinds: ReportKind) -> None:
        """Whatever was reported is over: if it comes back, it is news."""
        for kind in kinds:
            self._last.pop(kind, None)
