"""Names → vendors: which vendor owns a resource name, and which reads a label or an annotation.

Looking up an exact name is a dictionary access, so its cost does not grow with the number of vendors. Names with pattern
variables are matched only where a name begins like one of the patterns.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from webhook.mapping.document.key_template import CONTAINER, Binding, Template
from webhook.mapping.document.problem import Problem
from webhook.mapping.model.vendor import BUILT_IN, Key, KeyPlace, Vendor
from webhook.mapping.notation import Expression, expression


@dataclass(frozen=True, slots=True)
class Owner:
    """The vendor that reads a name, and as which of its keys.

    Attributes:
        vendor: the vendor, in force or inactive.
        key_name: the name of its key in the mapping.
        binding: what the variables of the key stand for, including the name of a container.
    """

    vendor: str
    key_name: str
    binding: Binding = ()

    @property
    def container(self) -> str | None:
        """The container that the key names, or None."""
        return dict(self.binding).get(CONTAINER)


@dataclass(frozen=True, slots=True)
class _Pattern:
    prefix: str
    suffix: str
    regex: Expression
    owner: Owner


@dataclass(frozen=True)
class Names:
    """The names in one place: exact ones, patterns, and the literal beginnings of all patterns."""

    exact: Mapping[str, tuple[Owner, ...]] = field(default_factory=dict)
    patterns: tuple[_Pattern, ...] = ()
    beginnings: tuple[str, ...] = ()

    @cached_property
    def _beginnings(self) -> tuple[str, ...]:
        return tuple({pattern.prefix for pattern in self.patterns})

    def possible(self, keys: Iterable[str]) -> list[str]:
        """The keys that some vendor may read, in their order: most keys of a pod belong to none."""
        exact, beginnings = self.exact, self._beginnings
        return [key for key in keys if key in exact or key.startswith(beginnings)]

    def owners(self, key: str) -> tuple[Owner, ...]:
        """Return the readers of `key`, none for most keys. Exact names precede patterns, of which several may match."""
        found = self.exact.get(key)
        if found is not None:
            return found
        if not key.startswith(self.beginnings):
            return ()
        owners: list[Owner] = []
        for pattern in self.patterns:
            # Comparing the literal ends takes a tenth of the time of the expression.
            if not key.startswith(pattern.prefix) or not key.endswith(pattern.suffix):
                continue
            if (groups := pattern.regex.groups(key)) is not None:
                binding = tuple((name, groups[name.replace("-", "_")]) for name, _ in pattern.owner.binding)
                owners.append(Owner(pattern.owner.vendor, pattern.owner.key_name, binding))
        return tuple(owners)


def index(vendors: Iterable[Vendor], place: KeyPlace) -> Names:
    """The names of all keys in one place. A resource name has one owner: see `conflicts`."""
    exact: dict[str, list[Owner]] = {}
    patterns: list[_Pattern] = []
    for vendor in vendors:
        for key in vendor.keys.values():
            if key.place != place:
                continue
            for template in key.templates:
                _add(vendor, key, template, exact, patterns)
    beginnings = tuple({pattern.prefix for pattern in patterns})
    return Names({key: tuple(owners) for key, owners in exact.items()}, tuple(patterns), beginnings)


def _add(vendor: Vendor, key: Key, template: Template, exact: dict[str, list[Owner]], patterns: list[_Pattern]) -> None:
    for spelled, binding in template.names(vendor.document.variables):
        owners = exact.setdefault(spelled, [])
        owner = Owner(vendor.name, key.name, binding)
        if owner not in owners:
            owners.append(owner)
    regex = template.pattern(vendor.document.variables)
    if regex is not None:
        unbound = tuple((name, "") for name in template.variables)
        owner = Owner(vendor.name, key.name, unbound)
        before, after = template.text.partition("{")[0], template.text.rpartition("}")[2]
        patterns.append(_Pattern(before, after, expression(regex), owner))


def conflicts(names: Names, place: KeyPlace, vendors: Mapping[str, Vendor]) -> Iterator[Problem]:
    """Report names that more than one vendor in force would own, once for each document that is not built in.

    Only names that can be listed; patterns may overlap: see `Names.owners`.

    Args:
        names: the names in one place.
        place: that place.
        vendors: by name; their documents describe the keys.
    """
    what = "resource name" if place == "resource" else place
    for key, owners in names.exact.items():
        key_names = {owner.vendor: owner.key_name for owner in reversed(owners)}
        if len(key_names) == 1:
            continue
        message = f"{what} {key} is owned by more than one vendor: {', '.join(sorted(key_names))}"
        hint = f"choose one in the settings: `owners: {{{key}: {min(key_names)}}}`, or make one of them `inactive`"
        for vendor, key_name in sorted(key_names.items()):
            if vendors[vendor].source != BUILT_IN:
                yield Problem(message, ("keys", key_name, place), hint, vendors[vendor].source)
