"""Random choices, fast: the same seed makes the same ones on every machine."""

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Draw(random.Random):
    """A seeded generator with the few choices that are needed, without the care of the standard ones."""

    def pick(self, choices: Sequence[T]) -> T:
        """One of them."""
        return choices[int(self.random() * len(choices))]

    def chance(self, probability: float) -> bool:
        """Whether it happens."""
        return self.random() < probability

    def whole(self, least: int, most: int) -> int:
        """A whole number, both ends possible."""
        return least + int(self.random() * (most - least + 1))
