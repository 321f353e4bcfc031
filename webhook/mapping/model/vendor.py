"""A vendor: the document that describes it, with what is compiled from it for reading, writing and the admission steps."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import ConfigDict, Field

from webhook.mapping.document.strict import (
    API_VERSION,
    FEW,
    MANY,
    SOME,
    Belonging,
    DeviceMemory,
    KeyText,
    LabelKey,
    Long,
    Name,
    Short,
    Strict,
    like,
    told,
)
from webhook.mapping.model import schema
from webhook.mapping.model.guard import Guard, Guards
from webhook.mapping.model.keys import CONTAINER, VARIABLE_NAME, Form, Key, Variable
from webhook.mapping.model.shim import Shim
from webhook.mapping.notation import NameSet
from webhook.request import Dimension

if TYPE_CHECKING:
    from webhook.mapping.model.match_names import LetsThrough


@dataclass(frozen=True, slots=True)
class Owned:
    """The marks that a vendor's scheduler writes, and the hints that users write for it.

    A copied mark breaks placement, a forged one takes devices of others; a translated pod that keeps what `belongs` is told.
    """

    annotations: NameSet = field(default_factory=NameSet)
    labels: NameSet = field(default_factory=NameSet)
    hints: NameSet = field(default_factory=NameSet)  # annotations that only this scheduler reads
    belongs: NameSet = field(default_factory=NameSet)  # what this system alone knows, and `key=value` of its nodes

    def hint(self, key: str) -> bool:
        """Return whether an annotation is a hint, which is lost when the pod is translated to another vendor."""
        return key in self.hints and key not in self.annotations

    def knows(self, name: str) -> bool:
        """Return whether a name belongs to the system; ``key=value`` only as it is written, for patterns are of keys."""
        return name in self.belongs.exact or ("=" not in name and name in self.belongs)


def union(sets: Iterable[Owned]) -> Owned:
    """The union of several sets of marks, hints and belongings."""
    groups = zip(*((owned.annotations, owned.labels, owned.hints, owned.belongs) for owned in sets), strict=True)
    return Owned(*(reduce(or_, group, NameSet()) for group in groups))


BUILT_IN: Final = "built-in"  # the source of documents in the package


@dataclass(frozen=True, slots=True)
class Default:
    """The default of a dimension, and its origin."""

    value: Any  # a number of devices, or an amount
    origin: Literal["mapping", "namespace", "settings"]

    def named(self, dimension: Dimension) -> str:
        """Return the default as messages name it."""
        return f"the {self.origin}'s default-{dimension}: {self.value}"


class Vendor(Strict):
    """A mapping: the description of a vendor."""

    model_config = ConfigDict(title="Mapping")
    __eq__, __hash__ = object.__eq__, object.__hash__

    api_version: Literal["vgpu-webhook.io/v1alpha1"] = API_VERSION
    kind: Literal["Mapping"] = "Mapping"
    name: Name = Field(alias="vendor")
    family: Name = Field(description="the hardware family; `any` for a vendor without hardware of its own")
    about: Long | None = None
    aliases: list[Name] = told("other names for settings, annotations and options", [], max_length=FEW)
    served_by: Short | None = told(
        "the system that serves the keys, as messages name it; by default that of the first source",
        min_length=1,
        alias="system",
    )
    keys: dict[Short, Key] = Field(min_length=1, max_length=FEW)
    variables: dict[Annotated[Short, like(rf"(?!{CONTAINER}\Z)[a-z][a-z0-9-]*", *VARIABLE_NAME)], Variable] = Field(
        {}, max_length=FEW
    )
    forms: list[Form] = Field(min_length=1, max_length=SOME)
    filled: schema.Defaults = told(default=schema.Defaults(), alias="defaults")
    translate_to: Name | None = None
    drop: list[Literal["memory", "cores"]] = told("of targets: what may be dropped, with a warning", [], max_length=FEW)
    containers: Literal["any", "one", "equal", "shared"] = told(
        "one: at most one container requests; equal: all alike, as they are added up; shared: all together", "any"
    )
    excludes: list[KeyText] = told("resource names that no container of a requesting pod may have", [], max_length=FEW)
    one_device: bool = told("all containers of a pod use the same device", default=False)
    init_containers: Literal["served", "ignored", "denied"] = told("ignored: never written; denied: nor read", "served")
    native_sidecars: Literal["served", "freed"] = told("freed: others may get their devices while they run", "served")
    unlimited: Long | schema.Unlimited | None = told(
        "the vendor does not limit shares: a sentence about that for the warning"
    )
    copies: Name | None = told("a vendor whose request these keys may repeat in a container, if both mean the same")
    allowed_with: dict[Name, Long] = told("vendors beside it in a container → why it is left alone", {}, max_length=FEW)
    config_maps: LabelKey | None = told(
        "the annotation that names ConfigMaps of the scheduler: a translation removes references to them"
    )
    inactive: bool = told("true: the vendor's names are not read unless the setting `owners` names it", default=False)
    target: bool = told("false: read only, never written", default=True)
    claim: schema.Claim | None = told("requests are written as resource claims, never read from other keys")
    place: schema.Place = schema.Place()
    shim: Shim | None = None
    guarded: list[Guard] = told(default=[], max_length=SOME, alias="guard")
    unguarded: Long | None = told("for people: what of the vendor's is not guarded, and why")
    environment: dict[KeyText, Short | None] = told(
        "variables of the device plugin → the key whose number per device is the value, or null", {}, max_length=SOME
    )
    card_labels: list[LabelKey] = told("node labels that name the device, for all of the family", [], max_length=FEW)
    largest_device: DeviceMemory | None = told("the memory of the largest device that is sold, for all of the family")
    node_labels: schema.NodeLabels = told(
        "labels of nodes with what they have, for all vendors of the family: `check --pre` proposes by them",
        schema.NodeLabels.model_construct(devices=None, memory=None),
    )
    counts_parts: bool = told("a count is of parts, several of which may be on one device", default=False)
    shared_names: list[schema.SharedName] = told(
        "others' names that it may serve; `check` looks for them", [], max_length=FEW
    )
    reports: (
        Annotated[list[Annotated[KeyText, Field(min_length=1)] | schema.GatedName], Field(max_length=FEW)] | None
    ) = told(
        "the resources of keys that nodes report where the newest release of the system is installed as by its "
        "chart, or with what it `needs`; if no key is a resource, others that they need. One with variables, spelled as by "
        "its key, is at least one such name. `[]`: none; without it: unknown. `check` says which of them no node has"
    )
    allocates: Literal["scheduler", "kubelet"] | None = told(
        "who chooses the devices of a pod; without it a scheduler, if `place` has one, or for shares"
    )
    privileged: Literal["deny", "shares", "allow"] = told(
        "denied with a privileged container: `shares`; `deny`: whole devices, too; `allow`: none", "shares"
    )
    own: list[KeyText | schema.OwnedLabel] = told(
        "annotations and labels that only a scheduler writes", [], max_length=MANY, alias="owned"
    )
    owned_by: list[Long] = told("the users (service accounts) that may write them", [], max_length=SOME)
    hints: list[KeyText] = told("annotations that a translation makes void, with a warning", [], max_length=MANY)
    selects: schema.Selects = told(
        "hints by which a pod selects devices: they go into claims whose keys have `selects`",
        schema.Selects(),
    )
    belongs: list[Belonging] = told(
        "names of this system alone, or `key=value` of its nodes, that a translation reports", [], max_length=SOME
    )
    known: list[KeyText | schema.KnownName] = told(
        "names of other systems: patterns of resource names under its prefixes, or with advice", [], max_length=MANY
    )
    match: schema.Match = schema.Match()
    sources: list[schema.CheckedSource] = told("the sources that the document was checked against", [], max_length=FEW)

    if TYPE_CHECKING:
        source: str  # the source of the document
        by_dimension: Mapping[Dimension, tuple[str, ...]]  # the keys of each dimension, in the order of the document
        annotation_keys: bool  # it has no resource names of its own: labels and annotations request
        defaults: Mapping[Dimension, Default]
        guard: Guards
        owned: Owned
        lets_through: LetsThrough  # the names by which match conditions send a pod to the webhook
        expressed: frozenset[Dimension]  # those with a key, or of forms or names that imply them
        unreported: frozenset[str]  # its keys that no node reports
        borrowed: Mapping[str, Key]  # the keys that are resource names of other vendors, by these
        system: str  # whose scheduler and device plugin serve the keys, for messages

    @property
    def marks(self) -> tuple[str, ...]:
        """The keys in `owned`."""
        return tuple(entry if isinstance(entry, str) else entry.label for entry in self.own)

    @property
    def all_hints(self) -> tuple[str, ...]:
        """`hints`, and the annotations in `selects`, which have no effect without a target that obeys them."""
        return (*self.hints, *(annotation for _, annotation in self.selects if annotation is not None))

    @property
    def sizes(self) -> bool:
        """Whether its keys can request memory or cores, and not only devices."""
        return not self.expressed.isdisjoint({"memory", "cores"})

    def same_family(self, other: "Vendor") -> bool:
        """Return whether both vendors are for the same hardware."""
        return self.family == other.family or "any" in {self.family, other.family}


def system_names(first: Vendor, second: Vendor) -> tuple[str, str]:
    """Return how a message names the systems of two vendors; if they have the same one, the vendors themselves."""
    return (first.name, second.name) if first.system == second.system else (first.system, second.system)
