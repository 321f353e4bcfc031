"""The names of resources, labels and annotations that let a pod through to the webhook.

Resources match by prefix, so that pods with misspelled keys are let through, too, and can be denied. Labels and annotations
match by whole keys or patterns, never by a domain alone: half of the domains of GPU keys occur on ordinary pods, too.
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import msgspec

from webhook.mapping.model.policy import Policy
from webhook.mapping.notation.glob import glob_pattern

_LEGAL: Final = re.compile(r"[A-Za-z0-9_./*-]+")
"""The characters of names, and ``*``. The API server stores no pod with other characters."""

MAX_TEXT: Final = 100_000
"""The most characters of names as JSON: more would not fit into match conditions, where each name is longer."""

_LETTER: Final = re.compile(r"[A-Za-z0-9]")


@dataclass(frozen=True)
class MatchedNames:
    """The names that let a pod through. Made only by `names_set`, so no name covers another.

    Attributes:
        domains: of resource names, without the slash.
        prefixes: of resource names whose domain would match too much.
        names: resource names below none of these domains and prefixes.
        name_patterns: resource names whose domain varies; ``*`` matches anything.
        keys: of labels and annotations.
        key_patterns: of labels and annotations; ``*`` matches anything.
    """

    domains: frozenset[str] = frozenset()
    prefixes: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    name_patterns: frozenset[str] = frozenset()
    keys: frozenset[str] = frozenset()
    key_patterns: frozenset[str] = frozenset()

    def __or__(self, other: "MatchedNames") -> "MatchedNames":
        return names_set(
            prefixes=[*self._prefixes(), *other._prefixes()],
            names=self.names | other.names | self.name_patterns | other.name_patterns,
            keys=self.keys | other.keys | self.key_patterns | other.key_patterns,
        )

    def covers(self, other: "MatchedNames") -> bool:
        """Whether every pod that `other` lets through is let through here, too."""
        return not self.lacks(other)

    def lacks(self, other: "MatchedNames") -> list[str]:
        """The names that only `other` has, for messages: a domain ends in a slash, a prefix in ``*``."""
        union = self | other
        return sorted(
            [
                *(f"{domain}/" for domain in union.domains - self.domains),
                *(f"{prefix}*" for prefix in union.prefixes - self.prefixes),
                *(union.names - self.names | union.name_patterns - self.name_patterns),
                *(union.keys - self.keys | union.key_patterns - self.key_patterns),
            ]
        )

    def has_resource(self, name: str) -> bool:
        """Whether a resource of this name lets a pod through."""
        return (
            name.partition("/")[0] in self.domains
            or name in self.names
            or name.startswith(tuple(self.prefixes))
            or _found(self._name_pattern, name)
        )

    def has_key(self, key: str) -> bool:
        """Whether a label or annotation of this key lets a pod through."""
        return key in self.keys or _found(self._key_pattern, key)

    def has_pod(self, resources: Iterable[str], keys: Iterable[str]) -> bool:
        """Whether a pod with these resources, labels and annotations is let through."""
        return any(map(self.has_resource, resources)) or any(map(self.has_key, keys))

    @cached_property
    def as_json(self) -> str:
        """The names as JSON; the same names make the same text, which `parse_names` reads."""
        data = {
            "prefixes": sorted(self._prefixes()),
            "names": sorted(self.names | self.name_patterns),
            "keys": sorted(self.keys | self.key_patterns),
        }
        return json.dumps(data, indent=1)  # one name per line, as in the match conditions

    def _prefixes(self) -> Iterator[str]:
        yield from (f"{domain}/" for domain in self.domains)
        yield from self.prefixes

    @cached_property
    def _name_pattern(self) -> re.Pattern[str] | None:
        return _compiled(self.name_patterns)

    @cached_property
    def _key_pattern(self) -> re.Pattern[str] | None:
        return _compiled(self.key_patterns)


def _compiled(patterns: frozenset[str]) -> re.Pattern[str] | None:
    return re.compile("|".join(map(glob_pattern, sorted(patterns))), re.DOTALL) if patterns else None


def _found(pattern: re.Pattern[str] | None, text: str) -> bool:
    return pattern is not None and pattern.fullmatch(text) is not None


def names_set(*, prefixes: Iterable[str] = (), names: Iterable[str] = (), keys: Iterable[str] = ()) -> MatchedNames:
    """Make a set of names, without duplicates and names that a prefix covers.

    Args:
        prefixes: of resource names; a prefix whose only slash is at its end is a domain.
        names: resource names; ``*`` matches anything.
        keys: of labels and annotations; ``*`` matches anything.
    """
    shortest_first = sorted({prefix for prefix in prefixes if _legal(prefix) and "*" not in prefix}, key=len)
    domains = {prefix[:-1] for prefix in shortest_first if prefix.find("/") == len(prefix) - 1}
    narrow: set[str] = set()
    for prefix in shortest_first:
        if prefix.partition("/")[0] not in domains and not prefix.startswith(tuple(narrow)):
            narrow.add(prefix)
    uncovered = {
        name
        for name in names
        if _legal(name) and name.partition("/")[0] not in domains and not name.startswith(tuple(narrow))
    }
    legal_keys = {key for key in keys if _legal(key)}
    return MatchedNames(
        domains=frozenset(domains),
        prefixes=frozenset(narrow),
        names=frozenset(name for name in uncovered if "*" not in name),
        name_patterns=frozenset(name for name in uncovered if "*" in name),
        keys=frozenset(key for key in legal_keys if "*" not in key),
        key_patterns=frozenset(key for key in legal_keys if "*" in key),
    )


def parse_names(text: Any) -> MatchedNames | None:
    """The names in a text of `MatchedNames.as_json`; None for any other text."""
    if not isinstance(text, str) or len(text) > MAX_TEXT:
        return None
    try:
        data = msgspec.json.decode(text, type=dict[str, list[str]])
        return names_set(**data)
    except (msgspec.DecodeError, TypeError):
        return None


def _legal(name: str) -> bool:
    return _LEGAL.fullmatch(name) is not None and _LETTER.search(name) is not None


def matched_names_of(policy: Policy) -> MatchedNames:
    """The names that let a pod through under a policy.

    They are the keys of all vendors, in any place (the webhook warns about request keys in a place where they have no effect),
    the prefixes below which misspelled resource keys are detected, and marks that only schedulers may write.
    """
    vendors = [vendor.lets_through for vendor in policy.vendors.values()]
    return names_set(
        prefixes=(prefix for names in vendors for prefix in names.prefixes),
        names=[
            *(name for names in vendors for name in names.resources),
            # Extended resources always have a domain.
            *(key for key in policy.request_keys if "/" in key),
        ],
        keys=[*policy.request_keys, *(key for vendor in policy.in_force for key in vendor.lets_through.keys)],
    )
