"""Something to tell about a pod: a reason with its particulars, as a warning or as the refusal of the pod."""

from dataclasses import dataclass
from functools import cached_property
from typing import Final

from webhook.reasons import Reason

MAX_WARNING: Final = 256
"""The API server cuts longer warnings once they are more than 4096 characters together (``filters/warning.go``)."""

MAX_SENTENCE: Final = 4096
"""Whatever stood in the pod: a denial is cut further (`webhook.response`)."""

_CONTROL: Final = dict.fromkeys((*range(32), *range(127, 160)), "�")
"""The API server silently drops a warning with a control character in it."""


@dataclass(frozen=True, slots=True)
class Step:
    """One number that became another, as explanations show it.

    Attributes:
        what: a key, or a dimension of each device.
        before, after: the numbers, with their units where they have any.
        by: the difference with its sign; empty where there is none to speak of.
    """

    what: str
    before: str
    after: str
    by: str = ""


@dataclass(frozen=True)
class Finding:
    """One thing that was noticed, done or refused.

    Attributes:
        reason: why, with a stable code.
        message: what, naming values and what to write instead; without the code and the container.
        container: the container it is about, None for the pod.
        field: what was read, as a user would find it (``limits[nvidia.com/gpumem]``), or None.
        value: what stood there, or None.
        step: the number that was rounded, corrected or converted here, where the reason is such a step.
    """

    reason: Reason
    message: str
    container: str | None = None
    field: str | None = None
    value: str | None = None
    step: Step | None = None

    @cached_property
    def text(self) -> str:
        """The whole sentence for a person, on one line, at most `MAX_WARNING` characters."""
        text = f"{self.reason.code}: {self.sentence}"
        return text if len(text) <= MAX_WARNING else text[: MAX_WARNING - 1] + "…"

    @cached_property
    def sentence(self) -> str:
        """Where and what, without the code, free of control characters, at most `MAX_SENTENCE` of them."""
        where = "" if self.container is None else f"container {self.container[:MAX_SENTENCE]}: "
        text = f"{where}{self.message[:MAX_SENTENCE]}"
        return (text if len(text) <= MAX_SENTENCE else text[: MAX_SENTENCE - 1] + "…").translate(_CONTROL)


class Denied(Exception):  # noqa: N818  (it says what happened to the pod, and is caught by that name)
    """A pod cannot be admitted as it is written; `finding` says why and what to write instead."""

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
    """What to raise for a refusal: the finding is made here."""
    return Denied(Finding(reason, message, container, field, value))
