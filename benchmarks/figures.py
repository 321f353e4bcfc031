"""Figures beside their goals."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

OK: Final = "ok"
OVER: Final = "over"


@dataclass(frozen=True, slots=True)
class Figure:
    """One measurement and the most that it may be."""

    name: str
    value: float
    goal: float
    unit: str = ""

    @property
    def met(self) -> bool:
        """Whether the goal is met."""
        return self.value <= self.goal

    def __str__(self) -> str:
        verdict = OK if self.met else OVER
        return f"{self.name:<60} {f'{self.value:.2f} {self.unit}':>10}   goal {self.goal:g} {self.unit:<4} {verdict}"


def print_all(figures: Sequence[Figure]) -> bool:
    """Print figures, one in a line, and return whether every goal is met."""
    for figure in figures:
        print(figure)
    return all(figure.met for figure in figures)
