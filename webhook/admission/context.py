"""The circumstances of a review beside the pod."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from msgspec import Struct

from webhook.labels import PREFIX

PodSecurityLevel = Literal["privileged", "baseline", "restricted"]


@dataclass(frozen=True)
class Namespace:
    """The namespace of a pod: its labels select the mode, its annotations set defaults and the target."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def own(self) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
        """Its labels and annotations below the webhook's prefix, known or not: all pods of the namespace share them."""
        return _own(self.labels), _own(self.annotations)


def _own(texts: Mapping[str, str]) -> list[tuple[str, str]]:
    return [pair for pair in texts.items() if pair[0].startswith(PREFIX)]


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
