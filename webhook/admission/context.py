"""The circumstances of a review beside the pod."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Literal

from msgspec import Struct

from webhook.labels import PREFIX

PodSecurityLevel = Literal["privileged", "baseline", "restricted"]

ENFORCE_LABEL: Final = "pod-security.kubernetes.io/enforce"
"""Label of a namespace: the Pod Security level that its pods must meet."""


@dataclass(frozen=True)
class Namespace:
    """The namespace of a pod: its labels select the mode, its annotations set defaults and the target."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def decisive(self) -> "Namespace":
        """What of it can decide on an eligible pod: the webhook's keys, known or not, and its Pod Security level."""
        labels = {key: text for key, text in self.labels.items() if key.startswith(PREFIX) or key == ENFORCE_LABEL}
        return Namespace("", labels, {key: text for key, text in self.annotations.items() if key.startswith(PREFIX)})


class Context(Struct, frozen=True):
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
