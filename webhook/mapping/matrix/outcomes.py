"""Groups of requests with the same outcome in a target's keys; neighbors with one outcome are joined."""

import enum
from dataclasses import dataclass
from typing import TypeAlias

from webhook.quantity import Number
from webhook.request import ALL, UNLIMITED, Memory, Percent, Request, Size


class Rendering(enum.Enum):
    """The outcomes of requests of a source in a target's keys, best first."""

    EXACT = "exact"
    ROUNDS = "rounds"
    DROPS = "drops"
    CONDITIONAL = "conditional"
    DENIED = "denied"

    @property
    def written(self) -> bool:
        """Whether all of them are written."""
        return self in {Rendering.EXACT, Rendering.ROUNDS, Rendering.DROPS}


Amounts: TypeAlias = tuple[Memory, Memory]
"""The least and the greatest amount, of one kind."""


@dataclass(frozen=True, slots=True)
class Part:
    """Requests of a source with the same outcome: those of one of its forms within these bounds.

    Attributes:
        form: the form of the source.
        devices: the least and the greatest count.
        outcome: `ROUNDS` if some are rounded.
        why: why they are denied, or what is dropped.
    """

    form: str
    devices: tuple[int, int]
    memory: Amounts
    cores: Amounts
    outcome: Rendering
    why: str = ""

    def holds(self, form: str, request: Request) -> bool:
        """Return whether a request in a form is within the bounds."""
        return (
            form == self.form
            and self.devices[0] <= (request.devices or 1) <= self.devices[1]
            and _within(request.memory, self.memory)
            and _within(request.cores, self.cores)
        )


@dataclass(frozen=True, slots=True)
class Cell:
    """The result for one pair of vendors.

    Attributes:
        outcome: the outcome of all requests together.
        parts: the outcomes of groups of requests; empty if nothing can be read.
        why: why some are denied, each reason once.
    """

    outcome: Rendering
    parts: tuple[Part, ...] = ()
    why: tuple[str, ...] = ()

    def of(self, form: str, request: Request) -> Rendering | None:
        """Return the outcome of a request in a form of the source; the worst if parts overlap."""
        order = list(Rendering)
        found = [part.outcome for part in self.parts if part.holds(form, request)]
        return max(found, key=order.index, default=None)


@dataclass(frozen=True, slots=True)
class Verdict:
    """An outcome, and why it is not better."""

    outcome: Rendering
    why: str = ""

    def joined(self, other: "Verdict") -> "Verdict":
        """Return the verdict of both together."""
        outcomes = {self.outcome, other.outcome}
        if len(outcomes) == 1:
            return self
        worst = self if _order(self) > _order(other) else other
        return worst if worst.outcome.written else Verdict(Rendering.CONDITIONAL, worst.why)

    def can_join(self, other: "Verdict") -> bool:
        """Return whether both can be shown together: dropped amounts are shown apart from rounded ones."""
        rounded = {Rendering.EXACT, Rendering.ROUNDS}
        return self.outcome == other.outcome or {self.outcome, other.outcome} <= rounded


def _order(verdict: Verdict) -> int:
    return list(Rendering).index(verdict.outcome)


def kind_of(amount: Memory | None) -> object:
    """Return the kind of an amount: a size, a part of a device, a whole device, or no limit."""
    return amount if amount in {ALL, UNLIMITED} else type(amount)


def place_of(amount: Memory | None) -> tuple[int, Number]:
    """Return a sort key: sizes, then percent up to a whole device, then no limit."""
    if isinstance(amount, Size):
        return 0, amount.bytes
    return (1, amount.value) if isinstance(amount, Percent) else (2, 0)


def _within(amount: Memory | None, amounts: Amounts) -> bool:
    if amount is None or type(amount) is not type(amounts[0]):
        return False
    return place_of(amounts[0]) <= place_of(amount) <= place_of(amounts[1])
