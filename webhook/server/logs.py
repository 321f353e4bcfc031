"""Log lines: one JSON object each, with an event and fields; never a body, a variable's value, or an error's own text.

The text of an unforeseen error may quote its input, so only the type of the error and its places in the code are logged.
"""

import asyncio
import logging
import time
from collections.abc import Hashable
from typing import Any, BinaryIO, ClassVar, Final

import msgspec
import structlog
from msgspec import Struct
from structlog.typing import FilteringBoundLogger

from webhook.text import error_fields, shown

LEVELS: Final = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}

MINUTE: Final = 60.0
MAX_KINDS: Final = 256
"""Maximum kinds of lines to count: libraries have few, and varying texts must not fill the memory."""
MAX_MESSAGE: Final = 256
"""Maximum characters of a library's message."""

MAX_REVIEW_LINES: Final = 20
"""Denials, and would-be changes and denials, that get a line of their own each second; the metrics count them all."""


class Lines:
    """Writes lines to a file. A line that cannot be written is only counted, so that reviews continue without a log.

    The disk may be full, or the pipe closed. The whole process has one log.
    """

    lost: ClassVar[int] = 0

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def msg(self, line: bytes) -> None:
        try:
            self._file.write(line + b"\n")
            self._file.flush()
        except OSError:
            Lines.lost += 1

    debug = info = warning = error = critical = msg


def make_logger(level: str, file: BinaryIO) -> FilteringBoundLogger:
    """Make a logger that writes lines of `level` (a key of `LEVELS`) and above to `file`."""
    logger: FilteringBoundLogger = structlog.wrap_logger(
        Lines(file),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.JSONRenderer(serializer=_encode),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
    )
    # An unbound one is a proxy that makes a new logger for each line, also for those below the level.
    bound: FilteringBoundLogger = logger.bind()
    return bound


def _encode(event: dict[str, Any], **_: Any) -> bytes:
    return shown(msgspec.json.encode(event).decode()).encode()


class Throttle(Struct):
    """Passes at most `most` lines of one kind within some seconds from the first of them, and counts the others."""

    most: int
    seconds: float
    _kinds: dict[Hashable, tuple[float, int]] = {}

    _now = staticmethod(time.monotonic)

    def __len__(self) -> int:
        return len(self._kinds)

    def passes(self, kind: Hashable) -> int | None:
        """Count a line; None to suppress it, otherwise the number of its kind that were suppressed before."""
        now = self._now()
        since, count = self._kinds.get(kind, (now, 0))
        if now - since >= self.seconds:
            suppressed = max(0, count - self.most)
            self._kinds[kind] = (now, 1)
            return suppressed
        if len(self._kinds) >= MAX_KINDS and kind not in self._kinds:
            self._kinds.clear()
        self._kinds[kind] = (since, count + 1)
        return 0 if count < self.most else None


class ReviewLines:
    """Limits the lines about reviews per second; the number of the others is logged once per second."""

    def __init__(self, log: FilteringBoundLogger) -> None:
        self._log = log
        self._throttle = Throttle(MAX_REVIEW_LINES, 1)
        self._suppressed = 0

    def passes(self) -> bool:
        if self._throttle.passes(None) is not None:
            return True
        if not self._suppressed:
            asyncio.get_running_loop().call_later(1, self._log_suppressed)
        self._suppressed += 1
        return False

    def _log_suppressed(self) -> None:
        self._log.info("reviews_suppressed", count=self._suppressed)
        self._suppressed = 0


class Standard(logging.Handler):
    """Converts records of `logging` (from the event loop, aiohttp) to our lines."""

    def __init__(self, log: FilteringBoundLogger) -> None:
        super().__init__()
        self._log = log
        self._throttle = Throttle(1, MINUTE)

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record: its template without the arguments, which can be anything.

        The event loop writes its message into the first line, and the objects concerned into the others. The same line is
        written at most once a minute, with the number of suppressed ones.
        """
        message = str(record.msg).partition("\n")[0][:MAX_MESSAGE]
        suppressed = self._throttle.passes((record.name, record.levelno, message))
        if suppressed is None:
            return
        error = record.exc_info[1] if record.exc_info else None
        fields = {} if error is None else error_fields(error)
        if suppressed:
            fields["suppressed"] = suppressed
        self._log.log(record.levelno, "library", logger=record.name, message=message, **fields)


def take_over(log: FilteringBoundLogger) -> None:
    """Send the warnings and errors of libraries to `log`; changes the root logger of the process."""
    root = logging.getLogger()
    root.handlers[:] = [Standard(log)]
    root.setLevel(logging.WARNING)
