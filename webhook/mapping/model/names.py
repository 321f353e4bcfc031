"""Names → vendors: which vendor owns a resource name, and which reads a label or an annotation.

Looking up an exact name is a dictionary access, so its cost does not grow with the number of vendors. Names with pattern
variables are matched only where a name begins like one of the patterns.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from webhook.labels import PREFIX
from webhook.mapping.document.problem import Problems
from webhook.mapping.model.keys import CONTAINER, Binding, KeyPlace, Template
from webhook.mapping.model.match_names import advised_names
from webhook.mapping.model.near_misses import NearMiss, Nearness
from webhook.mapping.model.vendor import BUILT_IN, Vendor
from webhook.mapping.notation import MAX_KEY, Expression, NameSet, expression


@dataclass(frozen=True, slots=True)
class Owner:
    """The vendor that reads a name, and as which of its keys."""

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
    """The names in one place: exact ones, and patterns."""

    exact: Mapping[str, tuple[Owner, ...]]
    patterns: tuple[_Pattern, ...] = ()

    @cached_property
    def beginnings(self) -> tuple[str, ...]:
        """The literal beginnings of all patterns."""
        return tuple({pattern.prefix for pattern in self.patterns})

    def possible(self, keys: Iterable[str]) -> list[str]:
        """The keys that some vendor may read, in their order: most keys of a pod belong to none."""
        exact, beginnings = self.exact, self.beginnings
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
            if not (key.startswith(pattern.prefix) and key.endswith(pattern.suffix)):
                continue
            groups = pattern.regex.groups(key)
            if groups is not None:
                binding = tuple((name, groups[name.replace("-", "_")]) for name, _ in pattern.owner.binding)
                owners.append(Owner(pattern.owner.vendor, pattern.owner.key_name, binding))
        return tuple(owners)


def index(vendors: Iterable[Vendor], place: KeyPlace) -> Names:
    """The names of all keys in one place. A resource name has one owner: see `check_owners`."""
    exact: dict[str, dict[Owner, None]] = {}
    patterns: list[_Pattern] = []
    for vendor, key in [(each, key) for each in vendors for key in each.keys.values() if key.place == place]:
        for template in key.templates:
            for name, binding in template.names(vendor.variables):
                exact.setdefault(name, {})[Owner(vendor.name, key.name, binding)] = None
            regex = template.pattern(vendor.variables)
            if regex is not None:
                unbound = Owner(vendor.name, key.name, tuple((name, "") for name in template.variables))
                before, after = template.text.partition("{")[0], template.text.rpartition("}")[2]
                patterns.append(_Pattern(before, after, expression(regex), unbound))
    return Names({name: tuple(owners) for name, owners in exact.items()}, tuple(patterns))


def check_owners(names: Names, place: KeyPlace, vendors: Mapping[str, Vendor], problems: Problems) -> None:
    """Report names that more than one vendor in force would own, once for each document that is not built in.

    Only names that can be listed; patterns may overlap: see `Names.owners`. An annotation has one owner if it holds memory or
    cores; counts may be shared.
    """
    what = "resource name" if place == "resource" else place
    for key, owners in names.exact.items():
        keys = [(owner.vendor, vendors[owner.vendor].keys[owner.key_name]) for owner in reversed(owners)]
        key_names = {name: each.name for name, each in keys if place == "resource" or {*each.dimensions} - {"devices"}}
        if len(key_names) <= 1:
            continue
        message = f"{what} {key} is owned by more than one vendor: {', '.join(sorted(key_names))}"
        hint = f"choose one in the settings: `owners: {{{key}: {min(key_names)}}}`, or make one of them `inactive`"
        for vendor, key_name in sorted(key_names.items()):
            if vendors[vendor].source != BUILT_IN:
                problems.of(vendors[vendor].source).add(("keys", key_name, place), message, hint)


MAX_KNOWN: Final = 4096  # keys of pods whose answer is stored; the labels of one cluster's pods have some hundred


class ReadKeys(dict[str, bool | NearMiss]):
    """The labels, annotations and node selector keys that any step of a decision may read, write or report.

    The steps see no other keys of a pod (`webhook.admission.decision`), and `require` keeps them from writing others. A key of
    one place counts in all of them, and a variable part stands for any text. An item is whether a key matters, or what it was
    probably meant to be: the answers for keys of earlier pods are stored.
    """

    __slots__ = ("_marks", "_near", "_read")

    def __init__(self, read: NameSet, marks: NameSet, near: Nearness) -> None:
        """Take what requests are read from and written to, marks, hints and guarded keys, and what is nearly a key."""
        super().__init__()
        self._read = read
        self._marks = marks
        self._near = near

    def __missing__(self, key: str) -> bool | NearMiss:
        """Answer for a key."""
        if len(key) > MAX_KEY:  # the API server stores none so long, and searching it takes time
            return True
        matters: bool | NearMiss = key.startswith(PREFIX) or key in self._read or key in self._marks.exact
        # A mark such as `system.example/*` says nothing about a key of that system, misspelled.
        matters = matters or self._near.find_in_metadata(key) or key in self._marks
        if len(self) >= MAX_KNOWN:
            self.clear()
        self[key] = matters
        return matters

    def among(self, texts: Mapping[str, str] | None) -> dict[str, str] | None:
        """Return the entries that can matter, in their order; None for None."""
        return None if texts is None else {key: text for key, text in texts.items() if self[key]}

    def near_misses(self, texts: Iterable[str]) -> list[tuple[str, NearMiss]]:
        """Return the keys that are only nearly known, with those that were probably meant."""
        return [(key, near) for key in texts if (near := self[key]) is not True and near is not False]

    def require(self, keys: Iterable[str]) -> None:
        """Check keys that a step writes.

        Raises:
            LookupError: one is missing here, so that a user's value of it was hidden from the step.
        """
        for key in keys:
            if not self[key]:
                raise LookupError(f"{key} is written, but not among the keys that decisions read")


def read_keys(vendors: Iterable[Vendor], others: Iterable[str], near: Nearness) -> ReadKeys:
    """Return the keys that matter with these vendors, active or not. The settings name `others`."""
    vendors = list(vendors)
    # Resource names, too: one as a label is reported.
    read = {template.glob for vendor in vendors for key in vendor.keys.values() for template in key.templates}
    placed = (name for vendor in vendors for written in vendor.place.written.values() for name in written)
    marks = {Template(key).glob for vendor in vendors for key in _further(vendor)}
    return ReadKeys(NameSet.of({*read, *placed, *others}), NameSet.of(marks), near)


def _further(vendor: Vendor) -> Iterator[str]:
    """Yield the keys that schedulers write, hints for these, guarded keys, and reported ones of other systems."""
    yield from (*vendor.marks, *vendor.all_hints)
    yield from (name.partition("=")[0] for name in (*vendor.owned.belongs.exact, *vendor.owned.belongs.globs))
    yield from (entry.name for entry in advised_names(vendor) if entry.report and entry.place != "resource")
    yield from (vendor.config_maps,) if vendor.config_maps is not None else ()
    for rule in vendor.guard.rules:
        yield from rule.names if rule.place in {"annotation", "label"} else ()
