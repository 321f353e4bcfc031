"""What became of each ConfigMap: for metrics, log lines, events and the readiness page."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from webhook.cluster.configuration.config_maps import ConfigMap
from webhook.mapping.document.problem import Problem

Kind: TypeAlias = Literal["mapping", "settings"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of the document in a ConfigMap.

    Attributes:
        config_map: as it was read.
        kind: what it is to hold.
        vendor: the vendor that it describes, as far as that can be told.
        problems: why its document is not in force; empty: it is.
        instead: what is in force instead, as the end of a sentence; empty where the document itself is.
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
        """The ConfigMap as people write it."""
        return f"configmap/{self.config_map.name}"

    def lines(self) -> Iterator[str]:
        """It in words, a line for each problem; the first names the ConfigMap and what is in force instead."""
        if self.accepted:
            yield f"{self.name}: in force" + (f": {self.vendor}" if self.vendor else "")
            return
        yield f"{self.name}: rejected; in force: {self.instead}"
        yield from (f"  {problem}" for problem in self.problems)
