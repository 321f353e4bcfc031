"""What whoever keeps the registration has to tell."""

import enum
from dataclasses import dataclass


class Kind(enum.Enum):
    """What a notice is about; a warning unless it is `WRITTEN`, `FOREIGN` or `REMOVED`."""

    WRITTEN = "written"
    FOREIGN = "foreign terms kept"
    LACKING = "lacking"
    NEWER = "written by a newer version"
    REMOVED = "goes with its release"
    GAVE_UP = "changed too often by others"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Notice:
    """Something to tell: a log line, and an Event on the registration for warnings. Nothing is told twice in a row."""

    kind: Kind
    message: str

    @property
    def warning(self) -> bool:
        """Whether somebody should look at it."""
        return self.kind not in {Kind.WRITTEN, Kind.FOREIGN, Kind.REMOVED}
