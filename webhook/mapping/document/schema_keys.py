"""The schema of keys: what their numbers mean, and the variable parts of their names."""

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from webhook.mapping.document.schema_types import (
    FEW,
    MANY,
    MOST,
    SOME,
    Amount,
    DeviceAmount,
    Expression,
    KeyText,
    Long,
    Numbers,
    Short,
    Strict,
    Texts,
)
from webhook.request import Dimension


class Row(Strict):
    """What one device of a name contains, if the name determines it (MIG profiles, chips, custom profiles)."""

    memory: DeviceAmount | Annotated[dict[Short, DeviceAmount], Field(min_length=1, max_length=FEW)] | None = Field(
        None,
        description="a size, `all`, or [least, most] of observed sizes; or a map from the model of the device to one of these",
    )
    cores: Amount | Annotated[dict[Short, Amount], Field(min_length=1, max_length=FEW)] | None = Field(
        None, description="percent of a device; or a map from the model of the device to percent"
    )
    devices: int | None = Field(None, ge=1, le=MOST)
    values: dict[Short, Numbers | Annotated[dict[KeyText, Numbers], Field(max_length=SOME)]] = Field(
        {}, max_length=SOME, description="key → legal numbers for this name; or key → form → legal numbers in that form"
    )
    all: dict[Short, Numbers] = Field(
        {}, max_length=SOME, description="key → numbers that mean all of a device of this name"
    )


class Variable(Strict):
    """A variable part of names, such as `{chip}` or `{profile}`."""

    values: Annotated[list[KeyText], Field(max_length=MANY)] | Expression | None = Field(
        None, description="the possible values: a list, or one pattern"
    )
    rows: Annotated[dict[KeyText, Row], Field(max_length=MANY)] | None = Field(
        None, description="the possible values, and what a device of each name contains"
    )
    others: Expression | None = Field(None, description="pattern of names that are known, but whose content is not")
    write: Texts | None = Field(
        None,
        description="the values that may be written. If no key contains the variable: the row of every device",
    )
    model: Texts | None = Field(
        None, description="models of the cluster's devices, as in the rows; without it any model is possible"
    )
    why: Long | None = Field(None, description="why `write` has to be configured, if no key contains the variable")


class KeyRule(Strict):
    """How the numbers of a key are read; a form may override it."""

    unit: Amount | None = Field(
        None,
        description="what 1 means. memory: bytes (`256Mi`) or `N%` of a device; cores: `N%`; null: has to be configured",
    )
    total: bool | None = Field(None, description="the number is the total of all devices, not per device")
    values: Numbers | None = Field(
        None, description="legal numbers per device; 0 counts as unset, unless it is illegal"
    )
    step: Amount | None = Field(None, description="written numbers are multiples of this; others may be read")
    round: Literal["up", "down"] | None = Field(
        None, description="how the vendor rounds other numbers; without it they are denied"
    )


KeyKind: TypeAlias = Literal["devices", "memory", "cores", "other", "text", "container"]


class Ceiling(Strict):
    """The key whose request another key may exceed."""

    of: Short = Field(description="the key with the request")
    per: Amount = Field(
        1, description="the value here that corresponds to 1 of that key: `1Mi` for a key whose unit is 1Mi"
    )


class Key(KeyRule):
    """A key of a pod: exactly one of resource, label, annotation and nodeSelector."""

    resource: Texts | None = Field(
        None, description="resource name, or several spellings, of which the first is written"
    )
    label: Texts | None = None
    annotation: Texts | None = None
    node_selector: Texts | None = Field(
        None, description="key of the pod's nodeSelector: read, never written; `is` must be `text` or `other`"
    )
    kind: KeyKind | Annotated[list[Dimension], Field(max_length=3)] = Field(alias="is", description="what it specifies")
    why: Long | None = Field(None, description="with `unit: null`: why it has to be configured")
    note: Long | None = Field(None, description="a sentence for people about what is easily misunderstood")
    retired: Long | None = Field(
        None, description="current versions of the system no longer read it: a sentence about that for the warning"
    )
    written: Literal["integer", "decimal", "quantity"] = Field(
        "integer", description="the spelling of numbers in a label or annotation"
    )
    list: bool = Field(default=False, description="a list with one entry for each container, by position")
    twin: KeyText | None = Field(
        None,
        description="a second key: either is read, both are written; if they differ, the request is not translated",
    )
    ceiling: Ceiling | None = Field(
        None, description="it allows more than another key requests; if they differ, the request is not translated"
    )
    picks: Short | None = Field(None, description="for a text key: the variable whose row it selects")
    perhaps: KeyText | None = Field(
        None, description="pattern of unknown resource names that may stand for this one in a cluster"
    )
    absent: Literal["first", "only"] | None = Field(
        None, description="for a container key: the container that requests if it is missing"
    )
