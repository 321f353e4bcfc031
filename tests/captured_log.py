"""A log whose lines a test reads."""

import structlog
from structlog.testing import CapturingLogger


class CapturedLog:
    """A log of every level.

    Attributes:
        log: what is written to.
        lines: the calls, in order.
    """

    def __init__(self) -> None:
        captured = CapturingLogger()
        self.log = structlog.wrap_logger(
            captured, processors=[], wrapper_class=structlog.make_filtering_bound_logger(0)
        )
        self.lines = captured.calls

    @property
    def logged(self) -> list[str]:
        """The events."""
        return [line.kwargs["event"] for line in self.lines]
