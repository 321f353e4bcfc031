"""Requests that meet the same fate in a target's terms, and how neighbours are joined to parts that people can read."""

import enum
from dataclasses import dataclass
from typing import TypeAlias

from webhook.quantity import Number
from webhook.request import ALL, FREE, Memory, Percent, Request, Size


class Rendering(enum.Enum):
    """What becomes of requests of a source in a target's terms, best first."""

    EXACT = "exact"
    ROUNDS = "rounds"
    DROPS = "drops"
    CONDITIONAL = "conditional"
    REFUSED = "refused"

    @property
    def written(self) -> bool:
        """Whether all of them are written."""
        return self in {Rendering.EXACT, Rendering.ROUNDS, Rendering.DROPS}


Amounts: TypeAlias = tuple[Memory, Memory]
"""From the least to the most, of one kind."""


@dataclass(frozen=True, slots=True)
class Part:
    """Requests of a source that meet the same fate: those that one of its forms can make within these bounds.

    Attributes:
        form: the source's.
        devices: from, to.
        outcome: `ROUNDS` where some are rounded.
        why: why they are refused, or what is dropped.
    """

    form: str
    devices: tuple[int, int]
    memory: Amounts
    cores: Amounts
    outcome: Rendering
    why: str = ""

    def holds(self, form: str, request: Request) -> bool:
        """Whether a request, read in a form, lies within."""
        return (
            form == self.form
            and self.devices[0] <= (request.devices or 1) <= self.devices[1]
            and _within(request.memory, self.memory)
            and _within(request.cores, self.cores)
        )


@dataclass(frozen=True, slots=True)
class Cell:
    """One pair.

    Attributes:
        outcome: of all requests together.
        parts: which requests meet which fate; none where nothing can be read.
        why: why some are refused, each reason once.
    """

    outcome: Rendering
    parts: tuple[Part, ...] = ()
    why: tuple[str, ...] = ()

    def of(self, form: str, request: Request) -> Rendering | None:
        """The outcome of one request of the source, read in one of its forms; the worst where parts overlap."""
        order = list(Rendering)
        found = [part.outcome for part in self.parts if part.holds(form, request)]
        return max(found, key=order.index, default=None)


@dataclass(frozen=True, slots=True)
class Verdict:
    """An outcome, and why it is none better."""

    outcome: Rendering
    why: str = ""

    def joined(self, other: "Verdict") -> "Verdict":
        """The verdict of both together, where that is one."""
        outcomes = {self.outcome, other.outcome}
        if len(outcomes) == 1:
            return self
        worst = self if _order(self) > _order(other) else other
        return worst if worst.outcome.written else Verdict(Rendering.CONDITIONAL, worst.why)

    def joins(self, other: "Verdict") -> bool:
        """Whether a reader loses nothing if both are one: dropped amounts are told apart from rounded ones."""
        rounded = {Rendering.EXACT, Rendering.ROUNDS}
        return self.outcome == other.outcome or {self.outcome, other.outcome} <= rounded


def _order(verdict: Verdict) -> int:
    return list(Rendering).index(verdict.outcome)


def kind_of(amount: Memory | None) -> object:
    """Sizes, parts of a card, a whole one and no limit are different kinds."""
    return amount if amount in {ALL, FREE} else type(amount)


def place_of(amount: Memory | None) -> tuple[int, Number]:
    """Where an amount stands: sizes, percent up to a whole card, no limit."""
    if isinstance(amount, Size):
        return 0, amount.bytes
    return (1, amount.value) if isinstance(amount, Percent) else (2, 0)


def _within(amount: Memory | None, amounts: Amounts) -> bool:
    if amount is None or type(amount) is not type(amounts[0]):
        return False
    return place_of(amounts[0]) <= place_of(amount) <= place_of(amounts[1])
