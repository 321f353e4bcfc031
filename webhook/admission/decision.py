"""What goes into a decision beside pod and policy (`Context`), and what comes out (`Decision`)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Struct

from webhook.finding import Finding
from webhook.labels import PREFIX
from webhook.patch import Patch
from webhook.reasons import Reason, ReasonKind

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
        image_volumes: whether the cluster serves image volumes, unless the settings say so.
    """

    namespace: Namespace
    pod_security_default: PodSecurityLevel = "baseline"
    user: str = ""
    image_volumes: bool = True


Outcome: TypeAlias = Literal["patched", "untouched", "denied"]


class Decision(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Allowed or denied, with patch, warnings, status and audit annotations.

    A decision is cached for all pods of a template, so patch and status are texts: as objects they take three times the
    memory.

    Attributes:
        allowed: whether the pod is created.
        reason: the outcome: `Reason.CHANGED`, or why the pod was left unchanged or denied.
        patch_json: the JSON Patch against the submitted object; empty when nothing changes.
        warnings: warnings for the user, in order.
        notes: findings for the status, the audit log and metrics only.
        denial: why it was denied.
        status_json: the status annotation; empty for a pod without a GPU request.
        audit: audit annotations: keys are qualified-name parts, values text.
        vendors: the vendors whose keys the pod has, for metrics.
    """

    allowed: bool
    reason: Reason
    patch_json: bytes = b""
    warnings: tuple[Finding, ...] = ()
    notes: tuple[Finding, ...] = ()
    denial: Finding | None = None
    status_json: str = ""
    audit: Mapping[str, str] = {}
    vendors: tuple[str, ...] = ()

    @cached_property
    def series(self) -> tuple[Outcome, str, str]:
        """The labels of its metric: outcome, reason, and the vendor (or ``several``, or ``none``)."""
        outcome: Outcome = "denied" if not self.allowed else "patched" if self.patch_json else "untouched"
        vendor = "none" if not self.vendors else self.vendors[0] if len(self.vendors) == 1 else "several"
        return outcome, self.reason.slug, vendor

    @property
    def would_be(self) -> bool:
        """Whether its namespace only reports: under `enforce` the pod would be changed or denied."""
        return self.allowed and (self.reason is Reason.WOULD_CHANGE or self.reason.value.kind is ReasonKind.DENIAL)

    @cached_property
    def noted(self) -> tuple[str, ...]:
        """The names of the notes' reasons, each once, for metrics."""
        return tuple(dict.fromkeys([note.reason.slug for note in self.notes]))

    @property
    def patch(self) -> Patch:
        """The operations."""
        return tuple(msgspec.json.decode(self.patch_json)) if self.patch_json else ()

    @property
    def status(self) -> dict[str, Any]:
        """The status as plain data."""
        return msgspec.json.decode(self.status_json, type=dict[str, Any]) if self.status_json else {}


def untouched(reason: Reason, warnings: tuple[Finding, ...] = ()) -> Decision:
    """Return the decision that leaves a pod unchanged."""
    return Decision(allowed=True, reason=reason, warnings=warnings)
