"""Names → vendors: which vendor owns a resource name, which reads a label or an annotation, and what is nearly such a name.

Looking up an exact name is a dictionary access, so its cost does not grow with the number of vendors. Names with pattern
variables are matched only where a name begins like one of the patterns.

A near miss is a name that no vendor knows, but that resembles a key closely: without a report such a name is ignored, and the
pod stays Pending, or gets a whole device. Known names of other systems are never misspelled keys, and some have advice for
those who write them.
"""

import difflib
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from importlib import resources
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from webhook.labels import PREFIX
from webhook.mapping.document import Problems, parse
from webhook.mapping.model.keys import CONTAINER, Binding, KeyPlace, Template, of_pattern
from webhook.mapping.model.vendor import BUILT_IN, KnownPlace, Vendor
from webhook.mapping.notation import MAX_KEY, Expression, NameSet, expression
from webhook.pod import DEVICE_CLASS
from webhook.request import Dimension


class Owner(Struct, frozen=True):
    """The vendor that reads a name, and as which of its keys."""

    vendor: str
    key_name: str
    binding: Binding = ()

    @property
    def container(self) -> str | None:
        """The container that the key names, or None."""
        return dict(self.binding).get(CONTAINER)


class _Pattern(Struct, frozen=True):
    prefix: str
    suffix: str
    regex: Expression
    owner: Owner


class Names(Struct, frozen=True, dict=True):
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


DEVICES: Final = "devices.yaml"

SURE_FROM: Final = 6
"""Length of a key from which a near miss is denied; a shorter one only if the difference is one letter."""

DOMAIN_FROM: Final = 8
"""Length of a domain from which a similar one counts as misspelled: shorter domains of other companies are as similar."""

MAX_DISTANCE: Final = 2
MAX_LONGER: Final = 3  # the greatest difference between a name and a key: edits, or letters appended to the key

WORDS: Final[Mapping[Dimension, re.Pattern[str]]] = {
    "memory": re.compile("mem|vram"),
    "cores": re.compile("core"),
    "devices": re.compile("count|num(?!a)"),
}
"""What names of keys for a dimension contain, in lower case, whoever chose them."""

MAX_SIMILAR: Final = 3  # the most names of other domains that a message offers
MAX_LISTED: Final = 8  # the number of values of a variable that a message lists


_NUMBERS: Final = re.compile("([0-9]+)")


class NearMiss(Struct, frozen=True):
    """The key that a name was probably meant to be; none of its `choices` is a correction: it would request other hardware."""

    meant: str  # the key; with `choices`, including its variable (`x.example/{chip}-memory`)
    sure: bool  # certain enough to deny the name
    choices: tuple[str, ...] = ()  # the values of the variable, where the name has something else in its place
    lacks: str = ""  # instead of a key, why there is none: a vendor and the dimension for which it has no resource

    def beside(self, name: str) -> "NearMiss":
        """Return it for a name: the likeliest choices come first, and one that differs in signs only is meant."""
        before, after = _around(self.meant)
        letters = _letters(name)
        same = next((each for each in self.choices if _letters(f"{before}{each}{after}") == letters), None)
        if same is not None:
            return NearMiss(f"{before}{same}{after}", self.sure)
        part = name.removeprefix(before).removesuffix(after)

        def unlikeness(each: str) -> float:
            return -difflib.SequenceMatcher(None, each, part[: len(each) + MAX_LONGER], autojunk=False).ratio()

        return replace(self, choices=tuple(sorted(self.choices, key=unlikeness)))

    @property
    def suggestion(self) -> str:
        """The end of a message about the name."""
        if self.lacks:
            return f"{self.lacks}: remove it"
        if not self.choices:
            return f"did you mean {self.meant}?"
        more = f" … ({len(self.choices)} in all)" if self.choices[MAX_LISTED:] else ""
        return f"known are {self.meant}, with {', '.join(self.choices[:MAX_LISTED])}{more}"


class _LocalName(Struct, frozen=True):
    """A key without its domain; with a variable also its value, its template and all its values."""

    local: str
    value: str = ""
    template: Template | None = None
    choices: tuple[str, ...] = ()

    def value_in(self, name: str) -> bool:
        """Return whether the name, too, contains the value of the variable, as a part of its own."""
        if self.template is None:
            return True
        before, after = _around(self.template.text)
        left = "" if before[-1:].isalnum() else "(?<![0-9A-Za-z])"
        right = "" if after[:1].isalnum() else "(?![0-9A-Za-z])"
        return re.search(f"{left}{re.escape(self.value)}{right}", name) is not None


class _Amounts:
    """The resource names of a vendor, and by dimension those that an author may have meant."""

    def __init__(self, vendor: Vendor) -> None:
        keys = [key for key in vendor.keys.values() if key.place == "resource"]
        self.names = frozenset(template.text for key in keys for template in key.spellings)
        self.domains = frozenset(name.rpartition("/")[0].lower() for name in self.names)
        # Those for which the vendor has any key, in whatever place.
        self.dimensions = frozenset(filter(vendor.by_dimension.get, vendor.by_dimension))
        # By dimension, and whether it is a size or count rather than a percentage, the first name; one with a variable would
        # request certain hardware.
        self.first: dict[tuple[Dimension, bool], str] = {}
        for key in keys:
            if (len(key.dimensions), key.retired, key.spellings[0].variables) == (1, None, ()):
                kind = (key.dimensions[0], key.sized or key.dimensions != ("memory",))
                self.first.setdefault(kind, key.spellings[0].text)


class _Keys:
    """Keys by their domains, without these; and the domains of each."""

    def __init__(self, names: Iterable[tuple[str, _LocalName]]) -> None:
        keys: dict[str, dict[str, _LocalName]] = {}
        for domain, local in names:
            keys.setdefault(domain, {}).setdefault(local.local, local)
        self.below = {domain: dict(sorted(below.items())) for domain, below in sorted(keys.items())}
        self._domains: dict[str, list[str]] = {}
        for domain, below in self.below.items():
            for name in below if len(domain) >= DOMAIN_FROM else ():
                self._domains.setdefault(name, []).append(domain)

    def in_similar_domain(self, name: str) -> NearMiss | None:
        """Return the key whose domain the name misspells; compare only names that are keys after their slash."""
        domain, _, local = name.rpartition("/")
        domains = self._domains.get(local, ())
        away, meant = min(((distance(domain, each, MAX_DISTANCE), each) for each in domains), default=(0, ""))
        return NearMiss(f"{meant}/{local}", away == 1) if meant and away <= MAX_DISTANCE else None


class Nearness:
    """What vendors, including inactive ones, read, and what they leave alone."""

    def __init__(self, vendors: Sequence[Vendor]) -> None:
        self._prefixes = tuple(sorted({prefix for vendor in vendors for prefix in vendor.lets_through.prefixes}))
        self._resources = _Keys(name for vendor in vendors for name in _local_names(vendor, "resource"))
        self._metadata = _Keys(name for vendor in vendors for name in _local_names(vendor, "label", "annotation"))
        self._hints, self._hint_patterns = _hints_of(vendors)
        # Resource names of other systems.
        self.known = _of_others(vendors, "resource")
        self._told = _of_others(vendors, "label", "annotation")
        self._amounts = {vendor.name: _Amounts(vendor) for vendor in vendors}
        self._possible = [*itertools.chain.from_iterable(map(_possible, vendors))]

    def find(self, name: str, beside: Iterable[str] = ()) -> NearMiss | None:
        """Return the key that an unknown resource name resembles, or None.

        Of the vendors `beside` it a key is meant rather than of others, and any name below their domains that contains the
        word for a dimension means that.
        """
        if name in self.known:
            return None
        for pattern, added in self._possible if name.startswith(self._prefixes) else ():
            if pattern.matches(name):
                return added.beside(name)
        found = self._resembled(name)
        if found is not None and found.choices:
            return found.beside(name)
        return self._of_vendors(name, beside, found) or found

    def _of_vendors(self, name: str, vendors: Iterable[str], found: NearMiss | None) -> NearMiss | None:
        """Return the key of the vendors beside a name that is meant rather than what it resembles."""
        for vendor in vendors:
            amounts = self._amounts.get(vendor)
            if amounts is None or (found is not None and found.meant in amounts.names):
                return None
            meant = self._of_dimension(name, vendor, amounts, sure=found is not None and found.sure)
            if meant is not None and not (meant.lacks and found):
                return meant
        return None

    def find_in_metadata(self, name: str) -> NearMiss | None:
        """Return the label or annotation that an unknown one resembles, or None; one without a domain is never certain."""
        if name in self._told:
            return None
        domain, _, local = name.rpartition("/")
        keys = self._metadata.below.get(domain)
        if keys is None:
            return self._metadata.in_similar_domain(name) or self._hint(domain, local)
        if local in keys:
            return None
        meant = _nearest(local, _long(keys), keys)
        if meant is None:
            return self._hint(domain, local)
        sure = local.startswith(meant.local) or distance(local, meant.local, 1) == 1
        return NearMiss(f"{domain}/{meant.local}" if domain else meant.local, sure and domain != "")

    def knows(self, name: str) -> bool:
        """Whether a resource name is a key of some vendor, active or not, or a known name of another system."""
        domain, _, local = name.rpartition("/")
        return name in self.known or local in self._resources.below.get(domain, ())

    def vaguely(self, name: str, target: str | None) -> tuple[str, ...]:
        """Return the names that an unknown resource may stand for: of its domain, else with its ending, the target's first."""
        domain, _, local = name.rpartition("/")
        below = self._resources.below
        longer = [f"{domain}/{key}" for key in below.get(domain, ()) if re.match(rf"{re.escape(local)}[.-]", key)]
        if longer:
            return tuple(longer)
        vendors = sorted(self._amounts, key=lambda vendor: vendor != target)
        near = (self._of_dimension(name, vendor, self._amounts[vendor], sure=False) for vendor in vendors)
        meant = next((each.meant for each in near if each is not None and each.meant), None)
        if meant is not None:
            return (meant,)
        return self._with_ending(local, target)

    def _with_ending(self, local: str, target: str | None) -> tuple[str, ...]:
        """Return the names in any domain that end so, the target's first."""
        own = self._amounts[target].names if target in self._amounts else frozenset()
        ending = [f"{each}/{local}" for each, names in self._resources.below.items() if local in names]
        return tuple(sorted(ending, key=lambda key: key not in own))

    def _hint(self, domain: str, local: str) -> NearMiss | None:
        """Return the hint that an annotation resembles, or what is called so in another domain; never certain."""
        if f"{domain}/{local}" in self._hint_patterns:
            return None
        keys = self._hints.below.get(domain)
        meant = None if not domain or keys is None or local in keys else _nearest(local, _long(keys), keys)
        if meant is not None:
            return NearMiss(f"{domain}/{meant.local}", sure=False)
        if not domain or (keys is None and not f"{domain}/".startswith(self._prefixes)):
            return None
        below = (*self._hints.below.items(), *self._metadata.below.items())
        others = sorted({f"{other}/{local}" if other else local for other, names in below if local in names})
        return NearMiss(" or ".join(others[:MAX_SIMILAR]), sure=False) if others else None

    def _of_dimension(self, name: str, vendor: str, amounts: _Amounts, *, sure: bool) -> NearMiss | None:
        """Return the key of a vendor for the dimension whose word a name contains, or that it has none."""
        domain, _, local = name.lower().rpartition("/")
        dimension = next((each for each, word in WORDS.items() if word.search(local)), None)
        if dimension is None or domain not in amounts.domains or not name.startswith(self._prefixes):
            return None
        found = (amounts.first.get((dimension, sized is not ("percent" in local))) for sized in (True, False))
        meant = next(filter(None, found), "")
        if meant or dimension in amounts.dimensions:
            return NearMiss(meant, sure) if meant else None
        return NearMiss("", sure, lacks=f"{vendor} has no key for {dimension}")

    def _resembled(self, name: str) -> NearMiss | None:
        """Return the key, of any vendor, that differs from a name in a few letters."""
        if not name.startswith(self._prefixes):
            return self._resources.in_similar_domain(name)
        domain, _, local = name.rpartition("/")
        keys = self._resources.below.get(domain, {})
        if local in keys:  # of an inactive vendor that is in no dispute
            return None
        for key in keys:
            if key.lower() == local.lower():
                return NearMiss(f"{domain}/{key}", sure=True)
        # A name more probably means a long key than a short one that it begins with, and the same hardware than another.
        long = _long(keys)
        short = [key for key in keys if key not in long]
        for keeps, names in itertools.product((True, False), (long, short)):
            meant = _nearest(local, names, keys, keeps=keeps)
            if meant is not None and (keeps or meant.template is None):
                return NearMiss(f"{domain}/{meant.local}", names is long or distance(local, meant.local, 1) == 1)
            if meant is not None and meant.template is not None:
                return NearMiss(meant.template.text, names is long, meant.choices)
        return None


def _of_others(vendors: Iterable[Vendor], *places: KnownPlace) -> NameSet:
    return NameSet.of(entry.name for vendor in vendors for entry in vendor.names_of_others(*places))


def _hints_of(vendors: Iterable[Vendor]) -> tuple[_Keys, NameSet]:
    """Return the hints that can be listed, and patterns of the others."""
    hints = [Template(hint).glob for vendor in vendors for hint in vendor.all_hints]
    listed = [hint.rpartition("/") for hint in hints if "*" not in hint]
    patterns = NameSet.of(hint for hint in hints if "*" in hint)
    return _Keys((domain, _LocalName(local)) for domain, _, local in listed), patterns


def _around(text: str) -> tuple[str, str]:
    """What is before and after the variable of a name."""
    before, _, rest = text.partition("{")
    return before, rest.partition("}")[2]


def _letters(name: str) -> str:
    """A name without what is easily left out: upper case, signs between letters and digits, and the bytes of `10gb`."""
    return re.sub("[^a-z0-9/]|(?<=[0-9]g)i?b", "", name.lower())


def nearest_first(name: str, names: Iterable[str]) -> list[str]:
    """Sort names by their likeness to one: by their numbers, from the first, and if these are as near, by what is between."""
    numbers, between = _parts(name)

    def away(other: str) -> tuple[list[int], bool]:
        other_numbers, other_between = _parts(other)
        return [abs(one - two) for one, two in zip(numbers, other_numbers, strict=False)], between != other_between

    return sorted(names, key=away)


def _parts(name: str) -> tuple[list[int], list[str]]:
    """The numbers in a name, and what is around them."""
    parts = _NUMBERS.split(name)
    return [*map(int, parts[1::2])], parts[::2]


_WORDS_OF_DEVICES: Final[Mapping[str, Sequence[str]]] = parse(
    (resources.files("webhook.mapping") / DEVICES).read_text(), DEVICES
)[0].data
"""By which parts names look like devices': read before there is a loop that would wait for the file."""


def looks_like_device(name: str) -> bool:
    """Whether a resource name is one of devices that are shared, as far as its words say."""
    words, parts = _WORDS_OF_DEVICES, set(re.split("[^a-z]+", name.lower()))
    if name in words["whole"] or (name.rpartition("/")[2] in words["alone"] and name.islower()):
        return False
    if not parts.isdisjoint(words["other"]) or name.startswith(DEVICE_CLASS):
        return False
    return not parts.isdisjoint(words["words"]) or any(word in name.lower() for word in words["anywhere"])


def _long(keys: Iterable[str]) -> list[str]:
    """The keys that are long enough to be misspelled."""
    return [key for key in keys if len(key) >= SURE_FROM]


def _nearest(
    name: str, candidates: Sequence[str], known: Mapping[str, _LocalName], *, keeps: bool = True
) -> _LocalName | None:
    """Return the longest key that the name begins with, else the nearest one; None if all are too far."""
    prefixes = [local for local in candidates if name.startswith(local) and 0 < len(name) - len(local) <= MAX_LONGER]
    # Of prefixes of one name the greatest is the longest.
    for local in itertools.chain(sorted(prefixes, reverse=True), _similar(name, candidates)):
        if known[local].value_in(name) is keeps:
            return known[local]
    return None


def _similar(name: str, candidates: Sequence[str]) -> Iterator[str]:
    """Yield the names that differ in few letters, the nearest first."""
    letters = set(name)
    # A step of the distance changes at most two letters: few names are left to be compared in full.
    similar = [local for local in candidates if abs(len(name) - len(local)) <= MAX_DISTANCE]
    similar = [local for local in similar if len(letters.symmetric_difference(local)) <= 2 * MAX_DISTANCE]
    near = sorted((distance(name, local, MAX_DISTANCE), local) for local in similar)
    yield from (local for away, local in near if away <= MAX_DISTANCE)


def _possible(vendor: Vendor) -> Iterator[tuple[Expression, NearMiss]]:
    """Yield the patterns of names that a configuration of a vendor's system may add, with the known ones of their kind."""
    variables = {
        name: of_pattern(variable.possible)
        for name, variable in vendor.variables.items()
        if variable.possible is not None
    }
    for key in vendor.keys.values() if variables else ():
        for template in key.spellings if key.place == "resource" else ():
            pattern = template.pattern(variables) if variables.keys() >= set(template.variables) else None
            if pattern is not None:
                choices = dict.fromkeys(binding[0][1] for _, binding in template.names(vendor.variables))
                yield expression(pattern), NearMiss(template.text, sure=False, choices=tuple(choices))


def _local_names(vendor: Vendor, *places: KeyPlace) -> Iterator[tuple[str, _LocalName]]:
    """The names of a vendor's keys that can be listed, by domain; with several variables they are bound to none."""
    for template in (each for key in vendor.keys.values() if key.place in places for each in key.spellings):
        names = list(template.names(vendor.variables))
        single = len(template.variables) == 1
        choices = tuple(dict.fromkeys(binding[0][1] for _, binding in names)) if single else ()
        for name, binding in names:
            domain, _, local = name.rpartition("/")
            yield domain, _LocalName(local, binding[0][1], template, choices) if single else _LocalName(local)


def distance(left: str, right: str, most: int) -> int:
    """Damerau-Levenshtein distance (optimal string alignment): insertions, deletions, substitutions, swaps of neighbors.

    Counting stops one above `most`: a pod may have many names that resemble nothing.
    """
    before: list[int] = []
    last = list(range(len(right) + 1))
    for i, letter in enumerate(left, start=1):
        row = [i]
        for j, other in enumerate(right, start=1):
            cost = min(row[j - 1] + 1, last[j] + 1, last[j - 1] + (letter != other))
            if i > 1 and j > 1 and letter == right[j - 2] and left[i - 2] == other:
                cost = min(cost, before[j - 2] + 1)
            row.append(cost)
        before, last = last, row
        # A swap reaches back two rows.
        if min(last) > most <= min(before):
            return most + 1
    return min(last[-1], most + 1)


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
        return None if texts is None else {key: texts[key] for key in texts if self[key]}

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
    yield from (entry.name for entry in vendor.names_of_others("label", "annotation") if entry.report)
    yield from (vendor.config_maps,) if vendor.config_maps is not None else ()
    for rule in vendor.guard.rules:
        yield from rule.names if rule.place in {"annotation", "label"} else ()
