"""What is known of a review besides the pod."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

PodSecurityLevel = Literal["privileged", "baseline", "restricted"]


@dataclass(frozen=True, slots=True)
class Namespace:
    """The namespace that a pod is created in: its labels say how pods are treated, its annotations what is filled in."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Context:
    """The circumstances of one decision.

    Attributes:
        namespace: where the pod is created.
        pod_security_default: what a namespace without an ``enforce`` label permits, unless the settings say otherwise
            (a cluster's own default is not visible to a webhook).
        user: name of the user who creates the pod; some may write what a scheduler owns.
    """

    namespace: Namespace
    pod_security_default: PodSecurityLevel = "baseline"
    user: str = ""
