"""The options of a reconciler: who maintains the webhook configuration, and time limits."""

import enum
from dataclasses import dataclass


class Mode(enum.Enum):
    """Who maintains the webhook configuration: this program (`MANAGED`) or others. `STATIC` compares it, `OFF` does not."""

    MANAGED = "managed"
    STATIC = "static"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class ReconcileConfig:
    """The pauses and time limits of a reconciler, in seconds.

    Attributes:
        quiet: how long nothing must have changed before something is removed: longer than any replica takes to learn of a
            ConfigMap.
        period: between two passes if nothing changes. A watch reports changes, so this only makes up for missed ones.
        retry, retry_at_most: the first and the longest pause after a failure.
        repair, repair_at_most: the first and the longest pause between repairs in a row.
        narrow_at_most: the longest pause between repairs that remove names.
        calm: how long no repair must have been made for the next one to count as the first in a row.
    """

    quiet: float = 60.0
    period: float = 600.0
    retry: float = 1.0
    retry_at_most: float = 60.0
    repair: float = 1.0
    repair_at_most: float = 60.0
    narrow_at_most: float = 3600.0
    calm: float = 600.0
