"""Log lines: one JSON object each, with an event and fields; never a body, a variable's value, or an error's own text.

The text of an unforeseen error can quote what it choked on, so of those only the type and the places in the code are
told.
"""

import logging
import traceback
from typing import Any, BinaryIO, Final

import msgspec
import structlog
from structlog.typing import FilteringBoundLogger

LEVELS: Final = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}

MAX_FRAMES: Final = 12
"""Innermost places of an error that are told: enough to find it, bounded for an endless recursion."""


def make_logger(level: str, file: BinaryIO) -> FilteringBoundLogger:
    """A logger that writes lines from `level` (a key of `LEVELS`) up to `file`."""
    logger: FilteringBoundLogger = structlog.wrap_logger(
        structlog.BytesLogger(file),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.JSONRenderer(serializer=_encode),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
    )
    # Bound: until then it is a stand-in that makes a new logger for each line, and for each that is not written.
    bound: FilteringBoundLogger = logger.bind()
    return bound


def _encode(event: dict[str, Any], **_: Any) -> bytes:
    return msgspec.json.encode(event)


def error_fields(error: BaseException) -> dict[str, Any]:
    """What may be told about an unforeseen error: its type, and where it happened, innermost last."""
    frames = traceback.extract_tb(error.__traceback__)[-MAX_FRAMES:]
    return {"error": type(error).__name__, "where": [f"{f.filename}:{f.lineno} {f.name}" for f in frames]}


class Standard(logging.Handler):
    """Takes what libraries tell through `logging` (the event loop, aiohttp) into our lines."""

    def __init__(self, log: FilteringBoundLogger) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record: its template without the arguments, which can be anything.

        The event loop puts what it has to say into the first line, and into the others what it was about.
        """
        error = record.exc_info[1] if record.exc_info else None
        fields = {} if error is None else error_fields(error)
        self._log.log(
            record.levelno, "library", logger=record.name, message=str(record.msg).partition("\n")[0], **fields
        )


def take_over(log: FilteringBoundLogger) -> None:
    """Send what libraries tell, warnings and worse, to `log`; for a process of our own, once."""
    root = logging.getLogger()
    root.handlers[:] = [Standard(log)]
    root.setLevel(logging.WARNING)
