"""Reports about the webhook configuration."""

import enum
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from webhook.cluster.client.events import shortened

MAX_MESSAGE: Final = 1000
"""The most bytes of a message, which may quote the configuration."""


class ReportKind(enum.Enum):
    """What a report is about; a warning unless it is `WRITTEN`, `FOREIGN` or `REMOVED`."""

    WRITTEN = "written"
    FOREIGN = "foreign terms kept"
    LACKING = "lacking"
    NEWER = "written by a newer version"
    REMOVED = "goes with its release"
    REPAIRED = "changed by others"
    CONTESTED = "repeatedly changed by others"
    FAILING_OPEN = "pods do not wait for an answer"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Report:
    """One report: a log line, and for warnings an Event on the configuration."""

    kind: ReportKind
    message: str

    @property
    def warning(self) -> bool:
        """Whether an operator should look at it."""
        return self.kind not in {ReportKind.WRITTEN, ReportKind.FOREIGN, ReportKind.REMOVED}


@dataclass(frozen=True, slots=True)
class Notices:
    """Passes reports on, without repeating them.

    Attributes:
        report: called with each report; it must not block.
    """

    report: Callable[[Report], None]
    _last: dict[ReportKind, str] = field(default_factory=dict)

    def report_once(self, kind: ReportKind, message: str) -> None:
        """Report something, unless it equals the last report of its kind."""
        message = shortened(message, MAX_MESSAGE)
        if self._last.get(kind) != message:
            self._last[kind] = message
            self.report(Report(kind, message))

    def forget(self, *kinds: ReportKind) -> None:
        """Forget reports of these kinds: if one recurs, it is reported again."""
        for kind in kinds:
            self._last.pop(kind, None)
