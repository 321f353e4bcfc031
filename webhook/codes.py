"""What reason codes mean for people: the texts of ``reasons.yaml``, from which ``docs/codes.md`` is generated."""

import enum
from functools import cache
from importlib import resources
from typing import Self

import msgspec

from webhook.reasons import Reason


class ReasonGroup(enum.Enum):
    """What a person does about a code: a group of the page, with its heading and what to do."""

    AMOUNT = "amount", "Write another amount", "Write the amount that the message names."
    KEY = "key", "Correct a key", "Write, move or remove the key as the message says."
    TARGET = "target", "See what the target lacks", "Change the request as the message says, or choose another target."
    PLACE = "place", "Leave the node to the mapping", "Remove the field that the message names."
    LIMIT = "limit", "Leave the limit alone", "Remove what the message names, or write it as it says."
    CLUSTER = "cluster", "Ask whoever runs the cluster", "The policy or the namespace decides."
    NOTHING = "nothing", "Nothing is wrong", "Nothing to do. Only the status, the audit log and metrics say so."
    BUG = "bug", "Report a bug", "Report the log line and the manifest of the pod."

    heading: str
    remedy: str

    def __new__(cls, key: str, heading: str, remedy: str) -> Self:
        """Return a group whose value is its key, as ``reasons.yaml`` names it."""
        group = object.__new__(cls)
        group._value_ = key
        group.heading = heading
        group.remedy = remedy
        return group


class Explanation(msgspec.Struct, frozen=True):
    """The meaning of a code.

    Attributes:
        title: a few words, for tables and headings.
        group: what a person does about it.
        meaning: what happened, in a sentence.
        remedy: what to do about it beyond what its group says.
        example: a message that says what to do, where there is no remedy.
    """

    title: str
    group: ReasonGroup
    meaning: str
    remedy: str = ""
    example: str = ""

    @property
    def advice(self) -> str:
        """What to do about it, with what its group says."""
        return self.remedy or self.group.remedy


def explanation_of(reason: Reason) -> Explanation:
    """Return what a reason means; read when somebody asks for it."""
    return _explanations()[reason.code]


@cache
def _explanations() -> dict[str, Explanation]:
    return msgspec.yaml.decode((resources.files("webhook") / "reasons.yaml").read_bytes(), type=dict[str, Explanation])
