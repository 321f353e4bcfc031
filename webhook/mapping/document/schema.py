"""The schema of a mapping document: a vendor's keys, their meaning, and what a pod needs to run on the vendor's devices.

Strict: an unknown key is an error, and every list, map, text and number has a bound, far above what vendors need.
``docs/mapping.md`` explains every key by example. `webhook.mapping.compile` turns a document into the immutable values of
`webhook.mapping.model.vendor`.
"""

from typing import Annotated, Literal

from pydantic import Field

from webhook.mapping.document.schema_enforcement import Guard, Shim
from webhook.mapping.document.schema_keys import Key, KeyRule, Variable
from webhook.mapping.document.schema_types import (
    API_VERSION,
    FEW,
    MANY,
    MOST,
    SOME,
    Amount,
    Expression,
    KeyText,
    LabelKey,
    Long,
    Name,
    Numbers,
    Short,
    Strict,
    Whole,
)


class Derived(Strict):
    """A count of devices that another key implies."""

    key: Short
    per: int = Field(ge=1, le=MOST)
    round: Literal["up", "down"] | None = None


class Absent(Strict):
    """The meaning of a missing dimension."""

    devices: int | None = Field(None, ge=1, le=MOST)
    memory: Amount | None = Field(None, description="`all`, `unlimited` or a size")
    cores: Amount | None = Field(None, description="`unlimited` or a percentage")


class Form(Strict):
    """A combination of keys: a request, an invalid one (`deny`), or one that stays unchanged (`leave`)."""

    name: KeyText | None = None
    when: dict[Short, Numbers] = Field(
        {}, max_length=SOME, description="key or dimension → `absent`, `present`, legal numbers, or text"
    )
    deny: Long | None = None
    leave: Long | None = Field(None, description="a container with this form stays unchanged; the reason as a sentence")
    unlimited: Long | None = Field(
        None, description="the vendor does not enforce a limit in this form: a sentence about that for the warning"
    )
    devices: Whole | Derived | None = None
    memory: Amount | None = None
    cores: Amount | None = None
    absent: Absent = Absent()
    keys: dict[Short, KeyRule] = Field({}, max_length=SOME)
    write: bool = True


class Defaults(Strict):
    """The values for missing dimensions of a request; 0 for none."""

    devices: int | None = Field(None, ge=0, le=MOST)
    memory: Amount | None = Field(None, description="`all` or a quantity of bytes")
    cores: int | None = Field(None, ge=0, le=100)


class Place(Strict):
    """What a pod needs to be scheduled to the vendor's devices."""

    scheduler: KeyText | None = Field(None, min_length=1)
    schedulers: list[Annotated[KeyText, Field(min_length=1)]] = Field(
        [], max_length=FEW, description="further schedulers of the vendor"
    )
    conflict: Literal["keep", "override", "deny"] = Field(
        "keep", description="what happens if the pod names another scheduler"
    )
    runtime_class_name: KeyText | None = None
    node_selector: dict[KeyText, KeyText] = Field({}, max_length=FEW)
    tolerations: list[Annotated[dict[Short, Long | Whole], Field(max_length=FEW)]] = Field([], max_length=FEW)
    labels: dict[KeyText, KeyText] = Field({}, max_length=FEW)
    annotations: dict[KeyText, Long] = Field({}, max_length=FEW)


class OwnedLabel(Strict):
    """A label that only a scheduler may write."""

    label: KeyText


class CheckedSource(Strict):
    """A source that a document was checked against, to compare it with the next version."""

    system: Short = Field(description="the name of the project or product")
    at: Long = Field(description="the repository or site where it is published")
    version: Short | None = Field(None, description="the release or commit; omit it for pages without a version")
    date: Annotated[str, Field(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$", max_length=10)] = Field(
        description="the date of the comparison"
    )
    opened: Annotated[list[Long], Field(min_length=1, max_length=FEW)] = Field(
        description="the files or pages that were read"
    )
    missing: Long | None = Field(None, description="what could not be found in public")


class Match(Strict):
    """The names by which pods are sent to the webhook, if the domains of the keys would match too many pods."""

    resources: list[KeyText] | None = Field(None, max_length=FEW, description="prefixes of resource names")
    keys: list[KeyText] | None = Field(
        None, max_length=MANY, description="label and annotation keys, or prefixes ending in `*`"
    )


class Unrenamed(Strict):
    """Another vendor's resource name under which the vendor may serve its devices, which only node labels show."""

    resource: KeyText
    nodes: dict[LabelKey, Expression] = Field(
        min_length=1,
        max_length=FEW,
        description="labels of such nodes, each with a pattern of values; one match is enough",
    )
    instead: Long = Field(description="a sentence about what to configure instead")


class Mapping(Strict):
    """A mapping: the description of a vendor."""

    api_version: Literal["vgpu-webhook.io/v1alpha1"] = API_VERSION
    kind: Literal["Mapping"] = "Mapping"
    vendor: Name
    family: Name = Field(description="the hardware family; `any` for a vendor without hardware of its own")
    about: Long | None = None
    keys: dict[Short, Key] = Field(min_length=1, max_length=FEW)
    variables: dict[Short, Variable] = Field({}, max_length=FEW)
    forms: list[Form] = Field(min_length=1, max_length=SOME)
    defaults: Defaults = Defaults()
    translate_to: Name | None = None
    drop: list[Literal["memory", "cores"]] = Field(
        [], max_length=FEW, description="as a target: the dimensions that may be dropped, with a warning"
    )
    containers: Literal["any", "one", "equal", "shared"] = Field(
        "any",
        description="one: at most one container of a pod has a request; equal: all requests of a pod are equal, because the "
        "system adds them up; shared: all containers share one request",
    )
    together: bool = Field(default=False, description="all containers of a pod use the same device")
    init_containers: Literal["served", "ignored", "denied"] = Field(
        "served", description="ignored: requests of init containers are never written; denied: nor read"
    )
    copies: Name | None = Field(
        None,
        description="a vendor whose request may be repeated in these keys in the same container, if both mean the same",
    )
    beside: dict[Name, Long] = Field(
        {},
        max_length=FEW,
        description="vendors whose keys may be in the same container → why such a container stays unchanged",
    )
    config_maps: LabelKey | None = Field(
        None,
        description="the annotation with which the system's own webhook names the ConfigMaps that its scheduler creates for a "
        "pod: references to them are removed if the request is translated",
    )
    inactive: bool = Field(
        default=False, description="true: the vendor's names are not read unless the setting `owners` names it"
    )
    target: bool = Field(default=True, description="false: read only, never written")
    place: Place = Place()
    shim: Shim | None = None
    guard: list[Guard] = Field([], max_length=SOME)
    unguarded: Long | None = Field(
        None, description="for people: what of the vendor's is not guarded, and why; `vendors --guards` prints it"
    )
    environment: dict[KeyText, Short | None] = Field(
        {},
        max_length=SOME,
        description="variables that the device plugin sets → the key whose number per device is the value, or null",
    )
    card_labels: list[LabelKey] = Field(
        [], max_length=FEW, description="node labels that name the device, for all vendors of the hardware family"
    )
    unrenamed: list[Unrenamed] = Field(
        [],
        max_length=FEW,
        description="names of other vendors under which this one may serve its devices; `check` looks for them",
    )
    privileged: Literal["deny", "allow"] = "deny"
    owned: list[KeyText | OwnedLabel] = Field(
        [], max_length=MANY, description="patterns of annotations and labels that only a scheduler may write"
    )
    owned_by: list[Long] = Field([], max_length=SOME, description="the users (service accounts) that may write them")
    hints: list[KeyText] = Field(
        [],
        max_length=MANY,
        description="patterns of annotations that have no effect after a translation, which a warning reports",
    )
    known: list[KeyText] = Field([], max_length=MANY, description="names of other systems under the vendor's prefixes")
    match: Match = Match()
    sources: list[CheckedSource] = Field(
        [], max_length=FEW, description="the sources that the document was checked against"
    )
