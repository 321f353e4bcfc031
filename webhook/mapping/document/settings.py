"""The settings document: the cluster's target and rules, in addition to the mappings."""

from typing import Annotated, Final, Literal, TypeAlias

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from webhook.labels import INJECT, KEYS
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
"""The name of an environment variable, as the API server accepts it."""

_TAKEN: Final = {*(key.name for key in KEYS), "kubernetes.io/metadata.name"} - {INJECT}
"""Keys with a meaning of their own: by one of these, no namespace could opt in."""


def _can_opt_in(key: str) -> str:
    if key in _TAKEN:
        raise PydanticCustomError(
            "opt_in_label", f"should be {INJECT} or a label of your own, because {key} has another meaning"
        )
    return key


class Settings(Strict):
    """One strict YAML document; every key is optional."""

    api_version: Literal["vgpu-webhook.io/v1alpha1"] = API_VERSION
    kind: Literal["Settings"] = "Settings"
    target: Name | None = Field(
        None, description="the vendor that this cluster runs; requests of the same hardware family are translated to it"
    )
    owners: dict[KeyText, Name] = Field(
        {}, max_length=MANY, description="resource name → the active vendor, for names that several vendors use"
    )
    largest_card: Amount = Field(
        "1Ti", description="more memory per device than this is denied: the unit must be wrong"
    )
    cards: dict[KeyText, Amount] = Field(
        {}, max_length=MANY, description="the name of a device in a node label → its memory"
    )
    card_labels: list[LabelKey] = Field(
        [], max_length=FEW, description="node labels that name the device, in addition to those of the mappings"
    )
    pod_security_default: Literal["privileged", "baseline", "restricted"] | None = Field(
        None, description="the Pod Security level of a namespace without an `enforce` label"
    )
    node_name: Literal["deny", "affinity"] = Field("deny", description="how `spec.nodeName` beside a share is handled")
    resource_claims: Literal["deny", "warn"] = Field(
        "deny", description="how a resource claim beside a GPU request in one container is handled"
    )
    guard_exceptions: dict[VariableName, Annotated[list[Long], Field(min_length=1, max_length=SOME)]] = Field(
        {},
        max_length=SOME,
        description="guarded variable → values that the administrator has chosen for the cluster, which are permitted",
    )
    never_touched: list[KeyText] = Field(
        [], max_length=MANY, description="namespaces whose pods are never changed, in addition to the cluster's own"
    )
    opt_in_label: Annotated[LabelKey, AfterValidator(_can_opt_in)] = Field(
        INJECT, description="the label that opts a namespace in if its value is `enabled`"
    )
    timeout_seconds: int = Field(5, ge=1, le=30, description="seconds that the API server waits for an answer")
