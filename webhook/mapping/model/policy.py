"""The policy: all vendors and settings, compiled; immutable, shared by reviews, identified by a digest of its documents."""

import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from webhook.mapping.document.problem import MappingError, Problem
from webhook.mapping.document.schema_types import Amount
from webhook.mapping.document.settings import Settings
from webhook.mapping.model.gpu_models import compile_cards, labels_of_cards
from webhook.mapping.model.memo import Memo
from webhook.mapping.model.names import Names, Owner, index
from webhook.mapping.model.near_misses import Nearness, nearness
from webhook.mapping.model.owned import Owned, union
from webhook.mapping.model.policy_problems import SETTINGS, contradictions
from webhook.mapping.model.read_keys import ReadKeys, read_keys
from webhook.mapping.model.vendor import Vendor
from webhook.mapping.model.watched_variables import Marks, WatchedVariables
from webhook.quantity import MIB, QuantityError, parse_quantity

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
        largest_card: bytes; more memory per device is denied.
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

    @cached_property
    def marks_of_mounts(self) -> Marks:
        """What is in undecoded volumes or mounts that could meet any vendor's shim or guard."""
        shims = [vendor.shim for vendor in self.vendors.values() if vendor.shim is not None]
        marks = {mark for shim in shims for delivery in shim.deliveries for mark in delivery.marks}
        return Marks(sorted(marks.union(*[vendor.guard.marks for vendor in self.vendors.values()])))

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
    problems = contradictions(vendors, settings, resources, annotations, selectors)
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


def _largest_card(written: Amount, problems: list[Problem]) -> int:
    try:
        size = parse_quantity(str(written))
    except QuantityError as error:
        problems.append(Problem(str(error), ("largestCard",), "write a size such as `1Ti`", SETTINGS))
        return 0
    if size <= 0 or not isinstance(size, int):
        problems.append(Problem(f"{written} is not a whole number of bytes above 0", ("largestCard",), None, SETTINGS))
        return 0
    if size < MIB:
        problems.append(
            Problem(
                f"{written} bytes are less than any device has",
                ("largestCard",),
                "write a size such as `1Ti`",
                SETTINGS,
            )
        )
    return size
