"""A vendor: the document that describes it, with what is compiled from it for reading, writing and the admission steps."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple, TypeAlias

from msgspec import Struct
from pydantic import ConfigDict, Field

from webhook.mapping.model.guard import Guard, Guards
from webhook.mapping.model.keys import CONTAINER, VARIABLE_NAME, Form, Key, Variable
from webhook.mapping.model.shim import Shim
from webhook.mapping.notation import NameSet
from webhook.mapping.strict import (
    API_VERSION,
    FEW,
    MANY,
    SOME,
    Belonging,
    DefaultMemory,
    DeviceMemory,
    DomainName,
    ExactNames,
    KeyText,
    LabelKey,
    LabelValue,
    Long,
    Name,
    Short,
    Strict,
    Subdomain,
    Texts,
    ValuePattern,
    Whole,
    like,
    texts,
    told,
)
from webhook.request import MAX_DEVICES, Dimension


class Unenforced(Strict):
    """Why the vendor limits no share to what it requests, and the pods whose shares it does limit."""

    why: Long = Field(description="a sentence about that for the warning")
    unless: dict[Short, Long] = told("text key → the text in the pod or `place` of limited shares", {}, max_length=FEW)


class Filled(Strict):
    """The values for missing dimensions of a request; 0 for none."""

    devices: int | None = Field(None, ge=0, le=MAX_DEVICES)
    memory: DefaultMemory | None = told("`all` or a quantity of bytes")
    cores: int | None = Field(None, ge=0, le=100)


class Tolerated(Strict):
    """A toleration of pods; the API server has further rules."""

    key: LabelKey | None = None
    operator: Literal["Exists", "Equal", "Lt", "Gt"] | None = None
    value: LabelValue | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    toleration_seconds: Whole | None = None

    def data(self) -> dict[str, str | int]:
        """Return it as a pod has it."""
        return self.model_dump(by_alias=True, exclude_none=True)


PlacedIn: TypeAlias = Literal["nodeSelector", "label", "annotation"]


class Placing(Strict):
    """What a pod needs to be scheduled to the vendor's devices."""

    scheduler: KeyText | None = Field(None, min_length=1)
    schedulers: list[Annotated[KeyText, Field(min_length=1)]] = told("further schedulers", [], max_length=FEW)
    conflict: Literal["keep", "override", "deny"] = told("what happens if the pod names another scheduler", "keep")
    runtime_class_name: Subdomain | None = None
    node_selector: dict[LabelKey, LabelValue] = Field({}, max_length=FEW)
    tolerations: list[Tolerated] = Field([], max_length=FEW)
    labels: dict[LabelKey, LabelValue] = Field({}, max_length=FEW)
    annotations: dict[LabelKey, Long] = Field({}, max_length=FEW)

    @property
    def written(self) -> dict[PlacedIn, dict[str, str]]:
        """What pods get, by the place of its keys: for those who write them, and all who have to know them."""
        return {"nodeSelector": self.node_selector, "label": self.labels, "annotation": self.annotations}


class Claiming(Strict):
    """The resource claims of Dynamic Resource Allocation in which the vendor's requests are written."""

    driver: DomainName = Field(description="the driver of the devices")
    device_class: DomainName = Field(alias="class", description="the DeviceClass of shares")
    whole_class: DomainName | None = told("the DeviceClass of whole devices, without capacities; by default `class`")
    further_classes: list[DomainName] = told("others of these devices: no share by key beside them", [], max_length=FEW)
    distinct: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=32)] | None = told(
        "the attribute of the driver that differs between all devices: those of a claim are never the same"
    )
    matching: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=32)] | None = told(
        "the attribute that is equal for all requests of a claim on one device, if the driver keeps them apart: "
        "containers that their system puts on one device become requests of one claim; without it, they are denied"
    )
    partitions: Name | None = told("the mapping with claims of partitions, for requests of a name that has a row there")


class NodeLabels(Strict):
    """Labels of nodes, whose values are numbers."""

    devices: LabelKey | None = told("the number of devices")
    memory: LabelKey | None = told("the memory of each in MiB")


class Selects(Strict):
    """Hints by which a pod selects the devices of all its containers: lists with commas; `not_`: of those it does not want."""

    model: LabelKey | None = told("parts of names of models, in any case, one of which the device has")
    not_model: LabelKey | None = told("likewise, none of which it has")
    uuid: LabelKey | None = told("UUIDs of devices")
    not_uuid: LabelKey | None = told("those of other devices")


class OwnedLabel(Strict):
    """A label that only a scheduler may write."""

    label: KeyText


class CheckedSource(Strict):
    """A source that a document was checked against, to compare it with the next version."""

    system: Short = Field(description="the name of the project or product")
    at: Long = Field(description="the repository or site where it is published")
    version: Short | None = told(
        "the release, with the commit that was read: `1.2.0 (0a1b2c3)`, `1.2.0 and later (…)`, "
        "`later than 1.2.0 (…)`, `no release (…)`; omit it for pages without a version"
    )
    date: Annotated[str, Field(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$", max_length=10)] = Field(
        description="the date of the comparison"
    )
    opened: Annotated[list[Long], Field(min_length=1, max_length=FEW)] = Field(
        description="the files or pages that were read"
    )
    missing: Long | None = told("what could not be found in public")
    adds: list[Short] = told("of a version after a release: keys and variables that none has yet", [], max_length=FEW)


class KnownName(Strict):
    """Names of another system, in one of three places, and what to do about them."""

    resource: Texts | None = told("a resource name, or several, `*` for any text")
    label: ExactNames | None = told("instead of `resource`: the key of a label")
    annotation: ExactNames | None = told("instead of `resource`: the key of an annotation")
    advice: Long = Field(description="whose name it is, and what to write instead, as a clause")
    report: bool = told("a pod with it gets a warning; false: only `explain --name` prints it", default=True)


class GatedName(Strict):
    """A resource that nodes report under a condition only."""

    resource: KeyText = Field(min_length=1, description="the resource name")
    needs: Long = Field(description="what has to be switched on, as a clause")
    requests: Short | None = told("the requests that need it, if not all: `whole devices`")


class Match(Strict):
    """The names by which pods are sent to the webhook, if the domains of the keys would match too many pods."""

    resources: list[KeyText] | None = told("prefixes of resource names", max_length=FEW)
    keys: list[KeyText] | None = told("label and annotation keys, or prefixes ending in `*`", max_length=MANY)


class SharedName(Strict):
    """Another vendor's resource name under which the vendor may serve its devices, which only node labels show."""

    resource: KeyText
    nodes: dict[LabelKey, ValuePattern] = Field(
        min_length=1,
        max_length=FEW,
        description="labels of such nodes, each with a pattern of values; one match is enough",
    )
    instead: Long = Field(description="a sentence about what to configure instead")


KnownPlace: TypeAlias = Literal["resource", "label", "annotation"]

KNOWN_PLACES: Final[tuple[KnownPlace, ...]] = ("resource", "label", "annotation")


class OtherName(NamedTuple):
    """A name of another system in `known`, of a resource perhaps with ``*``; without advice its text is empty."""

    place: KnownPlace
    name: str
    advice: str
    report: bool
    position: int


class LetsThrough(Struct, frozen=True):
    """The names by which match conditions send a pod to the webhook; ``*`` matches any text."""

    prefixes: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()


class Owned(Struct, frozen=True):
    """The marks that a vendor's scheduler writes, and the hints that users write for it.

    A copied mark breaks placement, a forged one takes devices of others; a translated pod that keeps what `belongs` is told.
    """

    annotations: NameSet = NameSet()
    labels: NameSet = NameSet()
    hints: NameSet = NameSet()  # annotations that only this scheduler reads
    belongs: NameSet = NameSet()  # what this system alone knows, and `key=value` of its nodes

    def hint(self, key: str) -> bool:
        """Return whether an annotation is a hint, which is lost when the pod is translated to another vendor."""
        return key in self.hints and key not in self.annotations

    def knows(self, name: str) -> bool:
        """Return whether a name belongs to the system; ``key=value`` only as it is written, for patterns are of keys."""
        return name in self.belongs.exact or ("=" not in name and name in self.belongs)


BUILT_IN: Final = "built-in"  # the source of documents in the package


class Default(Struct, frozen=True):
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
    filled: Filled = told(default=Filled.model_construct(), alias="defaults")
    translate_to: Name | None = None
    drop: list[Literal["memory", "cores"]] = told("of targets: what may be dropped, with a warning", [], max_length=FEW)
    containers: Literal["any", "one", "equal", "shared"] = told(
        "one: at most one container requests; equal: all alike, as they are added up; shared: all together", "any"
    )
    excludes: list[KeyText] = told("resource names that no container of a requesting pod may have", [], max_length=FEW)
    one_device: bool = told("all containers of a pod use the same device", default=False)
    init_containers: Literal["served", "ignored", "denied"] = told("ignored: never written; denied: nor read", "served")
    native_sidecars: Literal["served", "freed"] = told("freed: others may get their devices while they run", "served")
    unlimited: Long | Unenforced | None = told(
        "the vendor does not limit shares: a sentence about that for the warning"
    )
    copies: Name | None = told("a vendor whose request these keys may repeat in a container, if both mean the same")
    allowed_with: dict[Name, Long] = told("vendors beside it in a container → why it is left alone", {}, max_length=FEW)
    config_maps: LabelKey | None = told(
        "the annotation that names ConfigMaps of the scheduler: a translation removes references to them"
    )
    inactive: bool = told("true: the vendor's names are not read unless the setting `owners` names it", default=False)
    target: bool = told("false: read only, never written", default=True)
    claim: Claiming | None = told("requests are written as resource claims, never read from other keys")
    place: Placing = Placing.model_construct()
    shim: Shim | None = None
    guarded: list[Guard] = told(default=[], max_length=SOME, alias="guard")
    unguarded: Long | None = told("for people: what of the vendor's is not guarded, and why")
    environment: dict[KeyText, Short | None] = told(
        "variables of the device plugin → the key whose number per device is the value, or null", {}, max_length=SOME
    )
    card_labels: list[LabelKey] = told("node labels that name the device, for all of the family", [], max_length=FEW)
    largest_device: DeviceMemory | None = told("the memory of the largest device that is sold, for all of the family")
    node_labels: NodeLabels = told(
        "labels of nodes with what they have, for all vendors of the family: `check --pre` proposes by them",
        NodeLabels.model_construct(devices=None, memory=None),
    )
    counts_parts: bool = told("a count is of parts, several of which may be on one device", default=False)
    shared_names: list[SharedName] = told("others' names that it may serve; `check` looks for them", [], max_length=FEW)
    reports: Annotated[list[Annotated[KeyText, Field(min_length=1)] | GatedName], Field(max_length=FEW)] | None = told(
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
    own: list[KeyText | OwnedLabel] = told(
        "annotations and labels that only a scheduler writes", [], max_length=MANY, alias="owned"
    )
    owned_by: list[Long] = told("the users (service accounts) that may write them", [], max_length=SOME)
    hints: list[KeyText] = told("annotations that a translation makes void, with a warning", [], max_length=MANY)
    selects: Selects = told(
        "hints by which a pod selects devices: they go into claims whose keys have `selects`",
        Selects.model_construct(),
    )
    belongs: list[Belonging] = told(
        "names of this system alone, or `key=value` of its nodes, that a translation reports", [], max_length=SOME
    )
    known: list[KeyText | KnownName] = told(
        "names of other systems: patterns of resource names under its prefixes, or with advice", [], max_length=MANY
    )
    match: Match = Match.model_construct()
    sources: list[CheckedSource] = told("the sources that the document was checked against", [], max_length=FEW)

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

    @cached_property
    def system(self) -> str:
        """Whose scheduler and device plugin serve the keys, for messages."""
        return self.served_by or next((source.system for source in self.sources), self.name)

    @property
    def marks(self) -> tuple[str, ...]:
        """The keys in `owned`."""
        return tuple(entry if isinstance(entry, str) else entry.label for entry in self.own)

    @property
    def all_hints(self) -> tuple[str, ...]:
        """`hints`, and the annotations in `selects`, which have no effect without a target that obeys them."""
        return (*self.hints, *(annotation for _, annotation in self.selects if annotation is not None))

    def names_of_others(self, *places: KnownPlace) -> Iterator[OtherName]:
        """The names of `known` in these places, or in any."""
        for position, entry in enumerate(self.known):
            known = (
                KnownName.model_construct(resource=entry, advice="", report=False) if isinstance(entry, str) else entry
            )
            for place in places or KNOWN_PLACES:
                for name in texts(getattr(known, place)):
                    yield OtherName(place, name, " ".join(known.advice.split()), known.report, position)

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
