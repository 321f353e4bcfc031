"""The policies that pods are decided by: every kind of setting, inactive vendors made active, a cluster's own documents.

Each says beside its documents what they mean for the oracle, by hand.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from tests.fuzz.oracle.keys import Cluster
from tests.fuzz.oracle.meaning import MIB, Amount
from tests.mapping.vendors import unprobed
from tests.yaml_text import load_yaml
from webhook.mapping.document import parse
from webhook.mapping.model.policy import Policy

Defaults = Mapping[str, int | Amount]

_TABLES: Mapping[str, Any] = load_yaml((Path(__file__).parent / "policies.yaml").read_text())
_DOCUMENTS: Mapping[str, str] = _TABLES["documents"]
CONFIGURED, COPIED, LOADED, AUDITING = (_DOCUMENTS[name] for name in ("configured", "copied", "loaded", "auditing"))
NVIDIA_DEFAULTS: Defaults = {"devices": 1, "memory": ("size", 5000 * MIB)}
BUILT_IN_DEFAULTS: Mapping[str, Defaults] = {"nvidia": NVIDIA_DEFAULTS, "vgpu-manager": {"devices": 1}}
HAMI = frozenset(
    {
        *("iluvatar", "cambricon", "mthreads", "metax", "hygon", "amd", "kunlun", "enflame", "ascend", "neuron"),
        *("biren", "vastai"),
    }
)
"""Other hardware of HAMi, which serves all of it by one scheduler (its README)."""


@dataclass(frozen=True, slots=True)
class Setup:
    """A policy as its documents, and what the oracle has to know of it.

    Attributes:
        mappings, settings: as YAML.
        cluster: what keys mean.
        target: the setting of that name.
        translate: vendor → its `translateTo`.
        defaults: of vendors, by dimension.
        drops: vendors that may drop cores.
        cards: bytes of a device by the name in the label of nodes.
        whole: whether counts alone are whole devices.
        served: vendors whose requests stay in their keys beside the target.
        claims_permitted: whether a resource claim may stand beside a request.
        unit: bytes in which the shim's limit of memory is written, and what follows the number.
        largest_device, largest_node: bytes and devices, of the settings of these names.
    """

    name: str
    mappings: str = CONFIGURED
    settings: str = "{}"
    cluster: Cluster = field(default_factory=lambda: Cluster(units={"cambricon": 256 * MIB}))
    target: str | None = None
    translate: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, Defaults] = field(default_factory=lambda: BUILT_IN_DEFAULTS)
    drops: frozenset[str] = frozenset()
    cards: Mapping[str, int] = field(default_factory=dict)
    claims_permitted: bool = False
    whole: bool = False
    served: frozenset[str] = frozenset()
    unit: tuple[int, str] = (MIB, "m")
    largest_device: int | None = None
    largest_node: int | None = None

    @property
    def home(self) -> frozenset[str]:
        """Whom the cluster serves; nobody: everybody."""
        if self.target is None and not self.served:
            return frozenset()
        others = HAMI if self.target == "nvidia" else frozenset()
        return frozenset({self.target or "", *self.served, *self.translate.values(), *others}) - {""}


def _setup(row: Mapping[str, Any]) -> Setup:
    """What a row of the table says."""
    made = dict(row)
    if "mappings" in made:
        made["mappings"] = "---\n".join(_DOCUMENTS.get(text, text + "\n") for text in made["mappings"])
    made["settings"] = json.dumps(made.get("settings", {}))
    cluster = {"units": {"cambricon": 256 * MIB}, **made.get("cluster", {})}
    made["cluster"] = Cluster(**{**cluster, "moore_threads": tuple(cluster.get("moore_threads", (96,)))})
    if "defaults" in made:
        made["defaults"] = {
            vendor: {key: tuple(value) if isinstance(value, list) else value for key, value in defaults.items()}
            for vendor, defaults in made["defaults"].items()
        }
    for name, kind in (("drops", frozenset), ("served", frozenset), ("unit", tuple)):
        if name in made:
            made[name] = kind(made[name])
    return Setup(**made)


SETUPS = tuple(_setup(row) for row in _TABLES["setups"])


@cache
def policy_of(index: int) -> Policy:
    """The compiled policy of one of `SETUPS`; compiled once, and shared by a process and its children."""
    setup = SETUPS[index]
    return unprobed(parse(setup.mappings, "mappings"), parse(setup.settings, "settings")[0])
