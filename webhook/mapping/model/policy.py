"""The policy: all vendors and settings, compiled; immutable, shared by reviews, identified by a digest of its documents."""

import itertools
import json
import re
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, reduce
from operator import attrgetter, or_
from typing import Any, Final

import re2  # type: ignore[import-untyped]
from msgspec import Raw

from webhook.mapping.document import FieldPath, MappingError, Problems
from webhook.mapping.model.compiling import Capacity
from webhook.mapping.model.keys import KeyPlace
from webhook.mapping.model.names import Names, NearMiss, Nearness, Owner, ReadKeys, check_owners, index, read_keys
from webhook.mapping.model.shim import ARCH_LABEL, Shim
from webhook.mapping.model.vendor import BUILT_IN, KnownPlace, OtherName, Owned, Vendor
from webhook.mapping.notation import NameSet, compile_glob, literal, parse_bytes, parse_card, parse_device
from webhook.mapping.settings import Settings
from webhook.mapping.strict import Amount
from webhook.request import MIB, Size, bytes_text

MAX_BYTES: Final = MIB
"""Bytes of all results together. A replica that has answered 16 connections has 78 MiB, and is to stay below 80.

Results for a hundred ordinary templates or more fit: of templates that request alike there is one result.
"""

ENTRY: Final = 108
"""Bytes of a dictionary for one key at most: just after it grew it has four places of 24 bytes, and six indices."""

MAX_MET: Final = 4096  # number of arguments that are noted without a result


class Memo(dict[Hashable, Any]):
    """Results by the arguments of their functions. When they have more than `MAX_BYTES`, all are dropped at once."""

    __slots__ = ("_met", "size")

    def __init__(self) -> None:
        super().__init__()
        self.size = 0  # bytes of all results, as counted
        self._met: set[int] = set()

    def met(self, key: Hashable) -> bool:
        """Return whether these arguments were met before, and note them: what occurs once is not worth storing."""
        number = hash(key)
        if number in self._met:
            return True
        if len(self._met) >= MAX_MET:
            self._met.clear()
        self._met.add(number)
        return False

    def keep(self, key: Hashable, result: Any, size: int) -> None:
        """Store a result that takes `size` bytes together with its key; not if it alone is over the bound."""
        size += ENTRY
        if size > MAX_BYTES:
            return
        if self.size + size > MAX_BYTES:
            self.clear()
        self[key] = result
        self.size += size

    def clear(self) -> None:
        """Drop all results."""
        super().clear()
        self.size = 0


MAX_MEMORY: Final = 32 * MIB  # bytes that RE2 may use: enough for ten thousand names
MAX_KNOWN: Final = 64  # lists whose answer is stored, each of another length: the containers of about so many templates
MAX_LIST: Final = 8 * 1024  # the most bytes of a list whose answer is stored, so that all of them take at most 512 KiB
_NOTHING: Final = r"[^\x00-\xff]"  # an expression that no byte matches


_ESCAPE: Final = re2.compile(rb"\\[u/]")
"""An escape that may hide a name. The operator `in` takes three times as long in a text of backslashes."""


def watching(names: Iterable[str]) -> Callable[[Raw], bool]:
    """Return whether an undecoded ``env`` list may hold one of these variables; ``*`` in a name matches any text.

    A fast check with false positives but no false negatives, so that hundreds of ordinary variables stay undecoded.
    An escape may hide any name; few manifests have one. The pods of a template have the same list, whose answer is known.
    """
    # Up to the star: more variables than that are found, never fewer.
    beginnings = sorted({_written(name.partition("*")[0]) + ("" if "*" in name else '"') for name in names})
    search = _searcher(rf'"name"\s*:\s*"(?:{"|".join(beginnings)})' if beginnings else _NOTHING)

    known: dict[int, tuple[Raw, bool]] = {}

    def among(raw_env: Raw) -> bool:
        size = len(raw_env)
        # A comparison with the last list of this length takes a tenth of the time of a hash.
        last = known.get(size)
        if last is not None and last[0] == raw_env:
            return last[1]
        text = bytes(raw_env)
        # Searching for one byte is ten times as fast as for two, and most manifests have no backslash.
        found = bool(search(text)) or (b"\\" in text and _ESCAPE.search(text) is not None)
        if size <= MAX_LIST:
            if len(known) >= MAX_KNOWN:
                known.clear()
            known[size] = Raw(text), found
        return found

    return among


def _searcher(pattern: str) -> Callable[[bytes], object]:
    """A search for an expression; RE2 searches for all alternatives at once."""
    options = re2.Options()
    options.max_mem = MAX_MEMORY
    options.log_errors = False
    options.encoding = re2.Options.Encoding.LATIN1
    try:
        search: Callable[[bytes], object] = re2.compile(pattern.encode(), options).search
    except re2.error:  # too large: every list is decoded
        return len
    return search


def _searcher_of(marks: Iterable[str]) -> Callable[[bytes], object]:
    """A search for texts of which undecoded lists contain one if they could meet what has these marks."""
    return _searcher("|".join(map(literal, sorted(marks))) or _NOTHING)


def _written(name: str) -> str:
    """An expression for a name as JSON writes it: a quote or a backslash is escaped."""
    return literal(json.dumps(name, ensure_ascii=False)[1:-1])


_OF_PODS: Final[tuple[KeyPlace, ...]] = ("resource", "label", "annotation", "nodeSelector")
"""Where the keys of a pod are read."""


def _check_placed_keys(vendors: Mapping[str, Vendor], names: Mapping[KeyPlace, Names], problems: Problems) -> None:
    """Report keys that `place` writes and a vendor reads a request by: a second pass would read another one."""
    for vendor in itertools.filterfalse(attrgetter("inactive"), vendors.values()):
        for place, written in vendor.place.written.items():
            member = place if place == "nodeSelector" else f"{place}s"
            for key, owner in [(each, owner) for each in written for owner in names[place].owners(each)]:
                reader = vendors[owner.vendor]
                compared = any(owner.key_name in form.compared for form in reader.forms)
                wrong = compared or reader.keys[owner.key_name].kind != "text"
                message = f"{key} is the key {owner.key_name!r} of {owner.vendor}, which would then be read"
                problems.of(vendor.source).when(wrong, ("place", member, key), message, "leave it out")


def _check_names(vendors: Mapping[str, Vendor], problems: Problems) -> None:
    """Report vendors that mappings name, and that do not exist, or are not of the kind that is needed."""
    claiming = [name for name, vendor in vendors.items() if vendor.claim is not None]
    for vendor in vendors.values():
        others = vendors.keys() - {vendor.name}
        partitions = None if vendor.claim is None else vendor.claim.partitions
        named: list[tuple[str | None, FieldPath, Collection[str], str]] = [
            (vendor.translate_to, ("translateTo",), vendors, "vendor"),
            (partitions, ("claim", "partitions"), claiming, "vendor with claims"),
            (vendor.copies, ("copies",), others, "other vendor"),
            *((name, ("allowedWith", name), others, "other vendor") for name in vendor.allowed_with),
        ]
        for name, path, known, kind in named:
            if name is not None:
                problems.of(vendor.source).unknown(path, kind, name, known)


def _check_settings(vendors: Mapping[str, Vendor], settings: Settings, users: Names, problems: Problems) -> None:
    """Report the same of the settings, and vendors that cannot have the part that these give them."""
    named: dict[FieldPath, str] = {} if settings.target is None else {("target",): settings.target}
    named |= {("served", position): name for position, name in enumerate(settings.served)}
    named |= {("owners", key): name for key, name in settings.owners.items()}
    here = problems.of(SETTINGS)
    for path, name in named.items():
        here.unknown(path, "vendor", name, vendors, _names(vendors))
        if name in vendors and path[0] == "served":
            message = f"{name} is read only: nothing serves its keys as they are"
            here.when(not vendors[name].target, path, message)
        elif name in vendors and path[0] == "owners":
            own = name in map(attrgetter("vendor"), users.owners(str(path[1])))
            here.when(not own, path, f"{name} has no key {path[1]}")


def _check_chains(vendors: Mapping[str, Vendor], settings: Settings, problems: Problems) -> None:
    """Report targets that are themselves translated: a translated request must be final."""
    home = vendors.get(settings.target or "")
    for vendor in vendors.values():
        target = vendors.get(vendor.translate_to or "")
        if target is None:
            continue
        here = problems.of(vendor.source)
        if wrong := _no_target(target, "translateTo"):
            here.add("translateTo", *wrong)
        elif settings.target not in {None, target.name} and target.same_family(home or target):
            message = f"{target.name} would be translated on to {settings.target} by the setting `target`"
            here.add("translateTo", message, f"write `translateTo: {settings.target}`")
    if home is not None and (wrong := _no_target(home, "target")):
        problems.of(SETTINGS).add("target", *wrong)


def _no_target(vendor: Vendor, key: str) -> tuple[str, str | None] | None:
    """Why requests cannot be written for a vendor, or not for good, with a hint; else None."""
    if not vendor.target:
        return f"{vendor.name} is read only and never written", None
    if vendor.translate_to in {None, vendor.name}:
        return None
    return f"{vendor.name} is itself translated to {vendor.translate_to}", f"write `{key}: {vendor.translate_to}`"


def _check_capacity(vendors: Iterable[Vendor], problems: Problems) -> None:
    """Report more names than match conditions can hold, for the documents that come last."""
    capacity = Capacity()
    for vendor in sorted(vendors, key=lambda vendor: vendor.source != BUILT_IN):
        beyond = capacity.take(vendor.lets_through)
        if beyond:
            message = f"with {vendor.name} the names of all documents that let pods through would be {beyond}"
            problems.of(vendor.source).add((), message, "leave out names, or whole documents")


SETTINGS: Final = "settings"  # the source of problems in the settings, from whatever file
ANY_FAMILY: Final = "any"  # the family of vendors without hardware of their own
MOST_MEMORY: Final = 1024**4  # bytes; no device has more, unless the setting `largestDevice` says so

CLUSTER_NAMESPACES: Final = frozenset({"kube-system", "kube-node-lease"})
"""Namespaces of pods that the cluster itself needs."""


@dataclass(frozen=True)
class Policy:
    """What decisions depend on, built by `compile_policy` once for each change of configuration."""

    vendors: Mapping[str, Vendor]  # by name, including inactive ones
    names: Mapping[str, str]  # by every name that people may write: that of the vendor, and its aliases
    settings: Settings  # the settings of the cluster, with the vendors' own names
    digest: str  # 12 hex digits, the same wherever the same documents are in force
    users: Names  # the vendors that have each resource name, inactive ones too
    resources: Names  # the readers of each name
    labels: Names
    annotations: Names
    node_selector: Names
    inactive: Mapping[
        str, tuple[Owner, str]
    ]  # names that only inactive vendors have, and the disputed one that decides
    most_memory: int  # bytes; more memory per device is a wrong unit, whatever the device
    largest_devices: Mapping[str, int]  # bytes of the largest in the cluster by hardware family, where it is set
    smallest_memory: int  # bytes; a request for less memory per device gets a warning
    cards: Mapping[str, int]  # bytes of a device by its value in a node label; if empty, no pod is searched for one
    card_labels: Mapping[str, tuple[str, ...]]  # those labels, by hardware family
    never_touched: frozenset[str]  # namespaces whose pods are never changed
    # Results of pure functions of this policy; a copy with other parts (`replace`) gets its own.
    memo: Memo = field(default_factory=Memo, init=False, repr=False, compare=False)

    def vendor_called(self, name: str) -> Vendor | None:
        """Return the vendor of a name or alias."""
        return self.vendors.get(self.names.get(name, name))

    def near_miss(self, name: str, resources: Iterable[str]) -> NearMiss | None:
        """Return the key that an unknown resource name resembles, or None; `resources` are the names beside it."""
        vendors = dict.fromkeys(owner.vendor for key in resources for owner in self.resources.owners(key))
        return self.near.find(name, vendors)

    @cached_property
    def largest_sold(self) -> Mapping[str, int]:
        """By hardware family, bytes of the largest device that is sold, as the documents say; of any for other families."""
        sold: dict[str, int] = {}
        for family, largest in ((each.family, each.largest_device) for each in self.vendors.values()):
            if largest is not None:
                sold[family] = max(sold.get(family, 0), parse_device(largest))
        most = max(sold.values(), default=self.most_memory)
        return {vendor.family: sold.get(vendor.family, most) for vendor in self.vendors.values()}

    @cached_property
    def served(self) -> Mapping[str, Vendor]:
        """The vendors that the cluster is said to serve, by name; none if every vendor counts as served.

        Those of `target`, `served` and `translateTo`, and the target's system under its names for other hardware.
        """
        target = self.vendors.get(self.settings.target or "")
        if target is None and not self.settings.served:
            return {}
        chosen = [self.settings.target, *self.settings.served, *(vendor.translate_to for vendor in self.in_force)]
        if target is not None:
            found = (each for each in self.in_force if each.system == target.system and not each.same_family(target))
            chosen += map(attrgetter("name"), found)
        return {name: self.vendors[name] for name in filter(None, chosen)}

    def serves(self, vendor: Vendor, keys: Iterable[str]) -> bool:
        """Return whether the cluster serves these resource names or other keys of a vendor."""
        if not self.served or vendor.name in self.served:
            return True
        users = [{owner.vendor for owner in self.users.owners(key)} for key in keys]
        return bool(users) and any(all(name in each for each in users) for name in self.served)

    @cached_property
    def near(self) -> Nearness:
        """Finds names that resemble a known one; not made by `compile_policy`, for most policies are only tried."""
        return Nearness(list(self.vendors.values()))

    @cached_property
    def request_keys(self) -> frozenset[str]:
        """Every name that can be listed and that some vendor reads."""
        return frozenset().union(
            self.resources.exact, self.labels.exact, self.annotations.exact, self.node_selector.exact
        )

    @cached_property
    def reported_names(self) -> Mapping[KnownPlace, Mapping[str, str]]:
        """The names of other systems that are reported, with advice, by their place; none that a vendor in force reads."""
        found: dict[KnownPlace, dict[str, str]] = {"resource": {}, "label": {}, "annotation": {}}
        for entry in self._reported:
            if "*" not in entry.name and entry.name not in self.request_keys:
                found[entry.place].setdefault(entry.name, entry.advice)
        return found

    @cached_property
    def reported_patterns(self) -> tuple[tuple[re.Pattern[str], str], ...]:
        """Patterns of such resource names, each with its advice."""
        return tuple((compile_glob(entry.name), entry.advice) for entry in self._reported if "*" in entry.name)

    @property
    def _reported(self) -> list[OtherName]:
        return [entry for vendor in self.vendors.values() for entry in vendor.names_of_others() if entry.report]

    @cached_property
    def searched_keys(self) -> frozenset[str]:
        """The names for which labels and annotations are searched: request keys in a wrong place, names of other systems."""
        return self.request_keys.union(self.reported_names["label"], self.reported_names["annotation"])

    @cached_property
    def marks(self) -> Owned:
        """The marks, hints and belongings of all vendors' schedulers, to find them in one pass through a pod's keys."""
        sets = [vendor.owned for vendor in self.vendors.values()]
        groups = ([getattr(each, name) for each in sets] for name in Owned.__struct_fields__)
        return Owned(*(reduce(or_, group, NameSet()) for group in groups))

    @cached_property
    def other_names(self) -> tuple[re.Pattern[str], ...]:
        """Patterns of names under which a cluster may serve a key, unless a vendor has the name."""
        keys = (key for vendor in self.in_force for key in vendor.keys.values())
        return tuple(key.other_names for key in keys if key.other_names is not None)

    @cached_property
    def references(self) -> frozenset[str]:
        """The annotations by which a vendor's own webhook makes a pod refer to ConfigMaps."""
        return frozenset(filter(None, (vendor.config_maps for vendor in self.vendors.values())))

    @cached_property
    def read_keys(self) -> ReadKeys:
        """The labels, annotations and node selector keys of a pod that can matter to a decision."""
        of_nodes = [*itertools.chain(*self.card_labels.values()), *[ARCH_LABEL] * self.by_architecture]
        return read_keys(self.vendors.values(), of_nodes, self.near)

    @cached_property
    def by_architecture(self) -> bool:
        """Whether the library of a shim depends on the architecture of the pod's nodes."""
        return any(shim.by_architecture for shim in self._shims)

    @cached_property
    def _shims(self) -> list[Shim]:
        return [vendor.shim for vendor in self.vendors.values() if vendor.shim is not None]

    @cached_property
    def watched_variables(self) -> Callable[[Raw], bool]:
        """Finds variables of a container that the guard, the shim or the device plugin of any vendor has a part in."""
        return watching(itertools.chain.from_iterable(map(_variables, self.vendors.values())))

    @cached_property
    def marks_of_mounts(self) -> Callable[[bytes], object]:
        """Finds what is in undecoded volumes or mounts that could meet any vendor's shim or guard."""
        marks = {mark for shim in self._shims for delivery in shim.deliveries for mark in delivery.marks}
        guards = [vendor.guard for vendor in self.vendors.values()]
        if self.shim_folders or any("hostPath" in guard.places for guard in guards):
            marks.add(b"hostPath")
        return _searcher_of(mark.decode() for mark in marks.union(*[guard.marks for guard in guards]))

    @cached_property
    def classes_of_the_shim(self) -> frozenset[str]:
        """The device classes whose shares nothing limits but an injected shim."""
        shims = [(vendor.claim, vendor.shim) for vendor in self.vendors.values()]
        return frozenset(claim.device_class for claim, shim in shims if claim and shim and shim.mode == "inject")

    @cached_property
    def shim_folders(self) -> frozenset[str]:
        """The folders of the node from which shims in force reach containers."""
        shims = [vendor.shim for vendor in self.in_force if vendor.shim is not None]
        lists = [each for shim in shims for each in (shim.deliveries, *shim.by_architecture.values())]
        deliveries = [each for each in itertools.chain(*lists) if each.kind == "hostPath"]
        # The first of their volumes has the library.
        return frozenset(each.volumes[0]["hostPath"]["path"] for each in deliveries)

    @cached_property
    def installers(self) -> frozenset[str]:
        """The names of the init containers that bring any vendor's shim."""
        return frozenset(each.library for shim in self._shims for each in shim.deliveries if each.installer is not None)

    @cached_property
    def marks_of_belongings(self) -> Callable[[bytes], object]:
        """Finds what is in undecoded affinity, tolerations, gates or lists of names that could belong to a vendor's system."""
        belongs = self.marks.belongs
        exact = [f'"{name.partition("=")[0]}"' for name in belongs.exact]
        return _searcher_of((*exact, *(max(glob.split("*"), key=len) for glob in belongs.globs)))

    @cached_property
    def device_classes(self) -> frozenset[str]:
        """The DeviceClasses of GPUs, as far as mappings name them: what others are of is not known."""
        claims = [vendor.claim for vendor in self.vendors.values() if vendor.claim is not None]
        named = (name for each in claims for name in (each.device_class, each.whole_class, *each.further_classes))
        return frozenset(filter(None, named))

    @cached_property
    def in_force(self) -> tuple[Vendor, ...]:
        """The vendors whose keys are read."""
        return tuple(vendor for vendor in self.vendors.values() if not vendor.inactive)


def _variables(vendor: Vendor) -> Iterator[str]:
    yield from (name for rule in vendor.guard.rules if rule.place == "env" for name in rule.names)
    yield from vendor.shim.names if vendor.shim is not None else ()
    yield from vendor.environment


def compile_policy(vendors: Mapping[str, Vendor], settings: Settings, digest: str) -> Policy:
    """Compile the policy of these vendors under these settings.

    Raises:
        MappingError: vendors contradict each other or the settings: a name with two owners, a chain, an unknown vendor.
    """
    names = _names(vendors)
    # By the vendors' own names in place of aliases; unknown ones stay, and are reported.
    own = {
        "target": None if settings.target is None else names.get(settings.target, settings.target),
        "served": [names.get(name, name) for name in settings.served],
        "owners": {key: names.get(name, name) for key, name in settings.owners.items()},
    }
    settings = settings.model_copy(update=own)
    users = index(vendors.values(), "resource")
    vendors, disputes = _with_owners(vendors, settings, users)
    active = [vendor for vendor in vendors.values() if not vendor.inactive]
    read = {place: index(active, place) for place in _OF_PODS}
    problems = Problems()
    _check_names(vendors, problems)
    _check_settings(vendors, settings, users, problems)
    for place in ("resource", "annotation"):
        check_owners(read[place], place, vendors, problems)
    _check_chains(vendors, settings, problems)
    _check_placed_keys(vendors, read, problems)
    _check_capacity(vendors.values(), problems)
    here = problems.of(SETTINGS)
    sizes = _largest_devices(settings.largest_device, {vendor.family for vendor in vendors.values()}, here)
    _check_defaults(vendors.values(), sizes, here, by_family=isinstance(settings.largest_device, dict))
    largest = max(MOST_MEMORY, *sizes.values(), 0)
    cards = _sizes_of_cards(settings.cards, largest, here)
    if problems.found:
        raise MappingError(problems.found)
    return Policy(
        vendors=vendors,
        names=names,
        settings=settings,
        digest=digest,
        users=users,
        resources=read["resource"],
        labels=read["label"],
        annotations=read["annotation"],
        node_selector=read["nodeSelector"],
        inactive=_inactive_names(users, read["resource"], disputes),
        most_memory=largest,
        largest_devices=sizes,
        smallest_memory=parse_bytes(settings.smallest_memory),
        cards=cards,
        card_labels=_labels_of_cards(vendors.values(), settings),
        never_touched=CLUSTER_NAMESPACES | frozenset(settings.never_touched),
    )


def _names(vendors: Mapping[str, Vendor]) -> dict[str, str]:
    """The vendor of each name; a vendor's own name precedes an alias, and the alias of the first vendor those of others."""
    aliases = {alias: vendor.name for vendor in reversed(list(vendors.values())) for alias in vendor.aliases}
    return {**aliases, **{name: name for name in vendors}}


def _with_owners(
    vendors: Mapping[str, Vendor], settings: Settings, users: Names
) -> tuple[dict[str, Vendor], dict[str, str]]:
    """Apply the setting `owners`: return the vendors with the named ones active and others with such a key inactive."""
    owned = dict(vendors)
    disputes: dict[str, str] = {}
    for name, owner in settings.owners.items():
        for user in {user.vendor for user in users.owners(name)}:
            owned[user] = vendors[user].model_copy(update={"inactive": user != owner})
            disputes[user] = name
    return owned, disputes


def _inactive_names(users: Names, resources: Names, disputes: Mapping[str, str]) -> dict[str, tuple[Owner, str]]:
    """Return the resource names that only inactive vendors have, each with the disputed name that decides it.

    An inactive vendor that shares no name with an active one is in no dispute: its names have no owner here.
    """
    shared = [(owner.vendor, key) for key, owners in users.exact.items() if key in resources.exact for owner in owners]
    disputed = {**dict(reversed(shared)), **disputes}
    alone = [(key, owners) for key, owners in users.exact.items() if key not in resources.exact]
    return {key: (each, disputed[each.vendor]) for key, owners in alone for each in owners if each.vendor in disputed}


def _sizes_of_cards(cards: Mapping[str, Amount], most_memory: int, problems: Problems) -> dict[str, int]:
    """Return the bytes of each device by its name."""
    sizes = {name: parse_card(written) for name, written in cards.items()}
    for name, size in sizes.items():
        message = f"{cards[name]} is more than {bytes_text(most_memory)}, which no device has"
        problems.when(size > most_memory, ("cards", name), message, "write less, or raise `largestDevice`")
    return sizes


def _labels_of_cards(vendors: Iterable[Vendor], settings: Settings) -> dict[str, tuple[str, ...]]:
    """The node labels that name the device, by hardware family: those of its mappings, then those of the settings."""
    by_family: dict[str, list[str]] = {}
    for vendor in vendors:
        by_family.setdefault(vendor.family, []).extend(vendor.card_labels)
    everywhere = [*by_family.pop(ANY_FAMILY, []), *settings.card_labels]
    return {family: tuple(dict.fromkeys([*labels, *everywhere])) for family, labels in by_family.items()}


def _largest_devices(
    written: Amount | dict[str, Amount] | None, families: Collection[str], problems: Problems
) -> dict[str, int]:
    """The bytes of the largest device by hardware family; a single size holds for each."""
    if not isinstance(written, dict):
        return {} if written is None else dict.fromkeys(families, parse_device(written))
    for family in written:
        problems.unknown(("largestDevice", family), "family", family, families)
    return {family: parse_device(amount) for family, amount in written.items()}


def _check_defaults(
    vendors: Iterable[Vendor], sizes: Mapping[str, int], problems: Problems, *, by_family: bool
) -> None:
    """Report defaults of documents that are more than the largest device: whoever leaves memory out would be denied."""
    for vendor in vendors:
        default, size = vendor.defaults.get("memory"), sizes.get(vendor.family)
        value = None if default is None or vendor.source == BUILT_IN else default.value
        if size and isinstance(value, Size) and value.bytes > size:
            message = f"the default of {vendor.name} is {value}, more than {bytes_text(size)}"
            path = ("largestDevice", *[vendor.family] * by_family)
            problems.add(path, message, "change its `defaults`")
