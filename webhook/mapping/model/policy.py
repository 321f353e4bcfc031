"""The policy: all vendors and settings, compiled; immutable, shared by reviews, identified by a digest of its documents."""

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from webhook.mapping.document.problem import MappingError, Problem, nearest_known
from webhook.mapping.document.schema_types import Amount
from webhook.mapping.document.settings import Settings
from webhook.mapping.model.gpu_models import compile_cards, labels_of_cards
from webhook.mapping.model.match_names import Capacity
from webhook.mapping.model.memo import Memo
from webhook.mapping.model.names import Names, Owner, conflicts, index
from webhook.mapping.model.near_misses import Nearness, nearness
from webhook.mapping.model.owned import Owned, union
from webhook.mapping.model.read_keys import ReadKeys, read_keys
from webhook.mapping.model.vendor import BUILT_IN, Vendor
from webhook.mapping.model.watched_variables import WatchedVariables
from webhook.quantity import MIB, QuantityError, parse_quantity

SETTINGS: Final = "settings"
"""The source of problems in the settings, from whatever file."""

CLUSTER_NAMESPACES: Final = frozenset({"kube-system", "kube-node-lease"})
"""Namespaces of pods that the cluster itself needs."""


@dataclass(frozen=True)
class Policy:
    """What decisions depend on, built by `compile_policy` once for each change of configuration.

    Attributes:
        vendors: by name, including inactive ones.
        settings: the settings of the cluster.
        digest: 12 hex digits, the same wherever the same documents are in force.
        resources, labels, annotations, node_selector: the readers of each name.
        inactive: resource names that only inactive vendors have, each with the disputed name that decides it.
        near: finds names that resemble a known resource name.
        largest_card: bytes; more memory per device is refused.
        cards: bytes of a device by its value in a node label; if empty, no pod is searched for one.
        card_labels: those labels, by hardware family.
        never_touched: namespaces whose pods are never changed.
        memo: a cache of results of pure functions of this policy.
    """

    vendors: Mapping[str, Vendor]
    settings: Settings
    digest: str
    resources: Names
    labels: Names
    annotations: Names
    node_selector: Names
    inactive: Mapping[str, tuple[Owner, str]]
    near: Nearness
    largest_card: int
    cards: Mapping[str, int]
    card_labels: Mapping[str, tuple[str, ...]]
    never_touched: frozenset[str]
    memo: Memo = field(default_factory=Memo, repr=False, compare=False)

    @cached_property
    def request_keys(self) -> frozenset[str]:
        """Every name that can be listed and that some vendor reads."""
        return frozenset().union(
            self.resources.exact, self.labels.exact, self.annotations.exact, self.node_selector.exact
        )

    @cached_property
    def marks(self) -> Owned:
        """The marks and hints of all vendors' schedulers, to find them in one pass through a pod's keys."""
        return union(vendor.owned for vendor in self.vendors.values())

    @cached_property
    def perhaps(self) -> tuple[re.Pattern[str], ...]:
        """Patterns of names under which a cluster may serve a key, unless a vendor has the name."""
        keys = (key for vendor in self.in_force for key in vendor.keys.values())
        return tuple(key.perhaps for key in keys if key.perhaps is not None)

    @cached_property
    def references(self) -> frozenset[str]:
        """The annotations by which a vendor's own webhook makes a pod refer to ConfigMaps."""
        keys = (vendor.document.config_maps for vendor in self.vendors.values())
        return frozenset(key for key in keys if key is not None)

    @cached_property
    def read_keys(self) -> ReadKeys:
        """The labels, annotations and node selector keys of a pod that can matter to a decision."""
        card_labels = (label for labels in self.card_labels.values() for label in labels)
        return read_keys(self.vendors.values(), card_labels)

    @cached_property
    def watched_variables(self) -> WatchedVariables:
        """The variables of a container that the guard, the shim or the device plugin of any vendor has a part in."""
        return WatchedVariables(itertools.chain.from_iterable(map(_variables, self.vendors.values())))

    def watched_by(self, vendor: Vendor) -> WatchedVariables:
        """Return the variables that one vendor has a part in."""
        known = self._watched_by.get(vendor.name)
        if known is None:
            known = self._watched_by[vendor.name] = WatchedVariables(_variables(vendor))
        return known

    @cached_property
    def _watched_by(self) -> dict[str, WatchedVariables]:
        return {}

    @cached_property
    def in_force(self) -> tuple[Vendor, ...]:
        """The vendors whose keys are read."""
        return tuple(vendor for vendor in self.vendors.values() if not vendor.inactive)


def _variables(vendor: Vendor) -> Iterator[str]:
    yield from (name for rule in vendor.guard.rules if rule.place == "env" for name in rule.names)
    yield from vendor.shim.names if vendor.shim is not None else ()
    yield from vendor.document.environment


def compile_policy(vendors: Mapping[str, Vendor], settings: Settings, digest: str) -> Policy:
    """Compile the policy of these vendors under these settings.

    Raises:
        MappingError: vendors contradict each other or the settings: a name with two owners, a chain, an unknown vendor.
    """
    vendors, disputes = _with_owners(vendors, settings)
    active = [vendor for vendor in vendors.values() if not vendor.inactive]
    resources, annotations = index(active, "resource"), index(active, "annotation")
    selectors = index(active, "nodeSelector")
    problems = [
        *_unknown_names(vendors, settings),
        *conflicts(resources, "resource", vendors),
        *conflicts(_size_annotations(vendors, annotations), "annotation", vendors),
        *_chains(vendors, settings),
        *_read_selectors(active, selectors),
        *_capacity_problems(vendors.values()),
    ]
    largest = _largest_card(settings.largest_card, problems)
    cards, wrong = compile_cards(settings.cards, largest, SETTINGS)
    problems += wrong
    if problems:
        raise MappingError(problems)
    return Policy(
        vendors=vendors,
        settings=settings,
        digest=digest,
        resources=resources,
        labels=index(active, "label"),
        annotations=annotations,
        node_selector=selectors,
        inactive=_inactive_names(vendors, resources, disputes),
        near=nearness(vendors.values()),
        largest_card=largest,
        cards=cards,
        card_labels=labels_of_cards(vendors.values(), settings),
        never_touched=CLUSTER_NAMESPACES | frozenset(settings.never_touched),
    )


def _with_owners(vendors: Mapping[str, Vendor], settings: Settings) -> tuple[dict[str, Vendor], dict[str, str]]:
    """Apply the setting `owners`: return the vendors with the named ones active and others with such a key inactive."""
    owned = dict(vendors)
    disputes: dict[str, str] = {}
    for name, owner in settings.owners.items():
        users = {user.vendor for user in index(vendors.values(), "resource").owners(name)}
        for user in users:
            owned[user] = replace(vendors[user], inactive=user != owner)
            disputes[user] = name
    return owned, disputes


def _inactive_names(
    vendors: Mapping[str, Vendor], resources: Names, disputes: Mapping[str, str]
) -> dict[str, tuple[Owner, str]]:
    """Return the resource names that only inactive vendors have, each with the disputed name that decides it.

    An inactive vendor that shares no name with an active one is in no dispute: its names have no owner here.
    """
    decided: dict[str, tuple[Owner, str]] = {}
    for vendor in vendors.values():
        names = index([vendor], "resource").exact if vendor.inactive else {}
        disputed = disputes.get(vendor.name) or next((key for key in names if key in resources.exact), None)
        if disputed is not None:
            decided |= {key: (owners[0], disputed) for key, owners in names.items() if key not in resources.exact}
    return decided


def _size_annotations(vendors: Mapping[str, Vendor], annotations: Names) -> Names:
    """Return the annotations that hold memory or cores, which have one owner; counts may be shared."""
    sizes = {"memory", "cores"}
    return Names(
        {
            key: sized
            for key, owners in annotations.exact.items()
            if (
                sized := tuple(
                    owner for owner in owners if sizes & set(vendors[owner.vendor].keys[owner.key_name].dimensions)
                )
            )
        }
    )


def _read_selectors(vendors: Iterable[Vendor], selectors: Names) -> Iterator[Problem]:
    """Report keys that one vendor writes into a nodeSelector and another reads: a second pass would read another request."""
    for vendor in vendors:
        for key in vendor.place.node_selector:
            for owner in selectors.owners(key):
                message = f"{key} is the key {owner.key_name!r} of {owner.vendor}, which would then be read"
                yield Problem(message, ("place", "nodeSelector", key), "leave it out", vendor.source)


def _unknown_names(vendors: Mapping[str, Vendor], settings: Settings) -> list[Problem]:
    problems = [
        Problem(
            f"no vendor is called {vendor.translate_to!r}",
            ("translateTo",),
            nearest_known(vendor.translate_to, vendors),
            vendor.source,
        )
        for vendor in vendors.values()
        if vendor.translate_to is not None and vendor.translate_to not in vendors
    ]
    problems.extend(
        Problem(
            f"no other vendor is called {vendor.copies!r}",
            ("copies",),
            nearest_known(vendor.copies, vendors),
            vendor.source,
        )
        for vendor in vendors.values()
        if vendor.copies is not None and (vendor.copies not in vendors or vendor.copies == vendor.name)
    )
    problems.extend(
        Problem(f"no other vendor is called {name!r}", ("beside", name), nearest_known(name, vendors), vendor.source)
        for vendor in vendors.values()
        for name in vendor.document.beside
        if name not in vendors or name == vendor.name
    )
    if settings.target is not None and settings.target not in vendors:
        problems.append(
            Problem(
                f"no vendor is called {settings.target!r}",
                ("target",),
                nearest_known(settings.target, vendors),
                SETTINGS,
            )
        )
    for name, owner in settings.owners.items():
        if owner not in vendors:
            problems.append(
                Problem(f"no vendor is called {owner!r}", ("owners", name), nearest_known(owner, vendors), SETTINGS)
            )
        elif owner not in {user.vendor for user in index(vendors.values(), "resource").owners(name)}:
            problems.append(Problem(f"{owner} has no key {name}", ("owners", name), None, SETTINGS))
    return problems


def _chains(vendors: Mapping[str, Vendor], settings: Settings) -> list[Problem]:
    """Report targets that are themselves translated: a translated request must be final."""
    problems: list[Problem] = []
    for vendor in vendors.values():
        target = vendors.get(vendor.translate_to or "")
        if target is None:
            continue
        path = ("translateTo",)
        if not target.target:
            problems.append(Problem(f"{target.name} is read only and never written", path, None, vendor.source))
        elif target.translate_to is not None and target.name != vendor.name:
            message = f"{target.name} is itself translated to {target.translate_to}"
            problems.append(Problem(message, path, f"write `translateTo: {target.translate_to}`", vendor.source))
        elif settings.target not in {None, target.name} and target.same_family(
            vendors.get(settings.target or "", target)
        ):
            message = f"{target.name} would be translated on to {settings.target} by the setting `target`"
            problems.append(Problem(message, path, f"write `translateTo: {settings.target}`", vendor.source))
    home = vendors.get(settings.target or "")
    if home is not None and not home.target:
        problems.append(Problem(f"{home.name} is read only and never written", ("target",), None, SETTINGS))
    elif home is not None and home.translate_to not in {None, home.name}:
        message = f"{home.name} is itself translated to {home.translate_to}"
        problems.append(Problem(message, ("target",), f"write `target: {home.translate_to}`", SETTINGS))
    return problems


def _capacity_problems(vendors: Iterable[Vendor]) -> Iterator[Problem]:
    """Report more names than match conditions can hold, for the documents that come last."""
    capacity = Capacity()
    for vendor in sorted(vendors, key=lambda vendor: vendor.source != BUILT_IN):
        beyond = capacity.take(vendor.lets_through)
        if beyond:
            message = f"with {vendor.name} the names of all documents that let pods through would be {beyond}"
            yield Problem(message, (), "leave out names, or whole documents", vendor.source)


def _largest_card(written: Amount, problems: list[Problem]) -> int:
    try:
        size = parse_quantity(str(written))
    except QuantityError as error:
        problems.append(Problem(str(error), ("largestCard",), "write a size such as `1Ti`", SETTINGS))
        return 0
    if size <= 0 or not isinstance(size, int):
        problems.append(Problem(f"{written} is no whole number of bytes above 0", ("largestCard",), None, SETTINGS))
        return 0
    if size < MIB:
        problems.append(
            Problem(f"{written} bytes are no device", ("largestCard",), "write a size such as `1Ti`", SETTINGS)
        )
    return size
