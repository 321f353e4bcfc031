"""How a reconciler of the webhook configuration is configured: who maintains it, and the times."""

import enum
from dataclasses import dataclass


class Mode(enum.Enum):
    """Who maintains the webhook configuration: this program, another one with this program only comparing, or neither."""

    MANAGED = "managed"
    STATIC = "static"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class ReconcileConfig:
    """The times of a reconciler, in seconds.

    Attributes:
        quiet: without any change before something is removed: longer than any replica takes to learn of a ConfigMap.
        period: between two passes without a change; a watch reports changes, so this only makes up for a missed one.
        retry, retry_at_most: the first and the longest pause after a failure.
        repair, repair_at_most: the first and the longest pause between repairs in a row.
        narrow_at_most: the longest pause between repairs that remove names.
        calm: without a repair, after which the next one is the first in a row.
    """

    quiet: float = 60.0
    period: float = 600.0
    retry: float = 1.0
    retry_at_most: float = 60.0
    repair: float = 1.0
    repair_at_most: float = 60.0
    narrow_at_most: float = 3600.0
    calm: float = 600.0
