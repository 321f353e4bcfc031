"""The verdict on each ConfigMap, and faults of the policy as a whole: for metrics, log lines, Events, the readiness page."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from webhook.cluster.configuration.config_maps import ConfigMap
from webhook.mapping.document.problem import Problem

Kind: TypeAlias = Literal["mapping", "settings"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on the document in a ConfigMap.

    Attributes:
        config_map: the ConfigMap.
        kind: the kind of document that it should contain.
        vendor: the vendor that it describes, if that can be read.
        problems: why its document is not in force; empty if it is.
        instead: what is in force instead, as the end of a sentence; empty if the document itself is.
    """

    config_map: ConfigMap
    kind: Kind
    vendor: str | None
    problems: tuple[Problem, ...] = ()
    instead: str = ""

    @property
    def accepted(self) -> bool:
        """Whether the document is in force."""
        return not self.problems

    @property
    def name(self) -> str:
        """The ConfigMap, as ``kubectl`` names it."""
        return f"configmap/{self.config_map.name}"

    def lines(self) -> Iterator[str]:
        """The verdict as text: the ConfigMap and what is in force, then a line for each problem."""
        if self.accepted:
            yield f"{self.name}: in force" + (f": {self.vendor}" if self.vendor else "")
            return
        yield f"{self.name}: rejected; in force: {self.instead}"
        yield from (f"  {problem}" for problem in self.problems)


@dataclass(frozen=True, slots=True)
class PolicyFaults:
    """What is wrong beside the documents in ConfigMaps, for metrics.

    Attributes:
        lost: the number of ConfigMaps that vanished without a deletion.
        left_out: the number of documents in force that the record of last good documents has no space for.
        invalid: the documents in that record that are invalid, while a replica remembers a valid one.
        not_compiled: a bug keeps changed ConfigMaps from being compiled.
    """

    lost: int = 0
    left_out: int = 0
    invalid: frozenset[str] = frozenset()
    not_compiled: bool = False
