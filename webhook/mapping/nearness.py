"""Near misses: resource names that no vendor knows but that somebody surely meant to be a word.

They would be ignored silently, and the pod would hang or get a whole card.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from webhook.mapping.glob import glob_pattern
from webhook.mapping.template import Template
from webhook.mapping.vendor import Vendor

SURE_FROM: Final = 6
"""Letters of a word from which a near miss is refused; below it is only told, for short words resemble too much."""

MAX_DISTANCE: Final = 2
MAX_LONGER: Final = 3
"""How far a name may be from a word: edits, or letters appended to it."""


@dataclass(frozen=True, slots=True)
class NearMiss:
    """What a name was probably meant to be, and whether that is sure enough to refuse it."""

    meant: str
    sure: bool


@dataclass(frozen=True, slots=True)
class Nearness:
    """The prefixes of all vendors with the words below them, and the names there that are somebody else's."""

    prefixes: tuple[str, ...] = ()
    words: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    known: re.Pattern[str] | None = None

    def look(self, name: str) -> NearMiss | None:
        """The word that an unknown resource name resembles, or None."""
        if not name.startswith(self.prefixes) or (self.known is not None and self.known.fullmatch(name) is not None):
            return None
        domain, _, local = name.rpartition("/")
        words = self.words.get(domain, ())
        if local in words:  # of a vendor on standby that nobody disputes with
            return None
        # A long word is meant rather than a short one that the name happens to begin with.
        for sure in (True, False):
            meant = _nearest(local, [word for word in words if (len(word) >= SURE_FROM) is sure])
            if meant is not None:
                return NearMiss(f"{domain}/{meant}", sure)
        return None


def _nearest(name: str, words: Sequence[str]) -> str | None:
    """The longest word that the name begins with, else the nearest one; None where all are too far."""
    begun = [word for word in words if name.startswith(word) and 0 < len(name) - len(word) <= MAX_LONGER]
    if begun:
        return max(begun, key=len)
    candidates = (word for word in words if abs(len(name) - len(word)) <= MAX_DISTANCE)
    near = [found for word in candidates if (found := (distance(name, word), word))[0] <= MAX_DISTANCE]
    return min(near)[1] if near else None


def nearness(vendors: Iterable[Vendor]) -> Nearness:
    """What is near to the words of these vendors, those on standby included."""
    prefixes: set[str] = set()
    words: dict[str, set[str]] = {}
    known: set[str] = set()
    for vendor in vendors:
        document = vendor.document
        known.update(document.known)
        names = [
            name
            for word in vendor.words.values()
            if word.place == "resource"
            for template in word.spellings
            for name in _names(vendor, template)
        ]
        prefixes.update(document.match.resources or [f"{name.rpartition('/')[0]}/" for name in names])
        for name in names:
            domain, _, local = name.rpartition("/")
            words.setdefault(domain, set()).add(local)
    pattern = "|".join(glob_pattern(one) for one in sorted(known))
    return Nearness(
        tuple(sorted(prefixes)),
        {domain: tuple(sorted(local)) for domain, local in words.items()},
        re.compile(pattern, re.DOTALL) if pattern else None,
    )


def _names(vendor: Vendor, template: Template) -> list[str]:
    return [name for name, _ in template.names(vendor.document.variables)]


def distance(left: str, right: str) -> int:
    """Damerau-Levenshtein distance (optimal string alignment): insertions, deletions, substitutions, swaps of neighbours."""
    before: list[int] = []
    last = list(range(len(right) + 1))
    for i, one in enumerate(left, start=1):
        row = [i]
        for j, other in enumerate(right, start=1):
            cost = min(row[j - 1] + 1, last[j] + 1, last[j - 1] + (one != other))
            if i > 1 and j > 1 and one == right[j - 2] and left[i - 2] == other:
                cost = min(cost, before[j - 2] + 1)
            row.append(cost)
        before, last = last, row
    return last[-1]
