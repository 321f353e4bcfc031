"""Names → vendors: which vendor owns a resource name, and where labels and annotations carry its words.

An exact name is a dictionary hit, so that the cost of a look-up does not grow with the number of vendors; names with pattern
variables are matched only below the prefixes that patterns have.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from webhook.mapping.document.key_template import CONTAINER, Binding, Template
from webhook.mapping.document.problem import Problem
from webhook.mapping.model.vendor import BUILT_IN, Key, Vendor, WordPlace
from webhook.mapping.notation.pattern import Expression, expression


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose word a key is.

    Attributes:
        vendor: the vendor, in force or on standby.
        word: the name of its word.
        binding: what the key's variables stand for, the container's name included.
    """

    vendor: str
    word: str
    binding: Binding = ()

    @property
    def container(self) -> str | None:
        """The container that the key names, if it names one."""
        return dict(self.binding).get(CONTAINER)


@dataclass(frozen=True, slots=True)
class _Pattern:
    prefix: str
    suffix: str
    regex: Expression
    owner: Owner


@dataclass(frozen=True)
class Names:
    """The keys of one place: exact ones, and patterns by their literal beginnings, which are those of all of them."""

    exact: Mapping[str, tuple[Owner, ...]] = field(default_factory=dict)
    patterns: tuple[_Pattern, ...] = ()
    beginnings: tuple[str, ...] = ()

    @cached_property
    def _beginnings(self) -> tuple[str, ...]:
        return tuple({pattern.prefix for pattern in self.patterns})

    def possible(self, keys: Iterable[str]) -> list[str]:
        """Those of these keys, in their order, that somebody may read: most keys of a pod are nobody's."""
        exact, beginnings = self.exact, self._beginnings
        return [key for key in keys if key in exact or key.startswith(beginnings)]

    def owners(self, key: str) -> tuple[Owner, ...]:
        """Who reads `key`; exact names before patterns, nobody for most. Patterns of two vendors may match one name."""
        found = self.exact.get(key)
        if found is not None or not key.startswith(self.beginnings):
            return found or ()
        owners: list[Owner] = []
        for pattern in self.patterns:
            # What is literal is looked at first: that is a tenth of an expression's time.
            if not key.startswith(pattern.prefix) or not key.endswith(pattern.suffix):
                continue
            if (groups := pattern.regex.groups(key)) is not None:
                binding = tuple((name, groups[name.replace("-", "_")]) for name, _ in pattern.owner.binding)
                owners.append(Owner(pattern.owner.vendor, pattern.owner.word, binding))
        return tuple(owners)


def index(vendors: Iterable[Vendor], place: WordPlace) -> Names:
    """The keys of all words of one place. A resource name has one owner: see `conflicts`."""
    exact: dict[str, list[Owner]] = {}
    patterns: list[_Pattern] = []
    for vendor in vendors:
        for word in vendor.keys.values():
            if word.place != place:
                continue
            for template in word.templates:
                _add(vendor, word, template, exact, patterns)
    beginnings = tuple({pattern.prefix for pattern in patterns})
    return Names({key: tuple(owners) for key, owners in exact.items()}, tuple(patterns), beginnings)


def _add(
    vendor: Vendor, word: Key, template: Template, exact: dict[str, list[Owner]], patterns: list[_Pattern]
) -> None:
    for key, binding in template.names(vendor.document.variables):
        owners = exact.setdefault(key, [])
        owner = Owner(vendor.name, word.name, binding)
        if owner not in owners:
            owners.append(owner)
    regex = template.pattern(vendor.document.variables)
    if regex is not None:
        unbound = tuple((name, "") for name in template.variables)
        owner = Owner(vendor.name, word.name, unbound)
        before, after = template.text.partition("{")[0], template.text.rpartition("}")[2]
        patterns.append(_Pattern(before, after, expression(regex), owner))


def conflicts(names: Names, place: WordPlace, vendors: Mapping[str, Vendor]) -> Iterator[Problem]:
    """Names that can be listed and that more than one vendor in force would own, in each document that is not built in.

    Patterns may meet: see `Names.owners`.

    Args:
        names: of one place.
        place: which.
        vendors: by name, for where their words are described.
    """
    what = "resource name" if place == "resource" else place
    for key, owners in names.exact.items():
        words = {owner.vendor: owner.word for owner in reversed(owners)}
        if len(words) == 1:
            continue
        message = f"{what} {key} is owned by more than one vendor: {', '.join(sorted(words))}"
        hint = f"choose one in the settings: `owners: {{{key}: {min(words)}}}`, or put one on `standby`"
        for vendor, word in sorted(words.items()):
            if vendors[vendor].source != BUILT_IN:
                yield Problem(message, ("keys", word, place), hint, vendors[vendor].source)
