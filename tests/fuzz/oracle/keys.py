"""The keys of one container in one vendor's terms, as every reader gets them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from tests.fuzz.oracle.meaning import Denied, Number

COUNT = re.compile(r"[1-9][0-9]*")


@dataclass(frozen=True, slots=True)
class Cluster:
    """What is configured in a cluster, and decides what keys mean there.

    Attributes:
        owners: resource names that several vendors use, with the one that is active.
        units: bytes of one unit by vendor, where the cluster decides; None for percent.
        chip: what a name stands for where it says nothing: a MIG profile of the single strategy.
        moore_threads: units of 512 MiB that a device has, by model: ``memoryPerCard`` of HAMi's chart.
    """

    owners: Mapping[str, str] = field(default_factory=dict)
    units: Mapping[str, int | None] = field(default_factory=dict)
    chip: str = ""
    moore_threads: tuple[int, ...] = (96,)


@dataclass(slots=True)
class Keys:
    """The keys of one container, as one vendor reads them.

    Attributes:
        numbers: by the short name of the resource, without those at 0.
        zeros: short names of those at 0.
        variant: the hardware that the names say: ``MR-V100``, ``a10_24g``.
        texts: the quantities as they stand.
        container, position: its name, and where it stands among the containers; None for an init container.
        regular: how many containers the pod has.
        node_selector: the pod's.
        requesters: how many containers request in the same vendor's resources.
    """

    container: str
    position: int | None
    regular: int
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    cluster: Cluster
    node_selector: Mapping[str, str] = field(default_factory=dict)
    requesters: int = 1
    numbers: dict[str, int] = field(default_factory=dict)
    zeros: set[str] = field(default_factory=set)
    variant: str = ""
    texts: dict[str, str] = field(default_factory=dict)

    def of(self, name: str) -> int | None:
        """The number of a key; None where it is absent or 0."""
        return self.numbers.get(name)

    def has(self, *names: str) -> bool:
        """Whether any of these is there, at another number than 0."""
        return not self.numbers.keys().isdisjoint(names)

    def count_of(self, pairs: Mapping[str, str], key: str) -> int | None:
        """A count that a label or annotation of the pod carries for its only requesting container.

        Raises:
            Refused: it is no count, or nobody can tell whose it is.
        """
        text = pairs.get(key)
        if text is None:
            return None
        if COUNT.fullmatch(text) is None:
            raise Denied(f"no count: {key}: {text!r}")
        if self.requesters > 1:
            raise Denied(f"a count for one container: {key}, and {self.requesters} ask")
        return int(text)


def decimal(text: str) -> Number:
    """A decimal number of an annotation, perhaps with an exponent.

    Raises:
        Refused: it is none.
    """
    if re.fullmatch(r"[0-9]*\.?[0-9]+([eE][+-]?[0-9]{1,2})?", text) is None:
        raise Denied(f"no decimal number: {text!r}")
    return Fraction(text)
