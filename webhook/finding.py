"""Findings about a pod: a reason with its details, as a warning or as a denial."""

from typing import Final

import msgspec

from webhook.reasons import Reason
from webhook.text import shorten, shown

MAX_WARNING: Final = 256
"""The API server cuts longer warnings once they are more than 4096 characters together (``filters/warning.go``)."""

MAX_SENTENCE: Final = 4096
"""Whatever the pod contains: `webhook.review` shortens a denial further."""


class Step(msgspec.Struct, frozen=True, gc=False):
    """A number that was changed to another, for explanations.

    Attributes:
        what: a key, or a dimension of each device.
        before, after: the numbers, with their units where they have any.
        difference: signed difference; empty where it means nothing.
    """

    what: str
    before: str
    after: str
    difference: str = ""


class Finding(msgspec.Struct, frozen=True):
    """A warning, a change or a denial.

    Attributes:
        reason: the stable code.
        message: what is wrong, then what to write instead; without the code and the container.
        container: the name of its container, None for the pod.
        field: the path in the pod (``limits[nvidia.com/gpumem]``), or None.
        value: the value at that path, or None.
        step: the number that was rounded, corrected or converted, or None.
    """

    reason: Reason
    message: str
    container: str | None = None
    field: str | None = None
    value: str | None = None
    step: Step | None = None

    @property
    def text(self) -> str:
        """The code and the sentence, on one line, at most `MAX_WARNING` characters."""
        text = f"{self.reason.code}: {self.sentence}"
        return shorten(text, MAX_WARNING)

    @property
    def sentence(self) -> str:
        """The container and the message, without control characters and their like, at most `MAX_SENTENCE` characters."""
        where = "" if self.container is None else f"container {self.container[:MAX_SENTENCE]}: "
        text = f"{where}{self.message[:MAX_SENTENCE]}"
        return shown(shorten(text, MAX_SENTENCE))


class Denied(Exception):  # noqa: N818  (a decision about the pod, not an error of the webhook)
    """The pod is denied; `finding` has the reason and what to write instead."""

    def __init__(self, finding: Finding) -> None:
        self.finding = finding
        super().__init__(finding.text)


def deny(
    reason: Reason,
    message: str,
    *,
    container: str | None = None,
    field: str | None = None,
    value: str | None = None,
) -> Denied:
    """Return the exception for a denial with these details."""
    return Denied(Finding(reason, message, container, field, value))
