"""The settings document: what a cluster speaks and permits, beside the mappings."""

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from webhook.labels import INJECT
from webhook.mapping.document.schema_types import (
    API_VERSION,
    FEW,
    MANY,
    SOME,
    Amount,
    KeyText,
    LabelKey,
    Long,
    Name,
    Strict,
)
from webhook.mapping.notation.pattern import MAX_KEY

VariableName: TypeAlias = Annotated[str, Field(pattern=r"^[-._a-zA-Z][-._a-zA-Z0-9]*$", max_length=MAX_KEY)]
"""The name of an environment variable, as the API server takes it."""


class Settings(Strict):
    """One strict YAML document; every key may be left out."""

    api_version: Literal["vgpu-webhook.io/v1alpha1"] = API_VERSION
    kind: Literal["Settings"] = "Settings"
    target: Name | None = Field(None, description="what this cluster speaks; for vendors of the same hardware family")
    owners: dict[KeyText, Name] = Field(
        {}, max_length=MANY, description="resource name: the vendor that owns it, where two share it"
    )
    largest_card: Amount = Field("1Ti", description="more memory per device than this is refused: a wrong unit")
    cards: dict[KeyText, Amount] = Field(
        {}, max_length=MANY, description="what a label of nodes calls a device: the memory that it has"
    )
    card_labels: list[LabelKey] = Field(
        [], max_length=FEW, description="labels of nodes that name the device, beside the mappings' own"
    )
    pod_security_default: Literal["privileged", "baseline", "restricted"] | None = Field(
        None, description="what a namespace without an `enforce` label permits"
    )
    node_name: Literal["deny", "affinity"] = Field("deny", description="what becomes of `spec.nodeName` beside a share")
    resource_claims: Literal["deny", "warn"] = Field(
        "deny", description="what becomes of a resource claim beside a GPU request in one container"
    )
    guard_exceptions: dict[VariableName, Annotated[list[Long], Field(min_length=1, max_length=SOME)]] = Field(
        {},
        max_length=SOME,
        description="variable: values that the administrator chose for the cluster, so that they lift nothing",
    )
    never_touched: list[KeyText] = Field(
        [], max_length=MANY, description="namespaces whose pods are never touched, beside the cluster's own"
    )
    opt_in_label: LabelKey = Field(INJECT, description="label of namespaces that are treated, where it is `enabled`")
    timeout_seconds: int = Field(5, ge=1, le=30, description="how long the API server waits for an answer")
