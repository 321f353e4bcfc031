"""Which pods need the webhook: the names of resources, labels and annotations that let a pod through.

Resources match by prefix, so that pods with misspelled keys are let through and can be answered. Labels and annotations
match by whole keys or patterns, never by a bare domain: half of the domains of GPU keys occur on ordinary pods, too.
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
"""The characters of names, and ``*``. The API server stores no pod with others, so nothing has to be let through."""

MAX_TEXT: Final = 100_000
"""Characters of names as JSON: longer ones would not fit into match conditions, where each name takes more of them."""

_LETTER: Final = re.compile(r"[A-Za-z0-9]")


@dataclass(frozen=True)
class MatchedNames:
    """The names that let a pod through. Made by `names_set` only: it holds no name that another one covers.

    Attributes:
        domains: of resource names, without the slash.
        prefixes: of resource names, where a domain would match too much.
        names: resource names under neither.
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
        both = self | other
        return sorted(
            [
                *(f"{domain}/" for domain in both.domains - self.domains),
                *(f"{prefix}*" for prefix in both.prefixes - self.prefixes),
                *(both.names - self.names | both.name_patterns - self.name_patterns),
                *(both.keys - self.keys | both.key_patterns - self.key_patterns),
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
        """The names as JSON, the same text for the same names; `parse_names` reads it back."""
        data = {
            "prefixes": sorted(self._prefixes()),
            "names": sorted(self.names | self.name_patterns),
            "keys": sorted(self.keys | self.key_patterns),
        }
        return json.dumps(data, indent=1)  # one name to a line, as in the match conditions

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
    """Make the set of these names, without duplicates and names that a prefix covers.

    Args:
        prefixes: of resource names; one that ends in its only slash is a domain.
        names: resource names; ``*`` matches anything.
        keys: of labels and annotations; ``*`` matches anything.
    """
    ends = sorted({prefix for prefix in prefixes if _legal(prefix) and "*" not in prefix}, key=len)
    domains = {prefix[:-1] for prefix in ends if prefix.find("/") == len(prefix) - 1}
    narrow: set[str] = set()
    for prefix in ends:
        if prefix.partition("/")[0] not in domains and not prefix.startswith(tuple(narrow)):
            narrow.add(prefix)
    beside = {
        name
        for name in names
        if _legal(name) and name.partition("/")[0] not in domains and not name.startswith(tuple(narrow))
    }
    legal_keys = {key for key in keys if _legal(key)}
    return MatchedNames(
        domains=frozenset(domains),
        prefixes=frozenset(narrow),
        names=frozenset(name for name in beside if "*" not in name),
        name_patterns=frozenset(name for name in beside if "*" in name),
        keys=frozenset(key for key in legal_keys if "*" not in key),
        key_patterns=frozenset(key for key in legal_keys if "*" in key),
    )


def parse_names(text: Any) -> MatchedNames | None:
    """The names that a text was made from by `MatchedNames.as_json`; None for anything else."""
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

    They are the keys of all vendors, in any place (a request key in a place where it has no effect is answered, too), the
    prefixes under which misspelled resource keys are detected, and marks that only schedulers may write.
    """
    vendors = [vendor.lets_through for vendor in policy.vendors.values()]
    return names_set(
        prefixes=(prefix for one in vendors for prefix in one.prefixes),
        names=[
            *(name for one in vendors for name in one.resources),
            # Extended resources always have a domain.
            *(key for key in policy.request_keys if "/" in key),
        ],
        keys=[*policy.request_keys, *(key for vendor in policy.in_force for key in vendor.lets_through.keys)],
    )
