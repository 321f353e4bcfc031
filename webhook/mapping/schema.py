"""The schema of a mapping document: how one vendor's words are spelled, what they mean, and what a pod needs to run there.

Strict: an unknown key is an error. ``docs/mapping.md`` explains every key by example; what the parts mean together is in
`webhook.mapping.vendor`, which compiles a document into immutable values.
"""

from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

Name: TypeAlias = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$", max_length=63)]
Texts: TypeAlias = str | Annotated[list[str], Field(min_length=1)]
Amount: TypeAlias = str | int
"""A quantity: ``5000Mi``, ``256Mi``, ``1``; or a percentage of a card: ``1%``, ``6.25%``."""
Held: TypeAlias = Amount | Annotated[list[Amount], Field(min_length=1, max_length=2)]
"""What one device holds: an amount, or [least, most] that was seen."""
Numbers: TypeAlias = str | int | Annotated[list[str | int], Field(min_length=1)]
"""A set of legal numbers: ``5..100 by 5``, ``1..``, ``2``, ``[2, 4, 8]``."""
_LABEL: Final = (
    r"^(?:[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*/)?"
    r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"
)
LabelKey: TypeAlias = Annotated[str, Field(pattern=_LABEL, max_length=253 + 1 + 63)]
"""The key of a label: a name of 63 characters at most, perhaps after a DNS name of 253 at most and a slash."""


class Strict(BaseModel):
    """Base of the schema: no unknown keys, no conversions by surprise, keys in camelCase."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, alias_generator=to_camel, defer_build=True)


class Row(Strict):
    """What one device of a name holds, where the name says the size (MIG profiles, chips, our own profiles)."""

    memory: Held | Annotated[dict[str, Held], Field(min_length=1)] | None = Field(
        None, description="a size, `all`, or [least, most] that was seen; or model of the card: one of these"
    )
    cores: Amount | Annotated[dict[str, Amount], Field(min_length=1)] | None = Field(
        None, description="percent of a card, or model of the card: percent"
    )
    devices: int | None = None
    values: dict[str, Numbers] = Field({}, description="legal numbers of words, for this name")


class Variable(Strict):
    """A variable part of names: `{chip}`, `{profile}`."""

    values: list[str] | str | None = Field(None, description="a list of what it can be, or one pattern")
    rows: dict[str, Row] | None = Field(None, description="what it can be, and what a device of that name holds")
    others: str | None = Field(None, description="pattern of names that are known, but not what they hold")
    write: Texts | None = Field(
        None, description="what may be written, without it nothing; if it stands in no key, what every device holds"
    )
    model: Texts | None = Field(
        None, description="models of the cluster's cards, as rows name them; without it what may be of any"
    )
    why: str | None = Field(None, description="why `write` has to be configured, where it stands in no key")


class WordRule(Strict):
    """How the numbers of a word are read; a form may say it differently."""

    unit: Amount | None = Field(
        None, description="memory: bytes (`256Mi`) or `N%` of a card; cores: `N%`; null: to configure"
    )
    total: bool | None = Field(None, description="the number is over all devices")
    values: Numbers | None = Field(None, description="legal numbers per device; 0 is unset unless illegal")
    step: Amount | None = Field(None, description="what is written is a multiple of this, though more may be read")
    round: Literal["up", "down"] | None = Field(
        None, description="what the vendor does with other numbers; else refused"
    )


WordKind: TypeAlias = Literal["devices", "memory", "cores", "other", "text", "container"]


class Word(WordRule):
    """One thing that a pod can carry: exactly one of resource, label and annotation."""

    resource: Texts | None = Field(None, description="resource name, or several spellings: the first is written")
    label: Texts | None = None
    annotation: Texts | None = None
    kind: WordKind | list[Literal["devices", "memory", "cores"]] = Field(alias="is", description="what it says")
    why: str | None = Field(None, description="with `unit: null`: why it has to be configured")
    note: str | None = Field(None, description="for people: what is easily misunderstood, in a sentence")
    written: Literal["integer", "decimal", "quantity"] = Field(
        "integer", description="spelling in a label or annotation"
    )
    list: bool = Field(default=False, description="one entry for each container, by position")
    twin: str | None = Field(None, description="a second key: either is read, both are written, they agree")
    picks: str | None = Field(None, description="a text word: the variable whose row it names")
    absent: Literal["first", "only"] | None = Field(None, description="a container word: who asks when it is missing")


class Derived(Strict):
    """A count of devices that another word implies."""

    word: str
    per: int = Field(ge=1)
    round: Literal["up", "down"] | None = None


class Absent(Strict):
    """What a missing dimension means."""

    devices: int | None = Field(None, ge=1)
    memory: Amount | None = Field(None, description="`all`, `free` or a size")
    cores: Amount | None = Field(None, description="`free` or a percentage")


class Form(Strict):
    """One way in which words make a request, or (`deny`) one that the vendor refuses."""

    name: str | None = None
    when: dict[str, Numbers] = Field({}, description="word or dimension: `absent`, `present`, legal numbers, or text")
    deny: str | None = None
    devices: int | Derived | None = None
    memory: Amount | None = None
    cores: Amount | None = None
    absent: Absent = Absent()
    words: dict[str, WordRule] = {}
    write: bool = True


class Defaults(Strict):
    """What is filled in when a request leaves a dimension out; 0 fills nothing."""

    devices: int | None = Field(None, ge=0)
    memory: Amount | None = Field(None, description="`all` or a quantity of bytes")
    cores: int | None = Field(None, ge=0, le=100)


class Place(Strict):
    """What a pod needs to be placed where the vendor's cards are."""

    scheduler: str | None = Field(None, min_length=1)
    schedulers: list[Annotated[str, Field(min_length=1)]] = Field(
        [], description="others that belong to the vendor too"
    )
    conflict: Literal["keep", "override", "deny"] = Field(
        "keep", description="when the pod names a scheduler of its own"
    )
    runtime_class_name: str | None = None
    node_selector: dict[str, str] = {}
    tolerations: list[dict[str, Any]] = []
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class HostPath(Strict):
    """A folder of the node that holds the library."""

    volume: str
    path: str
    type: Literal["", "Directory", "DirectoryOrCreate"] = "Directory"
    mount_path: str


class HostPathDelivery(Strict):
    """Delivery by a hostPath volume; Pod Security permits it in privileged namespaces only."""

    host_path: HostPath


Delivery: TypeAlias = Literal["none"] | HostPathDelivery


class State(Strict):
    """A writable volume that the shim needs: an emptyDir, mounted at paths by subPath."""

    volume: str
    empty_dir: dict[str, str] = {}
    mounts: dict[str, str] = Field(description="mount path: subPath")


class LibraryPath(Strict):
    """What `LD_LIBRARY_PATH` begins with, and the tail that stands for the image's own."""

    prefix: list[str] = Field(min_length=1)
    image_default: list[str] = []


class Preload(Strict):
    """What `LD_PRELOAD` begins with."""

    prefix: list[str] = Field(min_length=1)


class Shim(Strict):
    """The library that enforces the share inside the container, and what makes the loader find it."""

    mode: Literal["inject", "plugin"] = Field("inject", description="plugin: the cluster's device plugin mounts it")
    limit: Literal["env", "plugin"] | None = Field(
        None, description="who carries the limit: variables, or the device plugin"
    )
    forms: list[str] | None = Field(None, description="only for requests read in these forms")
    needs: list[Literal["memory", "cores"]] = Field(
        [], description="must be sizes (or percent of cores), else no shim by us"
    )
    unmet: Literal["plugin", "deny"] = "plugin"
    delivery: list[Delivery] = ["none"]
    state: State | None = None
    library_path: LibraryPath | None = None
    preload: Preload | None = None
    env: dict[str, str] = Field({}, description="may use {memory} (MiB, up), {cores}, {devices}, {container}")


class Guard(Strict):
    """A variable by which a user could lift the limit, and the values that do; or a list of them that has a name."""

    env: Texts | None = Field(None, description="name, or several; `*` stands for anything")
    lifts: Literal["truthy"] | list[str] | None = None
    unless: list[str] | None = Field(
        None, description="every value but these lifts; what the shim itself writes never does"
    )
    action: Literal["deny", "strip", "allow"] = "deny"
    whole: bool = Field(
        default=False, description="in containers with whole devices, too: the variable shows devices of others"
    )
    named: Name | None = Field(
        None, alias="list", description="in place of all else: the built-in list of a library or runtime"
    )


class OwnedLabel(Strict):
    """A label that only a scheduler may write."""

    label: str


class Match(Strict):
    """What lets a pod through to the webhook, where the domains of the words would let through too many."""

    resources: list[str] | None = Field(None, description="prefixes of resource names")
    keys: list[str] | None = Field(None, description="label and annotation keys, or prefixes ending in `*`")


class Mapping(Strict):
    """A vendor as a document."""

    vendor: Name
    family: Name = Field(description="hardware; `any`: no hardware of its own")
    about: str | None = None
    words: dict[str, Word] = Field(min_length=1)
    variables: dict[str, Variable] = {}
    forms: list[Form] = Field(min_length=1)
    defaults: Defaults = Defaults()
    translate_to: Name | None = None
    drop: list[Literal["memory", "cores"]] = Field([], description="as a target: what may be lost, with a warning")
    containers: Literal["any", "one"] = Field("any", description="one: at most one container of a pod may ask")
    together: bool = Field(default=False, description="the pod's containers are all put on one card")
    init_containers: Literal["served", "ignored"] = "served"
    standby: bool = Field(default=False, description="owns no name until the setting `owners` says so")
    target: bool = Field(default=True, description="false: read only, never written")
    place: Place = Place()
    shim: Shim | None = None
    guard: list[Guard] = []
    environment: dict[str, str | None] = Field(
        {}, description="variables that the device plugin sets: the word whose number per card it is, or null"
    )
    card_labels: list[LabelKey] = Field(
        [], description="labels of nodes that name the card, for all vendors of the hardware family"
    )
    privileged: Literal["deny", "allow"] = "deny"
    owned: list[str | OwnedLabel] = Field([], description="annotation patterns that only a scheduler may write")
    owned_by: list[str] = Field([], description="users (service accounts) that may write them")
    hints: list[str] = Field([], description="annotation patterns that are told as not carried when translated")
    known: list[str] = Field([], description="names under our prefixes that are somebody else's")
    match: Match = Match()
