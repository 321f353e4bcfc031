"""The schema of a mapping document: how one vendor's keys are spelled, what they mean, and what a pod needs to run there.

Strict: an unknown key is an error, and every list, map, text and number has a bound, far above what vendors need.
``docs/mapping.md`` explains every key by example. `webhook.mapping.compile` turns a document into the immutable values of
`webhook.mapping.model.vendor`, which say what its parts mean together.
"""

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from webhook.mapping.document.schema_enforcement import Guard, Shim
from webhook.mapping.document.schema_types import (
    API_VERSION,
    FEW,
    MANY,
    MOST,
    SOME,
    Amount,
    Expression,
    Held,
    KeyText,
    LabelKey,
    Long,
    Name,
    Numbers,
    Short,
    Strict,
    Texts,
    Whole,
)
from webhook.request import Dimension


class Row(Strict):
    """What one device of a name holds, where the name says the size (MIG profiles, chips, our own profiles)."""

    memory: Held | Annotated[dict[Short, Held], Field(min_length=1, max_length=FEW)] | None = Field(
        None, description="a size, `all`, or [least, most] that was seen; or model of the device: one of these"
    )
    cores: Amount | Annotated[dict[Short, Amount], Field(min_length=1, max_length=FEW)] | None = Field(
        None, description="percent of a device, or model of the device: percent"
    )
    devices: int | None = Field(None, ge=1, le=MOST)
    values: dict[Short, Numbers | Annotated[dict[KeyText, Numbers], Field(max_length=SOME)]] = Field(
        {}, max_length=SOME, description="legal numbers of keys, for this name; or form: legal numbers there"
    )
    all: dict[Short, Numbers] = Field(
        {}, max_length=SOME, description="numbers of keys that are all of a device of this name"
    )


class Variable(Strict):
    """A variable part of names: `{chip}`, `{profile}`."""

    values: Annotated[list[KeyText], Field(max_length=MANY)] | Expression | None = Field(
        None, description="a list of what it can be, or one pattern"
    )
    rows: Annotated[dict[KeyText, Row], Field(max_length=MANY)] | None = Field(
        None, description="what it can be, and what a device of that name holds"
    )
    others: Expression | None = Field(None, description="pattern of names that are known, but not what they hold")
    write: Texts | None = Field(
        None, description="what may be written, without it nothing; if it stands in no key, what every device holds"
    )
    model: Texts | None = Field(
        None, description="models of the cluster's devices, as rows name them; without it what may be of any"
    )
    why: Long | None = Field(None, description="why `write` has to be configured, where it stands in no key")


class KeyRule(Strict):
    """How the numbers of a key are read; a form may say it differently."""

    unit: Amount | None = Field(
        None, description="memory: bytes (`256Mi`) or `N%` of a device; cores: `N%`; null: to configure"
    )
    total: bool | None = Field(None, description="the number is over all devices")
    values: Numbers | None = Field(None, description="legal numbers per device; 0 is unset unless illegal")
    step: Amount | None = Field(None, description="what is written is a multiple of this, though more may be read")
    round: Literal["up", "down"] | None = Field(
        None, description="what the vendor does with other numbers; else refused"
    )


KeyKind: TypeAlias = Literal["devices", "memory", "cores", "other", "text", "container"]


class Ceiling(Strict):
    """What a key of more than is requested is about."""

    of: Short = Field(description="the key that says what is requested")
    per: Amount = Field(1, description="what 1 of that key is here: `1Mi` beside a key whose unit is 1Mi")


class Key(KeyRule):
    """One thing that a pod can carry: exactly one of resource, label, annotation and nodeSelector."""

    resource: Texts | None = Field(None, description="resource name, or several spellings: the first is written")
    label: Texts | None = None
    annotation: Texts | None = None
    node_selector: Texts | None = Field(
        None, description="key of the pod's nodeSelector: read only, never written; `is` is `text` or `other`"
    )
    kind: KeyKind | Annotated[list[Dimension], Field(max_length=3)] = Field(alias="is", description="what it says")
    why: Long | None = Field(None, description="with `unit: null`: why it has to be configured")
    note: Long | None = Field(None, description="for people: what is easily misunderstood, in a sentence")
    retired: Long | None = Field(
        None, description="current versions of the system no longer read it: a sentence for whoever it is written for"
    )
    written: Literal["integer", "decimal", "quantity"] = Field(
        "integer", description="spelling in a label or annotation"
    )
    list: bool = Field(default=False, description="one entry for each container, by position")
    twin: KeyText | None = Field(
        None, description="a second key: either is read, both are written; where they differ, nothing is translated"
    )
    ceiling: Ceiling | None = Field(
        None, description="it allows more than another key requests: where both differ, nothing is translated"
    )
    picks: Short | None = Field(None, description="a text key: the variable whose row it names")
    perhaps: KeyText | None = Field(
        None, description="pattern of unknown resource names that may be this one under a name of the cluster's own"
    )
    absent: Literal["first", "only"] | None = Field(None, description="a container key: who asks when it is missing")


class Derived(Strict):
    """A count of devices that another key implies."""

    key: Short
    per: int = Field(ge=1, le=MOST)
    round: Literal["up", "down"] | None = None


class Absent(Strict):
    """What a missing dimension means."""

    devices: int | None = Field(None, ge=1, le=MOST)
    memory: Amount | None = Field(None, description="`all`, `free` or a size")
    cores: Amount | None = Field(None, description="`free` or a percentage")


class Form(Strict):
    """One way in which keys make a request, one that the vendor refuses (`deny`), or one that is left alone (`leave`)."""

    name: KeyText | None = None
    when: dict[Short, Numbers] = Field(
        {}, max_length=SOME, description="word or dimension: `absent`, `present`, legal numbers, or text"
    )
    deny: Long | None = None
    leave: Long | None = Field(None, description="a container in this form is left as it stands; why, in a sentence")
    devices: Whole | Derived | None = None
    memory: Amount | None = None
    cores: Amount | None = None
    absent: Absent = Absent()
    keys: dict[Short, KeyRule] = Field({}, max_length=SOME)
    write: bool = True


class Defaults(Strict):
    """What is filled in when a request leaves a dimension out; 0 fills nothing."""

    devices: int | None = Field(None, ge=0, le=MOST)
    memory: Amount | None = Field(None, description="`all` or a quantity of bytes")
    cores: int | None = Field(None, ge=0, le=100)


class Place(Strict):
    """What a pod needs to be placed where the vendor's devices are."""

    scheduler: KeyText | None = Field(None, min_length=1)
    schedulers: list[Annotated[KeyText, Field(min_length=1)]] = Field(
        [], max_length=FEW, description="others that belong to the vendor too"
    )
    conflict: Literal["keep", "override", "deny"] = Field(
        "keep", description="when the pod names a scheduler of its own"
    )
    runtime_class_name: KeyText | None = None
    node_selector: dict[KeyText, KeyText] = Field({}, max_length=FEW)
    tolerations: list[Annotated[dict[Short, Long | Whole], Field(max_length=FEW)]] = Field([], max_length=FEW)
    labels: dict[KeyText, KeyText] = Field({}, max_length=FEW)
    annotations: dict[KeyText, Long] = Field({}, max_length=FEW)


class OwnedLabel(Strict):
    """A label that only a scheduler may write."""

    label: KeyText


class HeldAgainst(Strict):
    """What a document was held against, for whoever holds it against the next version."""

    system: Short = Field(description="the name of the project or product")
    at: Long = Field(description="repository or site where it is published")
    version: Short | None = Field(None, description="release or commit; none where pages have no version")
    date: Annotated[str, Field(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$", max_length=10)] = Field(
        description="day of the comparison"
    )
    opened: Annotated[list[Long], Field(min_length=1, max_length=FEW)] = Field(
        description="files or pages that were read"
    )
    missing: Long | None = Field(None, description="what was looked for and not found in the open")


class Match(Strict):
    """What lets a pod through to the webhook, where the domains of the keys would let through too many."""

    resources: list[KeyText] | None = Field(None, max_length=FEW, description="prefixes of resource names")
    keys: list[KeyText] | None = Field(
        None, max_length=MANY, description="label and annotation keys, or prefixes ending in `*`"
    )


class Unrenamed(Strict):
    """Another vendor's resource name under which the vendor may serve its devices; only labels of nodes tell."""

    resource: KeyText
    nodes: dict[LabelKey, Expression] = Field(
        min_length=1, max_length=FEW, description="labels of such nodes, each with a pattern of values; one is enough"
    )
    instead: Long = Field(description="what to set, in a sentence")


class Mapping(Strict):
    """A vendor as a document."""

    api_version: Literal["vgpu-webhook.io/v1alpha1"] = API_VERSION
    kind: Literal["Mapping"] = "Mapping"
    vendor: Name
    family: Name = Field(description="hardware; `any`: no hardware of its own")
    about: Long | None = None
    keys: dict[Short, Key] = Field(min_length=1, max_length=FEW)
    variables: dict[Short, Variable] = Field({}, max_length=FEW)
    forms: list[Form] = Field(min_length=1, max_length=SOME)
    defaults: Defaults = Defaults()
    translate_to: Name | None = None
    drop: list[Literal["memory", "cores"]] = Field(
        [], max_length=FEW, description="as a target: what may be lost, with a warning"
    )
    containers: Literal["any", "one", "equal", "shared"] = Field(
        "any",
        description="one: at most one container of a pod requests; equal: several request the same, for the system sums; "
        "shared: what is requested is for all of them together",
    )
    together: bool = Field(default=False, description="the pod's containers are all put on one device")
    init_containers: Literal["served", "ignored", "refused"] = Field(
        "served", description="ignored: not written for them; refused: not read either"
    )
    copies: Name | None = Field(
        None,
        description="a vendor whose requests may be repeated in these keys on the same container, if both mean the same",
    )
    beside: dict[Name, Long] = Field(
        {},
        max_length=FEW,
        description="vendors whose keys may stand in a container with these: why it is then left as it stands",
    )
    config_maps: LabelKey | None = Field(
        None,
        description="annotation by which its own webhook names the ConfigMaps that its scheduler makes for a pod: "
        "what refers to them is removed where the request is translated",
    )
    inactive: bool = Field(default=False, description="owns no name until the setting `owners` says so")
    target: bool = Field(default=True, description="false: read only, never written")
    place: Place = Place()
    shim: Shim | None = None
    guard: list[Guard] = Field([], max_length=SOME)
    environment: dict[KeyText, Short | None] = Field(
        {},
        max_length=SOME,
        description="variables that the device plugin sets: the key whose number per device it is, or null",
    )
    card_labels: list[LabelKey] = Field(
        [], max_length=FEW, description="labels of nodes that name the device, for all vendors of the hardware family"
    )
    unrenamed: list[Unrenamed] = Field(
        [], max_length=FEW, description="names of other vendors under which this one may serve devices, for `check`"
    )
    privileged: Literal["deny", "allow"] = "deny"
    owned: list[KeyText | OwnedLabel] = Field(
        [], max_length=MANY, description="annotation patterns that only a scheduler may write"
    )
    owned_by: list[Long] = Field([], max_length=SOME, description="users (service accounts) that may write them")
    hints: list[KeyText] = Field(
        [], max_length=MANY, description="annotation patterns that are told as not carried when translated"
    )
    known: list[KeyText] = Field([], max_length=MANY, description="names under our prefixes that are somebody else's")
    match: Match = Match()
    sources: list[HeldAgainst] = Field([], max_length=FEW, description="what the document was held against")
