"""The circumstances of a review beside the pod."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

PodSecurityLevel = Literal["privileged", "baseline", "restricted"]


@dataclass(frozen=True, slots=True)
class Namespace:
    """The namespace of a pod: its labels select the mode, its annotations set defaults and the target."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Context:
    """The circumstances of one decision.

    Attributes:
        namespace: the namespace of the pod.
        pod_security_default: the Pod Security level of a namespace without an ``enforce`` label, unless the settings have one
            (a cluster's own default is not visible to a webhook).
        user: name of the user who creates the pod; schedulers may write the marks that they own.
    """

    namespace: Namespace
    pod_security_default: PodSecurityLevel = "baseline"
    user: str = ""
