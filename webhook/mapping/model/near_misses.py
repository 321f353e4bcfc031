"""Near misses: resource names, labels and annotations that no vendor knows, but that resemble a key closely.

Without a report such a name is ignored: the pod stays Pending, or gets a whole device.

Known names of other systems are never misspelled keys, and some have advice for those who write them.
"""

import difflib
import itertools
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from typing import Final

from webhook.mapping.document.strict_yaml import parse
from webhook.mapping.model.keys import KeyPlace, Template, Variable
from webhook.mapping.model.match_names import advised_names, known_resources
from webhook.mapping.model.vendor import Vendor
from webhook.mapping.notation import Expression, NameSet, expression
from webhook.pod import DEVICE_CLASS
from webhook.request import Dimension

DEVICES: Final = "devices.yaml"

SURE_FROM: Final = 6
"""Length of a key from which a near miss is denied; a shorter one only if the difference is one letter."""

DOMAIN_FROM: Final = 8
"""Length of a domain from which a similar one counts as misspelled: shorter domains of other companies are as similar."""

MAX_DISTANCE: Final = 2
MAX_LONGER: Final = 3
"""The greatest difference between a name and a key: edits, or letters appended to the key."""

WORDS: Final[Mapping[Dimension, re.Pattern[str]]] = {
    "memory": re.compile("mem|vram"),
    "cores": re.compile("core"),
    "devices": re.compile("count|num(?!a)"),
}
"""What names of keys for a dimension contain, in lower case, whoever chose them."""

PERCENT: Final = "percent"

RESOURCE: Final[tuple[KeyPlace, ...]] = ("resource",)
METADATA: Final[tuple[KeyPlace, ...]] = ("label", "annotation")

MAX_SIMILAR: Final = 3
"""The most names of other domains that a message offers."""

MAX_LISTED: Final = 8
"""The number of values of a variable that a message lists."""


@dataclass(frozen=True, slots=True)
class NearMiss:
    """The key that a name was probably meant to be.

    Attributes:
        meant: the key; with `choices`, including its variable (``x.example/{chip}-memory``).
        sure: certain enough to deny the name.
        choices: the values of the variable, where the name has something else in its place. None of them is a
            correction: it would request other hardware.
        lacks: instead of a key, why there is none: a vendor and the dimension for which it has no resource.
    """

    meant: str
    sure: bool
    choices: tuple[str, ...] = ()
    lacks: str = ""

    def beside(self, name: str) -> "NearMiss":
        """Return it for a name: the likeliest choices come first, and one that differs in signs only is meant."""
        before, _, rest = self.meant.partition("{")
        after = rest.partition("}")[2]
        letters = _letters(name)
        same = next((each for each in self.choices if _letters(f"{before}{each}{after}") == letters), None)
        if same is not None:
            return NearMiss(f"{before}{same}{after}", self.sure)
        part = name.removeprefix(before).removesuffix(after)
        return replace(self, choices=tuple(sorted(self.choices, key=lambda each: -_likeness(each, part))))

    @property
    def suggestion(self) -> str:
        """The end of a message about the name."""
        if self.lacks:
            return f"{self.lacks}: remove it"
        if not self.choices:
            return f"did you mean {self.meant}?"
        more = f" … ({len(self.choices)} in all)" if self.choices[MAX_LISTED:] else ""
        return f"known are {self.meant}, with {', '.join(self.choices[:MAX_LISTED])}{more}"


@dataclass(frozen=True, slots=True)
class _LocalName:
    """A key without its domain; with a variable also its value, its template and all its values."""

    local: str
    value: str = ""
    template: Template | None = None
    choices: tuple[str, ...] = ()

    def value_in(self, name: str) -> bool:
        """Return whether the name, too, contains the value of the variable, as a part of its own."""
        if self.template is None:
            return True
        before, _, rest = self.template.text.partition("{")
        after = rest.partition("}")[2]
        left = "" if before[-1:].isalnum() else "(?<![0-9A-Za-z])"
        right = "" if after[:1].isalnum() else "(?![0-9A-Za-z])"
        return re.search(f"{left}{re.escape(self.value)}{right}", name) is not None


@dataclass(frozen=True, slots=True)
class _Amounts:
    """The resource names of a vendor, and by dimension those that an author may have meant.

    Attributes:
        names: all of them.
        domains: their domains.
        sizes, percentages: by dimension the first name that counts it in sizes or devices, or in percent; names with a
            variable are left out, because they would request certain hardware.
        dimensions: those for which the vendor has any key, in whatever place.
    """

    names: frozenset[str]
    domains: frozenset[str]
    sizes: Mapping[Dimension, str]
    percentages: Mapping[Dimension, str]
    dimensions: frozenset[Dimension]


@dataclass(frozen=True, slots=True)
class _Keys:
    """Keys by their domains, without these; and the domains of each."""

    below: Mapping[str, Mapping[str, _LocalName]]
    domains: Mapping[str, tuple[str, ...]]

    def in_similar_domain(self, name: str) -> NearMiss | None:
        """Return the key whose domain the name misspells; compare only names that are keys after their slash."""
        domain, _, local = name.rpartition("/")
        away, meant = min(
            ((distance(domain, each, MAX_DISTANCE), each) for each in self.domains.get(local, ())), default=(0, "")
        )
        return NearMiss(f"{meant}/{local}", away == 1) if meant and away <= MAX_DISTANCE else None


@dataclass(frozen=True, slots=True)
class Nearness:
    """What vendors read, and what they leave alone.

    Attributes:
        prefixes: those of all vendors' resource names.
        resources: the resource names.
        metadata: the labels and annotations.
        hints: the annotations that only schedulers read, and `hint_patterns`, those that cannot be listed.
        known: resource names of other systems.
        told: labels and annotations of other systems.
        amounts: by vendor.
        possible: resource names that a configuration of their system may add, with the known ones of their kind.
    """

    prefixes: tuple[str, ...]
    resources: _Keys
    metadata: _Keys
    hints: _Keys
    hint_patterns: NameSet
    known: NameSet
    told: NameSet
    amounts: Mapping[str, _Amounts]
    possible: tuple[tuple[Expression, NearMiss], ...]

    def find(self, name: str, beside: Iterable[str] = ()) -> NearMiss | None:
        """Return the key that an unknown resource name resembles, or None.

        Args:
            name: the name.
            beside: the vendors of the keys beside it: one of their keys is meant rather than one of another vendor, and any
                name below their domains that contains the word for a dimension means that.
        """
        if name in self.known:
            return None
        for pattern, added in self.possible if name.startswith(self.prefixes) else ():
            if pattern.matches(name):
                return added.beside(name)
        found = self._resembled(name)
        if found is not None and found.choices:
            return found.beside(name)
        for vendor in beside:
            amounts = self.amounts.get(vendor)
            if amounts is None or (found is not None and found.meant in amounts.names):
                break
            meant = self._of_dimension(name, vendor, amounts, sure=found is not None and found.sure)
            if meant is not None and not (meant.lacks and found):
                return meant
        return found

    def find_in_metadata(self, name: str) -> NearMiss | None:
        """Return the label or annotation that an unknown one resembles, or None; one without a domain is never certain."""
        if name in self.told:
            return None
        domain, _, local = name.rpartition("/")
        keys = self.metadata.below.get(domain)
        if keys is None:
            return self.metadata.in_similar_domain(name) or self._hint(domain, local)
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
        return name in self.known or local in self.resources.below.get(domain, ())

    def vaguely(self, name: str, target: str | None) -> tuple[str, ...]:
        """Return the names that an unknown resource may stand for: of its domain, else with its ending, the target's first."""
        domain, _, local = name.rpartition("/")
        vendors = sorted(self.amounts, key=lambda vendor: vendor != target)
        longer = [key for key in self.resources.below.get(domain, ()) if re.match(rf"{re.escape(local)}[.-]", key)]
        if longer:
            return tuple(f"{domain}/{key}" for key in longer)
        alike = (self._of_dimension(name, vendor, self.amounts[vendor], sure=False) for vendor in vendors)
        meant = next((near.meant for near in alike if near is not None and near.meant), None)
        if meant is not None:
            return (meant,)
        ending = [f"{each}/{local}" for each, below in sorted(self.resources.below.items()) if local in below]
        own = self.amounts[target].names if target is not None and target in self.amounts else frozenset()
        return tuple(sorted(ending, key=lambda key: key not in own))

    def _hint(self, domain: str, local: str) -> NearMiss | None:
        """Return the hint that an annotation resembles, or what is called so in another domain; never certain."""
        if f"{domain}/{local}" in self.hint_patterns:
            return None
        keys = self.hints.below.get(domain)
        meant = None if not domain or keys is None or local in keys else _nearest(local, _long(keys), keys)
        if meant is not None:
            return NearMiss(f"{domain}/{meant.local}", sure=False)
        if domain not in self.hints.below and not f"{domain}/".startswith(self.prefixes):
            return None
        below = (*self.hints.below.items(), *self.metadata.below.items())
        others = sorted({f"{other}/{local}" if other else local for other, names in below if local in names})
        return NearMiss(" or ".join(others[:MAX_SIMILAR]), sure=False) if domain and others else None

    def _of_dimension(self, name: str, vendor: str, amounts: _Amounts, *, sure: bool) -> NearMiss | None:
        """Return the key of a vendor for the dimension whose word a name contains, or that it has none."""
        domain, _, local = name.lower().rpartition("/")
        if domain not in amounts.domains or not name.startswith(self.prefixes):
            return None
        dimension = next((each for each, word in WORDS.items() if word.search(local)), None)
        if dimension is None:
            return None
        first, second = amounts.sizes.get(dimension), amounts.percentages.get(dimension)
        if PERCENT in local:
            first, second = second, first
        if first or second:
            return NearMiss(first or second or "", sure)
        if dimension in amounts.dimensions:
            return None
        return NearMiss("", sure, lacks=f"{vendor} has no key for {dimension}")

    def _resembled(self, name: str) -> NearMiss | None:
        """Return the key, of any vendor, that differs from a name in a few letters."""
        if not name.startswith(self.prefixes):
            return self.resources.in_similar_domain(name)
        domain, _, local = name.rpartition("/")
        keys = self.resources.below.get(domain, {})
        if local in keys:  # of an inactive vendor that is in no dispute
            return None
        # A name more probably means a long key than a short one that it begins with, and the same hardware than another.
        for keeps in (True, False):
            for sure in (True, False):
                meant = _nearest(local, [key for key in keys if (len(key) >= SURE_FROM) is sure], keys, keeps=keeps)
                if meant is not None:
                    template = None if keeps else meant.template
                    one_letter = template is None and distance(local, meant.local, 1) == 1
                    return NearMiss(
                        f"{domain}/{meant.local}" if template is None else template.text,
                        sure or one_letter,
                        () if template is None else meant.choices,
                    )
        return None


def _letters(name: str) -> str:
    """A name without what is easily left out: upper case, and signs between letters and digits."""
    return re.sub(r"[^a-z0-9/]", "", name.lower())


def _likeness(choice: str, part: str) -> float:
    return difflib.SequenceMatcher(None, choice, part[: len(choice) + MAX_LONGER], autojunk=False).ratio()


def _devices() -> Mapping[str, Sequence[str]]:
    """Read by which parts names look like devices'."""
    (document,) = parse((resources.files("webhook.mapping") / DEVICES).read_text(), DEVICES)
    words: Mapping[str, Sequence[str]] = document.data
    return words


_WORDS_OF_DEVICES: Final = _devices()
"""Read before there is a loop that would wait for the file."""


def looks_like_device(name: str) -> bool:
    """Whether a resource name is one of devices that are shared, as far as its words say."""
    words, parts = _WORDS_OF_DEVICES, set(re.split("[^a-z]+", name.lower()))
    if name in words["whole"] or not parts.isdisjoint(words["other"]) or name.startswith(DEVICE_CLASS):
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
    prefixes = [local for local in prefixes if known[local].value_in(name) is keeps]
    if prefixes:
        return known[max(prefixes)]  # of prefixes of one name the longest
    letters = set(name)
    # A step of the distance changes at most two letters: few names are left to be compared in full.
    similar = [
        local
        for local in candidates
        if abs(len(name) - len(local)) <= MAX_DISTANCE and len(letters.symmetric_difference(local)) <= 2 * MAX_DISTANCE
    ]
    near = [(away, local) for local in similar if (away := distance(name, local, MAX_DISTANCE)) <= MAX_DISTANCE]
    near = [(away, local) for away, local in near if known[local].value_in(name) is keeps]
    return known[min(near)[1]] if near else None


def nearness(vendors: Sequence[Vendor]) -> Nearness:
    """Collect the keys of these vendors, including inactive ones, to find near misses of them."""
    prefixes: set[str] = set()
    known: set[str] = set()
    told: set[str] = set()
    hints = [re.sub(r"\{[^{}]*\}", "*", hint) for vendor in vendors for hint in vendor.document.all_hints]
    for vendor in vendors:
        known.update(known_resources(vendor.document))
        told.update(entry.name for entry in advised_names(vendor.document) if entry.place != "resource")
        prefixes.update(
            vendor.document.match.resources or [f"{domain}/" for domain, _ in _local_names(vendor, RESOURCE)]
        )
    return Nearness(
        tuple(sorted(prefixes)),
        _keys(name for vendor in vendors for name in _local_names(vendor, RESOURCE)),
        _keys(name for vendor in vendors for name in _local_names(vendor, METADATA)),
        _keys(name for vendor in vendors for name in _local_hints(vendor)),
        NameSet.of(hint for hint in hints if "*" in hint),
        NameSet.of(known),
        NameSet.of(told),
        {vendor.name: _amounts(vendor) for vendor in vendors},
        tuple(itertools.chain.from_iterable(map(_possible, vendors))),
    )


def _possible(vendor: Vendor) -> Iterator[tuple[Expression, NearMiss]]:
    """Yield the patterns of names that a configuration of a vendor's system may add."""
    variables = {
        name: Variable(values=variable.possible)
        for name, variable in vendor.document.variables.items()
        if variable.possible is not None
    }
    for key in vendor.keys.values() if variables else ():
        for template in key.spellings if key.place == "resource" else ():
            pattern = template.pattern(variables) if variables.keys() >= set(template.variables) else None
            if pattern is not None:
                choices = dict.fromkeys(binding[0][1] for _, binding in template.names(vendor.document.variables))
                yield expression(pattern), NearMiss(template.text, sure=False, choices=tuple(choices))


def _keys(names: Iterable[tuple[str, _LocalName]]) -> _Keys:
    """Index names, given with their domains."""
    keys: dict[str, dict[str, _LocalName]] = {}
    for domain, local in names:
        keys.setdefault(domain, {}).setdefault(local.local, local)
    domains: dict[str, list[str]] = {}
    for domain, below in sorted(keys.items()):
        for name in below if len(domain) >= DOMAIN_FROM else ():
            domains.setdefault(name, []).append(domain)
    return _Keys(
        {domain: dict(sorted(below.items())) for domain, below in keys.items()},
        {name: tuple(each) for name, each in domains.items()},
    )


def _amounts(vendor: Vendor) -> _Amounts:
    keys = [key for key in vendor.keys.values() if key.place == "resource"]
    names = [template.text for key in keys for template in key.spellings]
    sizes: dict[Dimension, str] = {}
    percentages: dict[Dimension, str] = {}
    for key in keys:
        if len(key.dimensions) != 1 or key.retired is not None or key.spellings[0].variables:
            continue
        group = sizes if key.sized or key.dimensions != ("memory",) else percentages
        group.setdefault(key.dimensions[0], key.spellings[0].text)
    return _Amounts(
        frozenset(names),
        frozenset(name.rpartition("/")[0].lower() for name in names),
        sizes,
        percentages,
        frozenset(dimension for key in vendor.keys.values() for dimension in key.dimensions),
    )


def _local_names(vendor: Vendor, places: Collection[KeyPlace]) -> Iterator[tuple[str, _LocalName]]:
    """The names of a vendor's keys that can be listed, by domain; with several variables they are bound to none."""
    spellings = (template for key in vendor.keys.values() if key.place in places for template in key.spellings)
    for template in spellings:
        names = list(template.names(vendor.document.variables))
        single = len(template.variables) == 1
        choices = tuple(dict.fromkeys(binding[0][1] for _, binding in names)) if single else ()
        for name, binding in names:
            domain, _, local = name.rpartition("/")
            yield domain, _LocalName(local, binding[0][1], template, choices) if single else _LocalName(local)


def _local_hints(vendor: Vendor) -> Iterator[tuple[str, _LocalName]]:
    """The hints for a vendor's scheduler that can be listed, by domain."""
    for hint in vendor.document.all_hints:
        if not {"*", "{"} & set(hint):
            domain, _, local = hint.rpartition("/")
            yield domain, _LocalName(local)


def distance(left: str, right: str, most: int | None = None) -> int:
    """Damerau-Levenshtein distance (optimal string alignment): insertions, deletions, substitutions, swaps of neighbors.

    With `most`, counting stops one above it: a pod may have many names that resemble nothing.
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
        if most is not None and min(last) > most <= min(before):
            return most + 1
    return last[-1] if most is None else min(last[-1], most + 1)
