"""Near misses: resource names that no vendor knows but that somebody surely meant to be a key.

They would be ignored silently, and the pod would hang or get a whole device.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from webhook.mapping.document.key_template import Template
from webhook.mapping.model.vendor import Vendor
from webhook.mapping.notation.glob import glob_pattern

SURE_FROM: Final = 6
"""Letters of a key from which a near miss is denied; a shorter one only where one letter makes the difference."""

DOMAIN_FROM: Final = 8
"""Characters of a domain from which a near one is a misspelling of it: shorter ones of different companies are as near."""

MAX_DISTANCE: Final = 2
MAX_LONGER: Final = 3
"""How far a name may be from a word: edits, or letters appended to it."""

MAX_LISTED: Final = 8
"""Choices of a variable that a message lists."""


@dataclass(frozen=True, slots=True)
class NearMiss:
    """What a name was probably meant to be.

    Attributes:
        meant: the key; where `choices` are given, it with its variable (``x.example/{chip}-memory``).
        sure: sure enough to refuse the name.
        choices: what the variable may stand for, where the name has something else there. None of them is a correction:
            it would ask for other hardware.
    """

    meant: str
    sure: bool
    choices: tuple[str, ...] = ()

    @property
    def told(self) -> str:
        """The end of a message to who wrote the name."""
        if not self.choices:
            return f"did you mean {self.meant}?"
        more = f" … ({len(self.choices)} in all)" if self.choices[MAX_LISTED:] else ""
        return f"known are {self.meant}, with {', '.join(self.choices[:MAX_LISTED])}{more}"


@dataclass(frozen=True, slots=True)
class _Word:
    """A key without its domain; with a variable also what that stands for, and in which template, among which choices."""

    local: str
    value: str = ""
    template: Template | None = None
    choices: tuple[str, ...] = ()

    def kept_by(self, name: str) -> bool:
        """Whether the name has the value of the variable where the key has it, as a part of its own."""
        if self.template is None:
            return True
        before, _, rest = self.template.text.rpartition("/")[2].partition("{")
        after = rest.partition("}")[2]
        left = "" if before[-1:].isalnum() else "(?<![0-9A-Za-z])"
        right = "" if after[:1].isalnum() else "(?![0-9A-Za-z])"
        return re.search(f"{left}{re.escape(self.value)}{right}", name) is not None


@dataclass(frozen=True, slots=True)
class Nearness:
    """The prefixes of all vendors with the keys below them, names there that belong to others, and each key's domains."""

    prefixes: tuple[str, ...] = ()
    keys: Mapping[str, Mapping[str, _Word]] = field(default_factory=dict)
    known: re.Pattern[str] | None = None
    domains: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def look(self, name: str) -> NearMiss | None:
        """The key that an unknown resource name resembles, or None."""
        if self.known is not None and self.known.fullmatch(name) is not None:
            return None
        if not name.startswith(self.prefixes):
            return self._in_another_domain(name)
        domain, _, local = name.rpartition("/")
        words = self.keys.get(domain, {})
        if local in words:  # of a vendor inactive that nobody disputes with
            return None
        # A long key is meant rather than a short one that the name happens to begin with, and the same hardware than other.
        for keeps in (True, False):
            for sure in (True, False):
                meant = _nearest(local, [one for one in words if (len(one) >= SURE_FROM) is sure], words, keeps=keeps)
                if meant is not None:
                    template = None if keeps else meant.template
                    one_letter = template is None and distance(local, meant.local, 1) == 1
                    return NearMiss(
                        f"{domain}/{meant.local}" if template is None else template.text,
                        sure or one_letter,
                        () if template is None else meant.choices,
                    )
        return None

    def _in_another_domain(self, name: str) -> NearMiss | None:
        """The key whose domain the name misspells; only names that are keys below their slash are compared."""
        domain, _, local = name.rpartition("/")
        found = [(distance(domain, each, MAX_DISTANCE), each) for each in self.domains.get(local, ())]
        if not found or min(found)[0] > MAX_DISTANCE:
            return None
        away, meant = min(found)
        return NearMiss(f"{meant}/{local}", away == 1)


def _nearest(name: str, locals_: Sequence[str], words: Mapping[str, _Word], *, keeps: bool) -> _Word | None:
    """The longest key that the name begins with, else the nearest one; None where all are too far."""
    begun = [word for word in locals_ if name.startswith(word) and 0 < len(name) - len(word) <= MAX_LONGER]
    begun = [word for word in begun if words[word].kept_by(name) is keeps]
    if begun:
        return words[max(begun, key=len)]
    candidates = (word for word in locals_ if abs(len(name) - len(word)) <= MAX_DISTANCE)
    near = [found for word in candidates if (found := (distance(name, word, MAX_DISTANCE), word))[0] <= MAX_DISTANCE]
    near = [(away, word) for away, word in near if words[word].kept_by(name) is keeps]
    return words[min(near)[1]] if near else None


def nearness(vendors: Iterable[Vendor]) -> Nearness:
    """What is near to the keys of these vendors, those inactive included."""
    prefixes: set[str] = set()
    words: dict[str, dict[str, _Word]] = {}
    known: set[str] = set()
    for vendor in vendors:
        document = vendor.document
        known.update(document.known)
        names = [
            name
            for word in vendor.keys.values()
            if word.place == "resource"
            for template in word.spellings
            for name in _names(vendor, template)
        ]
        prefixes.update(document.match.resources or [f"{domain}/" for domain, _ in names])
        for domain, word in names:
            words.setdefault(domain, {}).setdefault(word.local, word)
    pattern = "|".join(glob_pattern(one) for one in sorted(known))
    domains: dict[str, list[str]] = {}
    for domain, below in sorted(words.items()):
        for local in below if len(domain) >= DOMAIN_FROM else ():
            domains.setdefault(local, []).append(domain)
    return Nearness(
        tuple(sorted(prefixes)),
        {domain: dict(sorted(below.items())) for domain, below in words.items()},
        re.compile(pattern, re.DOTALL) if pattern else None,
        {local: tuple(each) for local, each in domains.items()},
    )


def _names(vendor: Vendor, template: Template) -> Iterator[tuple[str, _Word]]:
    """Its names that can be listed, by domain; one of several variables is bound to none."""
    names = list(template.names(vendor.document.variables))
    single = len(template.variables) == 1
    choices = tuple(dict.fromkeys(binding[0][1] for _, binding in names)) if single else ()
    for name, binding in names:
        domain, _, local = name.rpartition("/")
        yield domain, _Word(local, binding[0][1], template, choices) if single else _Word(local)


def distance(left: str, right: str, most: int | None = None) -> int:
    """Damerau-Levenshtein distance (optimal string alignment): insertions, deletions, substitutions, swaps of neighbours.

    With `most` it is not counted further than one above that, for a pod may have many names that are near to nothing.
    """
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
        # A swap reaches back two rows.
        if most is not None and min(last) > most <= min(before):
            return most + 1
    return last[-1] if most is None else min(last[-1], most + 1)
