"""The settings document: what a cluster speaks and permits, beside the mappings."""

from typing import Annotated, Final, Literal, TypeAlias

from pydantic import Field

from webhook.mapping.schema import Amount, Name, Strict

_LABEL: Final = (
    r"^(?:[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*/)?"
    r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"
)
LabelKey: TypeAlias = Annotated[str, Field(pattern=_LABEL, max_length=253 + 1 + 63)]
"""The key of a label: a name of 63 characters at most, perhaps after a DNS name of 253 at most and a slash."""


class Settings(Strict):
    """One strict YAML document; every key may be left out."""

    target: Name | None = Field(None, description="what this cluster speaks; for vendors of the same hardware family")
    owners: dict[str, Name] = Field({}, description="resource name: the vendor that owns it, where two share it")
    largest_card: Amount = Field("1Ti", description="more memory per card than this is refused: a wrong unit")
    pod_security_default: Literal["privileged", "baseline", "restricted"] | None = Field(
        None, description="what a namespace without an `enforce` label permits"
    )
    node_name: Literal["deny", "affinity"] = Field("deny", description="what becomes of `spec.nodeName` beside a share")
    never_touched: list[str] = Field(
        [], description="namespaces whose pods are never touched, beside the cluster's own"
    )
    opt_in_label: LabelKey = Field(
        "vgpu-webhook.io/inject", description="label of namespaces that are treated, where it is `enabled`"
    )
    timeout_seconds: int = Field(5, ge=1, le=30, description="how long the API server waits for an answer")
