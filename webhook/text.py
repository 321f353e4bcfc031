"""Texts for messages: cut to a length, and without hidden characters, because what a user writes has any.

The text of an unforeseen error may quote its input, so only the type of the error and its places in the code are told.
The command line starts with this module, so it imports nothing that takes long.
"""

import re
import traceback
from typing import Any, Final

MAX_FRAMES: Final = 12
"""Innermost frames of an error that are logged: enough to find it, bounded against endless recursion."""

_HIDDEN: Final = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufff9-\ufffb"
    r"\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    r"\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""Control characters, separators of lines, and what Unicode lets programs not show (``Default_Ignorable_Code_Point`` of
``DerivedCoreProperties.txt``): among them marks of direction, by which a message reads as if it said something else. The API
server silently drops a warning with a control character in it."""


def shorten(text: str, most: int = 63) -> str:
    """A text of at most `most` characters, with an ellipsis if it was cut: names in honest pods are seldom longer than 63."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def shown(text: str) -> str:
    """A text in which every character is seen: hidden ones are replaced."""
    return text if text.isascii() and text.isprintable() else _HIDDEN.sub("�", text)


def without_middle(text: str, most: int = 1000) -> str:
    """Shorten a text to about `most` characters by cutting its middle: the end often says what is wrong."""
    return text if len(text) <= most else f"{text[: most // 2]} … {text[-(most // 2) :]}"


def error_fields(error: BaseException) -> dict[str, Any]:
    """The fields to log about an unexpected error, the first of a group: its type and its traceback, innermost last."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    frames = traceback.extract_tb(error.__traceback__)[-MAX_FRAMES:]
    return {"error": type(error).__name__, "traceback": [f"{f.filename}:{f.lineno} {f.name}" for f in frames]}
